# SPDX-License-Identifier: Apache-2.0
"""Stories that a person reads, and what two stories of one test have in common.

A story is about the subject. What a test runner prints around it (where a traceback went, which
example failed, files and lines of the harness) is about us, and never stands in one.
"""

from __future__ import annotations

import re
from typing import Final

_TRACEBACK: Final = re.compile(r"^[\s|+]*(?:Exception Group )?Traceback \(most recent call last\):")
_FRAMES: Final = re.compile(r'^[\s|]*File "[^"]*", line \d+|^\|?\s{2,}\S')
_GUTTER: Final = re.compile(r"^\s*\|\s?")
_NOISE: Final = re.compile(
    r"""^[\s|]*(?:
        (?:Falsifying|Failing)\ (?:explicit\ )?example
      | You\ can\ reproduce\ this\ example | Explanation: | \#\ The\ test\ (?:always|sometimes)
      | \#\ or\ any\ other\ generated\ value | These\ lines\ were\ always | @reproduce_failure
      | (?:\w+\.)*(?:Base)?ExceptionGroup: | Hypothesis\ found\ \d+\ distinct\ failures
      | During\ handling\ of\ the\ above | The\ above\ exception\ was\ the\ direct\ cause
      | \+-[-+\ \d.]*$
    )""",
    re.VERBOSE,
)
_OPENS: Final = re.compile(r"^[\s|]*(?:Falsifying|Failing) (?:explicit )?example: .*\($")
_CLOSES: Final = re.compile(r"^[\s|]*\)\s*$")
_RAISED_GROUP: Final = re.compile(r"raised (?:Base)?ExceptionGroup: [^\n]*?\(\d+ sub-exceptions?\)")
_HARNESS: Final = re.compile(
    r"""[\s(]*(?:at\ |in\ |from\ )?
        ["']?[\w./~+-]*(?:startup_plan/(?:harness|_suite)|tests/(?:property|faults|vllm|gpu))
        /[\w./-]*\.py["']?(?:,\ line\ \d+|:\d+)+(?::\ in\ \w+|,\ in\ \w+)?\)?""",
    re.VERBOSE,
)


def without_noise(text: str) -> str:
    """Leave out of a story what a test runner, a traceback or Hypothesis put into it.

    Of a traceback only its last line stays, which says what was raised.
    """
    kept: list[str] = []
    in_frames = in_example = gutter = False
    for line in text.splitlines():
        if in_example:
            in_example = not _CLOSES.match(line)
        elif _TRACEBACK.match(line):
            in_frames, gutter = True, gutter or "Group" in line
        elif _NOISE.match(line):
            in_frames, in_example = False, bool(_OPENS.match(line))
        elif in_frames and _FRAMES.match(line):
            continue
        else:
            in_frames = False
            told = _GUTTER.sub("", line) if gutter else line
            kept.append(_HARNESS.sub("", _RAISED_GROUP.sub("raised several errors", told)))
    return "\n".join(kept).strip()


_QUOTED: Final = re.compile(r"(?<!\w)b?'[^']*'(?!\w)|b?\"[^\"]*\"")
_PATH: Final = re.compile(r"(?<![\w])/[^\s,;:)]+")
_VARIES: Final = re.compile(r"[^\s,;:()\[\]]*[\d#][^\s,;:()]*")
_UNIT: Final = re.compile(r"# (?:[KMGT]iB|bytes?|s|ms|times?|pages?)\b")
_AGAIN: Final = re.compile(r"#(?: ?\(#\)| #)+")
_RAISED: Final = re.compile(r"\braised \w+(?:: .*| in (\w+): .*|: ?)?$")
_LIST: Final = re.compile(r": [^:]*,[^:]*$")
_PLURAL: Final = {"are": "is", "were": "was", "have": "has", "do": "does"}
_STATE: Final = "crash["


def kind_of(story: str) -> str:
    """Say what kind of evidence a story gives: the same wherever the same fault is told again.

    It is the end of the history, which says what went wrong, without what varies from one run, one
    machine or one file format to the next: numbers, sizes, paths, keys, names in quotes, lists of
    what is affected, the words of an exception. How the history got there is not part of it,
    because Hypothesis may find another way.
    """
    head = without_noise(story).partition("\n")[0]
    clauses = [clause.strip() for clause in head.split("; ") if clause.strip()]
    telling = [clause for clause in clauses if not clause.startswith(_STATE)] or clauses or [""]
    words = _RAISED.sub("raised", telling[-1])
    words = _LIST.sub("", words)
    words = _QUOTED.sub("#", words)
    words = _PATH.sub("#", words)
    words = _VARIES.sub("#", words)
    words = _AGAIN.sub("#", _UNIT.sub("#", words))
    return " ".join(_singular(word) for word in words.split())


def _singular(word: str) -> str:
    word = _PLURAL.get(word, word)
    return word.removesuffix("s") if len(word) > 3 and not word.endswith("ss") else word
