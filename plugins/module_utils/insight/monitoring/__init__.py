# SPDX-License-Identifier: BSD-2-Clause
"""What a cluster has for monitoring, and what the role monitoring installs.

What is found: installed.py. The rules of prometheus-adapter: adapter.py.
"""
