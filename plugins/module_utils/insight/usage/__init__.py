# SPDX-License-Identifier: BSD-2-Clause
"""GPU-hours by user, team, pool or job.

Sums: gpu_usage.py. What is read: usage_info.py; from Prometheus: measured_usage.py. Options: usage_options.py.
"""
