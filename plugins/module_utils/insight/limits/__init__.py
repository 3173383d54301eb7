# SPDX-License-Identifier: BSD-2-Clause
"""The time limits of notebooks and services, which Kubernetes does not end, and longer ones for any job.

When one ends, and what follows: end_rules.py. Warnings and pauses: expire.py. One command for more time: extend.py.
"""
