# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_log: read the logs of a job or of a sweep, or follow them until it ends.

Every pod has a thread that reads its log (pod_log.py). A watch says which pods there are. Both hand over what they have
to the task's own thread, which alone prints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...cluster.lookup import pods_of_job_or_pod, sweep_text
from ...cluster.node_loss import loss_text
from ...cluster.nodes import Node
from ...cluster.read_jobs import WORKLOADS, JobId, job_id_of, read_jobs
from ...cluster.read_nodes import read_node
from ...cluster.read_reasons import read_reasons
from ...cluster.related import rank_of
from ...cluster.status import is_terminating
from ...kube.errors import KubeError
from ...kube.resources import POD
from ...labels import selector_of
from ...logs.log_grep import Grep, GrepFailed
from ...logs.log_lines import View
from ...logs.log_pods import choose_pods
from ...manifest.problems import number_of
from ...namespaces import allowed_namespaces, named_job
from ...printable import printable
from ...reporter import RARELY, LiveScreen
from ...task import ModuleSpec, Task, TaskFailed
from ...wait.watch_cache import WatchCache, WatchQuery
from ..jobs.absence import NoPods, named_sweep
from .followed_jobs import FollowedJobs
from .job_log import JobLogOptions, log_request, pod_secrets
from .job_log import run as read_logs
from .pod_log import FollowedLine, PodLog, Start, container_state, end_text
from .silence import is_on_lost_node
from .terminal_text import terminal_text

Object = dict[str, Any]

_MOST_PODS = 128  # a thread and a connection for each
_TURN = 1.0  # seconds until it looks at everything again, whatever happens
_BROKEN_SECONDS = 3.0  # until a broken connection is worth a line
_SILENCE_TURN = 5.0  # until the node of a log that does not come is looked at again
_FLUSH = 65_536  # characters that are printed at once
_PREFIX_COLORS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_STOP_TIMEOUT = 2.0  # seconds that all threads together get to end


def run(task: Task[JobLogOptions]) -> dict[str, Any]:
    """Follows the logs with ``follow``, and otherwise reads them. Raises TaskFailed."""
    if not task.options.follow:
        return read_logs(task)
    if task.screen is None:
        raise TaskFailed(
            "O(follow): a task can only print while it runs if it runs in Ansible's own process. Run it on localhost, "
            "without async, become, environment and no_log, and with the Python of ansible-playbook; -vvv says what "
            "is in the way."
        )
    log_request(task.options)  # raises TaskFailed for mistakes
    jobs, pod = _find(task, named_job(task))
    how = f"-e gpuctl_name={jobs.name} -e gpuctl_namespace={jobs.namespace} -e gpuctl_follow=true"
    with (
        Grep(task.options.grep or "") as grep,
        WatchCache(task.client(), task.warn) as cache,
        task.screen.said_on_interrupt(
            f"Stopped following; {jobs.title} is not affected. To follow it again: "
            f"ansible-playbook runwhere.gpuctl.logs {how}"
        ),
    ):
        following = _Following(task, task.screen, jobs, cache, pod, grep)
        try:
            return following.run()
        except GrepFailed as problem:
            raise TaskFailed(str(problem)) from None
        finally:
            following.stop()


MODULE = ModuleSpec(JobLogOptions, run, report="logs")


def _find(task: Task[JobLogOptions], job: JobId) -> tuple[FollowedJobs, str | None]:
    """The job, which may be named by one of its pods, or those of the sweep; and the pod, if it is only about one."""
    client, wanted = task.client(), task.options.pod or None
    workloads = read_jobs(client, [job], WORKLOADS)[job]
    if not workloads:
        job, named, _sorted_pods = pods_of_job_or_pod(client, job)
        workloads, wanted = read_jobs(client, [job], WORKLOADS)[job] if named else [], wanted or named
    if workloads:
        return FollowedJobs(workloads[:1]), wanted
    try:
        jobs = named_sweep(client, job, allowed_namespaces(task))
    except NoPods as reason:
        raise TaskFailed(str(reason)) from None
    of_sweep = [found[0] for found in read_jobs(client, jobs, WORKLOADS).values() if found]
    if not of_sweep:
        raise TaskFailed(f"{sweep_text(job[1], jobs)} They are gone now.")
    return FollowedJobs(of_sweep, job[1]), wanted


