# SPDX-License-Identifier: Apache-2.0
"""What has to behave on the configurations of the installed vLLM before they may judge anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from startup_plan.harness.contract.control import REFERENCE, Control

from .judge import look
from .look import NO_KEY

if TYPE_CHECKING:
    from pathlib import Path


def _configurations(folder: Path) -> str:
    seen = look(REFERENCE, only_keys=True, models=str(folder / "models"))
    keys = dict(seen["keys"])
    without = [key.removeprefix(NO_KEY) for key in keys.values() if key.startswith(NO_KEY)]
    if without or not keys:
        return f"vLLM {seen['vllm']}: the reference has no key: {(without or ['nothing seen'])[0]}"
    return ""


CONFIGURATIONS: Final = Control("vllm", "configurations", _configurations)
"""Configurations that the installed vLLM has built, and keys of them."""
