# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a disk that is full ends the boot."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "        try:\n"
            "            _publish(self.path, _encode(self.key, kv_bytes, baseline, "
            "self.weights))\n"
            "        except Exception as error:"
        ),
        (
            "        try:\n"
            "            _publish(self.path, _encode(self.key, kv_bytes, baseline, "
            "self.weights))\n"
            "        except ValueError as error:"
        ),
    ),
    (
        (
            "        verdict = boot.store(worker, kv_cache_memory_bytes)\n"
            "    except Exception as error:"
        ),
        (
            "        verdict = boot.store(worker, kv_cache_memory_bytes)\n"
            "    except ValueError as error:"
        ),
    ),
)
