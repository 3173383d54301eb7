# SPDX-License-Identifier: BSD-2-Clause
"""What exporters on the nodes, kube-state-metrics, cAdvisor and programs would show to Prometheus. See README.md."""
