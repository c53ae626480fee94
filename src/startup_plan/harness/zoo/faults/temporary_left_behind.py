# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: a failed save leaves its temporary file."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            "        if not isinstance(error, FileExistsError):\n"
            "            with contextlib.suppress(Exception):\n"
            "                os.unlink(temporary)\n"
            "        raise\n"
        ),
        "        raise\n",
    ),
    (
        "    except BaseException as error:\n        if descriptor",
        "    except BaseException:\n        if descriptor",
    ),
)
