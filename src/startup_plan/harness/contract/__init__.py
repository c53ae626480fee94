# SPDX-License-Identifier: Apache-2.0
"""What is owed, what excuses a violation, what a machine can do, how hard a run tries."""
