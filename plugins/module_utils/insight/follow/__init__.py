# SPDX-License-Identifier: BSD-2-Clause
"""Logs of jobs: read once (job_log.py), or followed (follow_log.py over pod_log.py, a thread for each container).

Which lines count: logs/log_lines.py. Continuing after a broken connection: log_position.py.
"""
