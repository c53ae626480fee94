# SPDX-License-Identifier: Apache-2.0
"""Every legal state of a disk after a power loss, and boots from each."""
