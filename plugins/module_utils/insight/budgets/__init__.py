# SPDX-License-Identifier: BSD-2-Clause
"""Budgets of GPU-hours, which Kubernetes enforces once they are used up.

What was used, what follows, and how it is said: budget_rules.py. The task: count_budgets.py. What is declared and
recorded, which others read: quotas/gpu_hours.py.
"""
