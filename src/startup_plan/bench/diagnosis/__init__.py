# SPDX-License-Identifier: Apache-2.0
"""Why something was not reused, from what a benchmark kept."""
