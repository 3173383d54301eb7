# SPDX-License-Identifier: BSD-2-Clause
"""What the pods of a list have in common, so that little is kept of each: there may be tens of thousands. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from ..labels import CLAIMED_DEVICES

Pod = Mapping[str, Any]
T = TypeVar("T")


class AlikePods(Generic[T]):
    """One for each list: what pods request is worked out once for all that are alike, and equal strings are one string.

    ``amounts_of`` works it out from what ``deciding_amounts`` looks at.
    """

    def __init__(self, amounts_of: Callable[[Pod], T]) -> None:
        self._amounts_of = amounts_of
        self._amounts: dict[str, T] = {}
        self._labels: Mapping[str, str] = {}  # of the pod before
        self._texts: dict[str, str] = {}

    def amounts(self, pod: Pod) -> T:
        key = deciding_amounts(pod)
        if key not in self._amounts:
            self._amounts[key] = self._amounts_of(pod)
        return self._amounts[key]

    def shared(self, pod: Pod) -> dict[str, Any]:
        """The pod with strings and labels of those before it. Lists are sorted, so pods of a template are neighbors."""
        metadata, spec = pod["metadata"], pod["spec"]
        labels = metadata.get("labels") or {}
        if labels != self._labels:
            self._labels = {self._text(key): self._text(value) for key, value in labels.items()}
        return {
            **pod,
            "metadata": {**self.with_texts(metadata, "namespace", "creationTimestamp"), "labels": self._labels},
            "spec": self.with_texts(spec, "nodeName", "priorityClassName"),
            "status": self.with_texts(pod.get("status") or {}, "startTime"),
        }

    def with_texts(self, part: Mapping[str, Any], *names: str) -> dict[str, Any]:
        """The same with one string for all that are equal. The values of ``names`` are strings, or not there."""
        return {**part, **{name: self._text(part[name]) for name in names if part.get(name)}}

    def _text(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def deciding_amounts(pod: Pod) -> str:
    """All that requests and limits of a pod are worked out from, as text."""
    spec, status = pod["spec"], pod.get("status") or {}
    asked = [
        [(one.get("name"), one.get("resources"), one.get("restartPolicy")) for one in spec.get(kind) or ()]
        for kind in ("containers", "initContainers")
    ]
    granted = [
        (one.get("name"), one.get("allocatedResources"), one.get("resources"))
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in status.get(kind) or ()
    ]
    resizes = [one.get("reason") for one in status.get("conditions") or () if one["type"] == "PodResizePending"]
    claimed = (pod["metadata"].get("annotations") or {}).get(CLAIMED_DEVICES)
    return repr((asked, granted, resizes, claimed, spec.get("resources"), spec.get("overhead")))
