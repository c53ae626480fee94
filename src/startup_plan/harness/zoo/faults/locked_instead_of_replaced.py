# SPDX-License-Identifier: Apache-2.0
"""A seeded fault: the plan is written in place under a lock."""

from __future__ import annotations

from startup_plan.harness.zoo.catalogue import seed

seed(
    globals(),
    (
        (
            '    temporary = f"{path}.{os.urandom(16).hex()}.tmp"\n'
            "    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n"
        ),
        (
            "    import fcntl\n"
            "\n"
            "    temporary = path\n"
            "    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC\n"
        ),
    ),
    (
        "        _write(descriptor, data)\n",
        (
            "        fcntl.flock(descriptor, fcntl.LOCK_EX)\n"
            "        os.ftruncate(descriptor, 0)\n"
            "        _write(descriptor, data)\n"
        ),
    ),
    (
        ("        os.replace(temporary, path)\n    except BaseException as error:"),
        "    except BaseException as error:",
    ),
    (
        (
            "        if not isinstance(error, FileExistsError):\n"
            "            with contextlib.suppress(Exception):\n"
            "                os.unlink(temporary)\n"
        ),
        "",
    ),
)
