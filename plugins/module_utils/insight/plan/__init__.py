# SPDX-License-Identifier: BSD-2-Clause
"""What a directory would change, and what that costs.

What a change means for running work: plan_effects.py; for pools and teams: plan_capacity.py. The result: plan_info.py.
A plan in a file: saved_plan.py. Whether the account may apply it: plan_permissions.py.
"""
