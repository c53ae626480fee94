# SPDX-License-Identifier: Apache-2.0
"""The command `startup-plan`, a module for each of its commands."""