class _Following:
    """The task's own thread: finds pods, and prints what their threads bring."""

    def __init__(
        self,
        task: Task[JobLogOptions],
        screen: LiveScreen,
        jobs: FollowedJobs,
        cache: WatchCache,
        pod: str | None,
        grep: Grep,
    ) -> None:
        self._task, self._screen, self._jobs, self._cache = task, screen, jobs, cache
        self._options = task.options
        self._grep = grep
        self._logs: dict[str, PodLog] = {}  # by the uid of the pod
        self._wanted_pod = pod
        self._out: list[str] = []
        self._size = 0
        self._flushed = 0.0
        self._count = 0
        self._broken = False
        self._silence_at: float | None = None
        self._warned_of_number = False
        self._progress_shown = time.monotonic()
        self._reason, self._reason_at = "", -RARELY

    def run(self) -> dict[str, Any]:
        selector = selector_of(self._jobs.names)
        resources = (self._jobs.resource, POD)
        self._cache.add(WatchQuery(resource, self._jobs.namespace, selector) for resource in resources)
        self._begin()
        self._cache.watch()
        while True:
            self._start_threads(Start())
            over = self._has_ended()
            if over:
                self._cache.refresh()  # A pod may be newer than what the watch has brought.
                self._start_threads(Start())
                over = self._has_ended()
            if over:
                return self._follow_result()
            self._flush_at_times()
            self._cache.wait_for_change(_TURN)
            self._show_state()

    def stop(self) -> None:
        self._cache.stopped.set()
        for log in self._logs.values():
            log.stop()
        for log in self._logs.values():
            log.join(_STOP_TIMEOUT / len(self._logs))

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        pods = self._sorted_pods()
        self._print(
            f"Following {number_of(len(pods), 'pod')} of {self._jobs.title} ({self._jobs.status_text}). "
            f"Ctrl-C ends that, and not the {'jobs' if self._jobs.is_sweep else 'job'}."
        )
        if self._wanted_pod and not self._chosen_pods(pods):
            try:
                choose_pods(pods, self._wanted_pod, self._options.container)
            except ValueError as problem:
                raise TaskFailed(f"{self._jobs.title} in namespace {self._jobs.namespace}: {problem}") from None
        self._start_threads(Start(tail=self._options.tail, since=self._options.since or None))

    def _sorted_pods(self) -> list[Object]:
        return self._jobs.sorted_pods(self._cache.objects(POD))

    def _chosen_pods(self, pods: Sequence[Object]) -> list[Object]:
        """Those of the option ``pod``; of a rank also those that are to come."""
        if self._wanted_pod is None or not pods:
            return list(pods)
        try:
            found = choose_pods(pods, self._wanted_pod, self._options.container)
        except ValueError:
            return []
        if any(rank_of(pod) is None for pod in found):
            self._wanted_pod = found[0]["metadata"]["name"]  # Its position may be another one's later.
        return found

    def _start_threads(self, start: Start) -> None:
        pods = self._sorted_pods()
        uids = {pod["metadata"]["uid"] for pod in pods}
        for log in self._logs.values():
            if log.pod["metadata"]["uid"] not in uids and not log.gone:
                log.gone = True
                log.changed.set()
        new: list[Object] = []
        for pod in self._chosen_pods(pods):
            known = self._logs.get(pod["metadata"]["uid"])
            if known is None:
                if container_state(pod, self._options.container).has_log:
                    new.append(pod)
            elif known.pod is not pod:
                known.pod = pod
                known.changed.set()
        left = _MOST_PODS - sum(not log.over for log in self._logs.values())
        if len(new) > left:
            if not self._warned_of_number:
                self._task.warn(f"only {_MOST_PODS} pods are followed at once. Choose one with O(pod).")
                self._warned_of_number = True
            new = new[:left]
        if not new:
            return
        client = self._task.client()
        by_job = {job: [pod for pod in new if job_id_of(pod) == job] for job in map(job_id_of, new)}
        secrets = self._task.masked.union(*(pod_secrets(client, job, own) for job, own in by_job.items()))
        search = self._grep.search if self._options.grep else None
        for pod in new:
            log = PodLog(
                client,
                pod,
                self._options.container,
                View(self._options.limit_bytes, secrets, search),
                start,
                submit=self._cache.submit,
                stopped=self._cache.stopped,
                lines=self._take_lines,
                note=self._print_note,
            )
            self._logs[pod["metadata"]["uid"]] = log
            if start == Start() and len(self._logs) > 1:
                self._print_note(log, f"started on node {pod['spec'].get('nodeName')}")
            log.start()

    # -- the end ------------------------------------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        """Whether nothing more can come."""
        now = time.monotonic()
        self._jobs.update(self._cache.objects(self._jobs.resource), now)
        reading = any(not log.over for log in self._logs.values())
        if reading:
            return False
        chosen = self._chosen_pods(self._sorted_pods())
        if self._wanted_pod and not self._wanted_pod.isdecimal():
            return bool(self._logs) and all(self._is_finished(pod) for pod in chosen)
        unread = [pod for pod in chosen if pod["metadata"]["uid"] not in self._logs and not self._is_finished(pod)]
        return not unread and self._jobs.have_ended(now)

    def _is_finished(self, pod: Object) -> bool:
        state = container_state(pod, self._options.container)
        return state.final or is_terminating(pod)

    def _follow_result(self) -> dict[str, Any]:
        status, failures = self._jobs.status, self._jobs.failures()
        ends = self._container_ends(None if self._wanted_pod else failures)
        text = f"{self._jobs.title.capitalize()}: {self._jobs.status_text}"
        whys = [f"{name}: {why}" if self._jobs.is_sweep else why for name, why in failures.items() if why]
        details = [*whys[:3], *(f"{name}: {end_text(end)}" for name, end in list(ends.items())[:3])]
        message = f"{text}. {'. '.join(detail.rstrip('.') for detail in details)}." if details else f"{text}."
        self._print(message)
        self._flush()
        codes = [int(end["exitCode"]) for end in ends.values()]
        return {
            "changed": False,
            "results": [],
            "msg": f"{number_of(self._count, 'line')} of {number_of(len(self._logs), 'pod')}. {message}",
            "job_status": status,
            "exit_code": codes[0] if codes else 0 if status == "Succeeded" else None,
        }

    def _container_ends(self, jobs: Collection[str] | None) -> dict[str, Mapping[str, Any]]:
        """How containers of these jobs that did not succeed have ended, by the names of pods; the last one first."""
        found = {
            log.pod_name: ended
            for log in self._logs.values()
            if (jobs is None or job_id_of(log.pod)[1] in jobs)
            and (ended := container_state(log.pod, self._options.container).ended)
            and ended.get("exitCode")
        }
        return dict(sorted(found.items(), key=lambda item: item[1].get("finishedAt") or "", reverse=True))

    # -- printing -----------------------------------------------------------------------------------------------------

    def _take_lines(self, log: PodLog, lines: Sequence[FollowedLine]) -> None:
        prefix = self._prefix(log)
        colors, timestamps = self._screen.colors, self._options.timestamps
        for line in lines:
            stamp = f"{line.timestamp} " if timestamps and line.timestamp else ""
            self._add_line(f"{prefix}{stamp}{terminal_text(line.text, colors=colors)}")
        self._count += len(lines)

    def _print_note(self, log: PodLog, text: str) -> None:
        self._print(f"-- pod {log.pod_name}: {text}")

    def _print(self, text: str) -> None:
        self._add_line(printable(text))

    def _add_line(self, line: str) -> None:
        self._out.append(line)
        self._size += len(line)
        if self._size > _FLUSH:
            self._flush()

    def _flush(self) -> None:
        if self._out:
            self._screen.print(self._out)
            self._out, self._size, self._flushed = [], 0, time.monotonic()

    def _prefix(self, log: PodLog) -> str:
        """The short name of the pod, where there are several."""
        if len(self._logs) < 2 and not self._jobs.is_sweep:
            return ""
        text = f"[{self._jobs.short_name(log.pod)}]"
        if self._screen.colors:
            number = list(self._logs.values()).index(log)
            text = f"\x1b[{_PREFIX_COLORS[number % len(_PREFIX_COLORS)]}m{text}\x1b[0m"
        return f"{text} "

    def _flush_at_times(self) -> None:
        """Elsewhere than on a terminal, what is printed at once is an event of AWX."""
        if self._screen.changes or time.monotonic() - self._flushed >= _TURN:
            self._flush()

    def _show_state(self) -> None:
        """What is not a line: a progress bar, a broken connection, a job that does not start."""
        self._flush_at_times()
        now = time.monotonic()
        broken = [log for log in self._logs.values() if log.broken_since and not log.over]
        long_broken = any(now - (log.broken_since or now) > _BROKEN_SECONDS for log in broken)
        if long_broken != self._broken and (long_broken or not broken):
            self._broken = long_broken
            self._print("-- connection lost; trying again" if long_broken else "-- connected again")
            self._silence_at = None if long_broken else math.inf
            self._flush()
        if self._broken and (self._silence_at is None or now - self._silence_at >= _SILENCE_TURN):
            self._name_lost_nodes(broken, now)
        unfinished = [log for log in self._logs.values() if log.unfinished and not log.over]
        rarely = now - self._progress_shown >= RARELY
        if unfinished and (self._screen.changes or rarely):
            texts = [f"{self._prefix(log)}{terminal_text(log.unfinished, colors=False)}" for log in unfinished]
            self._progress_shown = now
            if self._screen.changes:
                self._screen.show(texts[-1])
            else:
                self._screen.print(texts)
        elif not self._logs or all(log.over for log in self._logs.values()):
            self._task.progress(partial(self._waiting_text, now))

    def _name_lost_nodes(self, broken: Sequence[PodLog], now: float) -> None:
        """Name the lost nodes of pods whose logs do not come, once for each outage, if the API server answers."""
        pods = [log.pod for log in broken if log.silent_kubelet]
        nodes: list[Node] = []
        with suppress(KubeError):
            for name in sorted({pod["spec"]["nodeName"] for pod in pods}):
                nodes += read_node(self._task.client(), name)
        lost = [pod for pod in pods if is_on_lost_node(pod, nodes)]
        self._silence_at = math.inf if lost else now if pods else None
        if lost:
            self._print(f"-- {loss_text(lost, nodes)}")
            self._flush()

    def _waiting_text(self, now: float) -> str:
        if now - self._reason_at >= RARELY:
            with suppress(KubeError):
                found = read_reasons(self._task.client(), self._jobs.unfinished())
                reasons = [f"{job[1]}: {why}" if self._jobs.is_sweep else why for job, why in found.items()]
                self._reason, self._reason_at = "".join(f": {reason}" for reason in reasons[:1]), now
        title = self._jobs.title
        what = f"{title} to end" if self._jobs.status == "Running" else f"a pod of {title}"
        return f"waiting for {what} ({self._jobs.status_text}){self._reason}"
