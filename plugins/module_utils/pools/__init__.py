# SPDX-License-Identifier: BSD-2-Clause
"""Pools: labels of nodes, and a ConfigMap each, changed as one.

Which node is in which pool: membership.py. One change at a time: lease.py, guarded.py. Writes and their undoing:
pool_writer.py. Jobs in the way of a division: drain.py. A field of a pool's row: pool_info.py.
"""
