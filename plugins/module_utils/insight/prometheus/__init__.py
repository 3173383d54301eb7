# SPDX-License-Identifier: BSD-2-Clause
"""Prometheus: where it is, what it is asked, what it answers.

PromQL: promql.py, and no other file. An alert: alerts.py. A recorded series: recording.py. How it is reached:
prometheus_service.py, prometheus_options.py. Malformed answers: prometheus_answer.py.
"""
