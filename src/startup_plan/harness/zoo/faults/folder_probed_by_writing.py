# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: plans are read only where they could be written."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        "            kv_bytes, baseline, weights = _decode(self.key, _read(self.path))\n",
        (
            "            probe = os.path.join(os.path.dirname(self.path), "
            'f"{os.urandom(8).hex()}.probe")\n'
            "            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL))\n"
            "            os.unlink(probe)\n"
            "            kv_bytes, baseline, weights = _decode(self.key, _read(self.path))\n"
        ),
    ),
)
