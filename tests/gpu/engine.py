# SPDX-License-Identifier: Apache-2.0
"""One boot of a small engine on a card: a fresh process with its own context.

It boots as `startup_plan.harness.world.worker_steps` says, stage by stage, as its input asks.
"""

from __future__ import annotations

import sys

from startup_plan.harness.cards import inside

if __name__ == "__main__":
    inside.engine(sys.argv[1:])
