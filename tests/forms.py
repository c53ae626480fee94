# SPDX-License-Identifier: Apache-2.0
"""Whether a report has the form that this package publishes for it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import jsonschema


def schema_of(form: str) -> dict[str, Any]:
    """The published schema of a form such as `startup-plan/gate/2`."""
    name = form.removeprefix("startup-plan/").replace("/", "-")
    text = files("startup_plan").joinpath("schemas", f"{name}.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def check_form(document: dict[str, Any], form: str) -> None:
    """Fail unless the document is of this form and has no field that its schema does not tell of.

    Raises:
        ValidationError: it is not, or has; says where.
    """
    jsonschema.Draft202012Validator(_closed(schema_of(form))).validate(document)


def _closed(schema: Any) -> Any:
    """The same with fields that are not described forbidden; readers are to bear with them."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # What follows an `if` only adds to what stands beside it.
    closed = {k: v if k in {"if", "then"} else _closed(v) for k, v in schema.items()}
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed
