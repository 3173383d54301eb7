# SPDX-License-Identifier: BSD-2-Clause
"""Waiting: loop.py is a wait from start to end.

A goal: goals.py. Whether it can still be reached: feasibility.py. What is shown meanwhile and at the end: progress.py.
Watches: watch_cache.py.
"""
