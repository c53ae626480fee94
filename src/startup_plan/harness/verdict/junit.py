# SPDX-License-Identifier: Apache-2.0
"""A report as JUnit XML: one test case for each requirement, for the pages of CI systems."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from .terminal import described

if TYPE_CHECKING:
    from .judgement import Report, Result


def render_junit(report: Report) -> str:
    """Write the report as one test suite.

    A known gap counts as skipped, as `not-run` does, and so does what is inherited from a base.
    """
    number, failures = report.count(), len(report.failing)
    accepted = number["known-gap"] + number["violated"] - failures
    totals = {
        "tests": str(len(report.results)),
        "failures": str(failures),
        "errors": "0",
        "skipped": str(number["not-run"] + accepted),
        "time": f"{report.seconds:.3f}",
    }
    root = ET.Element("testsuites", {"name": "startup-plan gate", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": report.subject.name, **totals})
    facts = {
        "subject": report.subject.name,
        "file": report.subject.file,
        "sha256": report.subject.sha256,
        "version": report.subject.version,
        "suite": report.suite.version,
        "profile": report.suite.profile,
        "seed": "" if report.suite.seed is None else str(report.suite.seed),
        "verdict": report.verdict,
        "partial": report.partial or "",
        "against": "" if report.base is None else described(report.base),
    }
    _properties(suite, facts)
    for result in report.results:
        _case(suite, result)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, result: Result) -> None:
    requirement, words = result.requirement, result.counterexample or ""
    case = ET.SubElement(
        suite,
        "testcase",
        {
            "classname": f"contract.{requirement.level}",
            "name": requirement.id,
            "time": f"{result.seconds:.3f}",
        },
    )
    facts = {
        "sentence": requirement.sentence,
        "level": requirement.level,
        "status": result.status,
        "tests": " ".join(result.tests),
    }
    if result.against is not None:
        facts |= {"against": result.against.kind, "against_words": result.against.words}
    _properties(case, facts)
    if result.fails:
        failure = ET.SubElement(case, "failure", {"message": requirement.sentence})
        failure.text = words
    elif result.status != "holds":
        kind = "" if result.against is None else f", {result.against.kind}"
        ET.SubElement(case, "skipped", {"message": f"{result.status}{kind}: {words}"})


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    holder = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(holder, "property", {"name": name, "value": value})
