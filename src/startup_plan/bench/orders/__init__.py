# SPDX-License-Identifier: Apache-2.0
"""What is asked for: the command, its phases, its requests, its environment and caches."""
