# SPDX-License-Identifier: Apache-2.0
"""From what tests said to one judgement, and the forms in which it is written."""
