# SPDX-License-Identifier: Apache-2.0
"""The suite is configured by the plugin that ships with the package."""

from __future__ import annotations

pytest_plugins = ("startup_plan.harness.session.plugin",)
