# SPDX-License-Identifier: Apache-2.0
"""The small tensors of the simulation, beside those of torch."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest

from startup_plan.harness.stubs import tensors
from startup_plan.harness.stubs.unknown import UnknownNameError, unknown_names

if TYPE_CHECKING:
    from collections.abc import Callable

STUB: Final = SimpleNamespace(**tensors.SURFACE)

EXPRESSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "whole numbers": lambda torch: torch.tensor([1, 0]),
    "real numbers": lambda torch: torch.tensor([1, 0.5]),
    "truths": lambda torch: torch.tensor([True, False]),
    "one number": lambda torch: torch.tensor(2**40),
    "rows": lambda torch: torch.tensor([[1, 2], [3, 4]]),
    "a row": lambda torch: torch.tensor([[1, 2], [3, 4]])[1],
    "the last": lambda torch: torch.tensor([1, 2, 3])[-1],
    "a slice": lambda torch: torch.tensor([1, 2, 3])[1:],
    "zeros": lambda torch: torch.zeros(2),
    "ones of a type": lambda torch: torch.ones(2, dtype=torch.int32),
    "full": lambda torch: torch.full((2, 2), 7),
    "like": lambda torch: torch.zeros_like(torch.tensor([1, 2])),
    "sum": lambda torch: torch.tensor([1, 2]).sum(),
    "sum of truths": lambda torch: torch.tensor([True, True]).sum(),
    "smallest": lambda torch: torch.tensor([3, 2]).min(),
    "all": lambda torch: torch.tensor([1, 0]).all(),
    "any": lambda torch: torch.any(torch.tensor([1, 0]) > 0),
    "compared": lambda torch: torch.tensor([1, 2]) == 1,
    "inverted": lambda torch: ~torch.tensor([True, False]),
    "both": lambda torch: torch.tensor([True, True]) & torch.tensor([True, False]),
    "added": lambda torch: 1 + torch.tensor([1, 2]),
    "divided": lambda torch: torch.tensor([1, 2]) / 2,
    "chosen": lambda torch: torch.tensor([1, 2])[torch.tensor([False, True])],
    "as real": lambda torch: torch.tensor([1, 2]).float(),
    "as truths": lambda torch: torch.tensor([2, 0]).bool(),
    "cut to whole": lambda torch: torch.tensor([1.7]).to(torch.int64),
    "stacked": lambda torch: torch.stack([torch.tensor(1), torch.tensor(2)]),
    "joined": lambda torch: torch.cat([torch.tensor([1]), torch.tensor([2, 3])]),
    "in another shape": lambda torch: torch.tensor([1, 2, 3, 4]).view(2, -1),
    "one dimension more": lambda torch: torch.tensor([1, 2]).unsqueeze(-1),
}
"""What a vote does with tensors."""


def _seen(found: Any) -> tuple[Any, ...]:
    return found.tolist(), tuple(found.shape), str(found.dtype), str(found.device)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_is_what_it_is_in_torch(name: str) -> None:
    """Values, shape, type and device are those that torch gives."""
    torch = importlib.import_module("torch")
    expression = EXPRESSIONS[name]

    assert _seen(expression(STUB)) == _seen(expression(torch))


@pytest.mark.parametrize(
    "asked",
    [
        lambda: STUB.tensor([1]).softmax(0),
        lambda: STUB.tensor([[1, 2]]).sum(1),
        lambda: STUB.stack([STUB.tensor([1])], dim=1),
        lambda: STUB.tensor([[1, 2]])[0, 1],
    ],
    ids=["name", "dimension", "argument", "index"],
)
def test_what_has_no_meaning_is_refused_by_name(asked: Callable[[], Any]) -> None:
    """What torch can do and this cannot is noted, so that nobody is blamed for it."""
    unknown_names.clear()
    with pytest.raises(UnknownNameError):
        asked()
    noted = len(unknown_names)
    unknown_names.clear()

    assert noted == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda torch: torch.tensor([1, 2]).item(),
        lambda torch: bool(torch.tensor([1, 2])),
        lambda torch: torch.tensor([1, 2]).view(3),
        lambda torch: torch.tensor([1, 2]).copy_(torch.tensor([1, 2, 3])),
        lambda torch: list(torch.tensor(1)),
        lambda torch: torch.tensor([[1], [1, 2]]),
    ],
    ids=["item", "truth", "view", "copy", "iteration", "ragged"],
)
@pytest.mark.parametrize("made", ["stub", pytest.param("torch", marks=pytest.mark.needs("torch"))])
def test_a_mistake_is_one_here_too(wrong: Callable[[Any], Any], made: str) -> None:
    """What torch raises for is raised here as well, and never noted as unknown."""
    unknown_names.clear()
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        wrong(STUB if made == "stub" else importlib.import_module(made))

    assert unknown_names == []
