# SPDX-License-Identifier: Apache-2.0
"""The gate: the suite run on a subject in a child process, followed live."""
