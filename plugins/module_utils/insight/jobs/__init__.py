# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_info: what is read, and why some jobs are not running (job_info.py).

A field of a row: job_rows.py.
"""
