# SPDX-License-Identifier: Apache-2.0
"""One boot in a real new process.

    python -m startup_plan.harness.world.another_process SUBJECT FOLDER

The process joins the world whose disk lies in FOLDER, boots the default engine, and prints what
came of it as JSON. What a process makes up at its start, such as the seed of `hash()`, is its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from startup_plan.harness.contract.violation import UndecidedError
from startup_plan.support.apart import describe_end

from .engine import Engine
from .loading import load_subject
from .outcome import BootResult
from .world import World


def boot_elsewhere(subject: str, folder: str, hash_seed: str, seconds: float = 60) -> BootResult:
    """Boot in a new process.

    Args:
        subject: the name that `load_subject` takes.
        folder: where the disk of the world lies.
        hash_seed: `PYTHONHASHSEED` of the process.
        seconds: how long it may take.

    Raises:
        UndecidedError: the process did not end in time, or without a word of its boot.
    """
    command = [sys.executable, "-m", "startup_plan.harness.world.another_process", subject, folder]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    try:
        done = subprocess.run(  # noqa: S603  # this interpreter, with the subject under test
            command, check=False, capture_output=True, text=True, env=environment, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise UndecidedError(f"a boot in a new process did not end within {seconds} s") from None
    try:
        return BootResult.from_values(json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, LookupError, TypeError):
        last = done.stderr.strip().splitlines()[-1:]
        raise UndecidedError(
            f"a process that was to boot {describe_end(done.returncode)} and said {last}"
        ) from None


def main(arguments: list[str]) -> None:
    """Boot and tell."""
    subject, folder = arguments
    with World(load_subject(subject), folder) as world:
        result = world.boot(Engine())
    sys.stdout.write(json.dumps(result.to_values()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
