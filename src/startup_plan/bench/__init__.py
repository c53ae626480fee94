# SPDX-License-Identifier: Apache-2.0
"""The startup benchmark: fresh servers, phase by phase, and refusals that count.

It knows a server by its command line, its health path, its answers and its log. It needs neither
vLLM nor torch.
"""
