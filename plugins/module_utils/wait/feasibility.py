# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job can still run, checked against nodes, quotas and the events of autoscalers."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from ..cluster.node_loss import seems_lost
from ..cluster.nodes import Node, slim_node
from ..cluster.read import read_node
from ..cluster.reason import PendingReason, Surroundings, pending_reasons, quota_refusal, refused_condition
from ..cluster.related import own_pods, pods_of_template
from ..cluster.status import is_held
from ..kube.client import Client
from ..kube.errors import KubeError, if_allowed
from ..kube.resources import EVENT, NODE, RESOURCE_QUOTA

Object = Mapping[str, Any]
T = TypeVar("T")

_MAX_AGE = 10.0  # seconds that an answer about quotas and autoscalers is reused
_NODES_MAX_AGE = 30.0  # the same for nodes; a pod that becomes unschedulable has them read again

# Events of the cluster autoscaler and of Karpenter about a pod that will get a new node.
_NODE_IS_COMING = ("TriggeredScaleUp", "Nominated")


def stopped(workload: Object | None) -> PendingReason | None:
    """Why a job makes no progress at all: it was deleted or paused."""
    if workload is None:
        return PendingReason("the job was deleted during the wait", final=True)
    return PendingReason("the job is paused", "Resume it with state=resumed", final=True) if is_held(workload) else None


class Feasibility:
    """Separates final reasons from those that may pass.

    Without permission to read nodes or quotas, the job's own objects decide. ``new_nodes``: nodes may be added, so that
    a lack of them is never final.
    """

    def __init__(self, client: Client, *, new_nodes: bool) -> None:
        self._client = client
        self._new_nodes = new_nodes
        self._nodes: Sequence[Node] | None = None
        self._nodes_read_at = -_NODES_MAX_AGE
        self._checked: set[str] = set()  # uids of the pods for which nodes were read
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def of(
        self, workload: Object, pods: Sequence[Object], events: Sequence[Object], *, fresh: bool
    ) -> tuple[PendingReason | None, PendingReason | None]:
        """The first final reason, and the most important one. ``events`` are the job's warnings.

        Unless the job is ``fresh``, pods of earlier templates do not count, and its events may be outdated.
        """
        current = own_pods(workload, pods) if fresh else pods_of_template(workload, pods)
        namespace = workload["metadata"]["namespace"]
        try:
            around = Surroundings(self._nodes_for(current), self._lost_nodes(current))
            found = list(pending_reasons(workload, current, events, around))
            final = (reason for reason in found if reason.final and self._holds(reason, namespace, current, fresh))
            return next(final, None), next(iter(found), None)
        except KubeError as error:
            if not error.is_transient:
                raise
            return None, None  # Nothing is final until the server responds again.

    def _holds(self, reason: PendingReason, namespace: str, pods: Sequence[Object], fresh: bool) -> bool:
        """Whether a reason that looks final really is."""
        if reason.needs_other_nodes:
            return not self._new_nodes and not self._is_node_coming(namespace, pods)
        if reason.refusal is None:
            return True
        refusal = quota_refusal(reason.refusal)
        if refusal is None:
            return fresh

        def still_holds() -> bool:
            # A list, because permission to list quotas does not include permission to get one.
            found = self._client.list_objects(RESOURCE_QUOTA, namespace, fields=f"metadata.name={refusal.quota}")
            return refusal.still_holds(next(iter(found), None))

        return self._cached((namespace, reason.refusal), lambda: if_allowed(still_holds, True))

    def _nodes_for(self, pods: Sequence[Object]) -> Sequence[Node] | None:
        """All nodes, if the scheduler has found none for a pod."""
        waiting = {pod["metadata"]["uid"] for pod in pods if refused_condition(pod)}
        now = time.monotonic()
        if waiting - self._checked or (waiting and now - self._nodes_read_at > _NODES_MAX_AGE):
            self._nodes = if_allowed(lambda: self._client.list_slim(NODE, slim_node), None)
            self._nodes_read_at = now
            self._checked |= waiting
        return self._nodes if waiting else None

    def _lost_nodes(self, pods: Sequence[Object]) -> list[Node]:
        """The nodes that pods seem to have been lost with."""
        names = {pod["spec"]["nodeName"] for pod in pods if seems_lost(pod)}
        reads = [self._cached(("node", name), partial(read_node, self._client, name)) for name in sorted(names)]
        return [node for read in reads for node in read]

    def _is_node_coming(self, namespace: str, pods: Sequence[Object]) -> bool:
        names = {pod["metadata"]["name"] for pod in pods}

        def nominated() -> set[str]:
            """The names of all pods that will get a new node."""
            lists = (self._client.list_objects(EVENT, namespace, fields=f"reason={name}") for name in _NODE_IS_COMING)
            return {str(event["involvedObject"].get("name")) for events in lists for event in events}

        return not names.isdisjoint(self._cached(namespace, lambda: if_allowed(nominated, set())))

    def _cached(self, key: Hashable, read: Callable[[], T]) -> T:
        """The answer, at most ``_MAX_AGE`` seconds old."""
        now = time.monotonic()
        read_at, answer = self._answers.get(key, (None, None))
        if read_at is None or now - read_at > _MAX_AGE:
            answer = read()
            self._answers[key] = now, answer
        return cast("T", answer)
