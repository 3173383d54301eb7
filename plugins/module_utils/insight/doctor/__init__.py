# SPDX-License-Identifier: BSD-2-Clause
"""Checks of a cluster.

A check: a function and its row in checks.py. What it reads: snapshot.py, and permissions.py (level read). The metrics
of autoscalers: scaling.py.
"""
