# SPDX-License-Identifier: Apache-2.0
"""The settings table is complete, and its invented physics keeps what the world relies on."""

from __future__ import annotations

import collections
from typing import Final

import pytest

from startup_plan.harness.stubs import configs as stub_configs
from startup_plan.harness.stubs import settings
from startup_plan.harness.stubs.settings import (
    BIG,
    BUDGET,
    EXTRA_VARIABLES,
    GRAIN,
    LINEAR,
    ROWS,
    SETTINGS,
    SMALL,
    VARIABLES,
    Setting,
    Variable,
)

CASES: Final = [(setting, value) for setting in SETTINGS for value in setting.alternates]


def test_every_audited_field_is_accounted_for() -> None:
    """All 565 audited fields are in the table: 535 settings and 30 plain containers or aliases."""
    containers = [row["path"] for row in ROWS if "alternates" not in row]
    verdicts = collections.Counter((row["moves"], row["hashed"]) for row in ROWS)

    assert (len(ROWS), len({row["path"] for row in ROWS}), len(SETTINGS), len(containers)) == (
        565,
        565,
        535,
        30,
    )
    assert verdicts == {
        (True, True): 188,
        (True, False): 82,
        (False, True): 41,
        (False, False): 231,
        (None, True): 3,
        (None, False): 20,
    }
    assert all("part" in row or "alias" in row for row in ROWS if "alternates" not in row)


def test_every_registered_variable_is_accounted_for() -> None:
    """All 318 variables of vLLM's registry are in the table, and some that it does not register."""
    verdicts = collections.Counter((item.moves, item.hashed) for item in VARIABLES)
    names = [item.name for item in (*VARIABLES, *EXTRA_VARIABLES)]

    assert (len(VARIABLES), len(EXTRA_VARIABLES), len(set(names))) == (318, 19, 337)
    assert verdicts == {
        (True, True): 2,
        (True, False): 102,
        (False, True): 2,
        (False, False): 176,
        (None, False): 36,
    }
    assert all(item.moves and not item.hashed for item in EXTRA_VARIABLES)
    assert sum(item.in_compile_factors for item in VARIABLES) == 236


def test_setting_bytes_obey_their_size() -> None:
    """Bytes are 0 at the default, whole grains, big or small as told, and 0 where none move."""
    wrong = [s.path for s in SETTINGS if s.bytes_at(s.default) != 0]
    for setting, value in CASES:
        found = setting.bytes_at(value)
        expected = BIG if setting.size == "big" else SMALL
        if setting.moves is False or setting.path in BUDGET:
            legal = found == 0
        elif setting.path in LINEAR:
            legal = BIG.start <= abs(found) < BIG.stop and found % GRAIN == 0
        else:
            legal = abs(found) in expected
        wrong += [] if legal else [f"{setting.path}={value!r}: {found}"]

    assert wrong == []


def test_setting_bytes_differ_between_values() -> None:
    """No two values that the table lists for one setting take the same memory."""
    shared = []
    for setting in SETTINGS:
        if setting.moves is not False and setting.path not in BUDGET:
            sizes = [setting.bytes_at(v) for v in (setting.default, *setting.alternates)]
            shared += [setting.path] if len(set(sizes)) < len(sizes) else []

    assert shared == []


def test_switching_off_frees_memory_and_switching_on_takes_some() -> None:
    """A part that is absent, a False and a smaller number take less; nearly all else takes more."""
    sizes = {(s.path, repr(v)): s.bytes_at(v) for s, v in CASES}
    taken = sum(size > 0 for size in sizes.values())
    freed = sum(size < 0 for size in sizes.values())

    assert (
        sizes["lora_config", "None"] < 0,
        sizes["model_config.use_fp64_gumbel", "True"] > 0,
    ) == (
        True,
        True,
    )
    assert taken > 5 * freed > 0


@pytest.mark.parametrize("path", sorted(LINEAR))
def test_counts_take_more_memory_the_larger_they_are(path: str) -> None:
    """Requests, batched tokens, model length and draft tokens are strictly monotone in bytes."""
    setting = stub_configs.setting(path)
    values = sorted({1, setting.default - 1, setting.default, setting.default + 1, 10**6})
    sizes = [setting.bytes_at(value) for value in values]

    assert sizes == sorted(set(sizes))
    assert setting.bytes_at(-1) == 0


def test_variable_bytes_obey_their_size() -> None:
    """Unset and the default text take nothing; alternates take whole, different, fitting sizes."""
    wrong = []
    for variable in (*VARIABLES, *EXTRA_VARIABLES):
        expected = BIG if variable.size == "big" else SMALL
        sizes = [variable.bytes_at(raw) for raw in variable.alternates]
        usual = (variable.bytes_at(None), variable.bytes_at(variable.default))
        legal = (
            all(abs(size) in expected for size in sizes) and len(set(sizes)) == len(sizes)
            if variable.moves is not False
            else set(sizes) == {0}
        )
        wrong += [] if legal and usual == (0, 0) else [(variable.name, usual, sizes)]

    assert wrong == []


def test_texts_that_vllm_reads_alike_take_alike() -> None:
    """A variable's bytes follow what vLLM makes of the text, not the text."""
    word = stub_configs.variable("VLLM_REPLICATE_EMBED")
    flag = stub_configs.variable("VLLM_BATCH_INVARIANT")
    assert word is not None
    assert flag is not None

    assert word.bytes_at("1") == word.bytes_at("True") != 0
    assert word.bytes_at("no") == flag.bytes_at("00") == 0
    with pytest.raises(ValueError, match="invalid literal"):
        flag.bytes_at("yes")


def test_look_ups_by_name() -> None:
    """Settings and variables are found by name; what the audit does not have is not invented."""
    assert isinstance(stub_configs.setting("cache_config.block_size"), Setting)
    assert isinstance(stub_configs.variable("PYTORCH_CUDA_ALLOC_CONF"), Variable)
    assert stub_configs.variable("HOME") is None
    with pytest.raises(KeyError):
        stub_configs.setting("cache_config")


def test_every_row_names_its_source() -> None:
    """Each audited row says in which vLLM file and line, or where else, the fact was read."""
    odd = [row["path"] for row in ROWS if not _is_source(row["source"])]
    odd += [variable.name for variable in VARIABLES if not _is_source(variable.source)]
    odd += [variable.name for variable in EXTRA_VARIABLES if not variable.source]

    assert (odd, settings.VERSION) == ([], "0.33.0")


def _is_source(text: str) -> bool:
    file, _, line = text.partition(":")
    return file.endswith(".py") and line.isdigit()
