# SPDX-License-Identifier: Apache-2.0
"""The command `startup-plan zoo`: seeded faults, and the proof that each of them is caught."""

from __future__ import annotations

import difflib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from startup_plan.harness.contract import capabilities, choices
from startup_plan.harness.zoo.catalogue import EntryError, load_catalogue
from startup_plan.harness.zoo.seed import patch_of, source_of
from startup_plan.support.atomic_files import ReportPathError, check_writable, write_report
from startup_plan.support.environment import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from startup_plan.harness.zoo.catalogue import ZooEntry
    from startup_plan.harness.zoo.run import Verdict

_PROFILES: Final = ("ci", "quick", "nightly", "mutation")
_MOST_JOBS: Final = 8

_EPILOG: Final = """
Exit status: 0 every fault that was tried is caught by the requirement it names and by nothing else
but its listed consequences, and what is correct breaks nothing; 1 one of them is not; 2 wrong
usage; 130 after Ctrl-C and 143 after SIGTERM.
"""


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--run", is_flag=True, help="Judge each, and compare with what it should break.")
@click.option(
    "--near",
    is_flag=True,
    help="Judge each only by its own family, BOOT and its consequences: takes half the time.",
)
@click.option(
    "--needs",
    metavar="CAPABILITY",
    help="Only the subjects that need this, or with `nothing` those that need none.",
)
@click.option(
    "--require",
    metavar="CAPABILITY,…",
    help="Fail where a fault needs one of these and it is absent.",
)
@click.option("--json", "file", type=Path, metavar="FILE", help="Write everything as JSON.")
@click.option(
    "--write",
    "module",
    type=Path,
    metavar="FILE",
    help="Write the module of the one SLUG, to be read or gated.",
)
@click.option(
    "--profile",
    type=click.Choice(_PROFILES),
    default="quick",
    show_default=True,
    help="How hard to try.",
)
@click.option(
    "-n",
    "jobs",
    type=click.IntRange(min=1),
    metavar="JOBS",
    help=f"How many to judge at a time: by default one a CPU, at most {_MOST_JOBS}.",
)
def zoo(
    slugs: tuple[str, ...],
    run: bool,
    near: bool,
    needs: str | None,
    require: str | None,
    file: Path | None,
    module: Path | None,
    profile: str,
    jobs: int | None,
) -> int:
    """List the seeded faults, or prove that each is caught by the requirement it names.

    Each fault is a correct startup plan with one mistake in it that people have made. SLUG limits
    the command to some of them, and without --run tells all that is known of them.
    """
    try:
        required = choices.known_capabilities("--require", require)
    except choices.ChoiceError as error:
        raise click.UsageError(str(error)) from error
    if needs not in {None, "nothing", *capabilities.names()}:
        raise click.UsageError(f"--needs: {capabilities.describe_unknown(str(needs))}, nothing")
    try:
        entries = _chosen(slugs, needs)
        if module is not None and (run or len(entries) != 1):
            raise click.UsageError("--write takes one SLUG, and no --run")
        for path in filter(None, (file, module)):
            check_writable(path)
        if run:
            jobs = jobs or min(processors(), _MOST_JOBS)
            return _run(entries, file, profile, jobs, near=near, required=required)
        _list(entries, in_full=bool(slugs))
        if module is not None:
            write_report(module, source_of(entries[0]))
        if file is not None:
            write_report(file, _text({"entries": [_facts(entry) for entry in entries]}))
    except (EntryError, ReportPathError) as error:
        raise click.UsageError(str(error)) from error
    return 0


def _chosen(slugs: Sequence[str], needs: str | None) -> tuple[ZooEntry, ...]:
    known = load_catalogue()
    for slug in slugs:
        if slug not in known:
            near = difflib.get_close_matches(slug, known, n=3, cutoff=0.5)
            hint = f"the nearest are {', '.join(near)}" if near else "`startup-plan zoo` lists all"
            raise click.UsageError(f"unknown seeded fault {slug!r}: {hint}")
    entries = [known[slug] for slug in dict.fromkeys(slugs or known)]
    return tuple(e for e in entries if needs is None or needs in (e.needs or ("nothing",)))


def _list(entries: Sequence[ZooEntry], *, in_full: bool) -> None:
    if in_full:
        for entry in entries:
            click.echo(_portrait(entry))
        return
    from rich.console import Console  # noqa: PLC0415  # a complaint must not wait for rich
    from rich.table import Table  # noqa: PLC0415

    table = Table("slug", "breaks", "title")
    for entry in sorted(entries, key=_order):
        table.add_row(entry.slug, entry.requirement or "nothing", entry.title)
    # Wide enough for every row where the output is no terminal.
    Console(width=None if sys.stdout.isatty() else 130, highlight=False).print(table)
    faults = [entry for entry in entries if entry.kind == "fault"]
    ids = len({entry.requirement for entry in faults})
    click.echo(
        f"{len(faults)} faults in {ids} requirements; `startup-plan zoo --run` proves that each is "
        "caught, `startup-plan zoo SLUG` tells more of one"
    )


