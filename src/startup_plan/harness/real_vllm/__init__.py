# SPDX-License-Identifier: Apache-2.0
"""vLLM's own worker, configurations and server, in processes of their own, without a GPU."""
