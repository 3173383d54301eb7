# SPDX-License-Identifier: BSD-2-Clause
"""Completion indexes of Indexed jobs: their text form ("0-2,5"), which are next, which pods repeat one.

Source: pkg/controller/job/indexed_job_utils.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from .base import Object
from .pods import deletion_order

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
ENV = "JOB_COMPLETION_INDEX"


def parse(text: str | None, completions: int) -> set[int]:
    """The indexes below `completions` that a text like "0,2-4" names."""
    found: set[int] = set()
    for interval in (text or "").split(","):
        first, _, last = interval.partition("-")
        if first.isdigit():
            found.update(range(int(first), min(int(last) if last.isdigit() else int(first), completions - 1) + 1))
    return found


def render(indexes: Iterable[int]) -> str:
    """ "0-2,5": intervals of three and more with a dash, two neighbours with a comma."""
    parts: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for position, index in enumerate(ordered):
        if position + 1 < len(ordered) and ordered[position + 1] == index + 1:
            continue
        first = ordered[start]
        parts.append(str(first) if first == index else f"{first}{',' if index == first + 1 else '-'}{index}")
        start = position + 1
    return ",".join(parts)


def index_of(pod: Object) -> int | None:
    value = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(value) if value.isdigit() else None


def valid_index(pod: Object, completions: int) -> bool:
    index = index_of(pod)
    return index is not None and index < completions


def failure_counts(pod: Object) -> tuple[int, int]:
    """Failures of the pod's index before this pod: those that count, and those that a failure policy ignored."""
    annotations = pod["metadata"].get("annotations") or {}
    counts = [annotations.get(key, "0") for key in (FAILURES, IGNORED_FAILURES)]
    counted, ignored = (int(count) if count.isdigit() else 0 for count in counts)
    return counted, ignored


def without_place(pods: Iterable[Object], completions: int) -> list[Object]:
    """Pods that must go whatever the parallelism: without a valid index, or with one that another pod has, too."""
    by_index: dict[int, list[Object]] = {}
    surplus: list[Object] = []
    for pod in pods:
        index = index_of(pod)
        if index is None or index >= completions:
            surplus.append(pod)
        else:
            by_index.setdefault(index, []).append(pod)
    for repeated in by_index.values():
        surplus += deletion_order(repeated)[:-1]
    return surplus


def first_free(count: int, completions: int, taken: set[int]) -> list[int]:
    free: list[int] = []
    for index in range(completions):
        if len(free) >= count:
            break
        if index not in taken:
            free.append(index)
    return free


def add_index(template: Object, job_name: str, index: int) -> None:
    """Give a pod template its index: annotation, label, hostname, and the environment variable in all containers."""
    meta = template.setdefault("metadata", {})
    meta.setdefault("annotations", {})[INDEX] = str(index)
    meta.setdefault("labels", {})[INDEX] = str(index)
    spec = template["spec"]
    spec["hostname"] = f"{job_name}-{index}"
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        env = container.setdefault("env", [])
        if all(variable["name"] != ENV for variable in env):
            field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
            env.append({"name": ENV, "valueFrom": {"fieldRef": field}})
