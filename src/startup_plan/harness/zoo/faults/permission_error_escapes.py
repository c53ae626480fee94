# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a plan that may not be read ends the boot."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        '        except FileNotFoundError:\n            return None, f"not applied: none found',
        (
            "        except PermissionError:\n"
            "            raise\n"
            "        except FileNotFoundError:\n"
            '            return None, f"not applied: none found'
        ),
    ),
    (
        "            kv_bytes, verdict = self.offer(worker)\n",
        (
            "            kv_bytes, verdict = self.offer(worker)\n"
            "        except PermissionError:\n"
            "            raise\n"
        ),
    ),
    (
        "        verdict = boot.look_up(worker)\n",
        "        verdict = boot.look_up(worker)\n    except PermissionError:\n        raise\n",
    ),
)
