# SPDX-License-Identifier: Apache-2.0
"""Everything that judges a subject; it imports the reference nowhere except as one subject."""
