# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that hold accelerators and do not use them, or that get nowhere.

What counts as use: idle_rules.py, and for notebooks notebook_activity.py. Warnings and pauses: idle_jobs.py. Budgets
of GPU-hours that want them: stop_idle.py. What counts as getting nowhere, and the policies of pools: reclaim_rules.py.
What is done about it: reclaim.py. What both have given back, for the accounts: given_back.py.
"""
