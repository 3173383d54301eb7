# SPDX-License-Identifier: BSD-2-Clause
"""A directory of manifests, planned as the playbook provision would apply it.

The order of kinds: directory_plan.py. What later plans see of earlier ones: planned_client.py. What is no longer
declared: undeclared.py.
"""
