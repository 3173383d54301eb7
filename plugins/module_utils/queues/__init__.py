# SPDX-License-Identifier: BSD-2-Clause
"""Queueing systems: Kueue, Volcano and KAI.

What differs between them: backends.py. Shares of teams: teams.py. Their objects: kueue_objects.py, volcano_objects.py.
When they are written: provide_queues.py.
"""
