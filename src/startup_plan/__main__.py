# SPDX-License-Identifier: Apache-2.0
"""`python -m startup_plan` is the command `startup-plan`."""

from __future__ import annotations

from startup_plan.cli.main import main

if __name__ == "__main__":
    main()
