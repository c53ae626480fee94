# SPDX-License-Identifier: Apache-2.0
"""Why a benchmark is refused or ends early."""

from __future__ import annotations


class RefusalError(Exception):
    """The benchmark cannot be done as asked; the message is one sentence with the remedy."""


class InterruptedRunError(Exception):
    """A signal asked for the end; results so far are kept."""
