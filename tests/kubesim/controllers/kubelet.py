# SPDX-License-Identifier: BSD-2-Clause
"""All kubelets in one: starts the pods that have a node, lets their containers run, fail, restart and stop as ordered.

Source of what a status looks like: pkg/kubelet/kubelet_pods.go (getPhase), status/generate.go (conditions),
kuberuntime_manager.go and images/image_manager.go (waiting reasons, messages, events, back-off of 10 s to 5 min).
Events are recorded of what goes wrong only, as the kubelet of the recordings in tests/contract records none.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubesim.clock import parse_time, rfc3339
from kubesim.errors import ApiError, bad_request

from . import kubelet_logs
from .base import Controller, Key, Object, find_condition, key_of
from .events import EventRecorder
from .kubelet_env import ConfigError, environment
from .kubelet_orders import NO_ORDERS, Orders, Rule, orders_for, read_order
from .pods import is_terminal

BACKOFF_FIRST, BACKOFF_MAX = 10.0, 300.0
PULL_ERROR_SHOWN = 1.0  # seconds of ErrImagePull before ImagePullBackOff is shown
CONFIG_RETRY = 2.0
SIGTERM, SIGKILL = 143, 137


@dataclass
class ContainerRun:
    """One container of a pod: its state now, and what was before the last restart."""

    started: datetime | None = None
    ended: Object | None = None
    last: Object | None = None
    restarts: int = 0
    restart_at: datetime | None = None
    log: list[kubelet_logs.Line] = field(default_factory=list)
    previous_log: list[kubelet_logs.Line] | None = None

    @property
    def running(self) -> bool:
        return self.started is not None and self.ended is None

    def after(self, seconds: float) -> datetime:
        """So long after its start (which must have been)."""
        assert self.started is not None
        return self.started + timedelta(seconds=seconds)


@dataclass
class PodRun:
    """What the kubelet knows of a pod beyond the API."""

    uid: str
    ip: str
    host_ip: str
    seen: datetime
    start_time: datetime | None = None
    containers: dict[str, ContainerRun] = field(default_factory=dict)
    waiting: tuple[str, str] | None = None  # why nothing starts: reason, message
    pulls: int = 0
    last_pull: datetime | None = None
    stopping: datetime | None = None
    untouched: bool = False  # it came with a status, which stays as it is until there is an order for the pod


class Kubelet(Controller):
    name = "kubelet"
    watches = ("Pod", "Node")

    def __init__(self, registry: Any, start_seconds: float = 0.05, stop_seconds: float = 0.05) -> None:
        super().__init__(registry)
        self.start_seconds = start_seconds
        self.stop_seconds = stop_seconds
        self.recorder = EventRecorder(registry, self.name)
        self.rules: list[Rule] = []
        self._runs: dict[Key, PodRun] = {}
        self._homeless: dict[str, dict[Key, None]] = {}  # pods that wait for their node to be there
        self._addresses = itertools.count(2)
        self._rule_numbers = itertools.count(1)

    # -- orders ----------------------------------------------------------------------------------------------------

    def behave(
        self,
        *,
        labels: dict[str, str] | None = None,
        image: str = "*",
        name: str = "*",
        namespace: str = "*",
        **orders: Any,
    ) -> int:
        """From now on the pods that match obey these orders (fields of Orders); the number of the rule.

        Pods that run already obey too. KeyError for an unknown order, ValueError for a value that makes no sense."""
        read = {field: read_order(field, value) for field, value in orders.items()}
        rule = Rule(next(self._rule_numbers), read, labels or {}, image, name, namespace)
        self.rules.append(rule)
        self._look_again()
        return rule.number

    def forget(self, number: int | None = None) -> None:
        """Take one rule back, or all."""
        self.rules = [rule for rule in self.rules if number is not None and rule.number != number]
        self._look_again()

    def _look_again(self) -> None:
        for key in self._runs:
            self.enqueue(key)

    # -- what the API server asks a node for -----------------------------------------------------------------------

    def logs(
        self,
        pod: Object,
        container: str,
        *,
        previous: bool = False,
        tail: int | None = None,
        since: datetime | None = None,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> str:
        """The log of a container that is known to exist in the pod; ApiError 400 when it has none (yet)."""
        run = self._runs.get(key_of(pod))
        one = run.containers.get(container) if run else None
        pod_name = pod["metadata"]["name"]
        if previous:
            if one is None or one.previous_log is None:
                raise bad_request(f'previous terminated container "{container}" in pod "{pod_name}" not found')
            lines = one.previous_log
        elif one is None or one.started is None:
            reason = run.waiting[0] if run is not None and run.waiting else "ContainerCreating"
            trouble = {
                "ErrImagePull": "image can't be pulled",
                "ImagePullBackOff": "trying and failing to pull image",
            }.get(reason, reason)
            raise bad_request(f'container "{container}" in pod "{pod_name}" is waiting to start: {trouble}')
        else:
            lines = one.log
        return kubelet_logs.select(lines, tail, since, timestamps, limit_bytes)

    # -- the loop --------------------------------------------------------------------------------------------------

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Node":
            for key in self._homeless.pop(obj["metadata"]["name"], ()):
                self.enqueue(key)
        elif event == "DELETED":
            self._runs.pop(key_of(obj), None)
        elif obj["spec"].get("nodeName"):
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        pod = self.registry.get("Pod", *key)
        if pod is None:
            self._runs.pop(key, None)
            return
        run = self._run(key, pod)
        if run is None:
            return
        now, orders = self.clock.now(), orders_for(pod, self.rules)
        if "deletionTimestamp" in pod["metadata"]:
            self._stop(key, pod, run, orders, now)
        elif not is_terminal(pod):
            self._live(key, pod, run, orders, now)

    def _run(self, key: Key, pod: Object) -> PodRun | None:
        run = self._runs.get(key)
        if run is not None and run.uid == pod["metadata"]["uid"]:
            return run
        node = self.registry.get("Node", "", pod["spec"].get("nodeName", ""))
        if node is None:
            self._homeless.setdefault(pod["spec"]["nodeName"], {})[key] = None
            return None
        status = pod.get("status") or {}
        addresses = {one["type"]: one["address"] for one in node.get("status", {}).get("addresses") or ()}
        host_ip = addresses.get("InternalIP") or host_address(node["metadata"]["name"])
        ip = status.get("podIP") or (host_ip if pod["spec"].get("hostNetwork") else self._address())
        run = self._runs[key] = PodRun(pod["metadata"]["uid"], ip, host_ip, self.clock.now())
        run.containers = {container["name"]: ContainerRun() for container in all_containers(pod)}
        if status.get("startTime"):  # it was loaded as it is: go on from there
            take_over(run, status)
        return run

    def _address(self) -> str:
        number = next(self._addresses)
        return f"10.{128 + (number >> 16) % 128}.{number >> 8 & 255}.{number & 255}"

    def _live(self, key: Key, pod: Object, run: PodRun, orders: Orders, now: datetime) -> None:
        """One step in the life of a pod; when there is a next one, look again at its time."""
        run.untouched = run.untouched and orders == NO_ORDERS
        if run.untouched:
            return
        delay = self.start_seconds if orders.start_seconds is None else orders.start_seconds
        due = run.seen + timedelta(seconds=delay)
        if run.start_time is None and now < due:
            self.enqueue(key, (due - now).total_seconds())
            return
        run.start_time = run.start_time or now
        if orders.evict_seconds is not None:
            evicted_at = run.start_time + timedelta(seconds=orders.evict_seconds)
            if now >= evicted_at:
                self._evict(pod, run, orders, now)
                return
            self.enqueue(key, (evicted_at - now).total_seconds())
        run.waiting, again = self._obstacle(pod, run, orders, now)
        if run.waiting is None:
            again = self._step(pod, run, orders, now)
        self._write(pod, run, orders, now)
        if again is not None and again > now:
            self.enqueue(key, (again - now).total_seconds())

    # -- starting --------------------------------------------------------------------------------------------------

    def _obstacle(
        self, pod: Object, run: PodRun, orders: Orders, now: datetime
    ) -> tuple[tuple[str, str] | None, datetime | None]:
        """Why the containers cannot start, if they have not: (reason and message, when to look again)."""
        if any(one.started for one in run.containers.values()):
            return None, None
        if orders.stuck:
            return ("ContainerCreating", ""), None
        missing = missing_volume(self.registry, pod)
        if missing:
            self.recorder.event(pod, "Warning", "FailedMount", missing)
            return ("ContainerCreating", ""), now + timedelta(seconds=CONFIG_RETRY)
        for container in all_containers(pod):
            problem = pull_problem(container.get("image", ""), orders.pull_error)
            if problem:
                return self._pull_failed(pod, run, container["image"], problem, now)
        try:
            for container in all_containers(pod):
                environment(self.registry, pod, container, run.ip, run.host_ip)
        except ConfigError as error:
            self.recorder.event(pod, "Warning", "Failed", f"Error: {error}")
            return ("CreateContainerConfigError", str(error)), now + timedelta(seconds=CONFIG_RETRY)
        return None, None

    def _pull_failed(
        self, pod: Object, run: PodRun, image: str, problem: str, now: datetime
    ) -> tuple[tuple[str, str], datetime]:
        wait = min(BACKOFF_FIRST * 2 ** max(0, run.pulls - 1), BACKOFF_MAX)
        if run.last_pull is None or now >= run.last_pull + timedelta(seconds=wait):
            run.last_pull, run.pulls = now, run.pulls + 1
            self.recorder.event(pod, "Normal", "Pulling", f'Pulling image "{image}"')
            self.recorder.event(pod, "Warning", "Failed", f'Failed to pull image "{image}": {problem}')
            self.recorder.event(pod, "Warning", "Failed", "Error: ErrImagePull")
        since = run.last_pull
        if now < since + timedelta(seconds=PULL_ERROR_SHOWN):
            return ("ErrImagePull", problem), since + timedelta(seconds=PULL_ERROR_SHOWN)
        self.recorder.event(pod, "Normal", "BackOff", f'Back-off pulling image "{image}"')
        self.recorder.event(pod, "Warning", "Failed", "Error: ImagePullBackOff")
        wait = min(BACKOFF_FIRST * 2 ** (run.pulls - 1), BACKOFF_MAX)
        message = f'Back-off pulling image "{image}": ErrImagePull: {problem}'
        return ("ImagePullBackOff", message), since + timedelta(seconds=wait)

    # -- running ---------------------------------------------------------------------------------------------------

    def _step(self, pod: Object, run: PodRun, orders: Orders, now: datetime) -> datetime | None:
        """Start, end and restart containers as far as it is time; when the next change is due."""
        for container in pod["spec"].get("initContainers") or ():
            one = run.containers[container["name"]]
            self._start_if_due(pod, run, container, orders, now)
            if container.get("restartPolicy") == "Always" or succeeded(one):
                continue
            due = self._end_if_due(pod, container, one, orders.init_seconds, orders.init_exit_code, "", now)
            if not succeeded(one):
                return due
        coming: list[datetime] = []
        for container in pod["spec"]["containers"]:
            one = run.containers[container["name"]]
            self._start_if_due(pod, run, container, orders, now)
            if orders.run_seconds is not None and one.running:
                end = one.after(orders.run_seconds)
                if now >= end:
                    finish(one, orders.final_exit_code, orders.reason, now)
                else:
                    coming.append(end)
            elif orders.crash_seconds is not None:
                due = self._end_if_due(
                    pod, container, one, orders.crash_seconds, orders.final_exit_code, orders.reason, now
                )
                if due is not None:
                    coming.append(due)
            if one.running and orders.ready_seconds:
                coming.append(one.after(orders.ready_seconds))
        return min((moment for moment in coming if moment > now), default=None)

    def _start_if_due(self, pod: Object, run: PodRun, container: Object, orders: Orders, now: datetime) -> None:
        one = run.containers[container["name"]]
        if one.started is not None:
            if one.restart_at is None or now < one.restart_at:
                return
            one.last, one.previous_log, one.ended, one.restart_at = one.ended, one.log, None, None
            one.restarts += 1
        one.started = now
        env = environment(self.registry, pod, container, run.ip, run.host_ip)
        one.log = kubelet_logs.written_at_start(pod, container, env, orders, now)

    def _end_if_due(
        self, pod: Object, container: Object, one: ContainerRun, after: float, code: int, reason: str, now: datetime
    ) -> datetime | None:
        """End a container after its time and plan its restart; when the next of the two is due."""
        if one.running:
            end = one.after(after)
            if now < end:
                return end
            finish(one, code, reason, now)
            policy = pod["spec"]["restartPolicy"]
            if policy == "Never" or (code == 0 and (policy == "OnFailure" or is_init(pod, container))):
                return None
            wait = min(BACKOFF_FIRST * 2 ** (one.restarts - 1), BACKOFF_MAX) if one.restarts else 0.0
            one.restart_at = now + timedelta(seconds=wait)
            if wait:
                where = f"{container['name']} in pod {pod_text(pod)}"
                message = f"Back-off restarting failed container {where}"
                path = f"spec.containers{{{container['name']}}}"
                self.recorder.event(pod, "Warning", "BackOff", message, path)
            else:
                self.enqueue(key_of(pod))
        return one.restart_at

    # -- ending ----------------------------------------------------------------------------------------------------

    def _stop(self, key: Key, pod: Object, run: PodRun, orders: Orders, now: datetime) -> None:
        """Graceful deletion: the containers stop, the status says so, then the pod may go."""
        if not is_terminal(pod):
            run.stopping = run.stopping or now
            delay = self.stop_seconds if orders.stop_seconds is None else orders.stop_seconds
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
            due = run.stopping + timedelta(seconds=min(delay, grace))
            if now < due:
                self.enqueue(key, (due - now).total_seconds())
                return
            for one in run.containers.values():
                if one.running:
                    finish(one, SIGKILL if delay > grace else SIGTERM, "", now)
                one.restart_at = None
            run.waiting = None
            self._write(pod, run, orders, now, phase="Failed")
        if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
            try:
                self.registry.delete("Pod", *key, grace_seconds=0, preconditions={"uid": run.uid})
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    def _evict(self, pod: Object, run: PodRun, orders: Orders, now: datetime) -> None:
        self.recorder.event(pod, "Warning", "Evicted", orders.evict_message)
        for one in run.containers.values():
            if one.running:
                finish(one, SIGKILL, "", now)
        disruption = condition("DisruptionTarget", True, now, "TerminationByKubelet", orders.evict_message)
        self._write(pod, run, orders, now, phase="Failed", reason="Evicted", more=[disruption])

    # -- status ----------------------------------------------------------------------------------------------------

    def _write(
        self,
        pod: Object,
        run: PodRun,
        orders: Orders,
        now: datetime,
        phase: str = "",
        reason: str = "",
        more: list[Object] | None = None,
    ) -> None:
        status = render(pod, run, orders, now, phase)
        if reason:
            status |= {"reason": reason, "message": orders.evict_message}
        conditions = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
        for new in [*status["conditions"], *(more or ())]:
            old = conditions.get(new["type"])
            if old is not None and old["status"] == new["status"]:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[new["type"]] = new
        status["conditions"] = list(conditions.values())

        def write(copied: Object) -> None:
            if copied["metadata"]["uid"] == run.uid:
                copied["status"] = status

        self.registry.modify("Pod", *key_of(pod), write, subresource="status", manager="kubelet")


def render(pod: Object, run: PodRun, orders: Orders, now: datetime, phase: str = "") -> Object:
    """The status of a pod: phase, conditions, addresses, containers."""
    spec = pod["spec"]
    mains = [run.containers[container["name"]] for container in spec["containers"]]
    inits = [(c, run.containers[c["name"]]) for c in spec.get("initContainers") or ()]
    initialized = all(succeeded(one) or (c.get("restartPolicy") == "Always" and one.started) for c, one in inits)
    phase = phase or phase_of(pod, run)
    main_statuses = [container_status(pod, c, run, orders, now) for c in spec["containers"]]
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
    status: Object = {
        "phase": phase,
        "conditions": [
            condition("PodReadyToStartContainers", any(one.started for one in run.containers.values()), now),
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
        "qosClass": (pod.get("status") or {}).get("qosClass", "BestEffort"),
    }
    if any(one.started for one in mains) or any(one.started for _, one in inits):
        status |= {"podIP": run.ip, "podIPs": [{"ip": run.ip}]}
    if inits:
        status["initContainerStatuses"] = [container_status(pod, c, run, orders, now) for c, _ in inits]
    return status


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


def container_status(pod: Object, container: Object, run: PodRun, orders: Orders, now: datetime) -> Object:
    one = run.containers[container["name"]]
    init = is_init(pod, container)
    state: Object
    if one.running:
        state = {"running": {"startedAt": rfc3339(one.started)}}  # type: ignore[arg-type]
    elif one.ended is not None and one.restart_at is not None and one.restarts:
        wait = min(BACKOFF_FIRST * 2 ** (one.restarts - 1), BACKOFF_MAX)
        text = duration(wait)
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
    ready_at = one.after(orders.ready_seconds) if one.started is not None else now
    sidecar = container.get("restartPolicy") == "Always"
    up = one.running and (init or (orders.ready and now >= ready_at))
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


def finish(one: ContainerRun, code: int, reason: str, now: datetime) -> None:
    assert one.started is not None
    one.ended = {
        "exitCode": code,
        "reason": reason or ("Error" if code else "Completed"),
        "startedAt": rfc3339(one.started),
        "finishedAt": rfc3339(now),
    }
    one.restart_at = None


def take_over(run: PodRun, status: Object) -> None:
    """Go on with a pod that has a status already, e.g. one that was loaded in bulk."""
    run.start_time, run.untouched = parse_time(status["startTime"]), True
    for seen in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        one, state = run.containers.get(seen["name"]), seen.get("state") or {}
        if one is None:
            continue
        one.restarts = seen.get("restartCount", 0)
        one.ended = state.get("terminated")
        since = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        one.started = parse_time(since) if since else None


def succeeded(one: ContainerRun) -> bool:
    return one.ended is not None and one.ended["exitCode"] == 0


def all_containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def is_init(pod: Object, container: Object) -> bool:
    return any(one["name"] == container["name"] for one in pod["spec"].get("initContainers") or ())


def pod_text(pod: Object) -> str:
    """format.Pod: name_namespace(uid)."""
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"


def duration(seconds: float) -> str:
    """time.Duration's text, of whole seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def host_address(node_name: str) -> str:
    """An address for a node that names none, the same each time."""
    number = int("".join(filter(str.isdigit, node_name)) or 0) % 65024
    return f"192.168.{number // 254}.{number % 254 + 1}"


def missing_volume(registry: Any, pod: Object) -> str:
    """What the kubelet says of a volume whose ConfigMap or Secret is not there, "" when all are."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for kind, source, name_field in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
            reference = volume.get(source)
            if reference is None or reference.get("optional"):
                continue
            if registry.get(kind, namespace, reference[name_field]) is None:
                what = f'{kind.lower()} "{reference[name_field]}" not found'
                return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {what}'
    return ""


def pull_problem(image: str, ordered: str) -> str:
    """Why an image cannot be pulled: a test says so, or its name does (…does-not-exist…, registry.invalid/…)."""
    if ordered and ordered.lower() not in ("true", "1", "yes"):
        return ordered
    reference = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
    host, slash, rest = reference.partition("/")
    start = f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}": '
    if slash and host.partition(":")[0].endswith(".invalid"):
        repository, _, tag = rest.rpartition(":")
        request = f'failed to do request: Head "https://{host}/v2/{repository}/manifests/{tag}"'
        return f"{start}{request}: dial tcp: lookup {host.partition(':')[0]}: no such host"
    if ordered or "does-not-exist" in image:
        return f"rpc error: code = NotFound desc = {start}{reference}: not found"
    return ""
