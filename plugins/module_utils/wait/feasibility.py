# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job that is waited for can still run: what only nodes, quotas and autoscalers can tell is asked of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

from ..cluster.nodes import Node, slim_node
from ..cluster.reason import PendingReason, pending_reasons, quota_refusal, refused_condition
from ..cluster.template import own_pods, pods_of_template
from ..engine.pause import is_held
from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import EVENT, NODE, RESOURCE_QUOTA

Object = Mapping[str, Any]
T = TypeVar("T")

_KEPT = 10.0  # seconds that an answer about quotas and autoscalers is taken for true
_NODES_KEPT = 30.0  # the same of nodes; a pod that found none since they were read has them read anew

# What the cluster autoscaler and Karpenter record of a pod for which a node is coming.
_NODE_IS_COMING = ("TriggeredScaleUp", "Nominated")

_DELETED = PendingReason("it was deleted while it was waited for", final=True)
_PAUSED = PendingReason("it is paused; let it go on with state resumed", final=True)


def stopped(workload: Object | None) -> PendingReason | None:
    """Why nothing at all goes on for a job: somebody has deleted or paused it."""
    if workload is None:
        return _DELETED
    return _PAUSED if is_held(workload) else None


class Feasibility:
    """Tells of jobs that have not arrived whether they still can.

    Who may not look at nodes or quotas gets what the job's own objects say. ``new_nodes``: no lack of nodes is final.
    """

    def __init__(self, client: Client, *, new_nodes: bool) -> None:
        self._client = client
        self._new_nodes = new_nodes
        self._nodes: Sequence[Node] | None = None
        self._nodes_read_at = -_NODES_KEPT
        self._looked_for: set[str] = set()  # uids of the pods for which nodes were read
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def of(
        self, workload: Object, pods: Sequence[Object], events: Sequence[Object], *, fresh: bool
    ) -> tuple[PendingReason | None, PendingReason | None]:
        """What is final, and what is most telling of all that stands in the way. ``events`` are warnings of the job.

        Of a job that is not ``fresh``, pods of former templates say nothing about the present one, and refusals in its
        events may have been cured since.
        """
        current = own_pods(workload, pods) if fresh else pods_of_template(workload, pods)
        namespace = workload["metadata"]["namespace"]
        try:
            found = list(pending_reasons(workload, current, events, self._nodes_for(current)))
            final = (one for one in found if one.final and self._holds(one, namespace, current, fresh))
            return next(final, None), next(iter(found), None)
        except KubeError as error:
            if not error.is_transient:
                raise
            return None, None  # Nothing is final before the server is back.

    def _holds(self, blocker: PendingReason, namespace: str, pods: Sequence[Object], fresh: bool) -> bool:
        """Whether what is said to be final is so now."""
        if blocker.needs_other_nodes:
            return not self._new_nodes and not self._is_node_coming(namespace, pods)
        if blocker.refusal is None:
            return True
        refusal = quota_refusal(blocker.refusal)
        if refusal is None:
            return fresh

        def still_holds() -> bool:
            # A list of one: who may list quotas need not have the right to get them.
            found = self._client.list_objects(RESOURCE_QUOTA, namespace, fields=f"metadata.name={refusal.quota}")
            return refusal.still_holds(next(iter(found), None))

        return self._ask((namespace, blocker.refusal), lambda: _if_allowed(still_holds, True))

    def _nodes_for(self, pods: Sequence[Object]) -> Sequence[Node] | None:
        """All nodes, if the scheduler has found none of them good enough for a pod."""
        waiting = {pod["metadata"]["uid"] for pod in pods if refused_condition(pod)}
        now = time.monotonic()
        if waiting - self._looked_for or (waiting and now - self._nodes_read_at > _NODES_KEPT):
            self._nodes = _if_allowed(lambda: self._client.list_slim(NODE, slim_node), None)
            self._nodes_read_at = now
            self._looked_for |= waiting
        return self._nodes if waiting else None

    def _is_node_coming(self, namespace: str, pods: Sequence[Object]) -> bool:
        names = {pod["metadata"]["name"] for pod in pods}

        def told() -> set[str]:
            """The names of the pods of which an autoscaler says so."""
            events = [
                event
                for reason in _NODE_IS_COMING
                for event in self._client.list_objects(EVENT, namespace, fields=f"reason={reason}")
            ]
            return {str(event["involvedObject"].get("name")) for event in events}

        return not names.isdisjoint(self._ask(namespace, lambda: _if_allowed(told, set())))

    def _ask(self, query: Hashable, read: Callable[[], T]) -> T:
        """The answer, some seconds old at most."""
        now = time.monotonic()
        asked_at, answer = self._answers.get(query, (None, None))
        if asked_at is None or now - asked_at > _KEPT:
            answer = read()
            self._answers[query] = now, answer
        return cast("T", answer)


def _if_allowed(read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except ApiError as error:
        if error.is_forbidden:
            return otherwise
        raise
