# SPDX-License-Identifier: Apache-2.0
"""Say what a requirement still lacks, and what to do about each thing: `new_requirement.py FOO-01`.

A sentence of the contract touches the register, the suite, the zoo, the committed reports, README
and, where only real vLLM can show it, the list of what a quick run leaves out. Once nothing of that
is missing, the reference, the rewrite and the seeded faults are tried on it.

Exit status: 0 nothing is missing; 1 something is, and is listed; 2 wrong usage.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from startup_plan.harness.contract.register import CONTRACT, Register, load_register
from startup_plan.harness.gate.events import CATALOGUE, EventReader
from startup_plan.harness.gate.suite import FOLDERS, find_suite
from startup_plan.harness.zoo.catalogue import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
_ID: Final = re.compile(r"([A-Z]+)-(\d\d)")
_ZOO: Final = "src/startup_plan/harness/zoo"
_REPORTS: Final = ("docs/reports/reference.json", "docs/reports/vllm-0.33.0.json")
_QUICK_LIST: Final = "tests/meta/zoo/test_catalogue.py"
_GROUPS: Final = "tests/meta/contract/test_register.py"


@final
@dataclass(frozen=True, slots=True)
class House:
    """All places that a requirement touches.

    Attributes:
        register: the contract.
        tests: node id of each test of the suite, with the requirements that it carries.
        faults: slug of each seeded fault, with the requirement that it names.
        reported: committed report, with the ids that it has a row for.
        pages: other files that name requirements, with their text.
    """

    register: Register
    tests: Mapping[str, Sequence[str]]
    faults: Mapping[str, str]
    reported: Mapping[str, frozenset[str]]
    pages: Mapping[str, str]


def main(arguments: list[str]) -> int:
    """List what is missing; if nothing is, try it."""
    if len(arguments) != 1 or not _ID.fullmatch(arguments[0]):
        print("name one requirement, such as KEY-01", file=sys.stderr)
        return 2
    name = arguments[0]
    house = look()
    if lacks := list(missing(name, house)):
        print(f"{name} still lacks:", *(f"- {lack}" for lack in lacks), sep="\n")
        return 1
    if house.register[name].awaits is not None:
        print(f"{name} awaits its tests, and lacks nothing else")
        return 0
    slugs = [slug for slug, named in house.faults.items() if named == name]
    gate = ("gate", "--quick", "--only", name)
    tried = [gate, (*gate, f"{_ZOO}/rewrite.py"), ("zoo", "--run", "--near", *slugs)]
    return max(int(not _holds(words)) for words in tried)


def look() -> House:
    """Read this checkout.

    Raises:
        RuntimeError: the suite cannot be collected; with what pytest said.
    """
    with tempfile.TemporaryDirectory() as folder:
        tests = collect_suite(Path(folder) / "events")
    return House(
        load_register(),
        tests,
        {entry.slug: str(entry.requirement) for entry in load_catalogue().values()},
        {name: _rows(ROOT / name) for name in _REPORTS},
        {name: (ROOT / name).read_text("utf-8") for name in ("README.md", _QUICK_LIST, _GROUPS)},
    )


def missing(name: str, house: House) -> Iterator[str]:
    """Say of each place that `name` has to be in and is not, what to do there."""
    ids = [requirement.id for requirement in house.register]
    group, _, number = name.partition("-")
    family = [id_ for id_ in ids if id_.startswith(f"{group}-")]
    if name in ids:
        awaits = house.register[name].awaits
        due = family.index(name) + 1
        if f"of {len(ids)} sentences" not in house.pages["README.md"]:
            yield f"the count: say in README.md that the contract has {len(ids)} sentences"
    else:
        awaits, due = None, len(family) + 1
        yield f"a sentence: write [{name}], level and sentence, into {CONTRACT.relative_to(ROOT)}"
    if int(number) != due:
        yield f"its place: ids count up without a gap, and the next here is {group}-{due:02}"
    if f'"{group}"' not in house.pages[_GROUPS]:
        yield f"its group: add {group} to the groups in {_GROUPS}"
    yield from _unjudged(name, awaits, house)
    for report, rows in house.reported.items():
        if name not in rows:
            yield f"a row in {report}: run `nox -s figures`"


def _unjudged(name: str, awaits: str | None, house: House) -> Iterator[str]:
    tests = [nodeid for nodeid, ids in house.tests.items() if name in ids]
    if awaits is not None:
        if tests:
            yield f"no `awaits` any more: {tests[0]} judges it, so remove the line"
        return
    if not tests:
        folders = ", ".join(FOLDERS)
        yield f'a test: mark one with @pytest.mark.requirement("{name}") in {folders}'
    if name not in house.faults.values():
        yield f'a seeded fault: write one with requirement = "{name}" into {_ZOO}/faults'
    only_real = bool(tests) and all("tests/vllm/" in nodeid for nodeid in tests)
    if only_real and f'"{name}"' not in house.pages[_QUICK_LIST]:
        yield f"a word that a quick run skips it: add it to ONLY_ON_REAL_VLLM in {_QUICK_LIST}"


def collect_suite(events: Path) -> dict[str, list[str]]:
    """Collect the suite as the gate does; give node ids with the requirements they carry.

    Raises:
        RuntimeError: pytest could not collect it; with what it said.
    """
    suite = find_suite()
    command = [
        *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
        *("-c", str(suite / "pyproject.toml"), "--rootdir", str(suite)),
        *("-p", "startup_plan.harness.session.plugin", f"--gate-events={events}"),
        *(str(suite / folder) for folder in FOLDERS),
    ]
    environment = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(  # noqa: S603  # this interpreter
        command, env=environment, capture_output=True, text=True, check=False
    )
    for event in EventReader(events).read():
        if event["event"] == CATALOGUE:
            return dict(event["tests"])
    raise RuntimeError(done.stdout + done.stderr)


def _rows(report: Path) -> frozenset[str]:
    return frozenset(row["id"] for row in json.loads(report.read_bytes())["requirements"])


def _holds(words: Sequence[str]) -> bool:
    print(f"\n== startup-plan {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "startup_plan", *words]
    return not subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603  # as above


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
