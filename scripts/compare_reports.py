# SPDX-License-Identifier: Apache-2.0
"""Compare gate reports: `compare_reports.py REPORT REPORT…`; status 1 if verdicts differ.

Two runs on one subject must give equal verdicts, and a committed report must still be true.
Requirements that did not run in one of them, for want of a capability, are not compared.
"""

from __future__ import annotations

import json
import sys


def verdicts(path: str) -> dict[str, str]:
    """Requirement id -> status, of the report at `path`."""
    with open(path, encoding="utf-8") as stream:
        return {r["id"]: r["status"] for r in json.load(stream)["requirements"]}


def main(paths: list[str]) -> int:
    """Print every difference from the first report."""
    first, *others = [verdicts(path) for path in paths]
    different = 0
    for path, other in zip(paths[1:], others, strict=True):
        for key in sorted(first.keys() | other.keys()):
            pair = (first.get(key, "absent"), other.get(key, "absent"))
            if pair[0] != pair[1] and "not-run" not in pair:
                print(f"{key}: {pair[0]} in {paths[0]}, {pair[1]} in {path}")
                different += 1
    print(f"{len(paths)} reports, {different} differences")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
