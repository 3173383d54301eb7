# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Parts of results that need no plan: the summary of a task, and diffs of maps. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def action_summary(results: Sequence[Mapping[str, Any]], noun: str) -> str:
    """The message of a task: ``3 pools: 2 create, 1 unchanged``."""
    counts = Counter(result["action"] for result in results)
    actions = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return f"{len(results)} {noun if len(results) == 1 else noun + 's'}: {actions or 'nothing to do'}"


def map_diff(header: str, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> dict[str, str]:
    """Ansible's ``diff`` entry for the keys that differ, a line each; None is a missing key."""

    def lines(values: Mapping[str, str | None], others: Mapping[str, str | None]) -> str:
        differing = ((key, value) for key, value in values.items() if value != others.get(key))
        return "".join(f"{key}: {value}\n" for key, value in differing if value is not None)

    return {
        "before": lines(before, after),
        "after": lines(after, before),
        "before_header": header,
        "after_header": header,
    }
