# SPDX-License-Identifier: Apache-2.0
"""LOG-03: what an operator can do about a plan that is small, or about one that is not found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.histories import keys
from startup_plan.harness.histories.log_lines import (
    PATH,
    added_words,
    listen,
    mentions,
    plain_engine,
)
from startup_plan.harness.histories.scenes import must_boot, tale
from startup_plan.harness.stubs.units import GIB
from startup_plan.harness.world.engine import UTILIZATION

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.session.fixtures import Tally
    from startup_plan.harness.world.engine import Engine
    from startup_plan.harness.world.world import World

pytestmark = pytest.mark.requirement("LOG-03")

_NEIGHBOUR: Final = 20 * GIB
"""A quarter of the device, gone at the second boot."""

_ACT: Final = re.compile(
    r"remov|delet|unlink|eras|clear(?!ly)|clean|discard|drop|purg|wip(e|ing)|invalidat|reset|disabl"
    r"|unset|switch|rm\b|anew|afresh|again|fresh|re_?(measur|profil|creat|new)"
)
"""Beginnings of words by which a line may say what to do; any name of a thing to act on will do."""

_THING: Final = re.compile(r"(vllm|startup_plan)(_[a-z0-9]+)+(\.json)?|_{2}[a-z]\w+|startup_plan")
"""A variable, a file, an option or a command, as `added_words` has them."""


def test_a_small_plan_is_told_with_a_remedy(world: World, tally: Tally) -> None:
    """A plan measured beside a neighbour that is gone is applied with both numbers and a remedy.

    The line must say more than that of any application, in whatever words, and among what it says
    more must be something to do: a file, a variable, an option, or a word such as "remove".
    """
    engine = plain_engine()
    must_boot(world, engine, "LOG-03")
    ordinary, usual, _ = listen(world, engine)
    keys.clear(world)
    world.story.clear()
    world.devices[0].tenants["neighbour"] = _NEIGHBOUR
    world.tell("a neighbour holds 20 GiB")
    first = must_boot(world, engine, "LOG-03")
    world.devices[0].tenants.clear()
    world.tell("the neighbour has gone")
    second, lines, _ = listen(world, engine)
    tally(boots=4, examples=1)
    if not ordinary.applied or not second.applied:
        pytest.skip("the subject does not apply such a plan: BOOT-01, GATE-01")
    said = [part for line in lines for part in line.splitlines()]
    added = added_words(world, said, usual)
    numbers = (first.free, second.free)

    if not any(all(mentions(line, number) for number in numbers) for line in said):
        raise Violation(
            "LOG-03", tale(world, f"no line names the baseline and what is free today: {said}")
        )
    if not added - {PATH}:
        raise Violation("LOG-03", tale(world, f"it says no more than of any application: {said}"))
    if not any(_ACT.match(word) or _THING.fullmatch(word) for word in added):
        raise Violation("LOG-03", tale(world, f"it does not say how to measure anew: {said}"))


def _lower(_: World, engine: Engine) -> None:
    engine.set(UTILIZATION, 0.5)


def _logprobs(_: World, engine: Engine) -> None:
    engine.set("model_config.logprobs_mode", "processed_logprobs")


def _sequences(_: World, engine: Engine) -> None:
    engine.set("scheduler_config.max_num_seqs", 64)


def _registered(_: World, engine: Engine) -> None:
    engine.setenv("VLLM_MARLIN_INPUT_DTYPE", "fp8")


def _communicator(_: World, engine: Engine) -> None:
    engine.setenv("NCCL_BUFFSIZE", "8388608")


def _vllm(world: World, _: Engine) -> None:
    world.runtime.vllm = "0.34.0"


def _torch(world: World, _: Engine) -> None:
    world.runtime.torch = "2.14.0"


_SETTING: Final = ("config", "setting")
_VARIABLE: Final = ("environ", "variable")
FACTORS: Final[dict[str, tuple[Callable[[World, Engine], None], tuple[str, ...]]]] = {
    "the utilization": (_lower, ("utilization",)),
    "the mode of logprobs": (_logprobs, ("logprobs_mode", *_SETTING)),
    "the number of sequences": (_sequences, ("max_num_seqs", *_SETTING)),
    "VLLM_MARLIN_INPUT_DTYPE": (_registered, ("vllm_marlin_input_dtype", *_VARIABLE)),
    "NCCL_BUFFSIZE": (_communicator, ("nccl_buffsize", *_VARIABLE)),
    "the version of vLLM": (_vllm, ("vllm", "0.33.0", "version")),
    "the version of torch": (_torch, ("torch", "2.13.0")),
}
"""What differs -> how it comes about, and names of it; a subject whose factor is the whole
configuration or the whole environment may name that."""


@pytest.mark.parametrize("factor", FACTORS)
def test_a_miss_beside_a_plan_names_what_differs(world: World, tally: Tally, factor: str) -> None:
    """Where one factor differs from those of a plan of the same model and device, it is named."""
    engine = plain_engine()
    change, names = FACTORS[factor]
    _, usual, _ = listen(world, engine)
    saved = world.plans()
    change(world, engine)
    world.tell(f"{factor} is another")
    second, lines, _ = listen(world, engine)
    tally(boots=2, examples=1)
    if not saved or second.applied or second.raised is not None or world.plans() == saved:
        pytest.skip("the subject does not see this factor, or saves no plan: KEY-02 to KEY-11")
    added = added_words(world, lines, usual)

    if not any(name in word for word in added for name in names):
        raise Violation(
            "LOG-03", tale(world, f"beside a plan that differs in it, it says no more than {lines}")
        )
