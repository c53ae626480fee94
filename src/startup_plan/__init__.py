# SPDX-License-Identifier: Apache-2.0
"""A reference startup plan for vLLM, and the suite that judges any implementation of one."""
