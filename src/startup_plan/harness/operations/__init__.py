# SPDX-License-Identifier: Apache-2.0
"""What a subject does to a file system, one operation at a time, and faults in each."""
