# SPDX-License-Identifier: Apache-2.0
"""A process that has imported vLLM and forks a fresh child for every rank that boots.

`python -m startup_plan.harness.real_vllm.zygote --parent PID SUBJECT` reads one `BootOrder` a line
and answers with one line of `BootResult`s. Importing vLLM takes seconds, a fork milliseconds; each
child is as new to the subject as a process that was started for it. The supervisor also ends groups
that hang.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

from startup_plan.harness.world.loading import load_subject
from startup_plan.harness.world.outcome import BootResult, ElsewhereError
from startup_plan.support.channel import Channel, die_with_parent
from startup_plan.support.ports import free_port

from . import rank as real_rank
from . import tiny_models
from .order import ASSIGNED, BootOrder

if TYPE_CHECKING:
    from collections.abc import Callable

    from startup_plan.harness.world.subject import Subject

READY: Final = "ready"
UNUSABLE: Final = "unusable"
_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 3.0
_LONGEST_SECONDS: Final = 60.0
"""A boot of simulated work that takes longer has hung, however busy the machine is."""

_CLOCK: Final = os.sysconf("SC_CLK_TCK")


@final
class _Child:
    """One forked rank.

    Attributes:
        stage: what it said last.
        report: what came of it, once it has said so.
    """

    __slots__ = (
        "_busy",
        "_text",
        "heard_at",
        "pid",
        "pipe",
        "quiet_since",
        "rank",
        "report",
        "stage",
    )

    def __init__(self, rank: int, pid: int, pipe: int) -> None:
        self.rank = rank
        self.pid = pid
        self.pipe = pipe
        self.stage = "start"
        self.report: BootResult | None = None
        self.quiet_since = self.heard_at = time.monotonic()
        self._busy = 0
        self._text = b""

    def hear(self) -> bool:
        """Read what it says; False at the end."""
        data = os.read(self.pipe, 65536)
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            self.quiet_since = self.heard_at = time.monotonic()
            said = json.loads(line)
            if isinstance(said, str):
                self.stage = said
            else:
                self.report = BootResult.from_values(said)
        return bool(data)

    def waits(self, now: float, patience: float) -> bool:
        """Whether it has done nothing for `patience` seconds, or said nothing for far longer."""
        return now - self.quiet_since > patience or now - self.heard_at > 4 * patience

    def look(self) -> None:
        """Take note of whether it computes."""
        busy = _cpu_ticks(self.pid)
        if busy != self._busy:
            self._busy, self.quiet_since = busy, time.monotonic()


def _cpu_ticks(pid: int) -> int:
    """Processor time of a process so far, coarse: a wait that polls now and then is no work."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 20 // _CLOCK


@final
class Zygote:
    """Builds configurations once and boots groups of ranks from them.

    Args:
        subject: the implementation under test.
        scratch: a folder for models and meetings.
    """

    def __init__(self, subject: Subject, scratch: Path) -> None:
        """Import vLLM, which is what takes time."""
        import torch  # noqa: PLC0415  # after the subject was tried on the stubs
        import vllm.v1.worker.gpu_worker  # noqa: PLC0415  # as torch

        for module in real_rank.RUNNERS:
            importlib.import_module(module)
        torch.set_num_threads(1)
        self._subject = subject
        self._scratch = scratch
        self._configs: dict[tuple[str, int, int], Any] = {}
        self._meetings = 0
        self.version = str(vllm.__version__)
        # A field of a dataclass is an attribute of the class, with its default.
        parallel = importlib.import_module("vllm.config").ParallelConfig
        self.assigns = hasattr(parallel, ASSIGNED.rpartition(".")[2])
        # A vLLM that finds no device to build for says so here.
        self._config(BootOrder(""))

    def boot(self, order: BootOrder) -> list[BootResult]:
        """Boot all ranks of `order` and wait for what comes of them."""
        config = self._config(order)
        if order.replicas > 1:
            parallel = config.parallel_config
            parallel.data_parallel_size = order.replicas
            parallel.data_parallel_master_ip = "127.0.0.1"
            parallel.data_parallel_master_port = free_port()
            parallel._data_parallel_master_port_list = []
        self._meetings += 1
        meeting = self._scratch / f"meeting-{self._meetings}"
        # The worker collects garbage four times a boot; without this, each child goes through all
        # that was ever imported.
        gc.collect()
        gc.freeze()
        children = [self._fork(rank, order, config, meeting) for rank in range(order.size)]
        try:
            return _supervise(children, order.patience)
        finally:
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)
                os.close(child.pipe)
            if order.replicas > 1:
                config.parallel_config.data_parallel_size = 1

    def _config(self, order: BootOrder) -> Any:
        shape = (order.model, order.tensor, order.pipeline)
        if shape not in self._configs:
            from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415  # as in `__init__`

            folder = self._scratch / order.model
            if not folder.exists():
                tiny_models.make(order.model, folder)
            self._configs[shape] = EngineArgs(
                model=str(folder),
                skip_tokenizer_init=True,
                dtype="float32",
                max_model_len=128,
                tensor_parallel_size=order.tensor,
                pipeline_parallel_size=order.pipeline,
                distributed_executor_backend="mp" if order.tensor * order.pipeline > 1 else None,
            ).create_engine_config()
        return self._configs[shape]

    def _fork(self, rank: int, order: BootOrder, config: Any, meeting: Path) -> _Child:
        mine, theirs = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _live(lambda: _be_rank(rank, order, config, meeting, self._subject, theirs, parent))
        os.close(theirs)
        return _Child(rank, pid, mine)


