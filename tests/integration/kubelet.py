# SPDX-License-Identifier: BSD-2-Clause
"""Report the state of a job's containers to the API server, as a kubelet does.

The kubelets of test clusters start pods and keep them running. A test reports any other state itself, which works on
every cluster whose kubelets run no containers; an annotation makes the simulated ones leave a pod to the test.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .api import Api, eventually


def ended(api: Api, namespace: str, job: str, exit_code: int = 0) -> None:
    """All running pods of a job terminate."""
    state = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", **_times()}}
    for pod in _running(api, namespace, job):
        report(api, pod, "Failed" if exit_code else "Succeeded", state)


def crashed(api: Api, namespace: str, job: str, exit_code: int) -> None:
    """The containers of a job have terminated several times and wait to be restarted."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    last = {"terminated": {"exitCode": exit_code, "reason": "Error", **_times()}}
    for pod in _running(api, namespace, job):
        report(api, pod, "Running", {"waiting": waiting}, lastState=last, restartCount=3)


def without_image(api: Api, namespace: str, job: str) -> None:
    """The containers of a job are restarted, but their images can no longer be pulled."""
    for pod in _running(api, namespace, job):
        image = pod["spec"]["containers"][0]["image"]
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": not found'}
        report(api, pod, "Running", {"waiting": waiting})


def waiting(api: Api, namespace: str, job: str, reason: str, message: str) -> None:
    """The containers of a job do not run, for a reason that the node makes up."""
    for pod in _running(api, namespace, job):
        report(api, pod, "Running", {"waiting": {"reason": reason, "message": message}})


def event(api: Api, pod: dict[str, Any], message: str) -> None:
    """A warning about a pod."""
    metadata = pod["metadata"]
    about = {"kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    now = _times()["startedAt"]
    body = {
        "metadata": {"generateName": "evil-", "namespace": metadata["namespace"]},
        "involvedObject": about,
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "source": {"component": "kubelet"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    status, answer = api.call("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", body)
    assert status == 201, answer


def _running(api: Api, namespace: str, job: str) -> list[dict[str, Any]]:
    """The pods of a job, once all are ready: before that a kubelet would overwrite the status."""

    def running() -> list[dict[str, Any]]:
        pods = api.list("pod", namespace, f"app={job}")
        return pods if len(pods) == _replicas(api, namespace, job) and all(_is_ready(pod) for pod in pods) else []

    return list(eventually(running))


def _replicas(api: Api, namespace: str, job: str) -> int:
    """The number of pods of its workload; 0 without a workload."""
    for kind, field in (("job", "parallelism"), ("deployment", "replicas"), ("statefulset", "replicas")):
        if workload := api.get(kind, job, namespace):
            return int(workload["spec"][field])
    return 0


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def report(api: Api, pod: dict[str, Any], phase: str, state: dict[str, Any], **more: Any) -> None:
    """Set ``state`` and ``more`` for each container (core/v1 ContainerStatus), none of them ready.

    A pod may be missing: a Job that fails for good with its first pod deletes the others.
    """
    containers = [
        {**container, "state": state, "ready": False, "started": False, **more}
        for container in pod["status"]["containerStatuses"]
    ]
    conditions = [{"type": name, "status": "False"} for name in ("Ready", "ContainersReady")]
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    by_hand = {"metadata": {"annotations": {"lab/by-hand": "true"}}}
    status = {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}
    for path, body in ((name, by_hand), (f"{name}/status", status)):
        if not api.patch("pod", path, body, namespace, missing_ok=True):
            return


def _times() -> dict[str, str]:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"startedAt": now, "finishedAt": now}
