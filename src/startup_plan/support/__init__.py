# SPDX-License-Identifier: Apache-2.0
"""Processes, files, folders and ports: what judging and measuring both need and neither owns."""
