# SPDX-License-Identifier: BSD-2-Clause
"""Nodes as rows (node_info.py), and their labels.

What may be set: label_options.py. Which nodes change: node_label_plan.py. How they are written: node_label_apply.py.
"""
