# SPDX-License-Identifier: BSD-2-Clause
"""Quotas and their namespaces.

A limit: quota_objects.py. What one task changes: quota_plan.py, written by quota_apply.py. Usage: usage.py. A field of
a row: quota_info.py. Shares of clusters: quota_shares.py.
"""
