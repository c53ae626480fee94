# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for vLLM and torch, made from one table of vLLM's settings."""
