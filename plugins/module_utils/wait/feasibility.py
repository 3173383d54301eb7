# SPDX-License-Identifier: BSD-2-Clause
"""Whether a job can still run, checked against nodes, quotas and the events of autoscalers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from ..cluster.admission import pod_groups_of, queue_of
from ..cluster.declared import read_declared
from ..cluster.devices import Inventory, claims_devices
from ..cluster.node_loss import seems_lost
from ..cluster.nodes import Node, slim_node
from ..cluster.pending_reason import PendingReason
from ..cluster.read_devices import read_devices
from ..cluster.read_nodes import read_node
from ..cluster.read_reasons import read_forbidden, read_queued
from ..cluster.reason import ClusterView, pending_reasons, quota_refusal, refused_condition
from ..cluster.related import is_pod_ready, own_pods, pods_of_template
from ..cluster.shortage import Shortages
from ..cluster.status import is_held, is_suspended, is_terminating
from ..kube.client import Client
from ..kube.errors import KubeError, if_allowed
from ..kube.resources import EVENT, NODE, RESOURCE_QUOTA, Object
from ..kube.shapes import MalformedObject
from ..labels import POOL

T = TypeVar("T")

GRACE = 30.0  # seconds that people and other tasks get to create what a job needs
_MAX_AGE = 10.0  # seconds that an answer about quotas and autoscalers is reused
_NODES_MAX_AGE = 30.0  # the same for nodes; a pod that becomes unschedulable has them read again

# Events of the cluster autoscaler and of Karpenter about a pod that will get a new node. Neither writes it to the pod.
_NODE_IS_COMING = ("TriggeredScaleUp", "Nominated")


def stopped(workload: Object | None, malformed: MalformedObject | None = None) -> PendingReason | None:
    """Why a job makes no progress at all: it was deleted or paused, or it is malformed."""
    if malformed is not None:
        return PendingReason(malformed.sentence, final=True)
    if workload is None:
        return PendingReason("the job was deleted during the wait", final=True)
    paused = PendingReason("the job is paused", "Resume it with O(state=resumed)", final=True)
    return paused if is_held(workload) else None


class Feasibility:
    """Separates final reasons from those that may pass.

    Without permission to read nodes or quotas, the job's own objects decide. ``new_nodes``: nodes may be added, so that
    a lack of them is never final. What only a person can mend is final after ``GRACE``.
    """

    def __init__(self, client: Client, *, new_nodes: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._new_nodes = new_nodes
        self._clock = clock
        self._crash_loops: dict[Hashable, tuple[str, PendingReason]] = {}  # with the name of the pod
        self._needs_user_since: dict[Hashable, float] = {}
        self._shortages: Shortages | None = None
        self._nodes_read_at = -math.inf
        self._checked: set[str] = set()  # uids of the pods for which nodes were read
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    def forget_answers(self) -> None:
        """Read nodes, quotas and autoscalers again, however recent the answers are."""
        self._nodes_read_at = -math.inf
        self._answers.clear()

    def next_end_of_grace(self) -> float:
        """The number of seconds until another reason may become final."""
        ends = (since + GRACE - self._clock() for since in self._needs_user_since.values())
        return min((end for end in ends if end > 0), default=math.inf)

    def of(
        self, workload: Object, pods: Sequence[Object], events: Sequence[Object], *, fresh: bool
    ) -> tuple[PendingReason | None, PendingReason | None]:
        """The first final reason, and the most important one. ``events`` are the job's warnings.

        Unless the job is ``fresh``, pods of earlier templates do not count, and its events may be outdated.
        """
        current = own_pods(workload, pods) if fresh else pods_of_template(workload, pods)
        namespace = workload["metadata"]["namespace"]
        try:
            shortages = self._shortages_for(current)
            lost, devices = self._lost_nodes(current), self._devices_for(current)
            queued, forbidden = self._queued(workload, current), self._forbidden(workload, current)
            around = ClusterView(shortages, lost, devices=devices, queued=queued, forbidden=forbidden)
            found = list(pending_reasons(workload, current, events, around))
            holds = partial(self._is_final, namespace=namespace, pods=current, fresh=fresh)
            final = next(filter(holds, (reason for reason in found if reason.final)), None)
            unmended = next(filter(holds, (reason for reason in found if reason.needs_user)), None)
            job = namespace, workload["metadata"]["name"]
            crash_loop, unmended = self._crash_loop(job, final, current), self._after_grace(job, unmended)
            return final or crash_loop or unmended, next(iter(found), None)
        except KubeError as error:
            if not error.is_transient:
                raise
            return None, None  # Nothing is final until the server responds again.

    def _crash_loop(self, job: Hashable, final: PendingReason | None, pods: Sequence[Object]) -> PendingReason | None:
        """The crash loop that was seen before, while its container runs once more but is not ready."""
        if final and final.log:
            self._crash_loops[job] = final.log[0], final
        name, seen = self._crash_loops.get(job, ("", None))
        own = next((pod for pod in pods if pod["metadata"]["name"] == name), None)
        return seen if own and not is_pod_ready(own) and not is_terminating(own) else None

    def _after_grace(self, job: Hashable, reason: PendingReason | None) -> PendingReason | None:
        """The reason, if the job has needed a person for as long as ``GRACE`` without a break."""
        if reason is None:
            self._needs_user_since.pop(job, None)
            return None
        now = self._clock()
        return reason if now - self._needs_user_since.setdefault(job, now) >= GRACE else None

    def _is_final(self, reason: PendingReason, *, namespace: str, pods: Sequence[Object], fresh: bool) -> bool:
        """Whether a reason that looks final really is."""
        if reason.needs_other_nodes:
            return not (self._new_nodes or self._pool_grows(pods) or self._is_node_coming(namespace, pods))
        if reason.refusal is None:
            return True
        refusal = quota_refusal(reason.refusal)
        if refusal is None:
            return fresh

        def still_holds() -> bool:
            # The refusal quotes the use at that time. Pods may have ended since.
            # A list, because permission to list quotas does not include permission to get one.
            found = self._client.list_objects(RESOURCE_QUOTA, namespace, fields=f"metadata.name={refusal.quota}")
            return refusal.still_holds(next(iter(found), None))

        return self._cached((namespace, reason.refusal), lambda: if_allowed(still_holds, True))

    def _shortages_for(self, pods: Sequence[Object]) -> Shortages | None:
        """Those of all nodes, if the scheduler has found none for a pod."""
        # Its message counts nodes by reason and names none (pkg/scheduler/framework/types.go, FitError).
        waiting = {pod["metadata"]["uid"] for pod in pods if refused_condition(pod)}
        now = self._clock()
        if waiting - self._checked or (waiting and now - self._nodes_read_at > _NODES_MAX_AGE):
            self._shortages = if_allowed(lambda: Shortages(self._client.list_slim(NODE, slim_node)), None)
            self._nodes_read_at = now
            self._checked |= waiting
        return self._shortages if waiting else None

    def _devices_for(self, pods: Sequence[Object]) -> Inventory | None:
        """All devices and claims, if the scheduler has found none for a pod."""
        places = {pod["metadata"]["namespace"] for pod in pods if refused_condition(pod) and claims_devices(pod)}
        read = partial(read_devices, self._client, places)
        return self._cached(("devices", *places), read) if places else None

    def _queued(self, workload: Object, pods: Sequence[Object]) -> PendingReason | None:
        """What a job waits for in a queue."""
        if queue_of(workload).backend == "none":
            return None
        uid = workload["metadata"]["uid"]
        suspended = is_suspended(workload)  # Kueue says nothing of a job that it has just admitted.
        read = partial(read_queued, self._client, {uid: workload}, {uid: pods})
        return self._cached(("queue", uid, suspended, frozenset(pod_groups_of(pods))), lambda: read().get(uid))

    def _forbidden(self, workload: Object, pods: Sequence[Object]) -> str:
        """What a policy says against as many pods as the job asks for. One that has forbidden it is read again."""
        uid = workload["metadata"]["uid"]
        read = partial(read_forbidden, self._client, {uid: workload}, {uid: pods})
        if not read():
            return ""
        return self._cached(("policies", uid, workload["spec"]["replicas"]), lambda: read(again=True).get(uid, ""))

    def _lost_nodes(self, pods: Sequence[Object]) -> list[Node]:
        """The nodes that pods seem to have been lost with."""
        names = {pod["spec"]["nodeName"] for pod in pods if seems_lost(pod)}
        reads = [self._cached(("node", name), partial(read_node, self._client, name)) for name in sorted(names)]
        return [node for read in reads for node in read]

    def _pool_grows(self, pods: Sequence[Object]) -> bool:
        """Whether their pool declares that nodes are added while pods wait."""
        pools = {str((pod["spec"].get("nodeSelector") or {}).get(POOL, "")) for pod in pods} - {""}
        return bool(pools and pools & read_declared(self._client, lambda _text: None).growing.keys())

    def _is_node_coming(self, namespace: str, pods: Sequence[Object]) -> bool:
        names = {pod["metadata"]["name"] for pod in pods}

        def nominated() -> set[str]:
            """The names of all pods that will get a new node."""
            lists = (self._client.list_objects(EVENT, namespace, fields=f"reason={name}") for name in _NODE_IS_COMING)
            return {str((event.get("involvedObject") or {}).get("name")) for events in lists for event in events}

        return not names.isdisjoint(self._cached(namespace, lambda: if_allowed(nominated, set())))

    def _cached(self, key: Hashable, read: Callable[[], T]) -> T:
        """The answer, at most ``_MAX_AGE`` seconds old."""
        now = self._clock()
        read_at, answer = self._answers.get(key, (None, None))
        if read_at is None or now - read_at > _MAX_AGE:
            answer = read()
            self._answers[key] = now, answer
        return cast("T", answer)
