# SPDX-License-Identifier: BSD-2-Clause
"""Pods on nodes that are not ready: nothing but the node itself knows whether they still run. Pure.

The node controller marks such pods as not ready and, after the time that they tolerate (five minutes), deletes them.
But only a kubelet can say that a pod has ended. Until the node is back or gone, a Job with podReplacementPolicy Failed
and a StatefulSet start no other pod in its place (pkg/controller/nodelifecycle, tainteviction, job).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..kube.resources import Object
from ..manifest.problems import enumerated
from .nodes import FAULTY, Node
from .related import is_pod_ready, is_unfinished
from .status import is_terminating


def nodes_in_doubt(pods: Iterable[Object]) -> set[str]:
    """The nodes that may be why pods are not ready, or have not ended yet although they were deleted.

    Not those of pods whose kubelet has reported another cause.
    """
    return {
        pod["spec"]["nodeName"]
        for pod in pods
        if pod["spec"].get("nodeName") and _is_unfinished_and_unready(pod)
        if is_terminating(pod) or not _has_cause(pod)
    }


def seems_lost(pod: Object) -> bool:
    """Whether the node controller has dealt with the pod: as one that its kubelet last reported to be ready, or to
    evict it."""
    status, containers = pod.get("status", {}), pod.get("status", {}).get("containerStatuses") or ()
    reasons = {one["type"]: one.get("reason") for one in status.get("conditions") or ()}
    was_ready = bool(containers) and all(container.get("ready") for container in containers)
    # Written before the pod is deleted (pkg/controller/tainteviction).
    evicted = reasons.get("DisruptionTarget") == "DeletionByTaintManager"
    return bool(pod["spec"].get("nodeName")) and _is_unfinished_and_unready(pod) and (was_ready or evicted)


def split_by_loss(pods: Iterable[Object], nodes: Iterable[Node]) -> tuple[list[Object], list[Object]]:
    """The unfinished pods whose node is not ready, and the others."""
    names = {node.name for node in nodes if node.status == FAULTY}
    lost: list[Object] = []
    others: list[Object] = []
    for pod in pods:
        is_lost = pod["spec"].get("nodeName") in names and _is_unfinished_and_unready(pod)
        (lost if is_lost else others).append(pod)
    return lost, others


def loss_text(pods: Sequence[Object], nodes: Iterable[Node]) -> str:
    """``pod x-1 is on node n1, which has not been ready since 2026-01-01T00:00:00Z (Kubelet stopped …)``."""
    names = [pod["metadata"]["name"] for pod in pods]
    subject = f"pod {names[0]} is" if len(names) == 1 else f"pods {enumerated(names, 'and')} are"
    where = {pod["spec"]["nodeName"] for pod in pods}
    lost = [f"{node.name}, which has not been ready {_since(node)}" for node in nodes if node.name in where]
    return f"{subject} on {'node' if len(lost) == 1 else 'nodes'} {enumerated(lost, 'and')}"


def loss_hint(workload: Object, pods: Sequence[Object]) -> str:
    """What helps, which depends on who would start other pods in their place."""
    force = "use O(state=restarted) with O(force=true), which no longer waits for the node"
    if workload["kind"] == "Deployment":
        seconds = max(_tolerated_seconds(pod) for pod in pods)
        return f"Kubernetes starts another pod {seconds} s after the loss of the node. To have one at once, {force}"
    started = "Kubernetes starts no other pod until the node is back or deleted"
    return f"{started}. Repair the node, or {force}"


def _since(node: Node) -> str:
    """``since 2026-01-01T00:00:00Z (Kubelet stopped posting node status)``."""
    message = node.not_ready_message.rstrip(". ")
    return f"since {node.not_ready_since or 'an unknown time'}{f' ({message})' if message else ''}"


def _tolerated_seconds(pod: Object) -> int:
    """How long the pod may stay on a lost node (admission plugin DefaultTolerationSeconds: 300)."""
    times = [
        toleration.get("tolerationSeconds")
        for toleration in pod["spec"].get("tolerations") or ()
        if toleration.get("key") == "node.kubernetes.io/unreachable"
    ]
    return next((int(seconds) for seconds in times if seconds is not None), 300)


def _has_cause(pod: Object) -> bool:
    """Whether a container says why it is waiting: that it is being created is no reason."""
    states = [container.get("state") or {} for container in pod.get("status", {}).get("containerStatuses") or ()]
    reasons = {(state.get("waiting") or {}).get("reason") for state in states}
    return bool(reasons - {None, "ContainerCreating", "PodInitializing"})


def _is_unfinished_and_unready(pod: Object) -> bool:
    return is_unfinished(pod) and (is_terminating(pod) or not is_pod_ready(pod))
