# SPDX-License-Identifier: Apache-2.0
"""Reports as one HTML page that needs nothing else: no script, no font, no picture, no network.

All pages extend `page.jinja`, which has their one style: for light and dark windows, for phones,
and for paper.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def render_page(template: str, **values: Any) -> str:
    """Fill in a template, given by its path below the package; values are shown as text."""
    text = _environment().get_template(template).render(values)
    # What subjects and servers say may hold half a character.
    return text.encode(errors="backslashreplace").decode()


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("startup_plan", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
