# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of the containers of a job, said to the API server as a kubelet says it.

The kubelets of test clusters start pods and let them run. What a test needs beyond it happens because the test reports
it itself, so it happens on every cluster whose kubelets run no containers. The simulated ones, which do, have to be
told to leave a pod to the test.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .api import Api, eventually


def ended(api: Api, namespace: str, job: str, exit_code: int = 0) -> None:
    """All running pods of a job end."""
    state = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", **_times()}}
    for pod in _running(api, namespace, job):
        _report(api, pod, "Failed" if exit_code else "Succeeded", state)


def crashed(api: Api, namespace: str, job: str, exit_code: int) -> None:
    """The containers of a job have ended several times, and are not started at once again."""
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container"}
    last = {"terminated": {"exitCode": exit_code, "reason": "Error", **_times()}}
    for pod in _running(api, namespace, job):
        _report(api, pod, "Running", {"waiting": waiting}, lastState=last, restartCount=3)


def without_image(api: Api, namespace: str, job: str) -> None:
    """The images of a job, whose containers are to be started again, cannot be pulled any more."""
    for pod in _running(api, namespace, job):
        image = pod["spec"]["containers"][0]["image"]
        waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}": not found'}
        _report(api, pod, "Running", {"waiting": waiting})


def _running(api: Api, namespace: str, job: str) -> list[dict[str, Any]]:
    """Its pods, when all of them are ready: a kubelet that is not done with one would take back what is said of it."""

    def running() -> list[dict[str, Any]]:
        pods = api.list("pod", namespace, f"app={job}")
        return pods if len(pods) == _wanted(api, namespace, job) and all(_is_ready(pod) for pod in pods) else []

    return list(eventually(running))


def _wanted(api: Api, namespace: str, job: str) -> int:
    """How many pods its workload asks for; 0 while there is none."""
    for kind, field in (("job", "parallelism"), ("deployment", "replicas"), ("statefulset", "replicas")):
        if workload := api.get(kind, job, namespace):
            return int(workload["spec"][field])
    return 0


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions)


def _report(api: Api, pod: dict[str, Any], phase: str, state: dict[str, Any], **more: Any) -> None:
    """``state`` and ``more`` are of each container (core/v1 ContainerStatus); none is ready.

    A Job that has failed for good with its first pod removes the others, of which nothing is left to be said.
    """
    containers = [
        {**container, "state": state, "ready": False, "started": False, **more}
        for container in pod["status"]["containerStatuses"]
    ]
    conditions = [{"type": name, "status": "False"} for name in ("Ready", "ContainersReady")]
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    by_hand = {"metadata": {"annotations": {"lab/by-hand": "true"}}}
    said = {"status": {"phase": phase, "conditions": conditions, "containerStatuses": containers}}
    for path, body in ((name, by_hand), (f"{name}/status", said)):
        if not api.patch("pod", path, body, namespace, missing_ok=True):
            return


def _times() -> dict[str, str]:
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"startedAt": now, "finishedAt": now}
