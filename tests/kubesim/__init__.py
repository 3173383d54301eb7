# SPDX-License-Identifier: BSD-2-Clause
"""A simulated Kubernetes API server with controllers and fake nodes, for tests. See README.md."""
