# SPDX-License-Identifier: Apache-2.0
"""Measure everything that README and docs quote, and write it where it is quoted.

    python benchmarks/figures.py measure [--wheel FILE] [--vllm-python FILE] [--runs 20]
    python benchmarks/figures.py real [--wheel FILE]      # with an interpreter that has a vLLM
    python benchmarks/figures.py release     # likewise: a report on the module that it ships
    python benchmarks/figures.py render      # docs/reports/*.json into README.md, *.md, *.html
                                             # and into src/startup_plan/releases
    python benchmarks/figures.py check       # status 1 if they say anything else

`measure` writes `docs/reports/figures.json`, with the machine that it ran on, and the reports on
the reference and on the wheel. `real` makes the two reports on real vLLM as well, takes the census,
and measures what settings move. Each part that is not asked for keeps what was measured before.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from startup_plan.harness.contract.known_gaps import new_list, updated
from startup_plan.harness.contract.register import load_register
from startup_plan.harness.gate import releases
from startup_plan.harness.verdict.html import page_of

ROOT: Final = Path(__file__).parents[1]
REPORTS: Final = ROOT / "docs" / "reports"
FIGURES: Final = REPORTS / "figures.json"
RELEASED: Final = REPORTS / "vllm-0.33.0.json"
REFERENCE: Final = REPORTS / "reference.json"
BENCHED: Final = REPORTS / "bench-vllm-cpu.json"


def machine() -> dict[str, object]:
    """What the figures were measured on, without its name."""
    model = platform.processor() or "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        model = found[1] if found else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def script(name: str, *arguments: str, python: str = sys.executable) -> dict[str, Any]:
    """What one of the scripts beside this one prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, str(ROOT / "benchmarks" / name), *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT, env=environment,
    )  # fmt: skip
    start = done.stdout.find("{")
    if done.returncode or start < 0:
        raise SystemExit(f"{name} {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout[start : done.stdout.rindex("}") + 1])
    return found


def report(subject: str, target: Path, *options: str) -> None:
    """Gate `subject` and keep the report as JSON, under the name that a user types."""
    done = subprocess.run(
        [sys.executable, "-m", "startup_plan", "gate", os.path.basename(subject),
         "--json", str(target), *options],
        check=False, capture_output=True, text=True, cwd=os.path.dirname(subject) or ROOT,
    )  # fmt: skip
    if done.returncode not in {0, 1}:
        raise SystemExit(f"the gate on {subject} ended with {done.returncode}: {done.stderr}")
    # Where a file lay on this machine is nobody's business.
    text = target.read_text().replace(f"{os.path.dirname(os.path.abspath(subject))}/", "")
    target.write_text(text.replace(f"{ROOT}/", ""))


