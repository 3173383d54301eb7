# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job: select.py, job_plans.py, then engine and wait; job.py is the path from manifest to result.

A state: a row of `STATES` in job.py, its plan in transitions.py. An option: job_options.py. What is checked before a
write: prechecks.py, job_policies.py, job_queues.py. Whether a training runs again: rerun.py. Who may change it:
ownership.py.
"""
