# SPDX-License-Identifier: Apache-2.0
"""The life of engines and of their keys, boot after boot."""
