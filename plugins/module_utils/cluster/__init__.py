# SPDX-License-Identifier: BSD-2-Clause
"""What the cluster says: read (read_*.py), and explained by pure functions.

A status: status.py. Why a job does not run: reason.py (which reason comes first), shortage.py (no node),
start_failure.py (no start), quota_fit.py (no quota), device_shortage.py (no device). Which pods count
against which node: nodes.py.
"""
