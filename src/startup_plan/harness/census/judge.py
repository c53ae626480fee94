# SPDX-License-Identifier: Apache-2.0
"""The census: every field and variable of the installed vLLM, and whether the key has it.

`census_child` observes, in a process of its own; `census_data` knows what takes memory. Here both
are laid side by side. What is not classified, and what takes memory but is not in the key, is
named.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.world.loading import SubjectError
from startup_plan.harness.world.try_out import try_out
from startup_plan.support.scratch import fastest_folder, scratch_folder

from . import classification
from .look import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .classification import Classification, Entry

LONGEST: Final = 300.0
"""Seconds after which a census that has not come back is ended; it takes under thirty."""

UNCLASSIFIED: Final = "unclassified"
YES: Final = "yes"
NO: Final = "no"
PARTLY: Final = "partly"
THROUGH: Final = "through"
UNSEEN: Final = "?"


class NotRunError(Exception):
    """There can be no census here; one sentence says why."""


class SubjectNotLoadedError(Exception):
    """The subject could not be loaded; one sentence says why."""


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One field or variable.

    Attributes:
        name: `Class.field`, or the variable.
        path: the way to the field from the `VllmConfig`; "" for a variable.
        hashed: whether vLLM's `compute_hash()` moves with it: `yes`, `no`, `partly` (with some of
            the values that were tried), `through` (a field that it sets), `?` (nothing was tried).
        in_key: the same for the key of the subject.
        verdict: `moves`, `unsure`, `idle`, `section` or `unclassified`.
        why: name of the reason, "" where there is none.
        reason: the reason, or what to do.
        at: file and line below vllm/.
        unseen: the values that left the key as it was.
    """

    name: str
    path: str
    hashed: str
    in_key: str
    verdict: str
    why: str
    reason: str
    at: str
    unseen: tuple[str, ...] = ()

    @property
    def takes_memory(self) -> bool:
        """Whether it takes device memory; what is unsure does."""
        return self.verdict in {"moves", "unsure"}

    @property
    def is_gap(self) -> bool:
        """Whether it takes memory and the key can stay the same when it changes."""
        return self.takes_memory and self.in_key != YES


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Census:
    """The outcome.

    Attributes:
        seen: what was observed, see `census_child`.
        fields: one row for each field of each configuration class.
        variables: one row for each registered variable.
        stale: what is classified for this very version and was not found in it.
        unknown_classes: configuration classes of which no field is classified.
        out_of_reach: configuration classes of which no object could be looked at.
    """

    seen: Mapping[str, Any]
    fields: tuple[Row, ...]
    variables: tuple[Row, ...]
    stale: tuple[str, ...]
    unknown_classes: tuple[str, ...]
    out_of_reach: tuple[str, ...]

    @property
    def version(self) -> str:
        """The release that was looked at, without what a build adds to it."""
        return release(self.seen)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Fields and variables."""
        return self.fields + self.variables

    @property
    def unclassified(self) -> list[str]:
        """Names of what nobody has classified."""
        return [row.name for row in self.rows if row.verdict == UNCLASSIFIED]

    @property
    def gaps(self) -> list[Row]:
        """What takes memory and is not in the key."""
        return [row for row in self.rows if row.is_gap]

    @property
    def complete(self) -> bool:
        """Whether everything is classified, reached, and in the key if it takes memory."""
        return not (self.unclassified or self.out_of_reach or self.gaps)


def take(
    subject: str = "reference", *, longest: float = LONGEST, classes: Classification | None = None
) -> Census:
    """Look at the installed vLLM and judge what is seen.

    Args:
        subject: whose key is looked at.
        longest: seconds after which the look is ended.
        classes: the classification, if not that of the package.

    Raises:
        NotRunError: there is no vLLM, it is broken, or it builds no configuration.
        SubjectNotLoadedError: the subject could not be loaded.
    """
    return judge(look(subject, longest=longest), classes or classification.load())


def look(
    subject: str,
    *,
    longest: float = LONGEST,
    environ: Mapping[str, str] | None = None,
    folder: str | None = None,
    only_keys: bool = False,
    models: str | None = None,
) -> dict[str, Any]:
    """What `census_child` sees, in a process of its own.

    Args:
        subject: whose key is looked at.
        longest: seconds after which it is ended.
        environ: the environment of the child, if not ours.
        folder: its working directory, if not ours.
        only_keys: see `census_child.observe`.
        models: see there.

    Raises:
        NotRunError: there is no vLLM, it is broken, or it builds no configuration.
        SubjectNotLoadedError: the subject could not be loaded.
    """
    try:
        try_out(subject)
    except SubjectError as error:
        raise SubjectNotLoadedError(str(error)) from None
    with scratch_folder(fastest_folder()) as scratch:
        file = scratch / "seen.json"
        told = json.dumps({"only_keys": only_keys, "models": models})
        command = [sys.executable, "-m", f"{__package__}.look", subject, str(file), told]
        status, said = _run(command, longest, environ, folder)
        if status is None:
            raise NotRunError(f"the look at vLLM took more than {longest:.0f} s and was ended")
        try:
            seen: dict[str, Any] = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            raise NotRunError(f"the look at vLLM ended with status {status}: {said}") from None
    if "defect" in seen:
        raise RuntimeError(f"the look at vLLM failed:\n{seen['defect']}")
    if seen.get("problem") == SUBJECT:
        raise SubjectNotLoadedError(seen["sentence"])
    if "problem" in seen:
        raise NotRunError(seen["sentence"])
    return seen


def _run(
    command: Sequence[str],
    longest: float,
    environ: Mapping[str, str] | None,
    folder: str | None,
) -> tuple[int | None, str]:
    """Status (None where it was ended) and the last line that was said."""
    with subprocess.Popen(  # noqa: S603  # this interpreter, with a module of our own
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        env=None if environ is None else dict(environ),
        cwd=folder,
    ) as process:
        try:
            said, _ = process.communicate(timeout=longest)
        except BaseException as error:
            # Whatever it has started goes with it.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    lines = said.strip().splitlines()
    return process.returncode, lines[-1].strip() if lines else "it said nothing"


def judge(seen: Mapping[str, Any], classes: Classification) -> Census:
    """Lay what was seen beside what is known."""
    moved = {
        row["path"]: (_all(row["tried"], "hash_moves"), _all(row["tried"], "key_moves"))
        for row in seen["fields"]
    }
    fields = [_field(row, classes, moved) for row in seen["fields"]]
    variables = [_variable(row, classes) for row in seen["variables"]]
    owners = {row["owner"] for row in seen["fields"]} | set(seen["classes"])
    base_only = owners - {row["owner"] for row in seen["fields"]} - set(seen["out_of_reach"])
    return Census(
        seen,
        tuple(fields),
        tuple(variables),
        tuple(_stale(seen, classes)),
        tuple(sorted(owners - classes.owners() - base_only)),
        tuple(seen["out_of_reach"]),
    )


def release(seen: Mapping[str, Any]) -> str:
    """The version of vLLM, without what a build adds to it (`+cpu`)."""
    version: str = seen["vllm"]
    return version.partition("+")[0]


def _stale(seen: Mapping[str, Any], classes: Classification) -> Iterable[str]:
    version = release(seen)
    if version not in {classes.oldest, classes.newest}:
        return
    fields = {(row["owner"], row["field"]) for row in seen["fields"]}
    variables = {row["name"] for row in seen["variables"]}
    for key, entry in classes.fields.items():
        if entry.only in {"", version} and key not in fields:
            yield ".".join(key)
    for name, entry in classes.variables.items():
        if entry.only in {"", version} and name not in variables:
            yield name


def _field(
    row: Mapping[str, Any], classes: Classification, moved: Mapping[str, tuple[str, str]]
) -> Row:
    name = f"{row['owner']}.{row['field']}"
    entry = classes.fields.get((row["owner"], row["field"]))
    hashed, in_key = moved[row["path"]]
    if entry is None:
        advice = (
            f"Nobody has said whether it takes device memory: read what vLLM does with it, and "
            f"add it to [fields.{row['owner']}] in harness/census/census.toml."
        )
        return Row(name, row["path"], hashed, in_key, UNCLASSIFIED, "", advice, "", _unseen(row))
    if entry.verdict == classification.SECTION:
        hashed = in_key = "-"
    elif entry.through:
        by_hash, by_key = moved.get(entry.through, (UNSEEN, UNSEEN))
        hashed = THROUGH if hashed != YES and by_hash == YES else hashed
        in_key = YES if YES in {in_key, by_key} else in_key
    return _row(name, row, hashed, in_key, entry)


def _variable(row: Mapping[str, Any], classes: Classification) -> Row:
    entry = classes.variables.get(row["name"])
    hashed, in_key = _all(row["tried"], "hash_moves"), _all(row["tried"], "key_moves")
    if entry is None:
        advice = (
            "Nobody has said whether it takes device memory: read what vLLM does with it, and add "
            "it to [variables] in harness/census/census.toml."
        )
        return Row(row["name"], "", hashed, in_key, UNCLASSIFIED, "", advice, "", _unseen(row))
    return _row(row["name"], row, hashed, in_key, entry)


def _row(name: str, row: Mapping[str, Any], hashed: str, in_key: str, entry: Entry) -> Row:
    return Row(
        name,
        row.get("path", ""),
        hashed,
        in_key,
        entry.verdict,
        entry.why,
        entry.sentence,
        entry.at,
        _unseen(row) if in_key != YES else (),
    )


def _unseen(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(tried["value"]) for tried in row["tried"] if tried["key_moves"] is False)


def _all(tried: Sequence[Mapping[str, Any]], what: str) -> str:
    answers = [one[what] for one in tried if one[what] is not None]
    if not answers:
        return UNSEEN
    return YES if all(answers) else PARTLY if any(answers) else NO


def needless(census: Census) -> list[Row]:
    """What takes no memory, is not in vLLM's hash, and moves the key all the same (KEY-14).

    A variable that moves the key by setting a field is not meant, because the field is judged; nor
    is what a key may count though it has it in another form.
    """
    alone = {
        row["name"]
        for row in census.seen["variables"]
        if any(tried["key_moves_alone"] for tried in row["tried"])
    }
    return [
        row
        for row in census.rows
        if row.verdict == "idle"
        and row.in_key in {YES, PARTLY}
        and row.hashed == NO
        and row.why not in classification.OWN_FACTOR
        and (row.path or row.name in alone)
    ]


def counts(census: Census) -> dict[str, dict[str, int]]:
    """Class -> how many, fields and variables apart, and how many of them vLLM's hash misses."""
    table: dict[str, dict[str, int]] = {}
    for name, rows in (("fields", census.fields), ("variables", census.variables)):
        found = table.setdefault(name, {})
        for verdict in ("moves", "unsure", "idle", classification.SECTION, UNCLASSIFIED):
            found[verdict] = sum(row.verdict == verdict for row in rows)
        found["moves or unsure, not in vLLM's hash"] = sum(
            row.takes_memory and row.hashed in {NO, PARTLY, UNSEEN} for row in rows
        )
        found["moves or unsure, not in the key"] = sum(row.is_gap for row in rows)
    return table
