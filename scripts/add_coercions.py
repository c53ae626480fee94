#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write into the table of settings what each field of vLLM's configuration classes takes.

    python scripts/add_coercions.py            # with a vLLM that can be imported
    python scripts/add_coercions.py --check    # 1 where the table says something else

Each class of `harness/stubs/vllm_settings.json` is a pydantic dataclass; its core schema says how
a value is coerced on construction. What `harness/stubs/coercion.py` can say of that is put into the
row as `takes`. Fields that the installed vLLM does not have keep what their row says.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

_TABLE: Final = (
    Path(__file__).resolve().parents[1] / "src/startup_plan/harness/stubs/vllm_settings.json"
)
_SCALARS: Final = ("int", "float", "bool", "str")


def takes(schema: dict[str, Any]) -> str:
    """What a field with this core schema takes, "" where `coercion` has no words for it."""
    kind: str = schema["type"]
    if kind == "default":
        return takes(schema["schema"])
    if kind == "nullable":
        return _optional(takes(schema["schema"]))
    if kind == "function-wrap" and "_skip_none" in schema["function"]["function"].__qualname__:
        return _optional(takes(schema["schema"]))
    if kind == "function-after":
        return takes(schema["schema"])
    if kind == "literal":
        kinds = {type(value).__name__ for value in schema["expected"]}
        return "str" if kinds == {"str"} else ""
    if kind == "union":
        parts = [takes(part) for part in schema["choices"]]
        return "|".join(dict.fromkeys(parts)) if all(part in _SCALARS for part in parts) else ""
    if kind in {"list", "set"}:
        item = takes(schema.get("items_schema", {"type": "any"}))
        return f"{kind}[{item}]" if item in _SCALARS else ""
    return kind if kind in _SCALARS else ""


def _optional(what: str) -> str:
    return f"{what.removesuffix('?')}?" if what else ""


def of_class(cls: type[Any]) -> dict[str, str]:
    """Field -> what it takes."""
    schema: dict[str, Any] = cls.__pydantic_core_schema__
    known: dict[str, Any] = {}
    while "fields" not in schema or schema["type"] == "dataclass":
        known |= {each["ref"]: each for each in schema.get("definitions", ())}
        schema = known[schema["schema_ref"]] if "schema_ref" in schema else schema["schema"]
    return {field["name"]: takes(field["schema"]) for field in schema["fields"]}


def main(arguments: list[str]) -> int:
    """Write the table, or only compare."""
    text = _TABLE.read_text("utf-8")
    found: dict[tuple[str, str], str] = {}
    for row in json.loads(text)["classes"]:
        module = importlib.import_module("vllm." + row["source"][:-3].replace("/", "."))
        cls = getattr(module, row["name"], None)
        if cls is not None:
            fields = of_class(cls)
            found |= {(row["name"], field): what for field, what in fields.items()}
    lines = [_line(line, found) for line in text.splitlines()]
    changed = "\n".join(lines) + "\n"
    if "--check" not in arguments:
        _TABLE.write_text(changed, "utf-8")
    return int("--check" in arguments and changed != text)


def _line(line: str, found: dict[tuple[str, str], str]) -> str:
    """One line of the table; a field is one line."""
    if not line.startswith('{"path":'):
        return line
    row = json.loads(line.removesuffix(","))
    what = found.get((row["owner"], row["path"].rpartition(".")[2]))
    if what is None or "part" in row or "type" in row:
        return line
    row.pop("takes", None)
    if what:
        row["takes"] = what
    body = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
    return body + ("," if line.endswith(",") else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