def _order(entry: ZooEntry) -> tuple[bool, str, str]:
    return (entry.kind == "fault", entry.requirement or "", entry.slug)


def _portrait(entry: ZooEntry) -> str:
    lines = [f"{entry.slug}: {entry.title}", f"  breaks      {entry.requirement or 'nothing'}"]
    if entry.consequences:
        lines.append(f"  shows in    {', '.join(entry.consequences)}")
    if entry.needs:
        lines.append(f"  needs       {', '.join(entry.needs)}")
    if entry.origin:
        lines.append(f"  origin      {entry.origin}")
    lines += [f"  {entry.description}", *patch_of(entry)]
    return "\n".join([*lines, ""])


def _run(
    entries: Sequence[ZooEntry],
    file: Path | None,
    profile: str,
    jobs: int,
    *,
    near: bool,
    required: Sequence[str],
) -> int:
    # With it come the parts of the gate, which a list has no need of.
    from startup_plan.harness.zoo.run import ZooInterruptedError, ids_near, run_zoo  # noqa: PLC0415

    began = time.monotonic()
    verdicts: list[Verdict] = []
    interrupted = 0
    try:
        only = ids_near if near else None
        ordered = sorted(entries, key=_order)
        for verdict in run_zoo(ordered, profile=profile, jobs=jobs, only=only, required=required):
            verdicts.append(verdict)
            click.echo(_line(verdict))
            sys.stdout.flush()
    except ZooInterruptedError as error:
        interrupted = error.number
    seconds = time.monotonic() - began
    verdicts.sort(key=lambda verdict: _order(verdict.entry))
    summary = _summary(verdicts, len(entries), seconds)
    click.echo(f"\n{'PARTIAL: ' if interrupted else ''}{summary}")
    if file is not None:
        report = {
            "profile": profile,
            "near": near,
            "entries": [_facts(verdict.entry) | _found(verdict) for verdict in verdicts],
            "summary": {
                "verdict": summary,
                "partial": bool(interrupted),
                "good": sum(verdict.good for verdict in verdicts),
                "of": len(entries),
                "seconds": round(seconds, 3),
            },
        }
        write_report(file, _text(report))
    if interrupted:
        return 128 + interrupted
    return 0 if all(verdict.good for verdict in verdicts) else 1


def _line(verdict: Verdict) -> str:
    entry = verdict.entry
    head = f"{verdict.outcome:<17} {entry.requirement or '-':<8} {entry.slug:<27}"
    lines = [f"{head} {verdict.seconds:5.1f} s  {_words(verdict)}".rstrip()]
    told = verdict.elsewhere if entry.kind == "fault" else tuple(verdict.violated)
    for requirement in told:
        first, *rest = verdict.violated[requirement].splitlines() or [""]
        lines += [f"    {requirement}: {first}", *(f"        {line}" for line in rest[:3])]
    if verdict.trouble and (verdict.lacks or not verdict.good):
        lines += [f"    {line}" for line in verdict.trouble.splitlines()]
    return "\n".join(lines)


def _words(verdict: Verdict) -> str:
    seen = [broken for broken in verdict.violated if broken in verdict.entry.consequences]
    words = [f"with its consequences {', '.join(seen)}"] if seen else []
    if verdict.elsewhere and verdict.entry.kind == "fault":
        how = "also" if verdict.outcome == "caught elsewhere" else "instead"
        words.append(f"{how} {', '.join(verdict.elsewhere)}")
    return "; ".join(words)


def _summary(verdicts: Sequence[Verdict], wanted: int, seconds: float) -> str:
    faults = [verdict for verdict in verdicts if verdict.entry.kind == "fault"]
    correct = [verdict for verdict in verdicts if verdict.entry.kind == "correct"]
    tried = [verdict for verdict in faults if not verdict.lacks]
    caught = sum(verdict.good for verdict in tried)
    clauses = []
    if faults:
        clauses.append(f"{caught} of {len(tried)} faults caught exactly by what they name")
    if len(tried) < len(faults):
        clauses.append(f"{len(faults) - len(tried)} need what this machine lacks")
    if correct:
        alarms = sum(not verdict.good for verdict in correct)
        clauses.append(f"{alarms} false alarms in {len(correct)} correct")
    if len(verdicts) < wanted:
        clauses.append(f"{wanted - len(verdicts)} not tried")
    return f"{'; '.join(clauses) or 'nothing was judged'} ({seconds:.0f} s)"


def _facts(entry: ZooEntry) -> dict[str, Any]:
    facts = asdict(entry)
    del facts["changes"]
    return facts


def _found(verdict: Verdict) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome,
        "good": verdict.good,
        "violated": dict(verdict.violated),
        "elsewhere": list(verdict.elsewhere),
        "trouble": verdict.trouble,
        "seconds": round(verdict.seconds, 3),
    }


def _text(report: dict[str, Any]) -> str:
    return json.dumps({"schema": "startup-plan/zoo/1", **report}, indent=2) + "\n"
