# SPDX-License-Identifier: Apache-2.0
"""The ways in which bytes go wrong: complete where they say so, named once, the same every time."""

from __future__ import annotations

import json
from typing import Final

import pytest

from startup_plan.harness.damage import documents, json_variants, variants

PLAN: Final = json.dumps(
    {"schema": 1, "fingerprint": "0123456789abcdef", "kv": 51_382_321_152, "free": 85_362_475_008}
).encode()
OTHER: Final = PLAN.replace(b"51382321152", b"50000000000").replace(b"85362475008", b"84000000000")
PLENTY: Final = 100_000


@pytest.mark.parametrize("kind", variants.DAMAGE)
def test_variants_have_names_of_their_own_and_none_is_the_plan(kind: str) -> None:
    """No two variants share a name, and none is what was saved."""
    made = list(variants.DAMAGE[kind].variants(PLAN, 5_000))

    assert made
    assert len({variant.name for variant in made}) == len(made)
    assert PLAN not in {variant.data for variant in made if "from byte" not in variant.name}


@pytest.mark.parametrize("kind", variants.DAMAGE)
@pytest.mark.parametrize("size", [1, 2, 100, 5_000])
def test_a_sample_keeps_to_its_limit(kind: str, size: int) -> None:
    """Where not every variant is tried, a limit bounds how many are, whatever the size."""
    data = (PLAN * (size // len(PLAN) + 1))[:size]
    limit = 2_000
    count = sum(1 for _ in variants.DAMAGE[kind].variants(data, limit))

    # Digits are always replaced by every other digit, which may take more than the limit.
    assert count <= 4 * limit


def test_every_bit_and_every_byte_value_is_tried() -> None:
    """With room for all, each of 8 bits and 255 values of each byte is tried once."""
    bits = {variant.data for variant in variants.bit_flips(PLAN, PLENTY)}
    values = {variant.data for variant in variants.substitutions(PLAN, PLENTY)}
    prefixes = {variant.data for variant in variants.truncations(PLAN, PLENTY)}

    assert len(bits) == 8 * len(PLAN)
    assert len(values) == 255 * len(PLAN)
    assert {PLAN[:size] for size in range(len(PLAN))} <= prefixes
    assert bits <= values


def test_a_large_plan_has_every_digit_of_its_sample_replaced_by_every_digit() -> None:
    """A sample of substitutions still holds the nine other digits in the place of a digit."""
    large = b'{"text": "' + b"x" * 2_000 + b'", "kv": 71}'
    tried = {variant.data for variant in variants.substitutions(large, 20_000)}

    assert {large.replace(b"71", b"7%d" % digit) for digit in range(10) if digit != 1} <= tried


def test_splices_mix_the_fields_of_two_plans_and_are_neither() -> None:
    """The value of one plan with the baseline of the other is among the splices."""
    splices = {variant.data for variant in variants.splices(PLAN, OTHER, 2_000)}

    assert PLAN.replace(b"51382321152", b"50000000000") in splices
    assert PLAN.replace(b"85362475008", b"84000000000") in splices
    assert not splices & {PLAN, OTHER}


def test_numbers_are_changed_so_that_the_sum_of_their_digits_stays() -> None:
    """A checksum that adds up bytes does not notice the first changes of a number."""
    changed = [v.data for v in variants.numbers(PLAN, 5_000) if sum(v.data) == sum(PLAN)]

    assert len(changed) > 100


def test_json_mutations_come_only_of_json_objects() -> None:
    """A plan in any other format has no JSON mutations."""
    assert list(json_variants.mutations(b"plan 1\nkv 5\n")) == []
    assert list(json_variants.mutations(b"[1]")) == []
    names = [variant.name for variant in json_variants.mutations(PLAN)]

    assert "kv set to true" in names
    assert "kv and free exchanged" in names
    assert len(set(names)) == len(names)


def test_hostile_documents_have_names_of_their_own() -> None:
    """A document that ends a boot can be named."""
    names = [v.name for v in documents.documents("0123456789abcdef", 2**35, 2**36)]

    assert len(set(names)) == len(names)


def test_variants_are_the_same_every_time() -> None:
    """A counterexample can be made again from its name."""
    for damage in variants.DAMAGE.values():
        assert list(damage.variants(PLAN, 500)) == list(damage.variants(PLAN, 500))
