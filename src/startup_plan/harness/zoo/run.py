# SPDX-License-Identifier: Apache-2.0
"""Proves that the suite catches each seeded fault by the requirement that the fault names.

Every subject of the zoo is judged by a gate of its own, in a process of its own, exactly as a
person would judge it; several at a time, each on one CPU. A gate that came to no judgement proves
nothing: it never counts as caught.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from startup_plan.harness.contract import capabilities
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.verdict.record import clean
from startup_plan.support.process_group import StopSignals
from startup_plan.support.scratch import scratch_folder

from .catalogue import EntryError
from .seed import write_subject

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from .catalogue import ZooEntry

Outcome: TypeAlias = Literal[
    "caught", "caught elsewhere", "NOT CAUGHT", "holds", "FALSE ALARM", "not judged"
]
GOOD: Final[frozenset[Outcome]] = frozenset(("caught", "holds", "not judged"))

_JUDGED: Final = (0, 1)
_COMMAND: Final = "from startup_plan.cli.main import main; main()"
_POLL_SECONDS: Final = 0.02
_GRACE_SECONDS: Final = 15.0
_TAIL_LINES: Final = 12
_LIFE: Final = ("BOOT-01", "BOOT-06", "BOOT-07")
"""Where most faults show that show anywhere: in the life of engines."""


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """What the suite made of one subject of the zoo.

    Attributes:
        entry: the subject.
        violated: the requirements that it was found to break, in the order of the contract, and
            a counterexample for each.
        trouble: why there was no judgement at all, or why that of the named requirement is
            missing; "" otherwise.
        seconds: how long the judgement took.
        lacks: the capability for want of which nobody tried, "" if it was tried.
    """

    entry: ZooEntry
    violated: Mapping[str, str]
    trouble: str
    seconds: float
    lacks: str = ""

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The violated requirements that the subject neither names nor lists as consequences."""
        expected = {self.entry.requirement, *self.entry.consequences}
        return tuple(broken for broken in self.violated if broken not in expected)

    @property
    def outcome(self) -> Outcome:
        """The verdict in two words; capitals where the suite has failed outright."""
        if self.lacks:
            return "not judged"
        if self.entry.kind == "correct":
            return "FALSE ALARM" if self.violated or self.trouble else "holds"
        if self.entry.requirement not in self.violated:
            return "NOT CAUGHT"
        return "caught elsewhere" if self.elsewhere else "caught"

    @property
    def good(self) -> bool:
        """Whether the suite did what it is for."""
        return self.outcome in GOOD


