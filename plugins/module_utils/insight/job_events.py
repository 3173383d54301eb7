# SPDX-License-Identifier: BSD-2-Clause
"""Events of jobs, by which their users learn what was done to them, or will be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from ..kube.errors import ApiError
from ..kube.times import time_as_text
from ..labels import FIELD_MANAGER
from ..task import Task


def write_events(task: Task[Any], events: Iterable[tuple[Mapping[str, Any], str, str]], about: str) -> None:
    """An event for each workload, reason and message. One that cannot be written is worth a warning, and no more."""
    for workload, reason, message in () if task.check_mode else events:
        try:
            task.client().create(_warning_event(workload, reason, message))
        except ApiError as error:
            task.warn(f"no events tell the users of {about}: {error}")
            return


def _warning_event(workload: Mapping[str, Any], reason: str, message: str) -> dict[str, Any]:
    metadata, now = workload["metadata"], time_as_text(datetime.now(timezone.utc))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{metadata['name'][:200]}.{uuid4().hex[:16]}", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            **{name: metadata[name] for name in ("name", "namespace", "uid")},
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
