# SPDX-License-Identifier: BSD-2-Clause
"""Lines of logs: which pods (log_pods.py), which lines (log_lines.py), and the file that they are written to.

What the kubelet has rotated away: log_history.py. Expressions that may take for ever: log_grep.py.
"""