def _live(life: Callable[[], None]) -> NoReturn:
    """Run a forked child to its end; nothing of the zygote's runs in it afterwards."""
    status = 1
    try:
        life()
        status = 0
    finally:
        os._exit(status)


def _be_rank(
    rank: int,
    order: BootOrder,
    config: Any,
    meeting: Path,
    subject: Subject,
    pipe: int,
    parent: int,
) -> None:
    die_with_parent(parent)
    silence = os.open(f"{meeting}.{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)

    def tell(said: object) -> None:
        os.write(pipe, json.dumps(said).encode() + b"\n")

    report = real_rank.boot(order, rank, subject, config, str(meeting), tell)
    tell(report.to_values())
    while report.stage == "done":
        # A worker that has booted stays; to its neighbours, one that ends is a crash.
        signal.pause()


def _supervise(children: list[_Child], patience: float) -> list[BootResult]:
    """Listen until all have reported or ended, or until those left do nothing any more.

    Once a rank has failed, the engine fails, and ends the other ranks after a moment.
    """
    deadline = time.monotonic() + _LONGEST_SECONDS
    listening = {child.pipe: child for child in children}
    hung = failed = False
    with selectors.DefaultSelector() as selector:
        for pipe in listening:
            selector.register(pipe, selectors.EVENT_READ)
        while listening and not hung:
            for key, _ in selector.select(_POLL_SECONDS):
                child = listening[key.fd]
                alive = child.hear()
                if alive and child.report is None:
                    continue
                selector.unregister(key.fd)
                del listening[key.fd]
                if not failed and (child.report is None or child.report.raised):
                    failed = True
                    deadline = min(deadline, time.monotonic() + _GRACE_SECONDS)
            for child in listening.values():
                child.look()
            now = time.monotonic()
            hung = bool(listening) and (
                now > deadline or all(child.waits(now, patience) for child in listening.values())
            )
    return [_report_of(child, hung=child.pipe in listening, failed=failed) for child in children]


def _report_of(child: _Child, *, hung: bool, failed: bool) -> BootResult:
    if child.report is not None:
        return child.report
    report = BootResult(rank=child.rank, stage=child.stage, hung=hung and not failed)
    if hung and failed:
        fate = f"it was ended in the stage {child.stage!r}, because another rank failed"
        report.raised = ElsewhereError(fate)
    elif not hung:
        fate = f"its process ended in the stage {child.stage!r} and said nothing"
        report.raised = ElsewhereError(fate)
    return report


def main(arguments: list[str]) -> None:
    """Answer orders until the input ends."""
    _, parent, name = arguments
    die_with_parent(int(parent))
    channel = Channel()
    subject = load_subject(name)
    with tempfile.TemporaryDirectory(prefix="startup-plan-zygote-") as scratch:
        try:
            zygote = Zygote(subject, Path(scratch))
        except Exception as error:
            channel.answer([UNUSABLE, f"{type(error).__name__}: {error}", False])
            return
        channel.answer([READY, zygote.version, zygote.assigns])
        for said in channel:
            try:
                reports = zygote.boot(BootOrder.from_values(said))
                answer: object = [report.to_values() for report in reports]
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
            channel.answer(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
