# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_idle has given back by stopping jobs, in their history: nothing else says later who stopped them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ...cluster.pod_times import Hold, hold_of
from ...jobs.runs.run_history import Keys, pod_keys
from ...jobs.runs.run_store import write_history
from ...kube.concurrency import run_concurrently
from ...kube.errors import KubeError, as_sentence
from ...task import Task


def record_given_back(task: Task[Any], stopped: Iterable[tuple[Mapping[str, Any], Iterable[Any]]]) -> None:
    """``stopped``: workloads, with the pods that they had. What cannot be recorded is worth a warning, and no more."""
    now = datetime.now(timezone.utc).timestamp()
    keys: dict[str, Keys] = defaultdict(Keys)
    for workload, pods in () if task.check_mode else stopped:
        holds = [hold for hold in map(hold_of, pods) if hold.goes_on]
        amounts: Counter[str] = sum((Counter(hold.amounts) for hold in holds), Counter())
        metadata, node = workload["metadata"], next((hold.node for hold in holds), None)
        back = Hold(str(int(now)), metadata["name"], now, now, None, amounts, node)
        keys[metadata["namespace"]] |= pod_keys(metadata["uid"], back, "back")

    def write(namespace: str) -> None:
        try:
            write_history(task.client(), namespace, keys[namespace])
        except KubeError as error:
            task.warn(f"the history of namespace {namespace} does not have what was given back: {as_sentence(error)}")

    run_concurrently(write, [namespace for namespace, own in keys.items() if own], task.client().concurrency)