def measure(options: argparse.Namespace) -> None:
    """Run what can be run and keep the rest as it was."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    figures: dict[str, Any] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    figures["machine"] = machine()
    figures["import"] = script("import_time.py")
    figures["world"] = script("world_speed.py")
    if options.vllm_python:
        figures["plan_cost"] = script("plan_cost.py", python=options.vllm_python)
    full, quick = ["--runs", str(options.runs)], ["--quick", "--runs", str(options.quick_runs)]
    figures["gate_reference"] = script("gate_runs.py", "reference", *full)
    figures["gate_reference_quick"] = script("gate_runs.py", "reference", *quick)
    if options.wheel:
        for name, arguments in (("gate_released", full), ("gate_released_quick", quick)):
            figures[name] = script("gate_runs.py", options.wheel, *arguments)
            figures[name]["subject"] = os.path.basename(options.wheel)
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n")


def measure_real(options: argparse.Namespace) -> None:
    """What needs a vLLM: both reports, the census, and the bytes that settings move."""
    figures: dict[str, Any] = json.loads(FIGURES.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "startup_plan", "census", "--json", "--require", "vllm"],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the census ended with {done.returncode}: {done.stderr}")
    census = json.loads(done.stdout)
    figures["census"] = {
        "vllm": census["vllm"],
        "seconds": round(census["seconds"]["whole"], 1),
        "counts": census["counts"],
    }
    with tempfile.TemporaryDirectory() as folder:
        file = options.moved or os.path.join(folder, "moved.json")
        if not options.moved:
            subprocess.run(
                [sys.executable, str(ROOT / "benchmarks" / "moved_bytes.py"), "--json", file],
                check=True, stdout=subprocess.DEVNULL, cwd=ROOT,
            )  # fmt: skip
        moved = json.loads(Path(file).read_text())
    figures["moved_bytes"] = {
        "vllm": moved["vllm"],
        "outside_the_hash": moved["outside_the_hash"],
        "not_measurable_on_cpu": len(moved["not_measurable_on_cpu"]),
        "mib": {
            name: round(found["moved_bytes"] / 2**20, 2)
            for name, found in moved["measured"].items()
        },
    }
    FIGURES.write_text(json.dumps(figures, indent=2) + "\n")
    report("reference", REFERENCE, "--require", "vllm")
    if options.wheel:
        report(options.wheel, RELEASED, "--require", "vllm")


def census_table(figures: dict[str, Any]) -> str:
    """What the census counted and what settings moved, as Markdown."""
    census, moved = figures["census"], figures["moved_bytes"]
    columns = list(census["counts"]["fields"])
    lines = [
        f"| vLLM {census['vllm']} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    lines += [
        f"| {name} | {' | '.join(str(counts[column]) for column in columns)} |"
        for name, counts in census["counts"].items()
    ]
    by_size = sorted(moved["mib"].items(), key=lambda pair: (-abs(pair[1]), pair[0]))
    told = ", ".join(f"`{name}` {mib:+.2f} MiB" for name, mib in by_size if mib)
    still = ", ".join(f"`{name}`" for name, mib in by_size if not mib)
    return "\n".join(lines) + (
        f"\n\nOf the {moved['outside_the_hash']} settings and variables that move memory outside "
        f"vLLM's own hash, {len(by_size)} could be measured on a CPU, as the peak of the profiled "
        f"pass of a tiny model: {told}; nothing to see at {still} (the multimodal ones beside a "
        "torchvision without its compiled operators, which a CPU torch cannot load). The other "
        f"{moved['not_measurable_on_cpu']} need a GPU, several ranks, or a larger model to be "
        "measured; that they move memory was read from vLLM's code."
    )


def bench_table(kept: dict[str, Any]) -> str:
    """Seconds by phase and stage, and what the checks said, as Markdown."""
    phases = kept["figures"]["phases"]
    stages = list(dict.fromkeys(name for phase in phases.values() for name in phase["stages"]))
    lines = [
        f"| phase | until the first answer, s | {', s | '.join(stages)}, s |",
        "|---" * (len(stages) + 2) + "|",
    ]
    for name, phase in phases.items():
        cells = [_seconds(phase["answered"])]
        cells += [_seconds(phase["stages"].get(stage)) for stage in stages]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    here, gain = kept["machine"], kept["figures"]["gains"]["startup plan"]
    runs = max(phase["runs"] for phase in phases.values())
    verdicts = [check["verdict"] for check in kept["checks"]]
    failed = [check for check in kept["checks"] if check["verdict"] == "failed"]
    told = "; ".join(
        dict.fromkeys(
            f"`{c['name']}` of {c['phase']}: {c['evidence'].partition(' (runs/')[0]}"
            for c in failed
        )
    )
    plan = (
        f"the plan's gain is {gain['seconds']['median']:.2f} s"
        if gain["seconds"]
        else f"no figure for the plan's gain, because {gain['reason']}"
    )
    return "\n".join(lines) + (
        f"\n\nA tiny Llama on vLLM's CPU backend, {here['usable_cpus']} cores, {here['machine']}, "
        f"medians of {runs} rounds by `benchmarks/bench_real.py`. A stage is left out where no log "
        f"line tells it. {verdicts.count('passed')} checks passed, {len(failed)} failed"
        f"{f' ({told})' if told else ''}; {plan}."
    )


def _seconds(found: dict[str, Any] | None) -> str:
    return "" if found is None else f"{found['median']:.2f}"


def verdict_table(found: dict[str, Any]) -> str:
    """Requirements by level and status, as Markdown."""
    lines = ["| level | violated | holds | not run |", "|---|---|---|---|"]
    for level in ("unsafe", "costly", "hygiene"):
        ids: dict[str, list[str]] = {"violated": [], "holds": [], "not-run": []}
        for requirement in found["requirements"]:
            if requirement["level"] == level:
                ids[requirement["status"]].append(requirement["id"])
        cells = [", ".join(ids[status]) or "none" for status in ("violated", "holds", "not-run")]
        lines.append(f"| {level} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def stories(found: dict[str, Any], ids: tuple[str, ...] = ()) -> str:
    """Sentence and counterexample of the violated requirements, as Markdown."""
    parts = []
    for requirement in found["requirements"]:
        if requirement["status"] == "violated" and (not ids or requirement["id"] in ids):
            story = "\n".join(f"    {line}" for line in requirement["counterexample"].splitlines())
            parts.append(f"**{requirement['id']}** {requirement['sentence']}\n\n{story}")
    return "\n\n".join(parts)


def figure_rows(figures: dict[str, Any]) -> list[tuple[str, str]]:
    """What was measured, as (what, figure)."""
    runs = {
        name: figures[f"gate_{name}"]
        for name in ("reference", "reference_quick", "released", "released_quick")
    }
    full, quick = runs["reference"], runs["reference_quick"]
    world, cost, counters = figures["world"], figures["plan_cost"], full["counters"]
    names = ("boots", "examples", "byte_variants", "crash_states", "faults", "kills")
    tried = [f"{counters[n]:,} {n.replace('_', ' ')}" for n in names if n in counters]
    boots = (world["apply_boots_per_second"], world["save_boots_per_second"])
    floor = f"{cost['save_us']['floor'] / 1000:.1f} ms"
    looked_up = f"look-up, over that of vLLM's module (real configuration, vLLM {cost['vllm']})"
    return [
        ("`startup-plan gate`, median", f"{full['median_seconds']} s"),
        ("`startup-plan gate --quick`, median", f"{quick['median_seconds']} s"),
        ("tried in one gate on the reference", ", ".join(tried)),
        *(_verdict_row(name, found) for name, found in runs.items()),
        ("simulated boots a second and core that apply", f"{boots[0]:,}"),
        ("simulated boots a second and core that save", f"{boots[1]:,}"),
        ("the same inside the state machines", f"{world['machine_boots_per_second']:,}"),
        (looked_up, f"{cost['apply_ratio']:.2f}"),
        (f"save, over the bare system calls ({floor})", f"{cost['save_ratio_to_floor']:.2f}"),
        ("`import startup_plan`, over a bare start", f"{figures['import']['added_ms']} ms"),
    ]


def _verdict_row(name: str, found: dict[str, Any]) -> tuple[str, str]:
    subject = "vLLM 0.33.0" if "released" in name else "reference"
    what = f"other verdicts than the first in {found['runs']} gates, {found['profile']}, {subject}"
    return what, str(int(found["different_verdicts"]) - 1)


def figure_table(figures: dict[str, Any]) -> str:
    """The figures, as Markdown, with the machine that they came from."""
    here = figures["machine"]
    lines = ["| what | figure |", "|---|---|"]
    lines += [f"| {what} | {value} |" for what, value in figure_rows(figures)]
    origin = (
        f"Measured by `benchmarks/figures.py` on {here['cores']} cores of {here['processor']}, "
        f"{here['memory_gib']} GiB, {here['system']}, Python {here['python']}. "
        "Ratios travel, times do not."
    )
    return "\n".join(lines) + "\n\n" + origin


def rendered() -> dict[Path, str]:
    """Every generated text, by the file that holds it."""
    figures = json.loads(FIGURES.read_text())
    released = json.loads(RELEASED.read_text())
    blocks = {
        "released": verdict_table(released),
        "story": stories(released, ("KEY-02", "BOOT-06", "LOAD-04")),
        "hang": stories(released, ("GROUP-01",)),
        "census": census_table(figures),
        "bench": bench_table(json.loads(BENCHED.read_text())),
        "figures": figure_table(figures),
    }
    readme = (ROOT / "README.md").read_text()
    for name, text in blocks.items():
        head, begin, rest = readme.partition(
            f"<!-- {name}: generated by benchmarks/figures.py -->\n"
        )
        _, end, tail = rest.partition(f"<!-- /{name} -->")
        readme = f"{head}{begin}\n{text}\n\n{end}{tail}"
    wheel = figures["gate_released"]["subject"]
    page = (
        "# The startup plan of vLLM 0.33.0\n\n"
        "    pip download --no-deps vllm==0.33.0\n"
        f"    startup-plan gate {wheel} --json vllm-0.33.0.json --html vllm-0.33.0.html\n\n"
        f"Subject: `{released['subject']['file']}`, sha256 `{released['subject']['sha256']}`; "
        f"suite {released['suite']['version']}, profile {released['suite']['profile']}.\n\n"
        f"{released['summary']['verdict']}\n\n{verdict_table(released)}\n\n{stories(released)}\n"
    )
    html = {
        file.with_suffix(".html"): page_of(json.loads(file.read_text()))
        for file in (REFERENCE, RELEASED)
    }
    texts = {ROOT / "README.md": readme, RELEASED.with_suffix(".md"): page, **html}
    for file in sorted(REPORTS.glob("vllm-*.json")):
        texts |= shipped(file.stem, json.loads(file.read_text()))
    return texts | {releases.SAME: json.dumps(same_as(released), indent=1) + "\n"}


def same_as(released: dict[str, Any]) -> dict[str, str]:
    """Releases that are judged like another: one module, and a worker that shows the same of it."""
    tried = json.loads((REPORTS / "releases.json").read_text())["releases"]
    last = list(tried.values())[-1]["rows"]["vllm"]["status"]
    return {
        f"vllm-{release}": RELEASED.stem
        for release, facts in tried.items()
        if facts["module"] == released["subject"]["sha256"]
        and facts["rows"]["vllm"]["status"].items() <= last.items()
    }


def report_installed() -> None:
    """The report on the module that the vLLM of this interpreter ships."""
    version = importlib.metadata.version("vllm-cpu")
    target = REPORTS / f"vllm-{version}.json"
    report("vllm", target, "--require", "vllm")
    place = importlib.metadata.distribution("vllm-cpu").locate_file("")
    target.write_text(target.read_text().replace(f"{place}/", ""))


def shipped(name: str, report: dict[str, Any]) -> dict[Path, str]:
    """The report and the known gaps of a release, as they come with the package."""
    broken = {
        row["id"]: row["counterexample"]
        for row in report["requirements"]
        if row["status"] == "violated"
    }
    return {
        releases.FOLDER / f"{name}.json": json.dumps(report, separators=(",", ":")) + "\n",
        releases.FOLDER / f"{name}.gaps": updated(new_list(name), broken, (), load_register()),
    }


def main() -> int:
    """Do what the first argument says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("measure", "real", "release", "render", "check"))
    parser.add_argument("--wheel", type=os.path.abspath)
    parser.add_argument("--vllm-python")
    parser.add_argument("--moved", help="what `moved_bytes.py --json` wrote, if it ran already")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--quick-runs", type=int, default=20)
    options = parser.parse_args()
    if options.what == "measure":
        measure(options)
    if options.what == "real":
        measure_real(options)
    if options.what == "release":
        report_installed()
    if options.what == "check":
        stale = [file.name for file, text in rendered().items() if file.read_text() != text]
        if stale:
            print(f"{', '.join(stale)} differ from docs/reports; run benchmarks/figures.py render")
        return int(bool(stale))
    for file, text in rendered().items():
        file.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
