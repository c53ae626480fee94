# SPDX-License-Identifier: Apache-2.0
"""Tiny models, as far as they go without transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from startup_plan.harness.real_vllm import tiny_models

if TYPE_CHECKING:
    from pathlib import Path


def test_unknown_kind_is_refused_with_the_names(tmp_path: Path) -> None:
    """A kind that there is not is refused with those that there are, and nothing is written."""
    with pytest.raises(
        ValueError, match="the kinds are llama, mixture-of-experts, multimodal, draft"
    ):
        tiny_models.make("whale", tmp_path / "model")

    assert list(tmp_path.iterdir()) == []
