# SPDX-License-Identifier: Apache-2.0
"""Saves as real processes: system calls failed and killed, real full and read-only disks."""
