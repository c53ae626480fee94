# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of a subject's look-up: Hypothesis generates, atheris steers.

Run as a process of its own, because libFuzzer ends the process that it runs in:

    python -m startup_plan.harness.damage.fuzz SUBJECT STORY RUNS SECONDS [CORPUS]

The story of a violation is written to the file STORY, and the process ends with status 77.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Final

from startup_plan.harness.contract.violation import Violation
from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.reader import plain_engine, save_plan
from startup_plan.harness.world.world import World
from startup_plan.support.scratch import fastest_folder

from .sweep import VariantReader
from .variants import Variant

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.world.reader import Saved
    from startup_plan.harness.world.subject import Subject

FOUND: Final = 77
"""Exit status of libFuzzer when the target raised."""


def instrument(subject: Subject, patch_code: Callable[..., Any]) -> None:
    """Let the fuzzer see which branches of the subject an input takes."""
    subject.recompile(lambda code: patch_code(code, trace_dataflow=True, nested=True))


def target(bench: VariantReader, saved: Saved) -> Callable[[bytes], object]:
    """What the fuzzer calls: bytes in, and a `Violation` if they should have been a miss."""
    from hypothesis import HealthCheck, given, settings  # noqa: PLC0415  # this process alone
    from hypothesis import strategies as st  # noqa: PLC0415

    edit = st.tuples(st.integers(0, len(saved.data)), st.integers(0, 16), st.binary(max_size=16))
    edited = st.lists(edit, max_size=6).map(lambda edits: _edited(saved.data, edits))

    @settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.one_of(edited, st.binary(max_size=4096), st.text(max_size=2000).map(str.encode)))
    def read(data: bytes) -> None:
        found = bench.read(Variant(f"{len(data)} bytes lay there instead, {data[:120]!r}", data))
        if found is not None:
            id_ = "LOAD-02" if found.reading.raised is None else "LOAD-01"
            raise Violation(id_, f"{saved}; {found}")

    hook: Callable[[bytes], object] = vars(read)["hypothesis"].fuzz_one_input
    return hook


def _edited(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    for place, gone, instead in edits:
        data = data[:place] + instead + data[place + gone :]
    return data


def main(arguments: list[str]) -> None:
    """Fuzz until a violation is found, the runs are done, or the time is up."""
    import atheris  # noqa: PLC0415  # an extra; whoever starts this process has looked for it

    name, story, runs, seconds, *corpus = arguments
    subject = load_subject(name)
    instrument(subject, atheris.patch_code)
    with tempfile.TemporaryDirectory(dir=fastest_folder()) as root, World(subject, root) as world:
        engine = plain_engine()
        saved = save_plan(world, engine)
        with VariantReader(world, engine, [saved]) as bench:
            run = target(bench, saved)

            def once(data: bytes) -> None:
                try:
                    run(data)
                except Violation as error:
                    with open(story, "w", encoding="utf-8") as stream:
                        stream.write(str(error))
                    raise

            options = [f"-runs={runs}", f"-max_total_time={seconds}", "-max_len=8192"]
            # Crashing inputs are told of in the story; libFuzzer would put files beside the user's.
            options.append(f"-artifact_prefix={root}{os.sep}")
            atheris.Setup([sys.argv[0], *options, *corpus], once)
            atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
