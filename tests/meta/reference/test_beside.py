# SPDX-License-Identifier: Apache-2.0
"""A miss is compared with the plan most like it, within bounds, and nobody's secret is told."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from startup_plan.reference import beside, plan, store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ACCOUNT: dict[str, Any] = {
    "device_name": "H200",
    "rank": 0,
    "vllm": "0.33.0",
    "config_hash": "aaaa",
    "gpu_memory_utilization": 0.9,
    "settings": {"model_config.model": "org/model", "model_config.dtype": "bfloat16"},
    "environment": {"NCCL_BUFFSIZE": "8388608"},
}


@pytest.fixture
def saved(fresh_folder: Callable[[], Path]) -> Callable[..., Path]:
    """Saves plans with accounts that differ from the usual one, and gives their folder."""
    folder = fresh_folder()

    def save(*changes: dict[str, Any]) -> Path:
        for number, change in enumerate(changes, 1):
            account = {**ACCOUNT, **change}
            data = plan.encode(plan.Plan(f"{number:016x}", 5, 6, None, account))
            store.save(str(folder / f"startup_plan_{number:016x}.json"), data)
        return folder

    return save


def test_the_closest_plan_and_what_differs_are_named(saved: Callable[..., Path]) -> None:
    """Of several plans the one with the fewest differences is told, by names and not by values."""
    folder = saved(
        {"vllm": "0.32.0", "config_hash": "bbbb", "environment": {}},
        {"gpu_memory_utilization": 0.5, "config_hash": "cccc"},
    )

    assert beside.difference(str(folder), ACCOUNT) == (
        "; beside it lies 0000000000000002, which differs in gpu_memory_utilization"
    )


def test_settings_and_variables_are_named_in_full(saved: Callable[..., Path]) -> None:
    """A setting has its path, a variable its name, also where one of the two has it unset."""
    folder = saved(
        {
            "settings": {"model_config.model": "org/model"},
            "environment": {"NCCL_BUFFSIZE": "4194304", "VLLM_X": "1"},
        }
    )

    assert beside.difference(str(folder), ACCOUNT).endswith(
        "differs in environment.NCCL_BUFFSIZE, environment.VLLM_X, settings.model_config.dtype"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"device_name": "H100"},
        {"rank": 1},
        {"settings": {"model_config.model": "org/other"}},
    ],
)
def test_a_plan_of_another_model_device_or_rank_is_no_neighbour(
    saved: Callable[..., Path], change: dict[str, Any]
) -> None:
    """What was never to be found is not compared."""
    assert beside.difference(str(saved(change)), ACCOUNT) == ""


def test_the_hash_is_named_where_nothing_else_differs(saved: Callable[..., Path]) -> None:
    """The config hash sums up settings; alone it is the difference."""
    folder = saved({"config_hash": "bbbb"})

    assert beside.difference(str(folder), ACCOUNT).endswith("differs in config_hash")


def test_what_is_no_plan_is_passed_over(saved: Callable[..., Path]) -> None:
    """Garbage, pipes, links and folders beside a plan are neither read for long nor told."""
    folder = saved({"vllm": "0.32.0"})
    (folder / f"startup_plan_{'a' * 16}.json").write_text("no plan")
    (folder / f"startup_plan_{'b' * 16}.json").mkdir()
    os.mkfifo(folder / f"startup_plan_{'c' * 16}.json")
    os.symlink("/dev/zero", folder / f"startup_plan_{'d' * 16}.json")

    assert beside.difference(str(folder), ACCOUNT).endswith("differs in vllm")


def test_only_a_few_plans_are_read(
    saved: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, at most eight are opened, those that were saved last."""
    folder = saved(*({"vllm": f"0.{number}"} for number in range(40)))
    for number in range(1, 41):
        os.utime(folder / f"startup_plan_{number:016x}.json", (number, number))
    read: list[str] = []
    load = store.load

    def noting(path: str) -> bytes | None:
        read.append(path)
        return load(path)

    monkeypatch.setattr(store, "load", noting)
    beside.difference(str(folder), ACCOUNT)

    assert [int(path[-21:-5], 16) for path in read] == list(range(40, 32, -1))
