# SPDX-License-Identifier: Apache-2.0
"""Savers and readers at the same time, interleaved operation by operation."""