@final
class ZooInterruptedError(Exception):
    """A signal ended the run.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        """Keep the number for the exit status."""
        super().__init__(f"ended by signal {number}")
        self.number = number


def run_zoo(
    entries: Sequence[ZooEntry],
    *,
    profile: str = "quick",
    jobs: int = 1,
    only: Callable[[ZooEntry], Collection[str]] | None = None,
    required: Collection[str] = (),
) -> Iterator[Verdict]:
    """Judge subjects of the zoo; give each verdict when it is there, not in the order of `entries`.

    Args:
        entries: what to judge.
        profile: the Hypothesis profile.
        jobs: how many are judged at a time.
        only: the ids to which the judgement of a subject is limited; every id if left out.
        required: capabilities without which a subject that needs them counts as not caught;
            otherwise it is passed over.

    Raises:
        ZooInterruptedError: Ctrl-C or SIGTERM; no process is left behind.
    """
    waiting = []
    for entry in reversed(entries):
        lacks = next((name for name in entry.needs if not capabilities.probe(name).present), "")
        if not lacks:
            waiting.append(entry)
            continue
        trouble = f"capability {lacks}: {capabilities.probe(lacks).reason}"
        yield Verdict(entry, {}, trouble, 0.0, "" if lacks in required else lacks)
    running: list[_Judgement] = []
    with StopSignals() as stop, scratch_folder() as folder:
        try:
            while waiting or running:
                while waiting and len(running) < max(1, jobs):
                    entry = waiting.pop()
                    ids = ids_in_need(entry) if entry.needs else () if only is None else only(entry)
                    try:
                        running.append(_Judgement(entry, folder / entry.slug, profile, ids))
                    except EntryError as error:
                        yield Verdict(entry, {}, str(error), 0.0)
                if stop.number is not None:
                    raise ZooInterruptedError(stop.number)
                done = [judgement for judgement in running if judgement.is_over]
                for judgement in done:
                    running.remove(judgement)
                    yield judgement.verdict()
                if not done:
                    time.sleep(_POLL_SECONDS)
        finally:
            for judgement in running:
                judgement.end()


@final
class _Judgement:
    """One gate, while it runs and after it."""

    def __init__(self, entry: ZooEntry, folder: Path, profile: str, ids: Collection[str]) -> None:
        self._entry = entry
        self._report = folder / "report.json"
        self._output = folder / "output"
        self._began = time.monotonic()
        folder.mkdir()
        subject = write_subject(entry, folder)
        command = [
            *(sys.executable, "-P", "-c", _COMMAND, "gate", str(subject), "-n", "0"),
            *("--profile", profile, "--json", str(self._report)),
            *(("--only", ",".join(ids)) if ids else ()),
            *(("--require", ",".join(entry.needs)) if entry.needs else ()),
        ]
        with self._output.open("wb") as file:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """Let the gate end its own processes, and wait for that."""
        self._process.terminate()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def verdict(self) -> Verdict:
        seconds = time.monotonic() - self._began
        if self._process.returncode not in _JUDGED:
            trouble = f"the gate ended with status {self._process.returncode}: {self._tail()}"
            return Verdict(self._entry, {}, trouble, seconds)
        report = json.loads(self._report.read_text("utf-8"))
        return judge(self._entry, report, seconds)

    def _tail(self) -> str:
        text = self._output.read_text("utf-8", errors="backslashreplace")
        lines = [clean(line) for line in text.splitlines()]
        return "\n".join([line for line in lines if line][-_TAIL_LINES:])


def ids_near(entry: ZooEntry) -> tuple[str, ...]:
    """The requirements where a fault shows if anywhere; every one for a subject that is correct."""
    return () if entry.requirement is None else _ids(entry, _LIFE)


def ids_in_need(entry: ZooEntry) -> tuple[str, ...]:
    """The requirements by which a fault is judged that needs a capability, which takes longer."""
    return _ids(entry, ())


def _ids(entry: ZooEntry, besides: Sequence[str]) -> tuple[str, ...]:
    """What a fault names, with its family and others; not the family of boots, which is long."""
    family = str(entry.requirement).partition("-")[0]
    ids = [requirement.id for requirement in load_register()]
    near = [id_ for id_ in ids if id_.partition("-")[0] == family and family != "BOOT"]
    return tuple(dict.fromkeys((str(entry.requirement), *near, *besides, *entry.consequences)))


def judge(entry: ZooEntry, report: dict[str, Any], seconds: float = 0.0) -> Verdict:
    """Read a verdict out of the gate's report on `entry`."""
    results: dict[str, dict[str, Any]] = {one["id"]: one for one in report["requirements"]}
    stories = {
        id_: str(one["counterexample"])
        for id_, one in results.items()
        if one["status"] == "violated"
    }
    # A fault that is caught elsewhere must not hide behind --only.
    seen: dict[str, str] = report["summary"]["seen_and_not_asked_for"]
    stories = {id_: told for id_ in results if (told := (stories | seen).get(id_)) is not None}
    named = results.get(entry.requirement or "", {})
    trouble = ""
    if named.get("status") == "not-run":
        trouble = f"{entry.requirement} was not judged: {named['counterexample']}"
    if entry.kind == "correct" and all(one["status"] != "holds" for one in results.values()):
        trouble = "nothing was judged"
    return Verdict(entry, stories, trouble, seconds)
