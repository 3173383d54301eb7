# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What names and labels may look like (Kubernetes, apimachinery/pkg/util/validation), as patterns for fullmatch."""

from __future__ import annotations

LABEL_LENGTH = 63
DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
