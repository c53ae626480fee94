# SPDX-License-Identifier: Apache-2.0
"""The schema version is found where a subject has it, and spelled in every way but its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.damage.schema_variants import respelled
from startup_plan.harness.gate.run import GateRequest, run_gate
from startup_plan.harness.gate.suite import find_suite
from startup_plan.harness.verdict.judgement import Terms
from startup_plan.harness.zoo.catalogue import load_catalogue
from startup_plan.harness.zoo.seed import write_subject

if TYPE_CHECKING:
    from pathlib import Path

    from startup_plan.harness.world.subject import Schema

FORMS: Final = {
    "JSON": '{{"schema": {}, "kv": 2}}',
    "JSON with other names": '{{"v": {}, "kv": 22}}',
    "JSON, nested": '{{"head": {{"format": {}}}, "kv": [{}]}}',
    "TOML": "[plan]\nversion = {}\nkv = 22\n",
    "text": "plan {}\nkv 22\n",
}
"""How a plan is written -> with which words around the schema version."""


def _texts(form: str, own: Schema, other: Schema) -> list[str]:
    plans = [FORMS[form].format(repr(s).replace("'", '"'), 7).encode() for s in (own, other)]
    return [v.data.decode() for v in respelled(plans[0], own, plans[1], other)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("own", [1, 2, 3])
def test_numbers_are_respelled_wherever_they_stand(form: str, own: int) -> None:
    """Whatever a schema is called, and whichever it is, it is written as a float in its place."""
    texts = _texts(form, own, own + 1)

    assert FORMS[form].format(f"{own}.0", 7) in texts
    assert FORMS[form].format(own, 7) not in texts
    assert any("true" in text for text in texts) is (own == 1)


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_respelled(form: str) -> None:
    """A schema that is a text becomes another text, never itself."""
    texts = _texts(form, "2026.12", "2026.121")

    assert len(texts) >= 2
    assert FORMS[form].format('"2026.12"', 7) not in texts


def test_where_nothing_is_seen_nothing_is_respelled() -> None:
    """Bytes that are no text, and plans without a word for their schema, have no spellings."""
    found = [
        *respelled(b"\xff\x01", 1, b"\xff\x02", 2),
        *respelled(b'{"kv": 1}', 1, b'{"kv": 1}', 2),
        *respelled(b"1 1", 1, b"2 2", 2),
    ]

    assert found == []


@pytest.mark.parametrize("own", [2, 3])
@pytest.mark.parametrize(
    ("slug", "status"), [("rewrite", "holds"), ("schema_read_as_a_number", "violated")]
)
def test_a_schema_is_judged_by_its_own_number(
    tmp_path: Path, slug: str, status: str, own: int
) -> None:
    """A subject of schema 2 or 3 keeps LOAD-03, and breaks it where `3.0` passes for 3."""
    subject = write_subject(load_catalogue()[slug], tmp_path)
    source = subject.read_text("utf-8")
    lines = [
        f"PLAN_SCHEMA_VERSION = {own}" if line.startswith("PLAN_SCHEMA_VERSION = ") else line
        for line in source.splitlines()
    ]
    subject.write_text("\n".join(lines) + "\n", "utf-8")
    terms = Terms(load_register(), only=("LOAD-03",))
    report = run_gate(GateRequest(str(subject), terms, find_suite(), profile="quick")).report
    (result,) = [result for result in report.results if result.requirement.id == "LOAD-03"]

    assert (result.status, f"{own}.0" in (result.counterexample or "")) == (
        status,
        status == "violated",
    )
