# SPDX-License-Identifier: Apache-2.0
"""`startup-plan census`: every setting of the installed vLLM, and whether the key has it."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from startup_plan.harness.census import classification
from startup_plan.harness.census import judge as harness
from startup_plan.harness.census.look import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from startup_plan.harness.census.judge import Census, Row

_FAILED = 1
_SUBJECT = 3


@click.command()
@click.option(
    "--subject",
    default="reference",
    show_default=True,
    metavar="SUBJECT",
    help="Whose key is looked at: reference, vllm, a dotted name, a file, a wheel.",
)
@click.option(
    "--json",
    "file",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Write the census as JSON, to FILE or else to the standard output.",
)
@click.option(
    "--require",
    type=click.Choice(["vllm"]),
    help="Fail with status 1 where there can be no census, rather than say so.",
)
def census(subject: str, file: str | None, require: str | None) -> int:
    """Walk every configuration field and registered variable of the installed vLLM.

    Each is classified (does it move the measured memory, and why?), and it is seen whether vLLM's
    compute_hash() and the key of SUBJECT move with it.

    \b
    Status 0  everything is classified, and what takes memory is in the key; or the census is
              not run, with the reason (vLLM absent, broken, too old or too new)
           1  something is not classified, or takes memory and is not in the key; or the census
              is not run, with --require vllm
           2  wrong usage
           3  the subject could not be loaded
           4  a defect of startup-plan
    """  # noqa: D301  # \b is click's mark for text that is not to be wrapped
    try:
        found = harness.take(subject)
    except harness.SubjectNotLoadedError as error:
        click.echo(f"startup-plan census: {error}", err=True)
        return _SUBJECT
    except harness.NotRunError as error:
        click.echo(f"startup-plan census: not-run: {error}", err=True)
        return _FAILED if require else 0
    if file == "-":
        json.dump(as_json(found), sys.stdout, indent=1)
        click.echo()
    elif file is not None:
        try:
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(as_json(found), stream, indent=1)
        except OSError as error:
            raise click.UsageError(f"{file} cannot be written ({error.strerror})") from None
    if file != "-":
        _print(found)
    return 0 if found.complete else _FAILED


def as_json(found: Census) -> dict[str, Any]:
    """The census in the form of `schemas/census-1.json`."""
    seen = found.seen
    return {
        "schema": "startup-plan/census/1",
        "format": 1,
        "vllm": seen["vllm"],
        "torch": seen["torch"],
        "python": seen["python"],
        "subject": seen["subject"],
        "seconds": seen["seconds"],
        "complete": found.complete,
        "counts": harness.counts(found),
        "unclassified": found.unclassified,
        "unknown_classes": list(found.unknown_classes),
        "out_of_reach": list(found.out_of_reach),
        "stale": list(found.stale),
        "not_in_the_key": [row.name for row in found.gaps],
        "needless_in_the_key": [row.name for row in harness.needless(found)],
        "fields": [dataclasses.asdict(row) for row in found.fields],
        "variables": [dataclasses.asdict(row) for row in found.variables],
    }


def _print(found: Census) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    seen = found.seen
    for title, rows in (("field", found.fields), ("variable", found.variables)):
        console.print(_table(title, rows))
    console.print(_reasons(found))
    summary = Table("", *harness.counts(found)["fields"])
    for name, numbers in harness.counts(found).items():
        summary.add_row(name, *map(str, numbers.values()))
    console.print(summary)
    console.print(
        f"vLLM {seen['vllm']}, torch {seen['torch']}; key of {seen['subject']['name']} "
        f"({seen['subject']['file']}); {seen['boots']} boots in {seen['seconds']['whole']:.1f} s",
        highlight=False,
        soft_wrap=True,
    )
    for line in _complaints(found):
        console.print(Text(line), soft_wrap=True)


def _table(title: str, rows: Iterable[Row]) -> Table:
    table = Table(title, "hashed", "in the key", "class", "reason", "at")
    for row in rows:
        cells = (row.name, row.hashed, row.in_key, row.verdict, row.why, row.at)
        table.add_row(*(Text(cell, overflow="fold") for cell in cells), style=_style(row))
    return table


def _reasons(found: Census) -> Table:
    """The sentence behind each reason, and how many refer to it."""
    table = Table("reason", "class", "fields", "variables", "which means")
    for name, (moves, sentence) in classification.load().reasons.items():
        numbers = [
            str(sum(row.why == name for row in rows)) for rows in (found.fields, found.variables)
        ]
        table.add_row(name, "moves" if moves else "idle", *numbers, Text(sentence))
    return table


def _style(row: Row) -> str:
    if row.verdict == harness.UNCLASSIFIED:
        return "bold red"
    return "red" if row.is_gap else "" if row.takes_memory else "dim"


def _complaints(found: Census) -> Iterable[str]:
    """What is wrong, a line each, with what to do."""
    known = classification.load()
    if found.version not in {known.oldest, known.newest}:
        yield (
            f"vLLM {found.version} was not read: the verdicts are those of {known.oldest} and "
            f"{known.newest}, and hold only as far as it is like them"
        )
    for name, key in found.seen["keys"].items():
        if key.startswith(NO_KEY):
            yield f"no key can be seen with the configuration {name}: {key.removeprefix(NO_KEY)}"
    for name in found.unknown_classes:
        yield f"unknown configuration class: {name}; classify its fields in census.toml"
    for row in found.rows:
        if row.verdict == harness.UNCLASSIFIED:
            yield f"unclassified: {row.name}. {row.reason}"
    for name in found.out_of_reach:
        yield f"out of reach: no object of {name} could be looked at"
    for row in found.gaps:
        values = f" (the key stays as it is at {', '.join(row.unseen)})" if row.unseen else ""
        yield f"not in the key: {row.name}{values}. {row.reason}"
    for name in found.stale:
        yield f"classified, but not in this vLLM: {name}"
    needless = [row.name for row in harness.needless(found)]
    if needless:
        yield f"in the key without need: {', '.join(needless)}"
