# SPDX-License-Identifier: BSD-2-Clause
"""Whether jobs would run: the scheduler's rules over a snapshot.

A rule about a node: fit.py; about other pods: pod_rules.py; about devices: device_fit.py; about volumes: volume_fit.py.
Preemption: victims.py. Competition for a quota: quota_rivals.py; for room on nodes: room_rivals.py. What would help:
fit_changes.py. The result: fit_rows.py; its words: verdicts.py. What is read: fit_snapshot.py. Which jobs a plan
starts: fit_adviser.py.
"""
