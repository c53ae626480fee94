# SPDX-License-Identifier: Apache-2.0
"""The simulated fleet: subjects, devices with physical memory, boots, and what came of them."""
