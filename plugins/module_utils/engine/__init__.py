# SPDX-License-Identifier: BSD-2-Clause
"""Plan and apply, for any object.

What counts as a difference: fields.py. What can change in place: plan.py. The steps of a job: planning.py. How a step
is written: apply.py; against concurrent writers: guarded_write.py, rounds.py. What a task reports:
changes.py, results.py.
"""
