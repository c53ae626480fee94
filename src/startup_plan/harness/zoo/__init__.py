# SPDX-License-Identifier: Apache-2.0
"""Subjects whose verdict is known: a correct rewrite, and faults seeded into it."""
