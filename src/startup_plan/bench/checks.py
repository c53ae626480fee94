# SPDX-License-Identifier: Apache-2.0
"""The checks: pure functions from what was recorded to passed, failed or not applicable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from startup_plan.bench.results.record import Check

from .answers import MAY_VARY, cut_short, first_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from startup_plan.bench.orders.requests import Request
    from startup_plan.bench.results.record import LogFact, Run, Verdict

_Finding = tuple["Verdict", str]

_NOT_HEALTHY: Final = "the server never got healthy"


def judge(runs: Sequence[Run], requests: Sequence[Request], timeout: float) -> list[Check]:
    """Check everything that can be checked so far.

    Args:
        runs: the servers so far, in the order in which they ran.
        requests: what each was asked.
        timeout: how many seconds a server had to get healthy.
    """
    checks: list[Check] = []
    for run in runs:
        for name, (verdict, evidence) in _checks_of(run, runs, timeout):
            checks.append(Check(name, run.phase, run.repeat, verdict, evidence))
    for request in requests:
        verdict, evidence = _identical(runs, request)
        checks.append(Check("identical-answers", None, None, verdict, evidence))
    return checks


def _checks_of(run: Run, runs: Sequence[Run], timeout: float) -> Iterator[tuple[str, _Finding]]:
    yield "port-free-before", _free(run.port_before, "before the launch")
    if run.port_before is not None:
        return
    yield "health", _health(run, timeout)
    yield "answers", _answers(run)
    yield "not-cut-short", _not_cut_short(run)
    for name, phases, judgement in _BY_PHASE:
        if run.phase in phases:
            if run.healthy is None and run.phase != "first-reload":
                yield name, ("not-applicable", _NOT_HEALTHY)
            else:
                yield name, judgement(run, runs)
    if run.ending is not None:
        yield "no-process-left", _no_process_left(run)
        yield "port-free-after", _free(run.port_after, "after the end")


def _health(run: Run, timeout: float) -> _Finding:
    if run.healthy is not None:
        return "passed", f"healthy after {run.healthy:.3f} s"
    if run.died is not None:
        because = f"; {run.traceback[-1]}" if run.traceback else ""
        return "failed", f"ended with status {run.died} before it was healthy{because}"
    return "failed", f"not healthy within {timeout:g} s"


def _answers(run: Run) -> _Finding:
    if run.healthy is None:
        return "not-applicable", _NOT_HEALTHY
    for answer in run.answers:
        if answer.status is None:
            return "failed", f"{answer.request}: no answer ({answer.trouble})"
        if answer.status != 200:
            return "failed", f"{answer.request}: status {answer.status} {answer.trouble}".rstrip()
        if not answer.choices:
            return "failed", f"{answer.request}: an answer without choices"
    return "passed", f"{len(run.answers)} answered"


def _not_cut_short(run: Run) -> _Finding:
    answered = [answer for answer in run.answers if answer.choices]
    if not answered:
        return "not-applicable", "nothing was answered"
    short = [answer.request for answer in answered if cut_short(answer.choices)]
    if short:
        return "failed", f"stopped by the length limit: {', '.join(short)}; raise max_tokens"
    return "passed", "every answer came to its own end"


def _no_process_left(run: Run) -> _Finding:
    ending = run.ending
    if ending is None:
        return "not-applicable", "the server was not ended yet"
    if ending.immortal:
        return "failed", f"not even KILL ended {'; '.join(ending.immortal)}"
    if ending.left:
        return "failed", f"still there after the grace time, then killed: {'; '.join(ending.left)}"
    return "passed", f"all gone {ending.seconds:.2f} s after the end was asked for"


def _free(listener: str | None, when: str) -> _Finding:
    if listener is not None:
        return "failed", f"{listener} {when}"
    return "passed", f"nothing listened {when}"


def _nothing_reused(run: Run, _: Sequence[Run]) -> _Finding:
    reused = run.having("artifact-loaded", "graph-reused", "plan-applied")
    if reused:
        return "failed", f"the caches were to be empty, but {_where(run, reused[0])}"
    return "passed", "no line says that anything was reused"


def _artifacts_loaded(run: Run, runs: Sequence[Run]) -> _Finding:
    refused = run.having("artifact-refused")
    if refused:
        reason = refused[0].values.get("reason", "no reason given")
        then = (
            "the server ended"
            if run.healthy is None
            else "the server compiled again without a word"
        )
        return "failed", f"the load failed: {reason}; {then} ({_at(run, refused[0])})"
    disabled = run.having("cache-disabled")
    if disabled:
        return "failed", f"the compile cache is disabled ({_at(run, disabled[0])})"
    loaded = run.having("artifact-loaded")
    fill = _same_round(run, runs, "cache-fill")
    saved = [] if fill is None else fill.having("artifact-saved")
    if not loaded:
        more = "" if saved else "; cache-fill saved none"
        if run.having("graph-reused"):
            more += "; single graphs came from the compile cache instead"
        if run.healthy is None and run.traceback:
            more += f"; {run.traceback[-1]}"
        return "failed", f"no line says that ahead-of-time compiled artifacts were loaded{more}"
    if len(loaded) < len(saved):
        return "failed", f"{len(saved)} artifacts were saved and only {len(loaded)} loaded"
    return "passed", f"{len(loaded)} loaded ({_at(run, loaded[0])})"


def _plan_saved(run: Run, _: Sequence[Run]) -> _Finding:
    applied = run.having("plan-applied")
    if applied:
        return "failed", f"there was to be no plan yet, but {_where(run, applied[0])}"
    saved = run.having("plan-saved")
    if not saved:
        return "failed", f"no line says that a plan was saved{_because(run, 'plan-not-saved')}"
    return "passed", f"{len(saved)} saved ({_at(run, saved[0])})"


def _plan_applied(run: Run, runs: Sequence[Run]) -> _Finding:
    applied = run.having("plan-applied")
    if not applied:
        return "failed", f"no line says that a plan was applied{_because(run, 'plan-refused')}"
    measured = run.having("kv-measured")
    if measured:
        return "failed", f"a plan was applied, and still {_where(run, measured[0])}"
    fill = _same_round(run, runs, "plan-fill")
    saved = [] if fill is None else fill.having("plan-saved")
    if len(applied) < len(saved):
        return "failed", f"{len(saved)} plans were saved and only {len(applied)} applied"
    return "passed", f"{len(applied)} applied, nothing measured ({_at(run, applied[0])})"


def _kv_size_equal(run: Run, runs: Sequence[Run]) -> _Finding:
    fill = _same_round(run, runs, "plan-fill")
    sizes = [_kv_tokens(one) for one in (fill, run) if one is not None]
    if len(sizes) < 2 or None in sizes:
        return "failed", "the log does not state the size of the KV cache of both"
    before, after = (size or 0 for size in sizes)
    if before != after:
        change = f", {(after - before) / before:+.2%}" if before else ""
        return "failed", f"plan-fill has {before:,} tokens and plan-hit {after:,}{change}"
    return "passed", f"{after:,} tokens in both"


def _equal_compile(run: Run, runs: Sequence[Run]) -> _Finding:
    hit = _same_round(run, runs, "cache-hit")
    if hit is None:
        return "not-applicable", "there is no cache-hit to compare with"
    if hit.healthy is None:
        return "not-applicable", "cache-hit never got healthy"
    kinds = ("artifact-loaded", "artifact-refused", "graph-reused")
    mine, its = ({kind: len(one.having(kind)) for kind in kinds} for one in (run, hit))
    for kind in kinds:
        if mine[kind] != its[kind]:
            return "failed", f"{kind}: {mine[kind]} in plan-hit and {its[kind]} in cache-hit"
    return "passed", "plan-hit and cache-hit reused the same of the compile cache"


_BY_PHASE: Final[
    tuple[tuple[str, tuple[str, ...], Callable[[Run, Sequence[Run]], _Finding]], ...]
] = (
    ("nothing-reused", ("uncached", "cache-fill"), _nothing_reused),
    ("artifacts-loaded", ("first-reload", "cache-hit"), _artifacts_loaded),
    ("plan-saved", ("plan-fill",), _plan_saved),
    ("plan-applied", ("plan-hit",), _plan_applied),
    ("kv-size-equal", ("plan-hit",), _kv_size_equal),
    ("equal-compile", ("plan-hit",), _equal_compile),
)


def _identical(runs: Sequence[Run], request: Request) -> _Finding:
    answered: list[tuple[Run, list[Any]]] = [
        (run, answer.choices)
        for run in runs
        for answer in run.answers
        if answer.request == request.name and answer.choices
    ]
    if len(answered) < 2:
        return "not-applicable", f"{request.name}: answered by {len(answered)} servers"
    (first, expected), *others = answered
    for run, choices in others:
        difference = first_difference(expected, choices)
        if difference is not None:
            hint = "" if request.greedy else "; the request does not set temperature to 0"
            return "failed", (
                f"{request.name}: {_named(first)} and {_named(run)} differ at {difference}{hint}"
            )
    return "passed", (
        f"{request.name}: equal choices from {len(answered)} servers; not compared: "
        f"{', '.join(MAY_VARY)}"
    )


def _kv_tokens(run: Run) -> int | None:
    facts = run.having("kv-tokens")
    return int(facts[-1].values["tokens"].replace(",", "")) if facts else None


def _same_round(run: Run, runs: Sequence[Run], phase: str) -> Run | None:
    return next((r for r in runs if r.phase == phase and r.repeat == run.repeat), None)


def _because(run: Run, kind: str) -> str:
    facts = run.having(kind)
    if not facts:
        return ""
    return f": {' '.join(facts[-1].values.values()) or facts[-1].text} ({_at(run, facts[-1])})"


def _where(run: Run, fact: LogFact) -> str:
    return f"{_at(run, fact)} says {fact.text!r}"


def _at(run: Run, fact: LogFact) -> str:
    return f"{run.folder}/server.log line {fact.line}"


def _named(run: Run) -> str:
    return f"{run.phase} of round {run.repeat}"
