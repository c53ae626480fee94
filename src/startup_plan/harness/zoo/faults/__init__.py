# SPDX-License-Identifier: Apache-2.0
"""Seeded faults."""
