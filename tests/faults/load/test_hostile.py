# SPDX-License-Identifier: Apache-2.0
"""Files that no save of this subject has written: documents made to hurt, and random ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from startup_plan.harness.contract import profiles
from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.damage import documents
from startup_plan.harness.damage.sweep import VariantReader, sweep
from startup_plan.harness.damage.variants import Variant
from startup_plan.harness.world.reader import plain_engine, save_plan
from startup_plan.support.isolated import run_isolated

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.reader import Saved
    from startup_plan.harness.world.world import World

Drawn = TypeVar("Drawn")

SECONDS: Final = 30.0
EXTRA_BYTES: Final = 2**30


def _told(world: World, saved: Saved, documents: list[Variant]) -> dict[str, list[str]]:
    """What each document did, in a form that can leave a process."""
    done = sweep(world, plain_engine(), "documents", [saved], documents)
    return {
        "LOAD-01": [
            f"{found.variant} ({type(found.reading.raised).__name__})" for found in done.raised
        ],
        "LOAD-02": [f"{found.variant} ({found.reading})" for found in done.unsaved],
    }


@pytest.mark.parametrize(
    "requirement",
    [pytest.param(id_, marks=pytest.mark.requirement(id_)) for id_ in ("LOAD-01", "LOAD-02")],
)
def test_hostile_documents_are_misses(world: World, tally: Tally, requirement: str) -> None:
    """A document that was made to hurt neither ends a boot nor gives it a value.

    In a process of their own, because some parsers answer such a document by ending the process.
    """
    saved = save_plan(world, plain_engine())
    hurtful = list(documents.documents(saved.key, saved.kv_bytes, saved.baseline))
    tally(byte_variants=len(hurtful))
    found = _read_apart(world, saved, hurtful)
    if isinstance(found, str):
        # Something ended the process, so each document has one of its own.
        offenders = []
        for document in hurtful:
            alone = _read_apart(world, saved, [document])
            offenders += (
                [f"{document.name} ({alone})"] if isinstance(alone, str) else alone[requirement]
            )
    else:
        offenders = found[requirement]

    if offenders:
        what = "raised" if requirement == "LOAD-01" else "were applied"
        raise Violation(
            requirement,
            f"{len(offenders)} of {len(hurtful)} documents put in the place of a plan {what}:\n"
            + "; ".join(offenders),
        )


def _read_apart(world: World, saved: Saved, documents: list[Variant]) -> dict[str, list[str]] | str:
    """What each document did, in another process; how that ended, if it did."""
    outcome = run_isolated(
        lambda: _told(world, saved, documents), seconds=SECONDS, extra_bytes=EXTRA_BYTES
    )
    told: dict[str, list[str]] | str = outcome.value
    return told if outcome.kind == "returned" else f"the process {outcome}"


_json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**60, max_value=2**70)
    | st.integers(min_value=0, max_value=5000).map(lambda digits: 10 ** min(digits, 4200))
    | st.floats()
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)

_any_bytes = st.one_of(
    st.binary(max_size=2048),
    st.text(max_size=500).map(lambda text: text.encode("utf-8")),
    st.text(st.characters(exclude_categories=[]), max_size=100).map(
        lambda text: text.encode("utf-16", "surrogatepass")
    ),
    st.text('[]{}:,"\\0123456789-+.eEtruefalsnd \n\x00', max_size=200).map(str.encode),
    _json_values.map(lambda value: json.dumps(value).encode()),
)


@st.composite
def _forged_plans(draw: st.DrawFn) -> dict[str, Any]:
    """Objects with the fields of vLLM's format, any of them strange, `KEY` for the right key."""
    return {
        "schema": draw(st.just(1) | _json_values),
        "fingerprint": draw(st.just("KEY") | _json_values),
        "kv_cache_memory_bytes": draw(st.integers(-1, 2**36) | _json_values),
        "free_memory_baseline": draw(st.integers(-1, 2**37) | _json_values),
        **draw(st.dictionaries(st.text(max_size=5), _json_values, max_size=2)),
    }


@st.composite
def _edits(draw: st.DrawFn) -> list[tuple[float, int, bytes]]:
    """Up to four edits: where, as a share of the length; how many bytes go; what comes instead."""
    edit = st.tuples(st.floats(0, 1), st.integers(0, 12), st.binary(max_size=12))
    return draw(st.lists(edit, min_size=1, max_size=4))


def _edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for share, gone, instead in edits:
        place = int(share * len(data))
        data = data[:place] + instead + data[place + gone :]
    return data


def _read_each(
    world: World,
    tally: Tally,
    drawn: st.SearchStrategy[Drawn],
    bytes_of: Callable[[Saved, Drawn], bytes],
    examples: int,
    explicit: tuple[Drawn, ...] = (),
) -> None:
    """Put bytes in the place of a plan, as many times as the profile asks for, and look it up."""
    engine = plain_engine()
    saved = save_plan(world, engine)

    @settings(max_examples=profiles.scaled(examples))
    @given(drawn)
    def read(given: Drawn) -> None:
        tally(examples=1, byte_variants=1)
        data = bytes_of(saved, given)
        found = bench.read(Variant(f"{len(data)} bytes lay there instead, {data[:80]!r}", data))
        if found is not None:
            requirement = "LOAD-02" if found.reading.raised is None else "LOAD-01"
            raise Violation(requirement, f"{saved}; {found}")

    for one in explicit:
        read = example(one)(read)
    with VariantReader(world, engine, [saved]) as bench:
        read()


@pytest.mark.requirement("LOAD-01", "LOAD-02")
def test_any_bytes_are_a_miss(world: World, tally: Tally) -> None:
    """Whatever bytes lie at the path, text, JSON or neither, a look-up passes over them."""
    _read_each(world, tally, _any_bytes, lambda _, data: data, 400, explicit=(b"\xff", b"[]"))


@pytest.mark.requirement("LOAD-01", "LOAD-02")
def test_forged_plans_are_misses(world: World, tally: Tally) -> None:
    """An object with the fields of vLLM's format and values of any kind is no plan."""

    def bytes_of(saved: Saved, fields: dict[str, Any]) -> bytes:
        return json.dumps(fields).replace('"KEY"', json.dumps(saved.key)).encode()

    _read_each(world, tally, _forged_plans(), bytes_of, 200)


@pytest.mark.requirement("LOAD-01", "LOAD-02")
def test_edited_plans_are_misses(world: World, tally: Tally) -> None:
    """A saved plan with a few bytes lost, replaced or put in between gives no other value."""
    _read_each(world, tally, _edits(), lambda saved, edits: _edited(saved.data, edits), 200)
