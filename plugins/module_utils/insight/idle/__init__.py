# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that hold accelerators and do not use them.

What counts as use: idle_rules.py, and for notebooks notebook_activity.py. Warnings and pauses: idle_jobs.py.
"""
