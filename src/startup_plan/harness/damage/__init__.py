# SPDX-License-Identifier: Apache-2.0
"""Bytes that no boot has saved: damaged, hostile and made-up plans."""
