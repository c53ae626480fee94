# SPDX-License-Identifier: Apache-2.0
"""One server: its processes, its answers, and what its log says."""
