# SPDX-License-Identifier: Apache-2.0
"""What a subject is compared with, and what it is known to break: files that ship or are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from startup_plan.harness.contract.known_gaps import (
    KnownGapsError,
    load_known_gaps,
    new_list,
    updated,
)
from startup_plan.harness.gate import releases
from startup_plan.harness.verdict.base import BaseError, read_base
from startup_plan.support.atomic_files import ReportPathError, check_writable, write_report

if TYPE_CHECKING:
    from startup_plan.harness.contract.register import Register
    from startup_plan.harness.gate.run import GateRequest
    from startup_plan.harness.verdict.base import Base
    from startup_plan.harness.verdict.judgement import Report


def find_base(against: str | None) -> Base | None:
    """Give the base that `--against` names, None where that is a subject or nothing.

    Raises:
        NoReleaseError: no report on that release is here.
        BaseError: the report cannot be compared with.
    """
    if against is None:
        return None
    if (file := releases.report_of(against)) is not None:
        return read_base(file, against)
    path = Path(against)
    if path.is_dir() and ("/" in against or not against.isidentifier()):
        raise BaseError(f"{against} is a folder: name a report, a release or a subject")
    if path.suffix == ".json" or (path.exists() and not _may_be_subject(path)):
        return read_base(path, against)
    return None


def _may_be_subject(path: Path) -> bool:
    return path.is_dir() or path.suffix in {".py", ".whl"}


def base_request(request: GateRequest, against: str) -> GateRequest:
    """Ask for the judgement of the base that a subject is compared with, with the same options."""
    terms = replace(request.terms, gaps={}, base=None)
    return replace(request, subject=against, terms=terms, fail_fast=False)


def known_gaps(given: str | None, register: Register) -> dict[str, str]:
    """Give the gaps that `--known-gaps` names, by a file or by a release; id to reason.

    Raises:
        KnownGapsError: the file cannot be used.
        NoReleaseError: there is no list for that release.
    """
    if given is None:
        return {}
    path = Path(given)
    shipped = None if path.exists() else releases.gaps_of(given)
    return load_known_gaps(shipped or path, register)


def check_gaps_file(path: Path, register: Register) -> None:
    """Find out before the run whether known gaps can be written to a file.

    Raises:
        ReportPathError: it cannot be written, or holds something else.
    """
    check_writable(path)
    if not path.is_file():
        return
    try:
        load_known_gaps(path, register)
    except KnownGapsError as error:
        raise ReportPathError(
            f"{path} is there and is no known-gaps file ({error}): name another file"
        ) from error


def write_gaps(path: Path, report: Report, register: Register) -> None:
    """Write what is violated, accepted or not, into a new known-gaps file or an older one.

    Raises:
        ReportPathError: it cannot be written.
    """
    text = path.read_text("utf-8-sig") if path.is_file() else new_list(report.subject.name)
    broken = (*report.having("violated"), *report.having("known-gap"))
    stories = {result.requirement.id: result.counterexample or "" for result in broken}
    closed = {result.requirement.id for result in report.having("holds")}
    write_report(path, updated(text, stories, closed, register))
