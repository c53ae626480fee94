# SPDX-License-Identifier: Apache-2.0
"""A co-tenant: a process that holds a stated number of bytes on a card, and nothing else.

It answers when it holds them and when it has let go, and dies with its parent.
"""

from __future__ import annotations

import sys

from startup_plan.harness.cards import inside

if __name__ == "__main__":
    inside.cotenant(sys.argv[1:])
