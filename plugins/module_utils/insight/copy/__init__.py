# SPDX-License-Identifier: BSD-2-Clause
"""Files to and from containers, by sh and tar over exec.

What is copied, and what not: copy_tree.py. What runs in the container: copy_scripts.py. The two directions:
copy_direction.py. What is written on the host: copy_local.py.
"""
