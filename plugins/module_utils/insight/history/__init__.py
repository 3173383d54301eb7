# SPDX-License-Identifier: BSD-2-Clause
"""Runs of jobs after they are gone. What is stored: jobs/runs/run_history.py.

What is recorded outside tasks of jobs: job_history.py. What is returned: job_history_info.py. Where both stores are
read together: past_runs.py.
"""
