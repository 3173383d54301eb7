# SPDX-License-Identifier: BSD-2-Clause
"""The status of a pod as its kubelet reports it: phase, conditions, addresses, containers.

Source: pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go (conditions).
"""

from __future__ import annotations

from datetime import datetime

from kubesim.clock import rfc3339

from .base import Object, find_condition
from .kubelet_behavior import Behavior
from .kubelet_runs import PodRun, backoff, is_init, pod_text, succeeded

#: What others write into the status of a pod.
_KEPT = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def render(pod: Object, run: PodRun, behavior: Behavior, now: datetime, phase: str = "") -> Object:
    """The status of a pod: phase, conditions, addresses, containers."""
    spec = pod["spec"]
    mains = [run.containers[container["name"]] for container in spec["containers"]]
    inits = [(c, run.containers[c["name"]]) for c in spec.get("initContainers") or ()]
    initialized = all(succeeded(one) or (c.get("restartPolicy") == "Always" and one.started) for c, one in inits)
    phase = phase or phase_of(pod, run)
    main_statuses = [container_status(pod, c, run, behavior, now) for c in spec["containers"]]
    sidecars_ready = all(one.running for c, one in inits if c.get("restartPolicy") == "Always")
    ready = phase == "Running" and sidecars_ready and all(status["ready"] for status in main_statuses)
    why, detail = "", ""
    if not ready:
        unready = [status["name"] for status in main_statuses if not status["ready"]]
        why, detail = "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        if phase == "Succeeded":
            why, detail = "PodCompleted", ""
    not_initialized = [c["name"] for c, one in inits if not succeeded(one)]
    init_detail = f"containers with incomplete status: [{' '.join(not_initialized)}]"
    before = pod.get("status") or {}
    status: Object = {
        "phase": phase,
        "conditions": [
            condition("PodReadyToStartContainers", has_sandbox(run), now),
            condition(
                "Initialized", initialized, now, *(() if initialized else ("ContainersNotInitialized", init_detail))
            ),
            condition("Ready", ready, now, why, detail),
            condition("ContainersReady", ready, now, why, detail),
            find_condition(pod, "PodScheduled") or condition("PodScheduled", True, now),
        ],
        "hostIP": run.host_ip,
        "hostIPs": [{"ip": run.host_ip}],
        "startTime": rfc3339(run.start_time or now),
        "containerStatuses": main_statuses,
        "qosClass": before.get("qosClass", "BestEffort"),
    }
    status |= {key: before[key] for key in _KEPT if key in before}
    if any(one.started for one in mains) or any(one.started for _, one in inits):
        status |= {"podIP": run.ip, "podIPs": [{"ip": run.ip}]}
    if inits:
        status["initContainerStatuses"] = [container_status(pod, c, run, behavior, now) for c, _ in inits]
    return status


def has_sandbox(run: PodRun) -> bool:
    """Its volumes are mounted, and its network is set up: images are pulled and containers created after that."""
    started = any(one.started for one in run.containers.values())
    return started or (run.waiting is not None and run.waiting[0] != "ContainerCreating")


def phase_of(pod: Object, run: PodRun) -> str:
    mains = [run.containers[container["name"]] for container in pod["spec"]["containers"]]
    for container in pod["spec"].get("initContainers") or ():
        one = run.containers[container["name"]]
        if one.ended is not None and not succeeded(one) and one.restart_at is None:
            return "Failed"
    if not all(one.started for one in mains):
        return "Pending"
    if all(one.ended is not None and one.restart_at is None for one in mains):
        return "Succeeded" if all(map(succeeded, mains)) else "Failed"
    return "Running"


def container_status(pod: Object, container: Object, run: PodRun, behavior: Behavior, now: datetime) -> Object:
    one = run.containers[container["name"]]
    init = is_init(pod, container)
    state: Object
    if one.running:
        state = {"running": {"startedAt": rfc3339(one.started)}}  # type: ignore[arg-type]
    elif one.ended is not None and one.restart_at is not None and one.restarts:
        text = duration(backoff(one.restarts))
        message = f"back-off {text} restarting failed container={container['name']} pod={pod_text(pod)}"
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    elif one.ended is not None:
        state = {"terminated": one.ended}
    else:
        pending_init = not init and bool(pod["spec"].get("initContainers"))
        reason, message = run.waiting or ("PodInitializing" if pending_init or init else "ContainerCreating", "")
        if pending_init:
            reason, message = "PodInitializing", ""
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
    ready_at = one.after(behavior.ready_seconds) if one.started is not None else now
    sidecar = container.get("restartPolicy") == "Always"
    up = one.running and (init or (behavior.ready and now >= ready_at))
    ready = succeeded(one) if init and not sidecar else up
    last = one.ended if "waiting" in state and one.ended is not None else one.last
    return {
        "name": container["name"],
        "state": state,
        "lastState": {"terminated": last} if last else {},
        "ready": ready,
        "restartCount": one.restarts,
        "image": container.get("image", ""),
        "imageID": "",
        "started": one.running,
    }


def condition(kind: str, holds: bool, now: datetime, reason: str = "", message: str = "") -> Object:
    new: Object = {
        "type": kind,
        "status": str(holds),
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
    }
    return new | {key: text for key, text in (("reason", reason), ("message", message)) if text}


def duration(seconds: float) -> str:
    """time.Duration's text, of whole seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
