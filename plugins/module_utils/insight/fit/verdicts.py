# SPDX-License-Identifier: BSD-2-Clause
"""What fit says of a job in one word. Apart, because every screen has these words, and few tasks judge a job. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ...manifest.problems import number_of

NOW, AFTER_PREEMPTION, AFTER_JOBS, AFTER_NODES, AFTER_QUOTA, NEVER, UNKNOWN = (
    "now",
    "after_preemption",
    "after_jobs",
    "after_nodes",
    "after_quota",
    "never",
    "unknown",
)
VERDICTS = (NOW, AFTER_PREEMPTION, AFTER_JOBS, AFTER_NODES, AFTER_QUOTA, NEVER, UNKNOWN)

SHORT_VERDICTS = {
    NOW: "now",
    AFTER_PREEMPTION: "by preemption",
    AFTER_JOBS: "after other jobs",
    AFTER_NODES: "after nodes come",
    AFTER_QUOTA: "after quota",
    NEVER: "never",
    UNKNOWN: "not known",
}

# Why nothing is known with an account of level submit, which only lists its own pods, and the hint.
PODS_UNREADABLE = "the account may not list the pods of all namespaces, which use the nodes"
GRANT_PODS = "An administrator grants this permission: level read of gpuctl_rbac, with append=true."


def fit_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """``3 jobs: 1 runs now, 2 never``"""
    return f"{number_of(len(rows), 'job')}: {fit_counts(rows) or 'nothing to judge'}"


def fit_counts(rows: Sequence[Mapping[str, Any]]) -> str:
    counts = Counter(row["verdict"] for row in rows)
    return ", ".join(f"{counts[verdict]} {SHORT_VERDICTS[verdict]}" for verdict in VERDICTS if counts[verdict])
