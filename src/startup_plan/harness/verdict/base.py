# SPDX-License-Identifier: Apache-2.0
"""The judgement that another one is compared with, out of a report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from .comparison import Row, Side
from .json_form import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .judgement import SuiteFacts

_MAX_BYTES: Final = 1 << 26
_STATUSES: Final = ("holds", "violated", "known-gap", "not-run")


class BaseError(Exception):
    """A report cannot be compared with; the message is one sentence with the remedy."""


@final
@dataclass(frozen=True, slots=True)
class Base:
    """What a subject is compared with.

    Attributes:
        name: as it was asked for.
        judged: whether it was judged in this run, with the same options on the same machine.
        subject: what was judged: `name`, `file`, `sha256`, `version`.
        suite: what judged: `version`, `profile`, `seed`.
        environment: where it was judged, as in the report.
        partial: why that run was cut short, or None.
        side: its rows.
    """

    name: str
    judged: bool
    subject: Mapping[str, str]
    suite: Mapping[str, Any]
    environment: Mapping[str, Any]
    partial: str | None
    side: Side

    def differences(self, suite: SuiteFacts, environment: Mapping[str, Any]) -> tuple[str, ...]:
        """Say what is not the same for the base and for a run, a sentence each."""
        return tuple(self._differences(suite, environment))

    def _differences(self, suite: SuiteFacts, environment: Mapping[str, Any]) -> Iterator[str]:
        if self.partial is not None:
            yield f"the run on the base was cut short: {self.partial}"
        for name in ("version", "profile", "seed"):
            theirs, ours = self.suite.get(name), getattr(suite, name)
            if theirs != ours:
                what = "suite" if name == "version" else name
                yield f"{what} {_or_none(theirs)} there, {_or_none(ours)} here"
        theirs, ours = _facts(self.environment), _facts(environment)
        for name in sorted(theirs.keys() | ours.keys()):
            there, here = theirs.get(name), ours.get(name)
            # Capabilities are probed when a test asks; one that nobody asked for is not known.
            unknown = name.startswith("capability ") and None in (there, here)
            if there != here and not unknown:
                yield f"{name} {_or_none(there)} there, {_or_none(here)} here"


def read_base(path: Path, name: str) -> Base:
    """Read a report from a file, to compare with it.

    Args:
        path: where it lies.
        name: what it is called.

    Raises:
        BaseError: it cannot be read, or is no report of this form.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise BaseError(f"{name} is larger than 64 MiB: name a report of startup-plan gate")
        report = json.loads(raw)
    except OSError as error:
        raise BaseError(
            f"{name} cannot be read ({error.strerror or error}): name a report that "
            "`startup-plan gate --json` wrote"
        ) from error
    except (ValueError, RecursionError) as error:
        raise BaseError(
            f"{name} is not JSON: name a report that `startup-plan gate --json` wrote"
        ) from error
    return base_of(report, name)


def base_of(report: Any, name: str, *, judged: bool = False) -> Base:
    """Make a base out of a report in its JSON form.

    Args:
        report: as JSON has it.
        name: what it is called.
        judged: whether it comes from this run.

    Raises:
        BaseError: it is no report of this form.
    """
    form = report.get("schema") if isinstance(report, dict) else None
    if form != SCHEMA:
        what = f"has the form {form!r}" if isinstance(form, str) else "is no report"
        raise BaseError(
            f"{name} {what}, and not {SCHEMA}: judge its subject again with this startup-plan"
        )
    try:
        return Base(
            name=name,
            judged=judged,
            subject={k: str(report["subject"][k]) for k in ("name", "file", "sha256", "version")},
            suite={k: report["suite"][k] for k in ("version", "profile", "seed")},
            environment=dict(report["environment"]),
            partial=report["summary"]["partial_reason"],
            side=Side({str(row["id"]): _row(row) for row in report["requirements"]}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaseError(
            f"{name} is a report without all that is compared ({type(error).__name__}: {error}): "
            "judge its subject again with this startup-plan"
        ) from error


def _row(row: Mapping[str, Any]) -> Row:
    if row["status"] not in _STATUSES:
        raise ValueError(f"{row['id']} is {row['status']!r}")
    return Row(
        status=row["status"],
        tests=frozenset(row["tests"]),
        evidence={found["test"]: frozenset(found["kinds"]) for found in row["evidence"]},
        untried=frozenset(row["untried"]),
    )


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The environment with capabilities as facts of their own."""
    facts = {name: value for name, value in environment.items() if not isinstance(value, dict)}
    for name, answer in dict(environment.get("capabilities", {})).items():
        facts[f"capability {name}"] = "present" if answer["present"] else "absent"
    return facts


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)
