#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The tests of a real card on a machine from which nothing outside can be reached.
#
#   scripts/gpu_check.sh --pack      where there is a registry: fetch what a bare machine may lack
#   scripts/gpu_check.sh [REPORT]    on the machine: run, and leave every figure in REPORT
#
# The machine has Python 3.12, torch with CUDA, pytest and hypothesis. Wheels from `--pack` fill in
# what is missing or too old; nothing is installed, and no setting of the card is touched. All of it
# takes less than eight minutes, the start of the machine included, or is stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=${GPU_CHECK_WHEELS:-.gpu-wheels}
seconds=${GPU_CHECK_SECONDS:-390}

if [ "${1:-}" = --pack ]; then
  version=${GPU_CHECK_PYTHON:-3.12}
  rm -rf "$wheels"
  python3 -m pip download --quiet --disable-pip-version-check --dest "$wheels" \
    --only-binary=:all: --python-version "$version" --implementation cp \
    --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 \
    'pytest>=8.4' 'hypothesis>=6.140'
  du -sh "$wheels"
  ls "$wheels"
  exit 0
fi

report=$(realpath -m "${1:-${OUT:-.}/gpu-report.json}")
mkdir -p "$(dirname "$report")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1

python3 - "$wheels" "$work/site" <<'PY'
"""Unpack each wheel whose distribution this Python lacks, or has in a version that is too old."""
import importlib.metadata
import pathlib
import re
import sys
import zipfile

LEAST = {"pytest": (8, 4), "hypothesis": (6, 140)}
wheels, site = map(pathlib.Path, sys.argv[1:])
site.mkdir()
found = {}
for wheel in sorted(wheels.glob("*.whl")):
    name = wheel.name.partition("-")[0].lower().replace("_", "-")
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = ""
    has = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if version and has >= LEAST.get(name, ()):
        continue
    zipfile.ZipFile(wheel).extractall(site)
    print(f"unpacked {wheel.name}, {'for ' + version if version else 'which was missing'}")
PY

# A query; where there is no such program, the tests say what is missing.
nvidia-smi --query-gpu=name,memory.total,memory.used,driver_version --format=csv || true
python3 --version
export PYTHONPATH="$PWD/src:$work/site${PYTHONPATH:+:$PYTHONPATH}"
# Plugins that happen to be installed may change what a test means.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
status=0
timeout --signal=INT --kill-after=20 "$seconds" \
  python3 -m pytest -m gpu --require gpu --gpu-report "$report" \
  -p no:cacheprovider -p hypothesispytest --durations=5 tests/gpu || status=$?
[ "$status" != 124 ] || echo "stopped after $seconds s"
[ -s "$report" ] && echo "report: $report ($SECONDS s, status $status)"
exit "$status"
