# SPDX-License-Identifier: BSD-2-Clause
"""Vendors' software on nodes: any objects with the label of a stack, and the labels that configure nodes (stack.py)."""
