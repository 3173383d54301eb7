# SPDX-License-Identifier: BSD-2-Clause
"""The rules of policies, and how the API server enforces them.

A rule: its field in manifest/policy_model.py, its expression in guards.py. The admission policies around it:
admission_policies.py. What teams' namespaces get: namespace_objects.py. What modules read back: policy_rules.py.
"""
