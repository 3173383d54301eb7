# SPDX-License-Identifier: BSD-2-Clause
"""GPU-hours by user, team, pool or job.

Sums: gpu_usage.py. What is read: cluster_usage.py; from Prometheus: measured_usage.py. The result: usage_info.py.
Options: usage_options.py.
"""
