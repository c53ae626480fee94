# SPDX-License-Identifier: Apache-2.0
"""Engines and co-tenants that occupy memory: simulated, of the host, or of a real card."""
