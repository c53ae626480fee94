# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: the record, its figures, and the forms in which people read it."""
