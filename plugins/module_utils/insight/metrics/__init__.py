# SPDX-License-Identifier: BSD-2-Clause
"""The curves of one job.

A metric: metric_questions.py (PromQL: insight/prometheus/promql.py). The range: metrics_range.py. Why there are no
values: metrics_absence.py.
"""
