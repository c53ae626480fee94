# SPDX-License-Identifier: Apache-2.0
"""The published schemas are schemas; that reports have these forms is tested beside each writer."""

from __future__ import annotations

from importlib.resources import files

import jsonschema
import pytest
from tests.forms import check_form, schema_of

FORMS = [f"startup-plan/{name}" for name in ("gate/2", "zoo/1", "census/1", "bench/1")]


def test_every_schema_is_known_here() -> None:
    """The folder of schemas holds those of the four reports and nothing else."""
    names = {entry.name for entry in files("startup_plan").joinpath("schemas").iterdir()}

    assert names == {f"{form.split('/', 1)[1].replace('/', '-')}.json" for form in FORMS}


@pytest.mark.parametrize("form", FORMS)
def test_a_schema_is_one_and_bears_its_name(form: str) -> None:
    """Each schema is valid itself, is identified by its form, and accepts no empty report."""
    schema = schema_of(form)
    jsonschema.Draft202012Validator.check_schema(schema)

    assert schema["$id"] == form
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        check_form({}, form)
