# SPDX-License-Identifier: BSD-2-Clause
"""All kubelets in one: starts the pods that have a node, lets their containers run, fail, restart and stop as ordered.

Source: pkg/kubelet/kuberuntime/kuberuntime_manager.go (restarts), images/image_manager.go (pulling), and their events.
Events are recorded of what goes wrong only, as the kubelet of the recordings in tests/contract records none.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

from kubesim.errors import ApiError, bad_request

from . import kubelet_logs, kubelet_programs
from .base import Controller, Key, Object, find_condition, key_of
from .events import EventRecorder
from .kubelet_behavior import DEFAULT_BEHAVIOR, Behavior, Rule, behavior_of, read_option
from .kubelet_env import ConfigError, environment
from .kubelet_images import pull_problem, root_problem
from .kubelet_runs import ContainerRun, PodRun, all_containers, backoff, finish, is_init, pod_text, succeeded, take_over
from .kubelet_status import render
from .pods import is_terminal

PULL_ERROR_SHOWN = 1.0  # seconds of ErrImagePull before ImagePullBackOff is shown
CONFIG_RETRY = 2.0
SANDBOX_RETRY = 12.0
SIGTERM, SIGKILL = 143, 137
NOT_STARTED = 128  # what containerd reports for a container whose command never began
RUNTIME = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)


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
        self._cut_off: dict[str, dict[Key, None]] = {}  # pods that wait for the kubelet of their node
        self._addresses = itertools.count(2)
        self._rule_numbers = itertools.count(1)

    # -- behavior ----------------------------------------------------------------------------------------------------

    def behave(
        self,
        *,
        labels: dict[str, str] | None = None,
        image: str = "*",
        name: str = "*",
        namespace: str = "*",
        **behavior: Any,
    ) -> int:
        """From now on the pods that match obey these behavior (fields of Behavior); the number of the rule.

        Pods that run already obey too. KeyError for an unknown order, ValueError for a value that makes no sense."""
        read = {field: read_option(field, value) for field, value in behavior.items()}
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
        lines = self._log_lines(self._logged(pod, container, previous), previous)
        text = kubelet_logs.text_of(kubelet_logs.select(lines, tail, since), timestamps)
        return text if limit_bytes is None else text.encode()[:limit_bytes].decode(errors="ignore")

    def followed_log(
        self, pod: Object, container: str, *, tail: int | None, since: datetime | None, timestamps: bool
    ) -> kubelet_logs.FollowedLog:
        """The same as it grows, until the container ends; a container that is restarted has a log of its own."""
        one = self._logged(pod, container, previous=False)
        started, key = one.started, key_of(pod)

        def is_restarted() -> bool:
            return one.started is not started

        def lines() -> list[kubelet_logs.Line]:
            return self._log_lines(one, previous=is_restarted())

        def ended() -> bool:
            return is_restarted() or not one.running or key not in self._runs

        there = lines()
        first = kubelet_logs.select(there, tail, since)
        return kubelet_logs.FollowedLog(first, len(there), lines, ended, timestamps)

    def _logged(self, pod: Object, container: str, previous: bool) -> ContainerRun:
        run = self._runs.get(key_of(pod))
        one = run.containers.get(container) if run else None
        pod_name = pod["metadata"]["name"]
        if previous:
            if one is None or one.previous_log is None:
                raise bad_request(f'previous terminated container "{container}" in pod "{pod_name}" not found')
            return one
        if one is None or one.started is None:
            reason = run.waiting[0] if run is not None and run.waiting else "ContainerCreating"
            trouble = {
                "ErrImagePull": "image can't be pulled",
                "ImagePullBackOff": "trying and failing to pull image",
            }.get(reason, reason)
            raise bad_request(f'container "{container}" in pod "{pod_name}" is waiting to start: {trouble}')
        assert run is not None
        if not one.log:  # it was started before this kubelet
            self._write_log(pod, run, container, one.started)
        return one

    def _log_lines(self, one: ContainerRun, previous: bool) -> list[kubelet_logs.Line]:
        if previous:
            return one.previous_log or []
        return kubelet_logs.written_by(one.log, self.registry.clock.now()) if one.log_grows else one.log

    def is_running(self, pod: Object, container: str) -> bool:
        run = self._runs.get(key_of(pod))
        one = run.containers.get(container) if run else None
        return one is not None and one.running

    # -- the loop --------------------------------------------------------------------------------------------------

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        if kind == "Node":
            name = obj["metadata"]["name"]
            for key in (*self._homeless.pop(name, ()), *self._cut_off.pop(name, ())):
                self.enqueue(key)
        elif event == "DELETED":
            self._runs.pop(key_of(obj), None)
        elif obj["spec"].get("nodeName"):
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        pod = self.registry.get("Pod", *key)
        if pod is None or not pod["spec"].get("nodeName"):  # gone; or another of that name came, and has no node yet
            self._runs.pop(key, None)
            return
        run = self._run(key, pod)
        if run is None:
            return
        if self._is_out_of_touch(pod["spec"]["nodeName"]):
            self._cut_off.setdefault(pod["spec"]["nodeName"], {})[key] = None
            return
        now, behavior = self.clock.now(), behavior_of(pod, self.rules)
        if "deletionTimestamp" in pod["metadata"]:
            self._stop(key, pod, run, behavior, now)
        elif not is_terminal(pod):
            self._live(key, pod, run, behavior, now)

    def _is_out_of_touch(self, node_name: str) -> bool:
        """Whether the kubelet of the node has stopped: a test says so by the node's condition Ready, ``Unknown``."""
        node = self.registry.get("Node", "", node_name)
        ready = find_condition(node, "Ready") if node is not None else None
        return ready is not None and ready["status"] == "Unknown"

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
        if status.get("startTime") or status.get("phase") in ("Running", "Succeeded", "Failed"):
            take_over(run, pod)
        return run

    def _address(self) -> str:
        number = next(self._addresses)
        return f"10.{128 + (number >> 16) % 128}.{number >> 8 & 255}.{number & 255}"

    def _live(self, key: Key, pod: Object, run: PodRun, behavior: Behavior, now: datetime) -> None:
        """One step in the life of a pod; when there is a next one, look again at its time."""
        run.untouched = run.untouched and behavior == DEFAULT_BEHAVIOR
        if run.untouched or behavior.by_hand:
            return
        delay = self.start_seconds if behavior.start_seconds is None else behavior.start_seconds
        due = run.seen + timedelta(seconds=delay)
        if run.start_time is None and now < due:
            self.enqueue(key, (due - now).total_seconds())
            return
        run.start_time = run.start_time or now
        run.waiting, again = self._obstacle(pod, run, behavior, now)
        if run.waiting is None:
            again = self._step(pod, run, behavior, now)
        self._write(pod, run, behavior, now)
        if again is not None and again > now:
            self.enqueue(key, (again - now).total_seconds())

    # -- starting --------------------------------------------------------------------------------------------------

    def _obstacle(
        self, pod: Object, run: PodRun, behavior: Behavior, now: datetime
    ) -> tuple[tuple[str, str] | None, datetime | None]:
        """Why the containers cannot start, if they have not: (reason and message, when to look again)."""
        if any(one.started for one in run.containers.values()):
            return None, None
        if behavior.stuck:
            return ("ContainerCreating", ""), None
        missing = missing_volume(self.registry, pod)
        if missing:
            if run.trouble != missing:
                run.trouble = missing
                self.recorder.event(pod, "Warning", "FailedMount", missing)
            return ("ContainerCreating", ""), now + timedelta(seconds=CONFIG_RETRY)
        if behavior.sandbox_error:
            return ("ContainerCreating", ""), self._sandbox_failed(pod, run, behavior.sandbox_error, now)
        for container in all_containers(pod):
            problem = pull_problem(container.get("image", ""), behavior.pull_error)
            if problem:
                return self._pull_failed(pod, run, container["image"], problem, now)
        try:
            for container in all_containers(pod):
                environment(self.registry, pod, container, run.ip, run.host_ip)
                if problem := root_problem(pod, container, behavior.image_user):
                    raise ConfigError(problem)
        except ConfigError as error:
            if run.trouble != str(error):
                run.trouble = str(error)
                self.recorder.event(pod, "Warning", "Failed", f"Error: {error}")
            return ("CreateContainerConfigError", str(error)), now + timedelta(seconds=CONFIG_RETRY)
        return None, None

    def _sandbox_failed(self, pod: Object, run: PodRun, problem: str, now: datetime) -> datetime:
        """When the kubelet tries again."""
        if run.last_sandbox is None or now >= run.last_sandbox + timedelta(seconds=SANDBOX_RETRY):
            run.last_sandbox = now
            message = f"Failed to create pod sandbox: rpc error: code = Unknown desc = {problem}"
            self.recorder.event(pod, "Warning", "FailedCreatePodSandBox", message)
        return run.last_sandbox + timedelta(seconds=SANDBOX_RETRY)

    def _pull_failed(
        self, pod: Object, run: PodRun, image: str, problem: str, now: datetime
    ) -> tuple[tuple[str, str], datetime]:
        if run.last_pull is None or now >= run.last_pull + timedelta(seconds=backoff(run.pulls)):
            run.last_pull, run.pulls = now, run.pulls + 1
            self.recorder.event(pod, "Normal", "Pulling", f'Pulling image "{image}"')
            self.recorder.event(pod, "Warning", "Failed", f'Failed to pull image "{image}": {problem}')
            self.recorder.event(pod, "Warning", "Failed", "Error: ErrImagePull")
        since = run.last_pull
        if now < since + timedelta(seconds=PULL_ERROR_SHOWN):
            return ("ErrImagePull", problem), since + timedelta(seconds=PULL_ERROR_SHOWN)
        if run.waiting is not None and run.waiting[0] != "ImagePullBackOff":
            self.recorder.event(pod, "Normal", "BackOff", f'Back-off pulling image "{image}"')
            self.recorder.event(pod, "Warning", "Failed", "Error: ImagePullBackOff")
        message = f'Back-off pulling image "{image}": ErrImagePull: {problem}'
        return ("ImagePullBackOff", message), since + timedelta(seconds=backoff(run.pulls))

    # -- running ---------------------------------------------------------------------------------------------------

    def _step(self, pod: Object, run: PodRun, behavior: Behavior, now: datetime) -> datetime | None:
        """Start, end and restart containers as far as it is time; when the next change is due."""
        for container in pod["spec"].get("initContainers") or ():
            one = run.containers[container["name"]]
            self._start_if_due(pod, run, container, now)
            if container.get("restartPolicy") == "Always" or succeeded(one):
                continue
            due = self._end_if_due(pod, container, one, behavior.init_seconds, behavior.init_exit_code, "", now)
            if not succeeded(one):
                return due
        coming: list[datetime] = []
        for container in pod["spec"]["containers"]:
            one = run.containers[container["name"]]
            self._start_if_due(pod, run, container, now)
            if behavior.start_error:
                due = self._end_if_due(pod, container, one, 0.0, NOT_STARTED, "StartError", now)
                if one.ended is not None:
                    one.ended |= {"message": f"{RUNTIME}{behavior.start_error}", "startedAt": "1970-01-01T00:00:00Z"}
                if due is not None:
                    coming.append(due)
            elif behavior.run_seconds is not None and one.running:
                end = one.after(behavior.run_seconds)
                if now >= end:
                    finish(one, behavior.final_exit_code, behavior.reason, now)
                else:
                    coming.append(end)
            elif behavior.crash_seconds is not None:
                due = self._end_if_due(
                    pod, container, one, behavior.crash_seconds, behavior.final_exit_code, behavior.reason, now
                )
                if due is not None:
                    coming.append(due)
            elif one.exit_code is not None:
                due = self._end_if_due(pod, container, one, 0.0, one.exit_code, "", now)
                if due is not None:
                    coming.append(due)
            if one.running and behavior.ready_seconds:
                coming.append(one.after(behavior.ready_seconds))
        return min((moment for moment in coming if moment > now), default=None)

    def _start_if_due(self, pod: Object, run: PodRun, container: Object, now: datetime) -> None:
        one = run.containers[container["name"]]
        if one.started is not None:
            if one.restart_at is None or now < one.restart_at:
                return
            one.last, one.previous_log, one.ended, one.restart_at = one.ended, one.log, None, None
            one.restarts += 1
        one.started = now
        self._write_log(pod, run, container["name"], now)

    def _write_log(self, pod: Object, run: PodRun, name: str, start: datetime) -> None:
        container = next(one for one in all_containers(pod) if one["name"] == name)
        env = environment(self.registry, pod, container, run.ip, run.host_ip)
        behavior = behavior_of(pod, self.rules)
        program = kubelet_programs.run(self.registry, pod, container, env)
        one = run.containers[name]
        printed, one.exit_code = (program.lines, program.exit_code) if program else (None, None)
        one.log = kubelet_logs.written_at_start(pod, container, env, behavior, printed, start)
        one.log_grows = behavior.log_seconds is not None

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
            wait = backoff(one.restarts)
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

    def _stop(self, key: Key, pod: Object, run: PodRun, behavior: Behavior, now: datetime) -> None:
        """Graceful deletion: the containers stop, the status says so, then the pod may go."""
        if not is_terminal(pod):
            run.stopping = run.stopping or now
            delay = self.stop_seconds if behavior.stop_seconds is None else behavior.stop_seconds
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
            self._write(pod, run, behavior, now, phase="Failed")
        if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
            try:
                self.registry.delete("Pod", *key, grace_seconds=0, preconditions={"uid": run.uid})
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

    # -- status ----------------------------------------------------------------------------------------------------

    def _write(self, pod: Object, run: PodRun, behavior: Behavior, now: datetime, phase: str = "") -> None:
        status = render(pod, run, behavior, now, phase)
        conditions = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
        for new in status["conditions"]:
            old = conditions.get(new["type"])
            if old is not None and old["status"] == new["status"]:
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[new["type"]] = new
        status["conditions"] = list(conditions.values())

        def write(copied: Object) -> None:
            if copied["metadata"]["uid"] == run.uid:
                copied["status"] = status

        self.registry.modify("Pod", *key_of(pod), write, subresource="status", manager="kubelet")


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
