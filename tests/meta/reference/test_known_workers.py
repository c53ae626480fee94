# SPDX-License-Identifier: Apache-2.0
"""Which workers the drop-in knows, judged by their source."""

from __future__ import annotations

from typing import Final

import pytest

from startup_plan.reference.known_workers import objection

_MODULE: Final = "vllm.v1.worker.startup_plan"
_KNOWN: Final = '''
from vllm.v1.worker.startup_plan import maybe_apply_startup_plan, maybe_save_startup_plan

class Worker:
    def determine_available_memory(self):
        """Measure."""
        maybe_apply_startup_plan(self)
        if size := self.cache_config.kv_cache_memory_bytes:
            return size

    def compile_or_warm_up_model(self):
        if self.cache_config.kv_cache_memory_bytes is None:
            maybe_save_startup_plan(self, self.measured - 1)
'''


def test_known_worker_has_no_objection() -> None:
    """A worker that asks before it measures, and saves elsewhere, is known."""
    assert objection(_KNOWN, _MODULE) == ""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("class Worker:", "class Worker", "cannot be read"),
        ("import maybe_apply_startup_plan,", "import", "does not take maybe_apply_startup_plan"),
        ("save_startup_plan\n", "save_startup_plan as save\n", "does not take maybe_save"),
        ("from vllm.v1", "from vllm.v2", "does not take maybe_apply_startup_plan and maybe_save"),
        ("class Worker:", "class Servant:", "no class Worker"),
        ("determine_available_memory", "measure", "no method determine_available_memory"),
        ("maybe_apply_startup_plan(self)", "pass", "maybe_apply_startup_plan 0 times"),
        ("maybe_save_startup_plan(self, self.measured - 1)", "pass", "save_startup_plan 0 times"),
        (
            "(self)\n        if",
            "(self)\n        maybe_apply_startup_plan(self)\n        if",
            "2 times",
        ),
        ("maybe_apply_startup_plan(self)", "maybe_apply_startup_plan(worker=self)", "itself alone"),
        ("maybe_apply_startup_plan(self)", "maybe_apply_startup_plan(self, 1)", "itself alone"),
        ("(self, self.measured - 1)", "(self)", "a number of bytes"),
        ("(self, self.measured - 1)", "(*self.both)", "a number of bytes"),
        ("(self, self.measured - 1)", "(self, kv_cache_memory_bytes=1)", "a number of bytes"),
        (
            "    def compile_or_warm_up_model(self):\n",
            "",
            "save_startup_plan in determine_available",
        ),
        ('"""Measure."""', "self.cache_config.kv_cache_memory_bytes", "before it calls"),
        ("maybe_apply_startup_plan(self)", "if 1: maybe_apply_startup_plan(self)", "before it"),
    ],
)
def test_other_workers_are_not_known(old: str, new: str, why: str) -> None:
    """A worker that differs in any way that matters is refused with the difference."""
    assert old in _KNOWN
    assert why in objection(_KNOWN.replace(old, new, 1), _MODULE)
