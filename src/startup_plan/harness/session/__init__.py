# SPDX-License-Identifier: Apache-2.0
"""The suite's side of a pytest session: options, fixtures, witness and book."""
