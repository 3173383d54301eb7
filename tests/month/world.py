# SPDX-License-Identifier: BSD-2-Clause
"""A simulated cluster and a real Prometheus in which that month passes, in steps.

The tasks are those of the collection, through the API: gpuctl_job submits, resumes and deletes, gpuctl_expire and
gpuctl_idle run on a schedule, gpuctl_extend is what an owner does who was told. Their time, the cluster's and that of
queries is the simulated one. What the controllers and kubelets of a cluster would do is done here: pods begin and end.
Every pod finds a node at once.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import urllib.parse
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.idle_jobs import MODULE as IDLE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.expire import MODULE as EXPIRE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.extend import MODULE as EXTEND
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus import history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.times import time_as_text
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from integration import manifests
from integration.monitoring import Prometheus, prometheus, promtool
from integration.prometheus_double import Asked, Reply, prometheus_double
from integration.tasks import perform
from kubesim import Cluster

from .trace import DAY, GPUS_OF_NODE, HOUR, NODES, PEOPLE, Span, TracedJob, common, openmetrics, pod_names, within

Row = dict[str, Any]
BEGIN = datetime(2026, 6, 1, tzinfo=timezone.utc)
KIND = {"training": "Job", "notebook": "StatefulSet", "inference": "Deployment"}
#: Owners ask for twice of what a training takes; notebooks and services have these.
LIMITS = {"notebook": "3d", "inference": "14d"}
IDLE_POLICY: Row = {
    "action": "pause",
    "idle_for": "4h",
    "grace": "2h",
    "exempt_kinds": ["inference"],
    "policies": {"all": {"stuck": {"after": "4h", "action": "pause"}}},
}
_BLOCK = 18 * HOUR  # of Prometheus, a multiple of its smallest ones


class SimulatedTime(datetime):
    """What the tasks take for the time."""

    moment = BEGIN

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.moment

    @classmethod
    def move(cls, moment: datetime) -> None:
        """Modules that were imported meanwhile follow, too."""
        cls.moment = moment
        cls._replace(datetime, cls)

    @classmethod
    def restore(cls) -> None:
        """Back to this machine's time."""
        cls._replace(cls, datetime)

    @staticmethod
    def _replace(one: type[datetime], other: type[datetime]) -> None:
        for name, module in list(sys.modules.items()):
            if name.startswith("ansible_collections.runwhere.gpuctl") and vars(module).get("datetime") is one:
                vars(module)["datetime"] = other


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


@dataclass
class Course:
    """What became of a job: when its pods ran, since when they run, and why it is paused."""

    job: TracedJob
    spans: list[Span] = field(default_factory=list)
    since: float | None = None
    paused_by: str | None = None

    def gpu_hours(self, spans: Sequence[Span] | None = None, gpus: int | None = None) -> float:
        """That its pods held, within these times."""
        seconds = sum(end - begin for begin, end in self.spans) if spans is None else common(self.spans, spans)
        return seconds / 3600 * (self.job.gpus if gpus is None else gpus) * self.job.pods


@dataclass
class World:
    """One course of the month. ``wrong``: what was stopped although it worked."""

    cluster: Cluster
    server: Prometheus
    proxy: str
    limits: bool
    reclaim: bool
    courses: dict[str, Course]
    now: float = 0.0
    queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)  # what happens by itself
    order: Iterator[int] = field(default_factory=count)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    # -- the time ------------------------------------------------------------------------------------------------------

    def move(self, seconds: float) -> None:
        self.now = seconds
        SimulatedTime.move(at(seconds))
        self.cluster.set_clock(behind=(datetime.now(timezone.utc) - at(seconds)).total_seconds())

    def perform(self, spec: Any, **options: Any) -> Row:
        result = perform(spec, self.cluster, **options)
        assert not result.get("failed"), result["msg"]
        return result

    def play(self, days: float, every: float) -> None:
        """The schedule runs as often as that."""
        step = 0.0
        submitted: dict[float, list[Course]] = defaultdict(list)
        for course in self.courses.values():
            submitted[course.job.start].append(course)
        for moment, courses in submitted.items():
            self._later(moment, partial(self._submit, courses))
        while step < days * DAY:
            step = min(step + every, days * DAY)
            while self.queue and self.queue[0][0] < step:
                moment, _order, happen = heappop(self.queue)
                self.move(moment)
                happen()
            self.move(step)
            if self.limits:
                self._expire()
            if self.reclaim:
                self._idle()
        for course in self.courses.values():
            if course.since is not None:
                course.spans.append((course.since, step))

    def _later(self, moment: float, happen: Callable[[], None]) -> None:
        heappush(self.queue, (moment, next(self.order), happen))

    # -- what owners do ------------------------------------------------------------------------------------------------

    def _submit(self, courses: Sequence[Course]) -> None:
        self.perform(JOB, definition=[self._manifest(course.job) for course in courses])
        for course in courses:
            self._start(course)
            deadline = self._workload(course.job)["spec"].get("activeDeadlineSeconds", math.inf)
            self._later(min(course.job.end, course.job.start + deadline), partial(self._end, course))

    def _manifest(self, job: TracedJob) -> Row:
        limit = {}
        if self.limits:
            spent = job.works[0][0] - job.start + sum(end - begin for begin, end in job.works)
            limit["time_limit"] = LIMITS.get(job.kind) or f"{max(1, -(-2 * spent // HOUR)):.0f}h"
        blocks: Row = {"job": {"name": job.name, "namespace": job.team, **limit}}
        blocks["resources"] = {"gpu": job.gpus, "cpu": job.cpu, "memory": f"{job.memory}Gi"}
        if job.kind == "inference":
            blocks["service"] = {"port": 8000, "replicas": job.pods}
        elif job.pods > 1:
            blocks["resources"]["node_count"] = job.pods
        if job.kind == "notebook":
            token = {"name": "JUPYTER_TOKEN", "value": "t"}
            blocks["environment"] = {"command": ["jupyter", "lab"], "env": [token]}
            self.cluster.programs["pods", job.team, f"{job.name}-0", "8888"] = f"{self.proxy}/{job.name}"
        return manifests.manifest(job.kind, name=job.name, **blocks)

    def _resume(self, course: Course) -> None:
        if course.paused_by is None:
            return
        self.counts["resumed"] += 1
        self.perform(JOB, name=course.job.name, namespace=course.job.team, state="resumed")
        self._forget_samples(course)
        course.paused_by = None
        self._start(course)

    def _end(self, course: Course) -> None:
        """A training that ends stays there, as a finished Job; what its owner deletes is gone."""
        job = course.job
        if course.since is None and course.paused_by is None:
            return
        if job.kind != "training":
            self.perform(JOB, name=job.name, namespace=job.team, state="absent")
            for pod in pod_names(job):
                self.cluster.unload("Pod", job.team, pod)
            self.counts["deleted"] += 1
        elif course.since is not None:
            now = time_as_text(at(self.now))
            done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
            status: Row = {"startTime": time_as_text(at(course.since)), "succeeded": job.pods, "completionTime": now}
            if self.now < job.end:
                self._check_stop(course, "its time limit")
                done |= {"type": "Failed", "reason": "DeadlineExceeded"}
                status = {"startTime": status["startTime"], "failed": job.pods}
            self._set_status(job, {**status, "conditions": [done]})
            self._load_pods(course, self.now)
        self._stop(course)
        course.paused_by = None

    # -- what the cluster does -----------------------------------------------------------------------------------------

    def _start(self, course: Course) -> None:
        job = course.job
        course.since = self.now
        active = {"active": job.pods, "ready": job.pods, "startTime": time_as_text(at(self.now))}
        ready = {"replicas": job.pods, "readyReplicas": job.pods, "updatedReplicas": job.pods}
        self._set_status(job, active if job.kind == "training" else ready)
        self._load_pods(course)

    def _stop(self, course: Course) -> None:
        if course.since is not None:
            course.spans.append((course.since, self.now))
        course.since = None

    def _load_pods(self, course: Course, end: float | None = None) -> None:
        job, template = course.job, self._workload(course.job)["spec"]["template"]
        began = time_as_text(at(course.since or 0.0))
        state: Row = {"running": {"startedAt": began}}
        if end is not None:
            state = {"terminated": {"exitCode": 0, "startedAt": began, "finishedAt": time_as_text(at(end))}}
        names = {each["metadata"]["name"]: each for each in self._pods(job)}
        for number, name in enumerate(pod_names(job)):
            metadata: Row = {"name": name, "namespace": job.team, "labels": template["metadata"]["labels"]}
            if name in names:
                metadata = names[name]["metadata"]
            conditions = [
                {"type": kind, "status": "True", "lastTransitionTime": began} for kind in ("PodScheduled", "Ready")
            ]
            container = {"name": "main", "image": "ml:v1", "imageID": "", "ready": end is None, "restartCount": 0}
            status = {
                "phase": "Running" if end is None else "Succeeded",
                "conditions": conditions,
                "startTime": began,
                "containerStatuses": [{**container, "state": state}],
            }
            spec = {**template["spec"], "nodeName": f"node-{(hash_of(name) + number) % NODES + 1}"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
            self.cluster.load([pod])

    def _pods(self, job: TracedJob) -> list[Row]:
        found = (partial(self.cluster.registry.get, "Pod", job.team, name) for name in pod_names(job))
        return [pod for pod in map(self.cluster.call, found) if pod]

    def _workload(self, job: TracedJob) -> Row:
        found: Row = self.cluster.call(lambda: self.cluster.registry.get(KIND[job.kind], job.team, job.name))
        return found

    def _set_status(self, job: TracedJob, status: Row) -> None:
        def change(obj: Row) -> None:
            obj["status"] = status

        self.cluster.call(
            lambda: self.cluster.registry.modify(KIND[job.kind], job.team, job.name, change, subresource="status")
        )

    # -- what runs on a schedule ---------------------------------------------------------------------------------------

    def _expire(self) -> None:
        rows = self.perform(EXPIRE, all_namespaces=True, warn_before="12h")["results"]
        for row in rows:
            job = self.courses[row["name"]].job
            if row["action"] == "warn" and job.last > self.now:  # Its owner reads that, and still needs it.
                until = time_as_text(at(self.now + 3 * DAY))
                self.perform(EXTEND, name=job.name, namespace=job.team, until=until)
                self.counts["extended"] += 1
        self._follow(rows, "its time limit")

    def _idle(self) -> None:
        done = self.perform(IDLE, all_namespaces=True, prometheus_url=self.proxy, **IDLE_POLICY)
        rows = [*done["results"], *done["findings"]]
        for row in rows:
            if row["action"] == "warn" and within(self.courses[row["name"]].job.works, self.now):
                self.counts["warned although it computes"] += 1
            if row["action"] == "pause" and self._was_used_since(row):
                self.counts["paused on a warning from before its last use"] += 1
        self._follow(rows, "idle")

    def _was_used_since(self, row: Row) -> bool:
        warned = datetime.fromisoformat(row["warned_at"].replace("Z", "+00:00"))
        return at(self.courses[row["name"]].job.last_active(self.now)) > warned

    def _follow(self, rows: Iterable[Row], why: str) -> None:
        """Controllers remove the pods of what was paused."""
        for row in rows:
            if row["action"] == "pause":
                course = self.courses[row["name"]]
                self._check_stop(course, why)
                for pod in self._pods(course.job):
                    self.cluster.unload("Pod", course.job.team, pod["metadata"]["name"])
                self._set_status(course.job, {} if course.job.kind == "training" else {"replicas": 0})
                self._stop(course)
                course.paused_by = why
                again = [begin for begin, _end in course.job.useful if begin > self.now]
                if again and course.job.kind == "notebook":
                    self._later(again[0], partial(self._resume, course))

    def _check_stop(self, course: Course, why: str) -> None:
        self.counts[f"stopped: {why}"] += 1
        if within((*course.job.works, *course.job.useful), self.now):
            self.wrong.append(f"{course.job.name} at {at(self.now):%d %H:%M}, {why}")

    def _forget_samples(self, course: Course) -> None:
        """Those that were made of the time in which it was paused or over."""
        until = min(self.now, course.job.end)
        if not course.spans or course.spans[-1][1] >= until:
            return
        stop, end = at(course.spans[-1][1]).timestamp(), at(until).timestamp()
        # What ended in a quarter of an hour is in what is recorded at its end.
        for start, last, names in ((stop, end - 1, "!~"), (stop + history.STEP, end + 2 * history.STEP, "=~")):
            matchers = [f'{{pod="{name}",__name__{names}".+(30m|15m)"}}' for name in pod_names(course.job)]
            times = {"start": str(start), "end": str(max(last, start))}
            query = urllib.parse.urlencode([*(("match[]", each) for each in matchers), *times.items()])
            url = f"{self.server.url}/api/v1/admin/tsdb/delete_series?{query}"
            urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60).close()

    def forget_samples(self) -> None:
        """At the end of the month."""
        for course in self.courses.values():
            if course.since is None:
                self._forget_samples(course)

    # -- what notebooks and kubelets answer ----------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Reply:
        if asked.path.startswith("/api/v1/"):  # Prometheus' own time is another one.
            parameters = urllib.parse.urlencode({"time": str(at(self.now).timestamp()), **asked.parameters})
            request = urllib.request.Request(self.server.url + asked.path, data=parameters.encode())
            with urllib.request.urlopen(request, timeout=60) as found:
                return Reply(json.load(found))
        name, _slash, path = asked.path.strip("/").partition("/")
        job = self.courses[name].job
        if path == "api/kernels":
            return Reply([{"execution_state": "busy" if within(job.works, self.now) else "idle"}])
        last = at(job.last_active(self.now))
        return Reply({"last_activity": time_as_text(last), "connections": int(within(job.open, self.now))})

    def logs(self, pod: Row, _container: str, **_options: Any) -> str:
        """As kubelets serve the last line."""
        return f"{time_as_text(at(self.courses[pod['metadata']['labels']['app']].job.last_line(self.now)))} step"


def hash_of(name: str) -> int:
    return sum(map(ord, name))


def write_blocks(directory: Path, jobs: Sequence[TracedJob], days: float) -> Path:
    """What Prometheus would have of a month in which nothing is stopped. A file for each of its blocks."""
    blocks, begin, end = directory / "blocks", BEGIN.timestamp(), BEGIN.timestamp() + days * DAY
    for block in range(int(begin // _BLOCK) * _BLOCK, int(end), _BLOCK):
        path = directory / "samples"
        with path.open("w") as file:
            file.writelines(openmetrics(jobs, begin, max(block, begin), min(block + _BLOCK, end)))
        command = ("tsdb", "create-blocks-from", "--max-block-duration=18h", "openmetrics", "--quiet")
        promtool(*command, str(path), str(blocks))
        path.unlink()
    return blocks


@contextmanager
def world(directory: Path, jobs: Sequence[TracedJob], blocks: Path, *, limits: bool, reclaim: bool) -> Iterator[World]:
    """A course of the month that has not begun."""
    shutil.copytree(blocks, directory / "blocks")
    courses = {job.name: Course(job) for job in jobs}
    with (
        Cluster(nodes=0, controllers=False).running() as cluster,
        prometheus(directory, blocks=directory / "blocks", lookback="2m", more=("--web.enable-admin-api",)) as server,
    ):
        found: list[World] = []
        with prometheus_double(lambda asked: found[0].answer(asked)) as proxy:
            made = World(cluster, server, proxy.url, limits, reclaim, courses)
            found.append(made)
            cluster.kubelet = made  # type: ignore[assignment]
            made.move(0)
            resources = {"nvidia.com/gpu": str(GPUS_OF_NODE)}
            cluster.call(
                lambda: cluster.add_nodes([f"node-{number + 1}" for number in range(NODES)], resources=resources)
            )
            teams = {f"person-{number + 1}": {"gpu": 64, "gpu_hours": {"limit": 5000}} for number in range(PEOPLE)}
            made.perform(QUOTA, definition={"kind": "quota", "quota": {"name": "people"}, "users": teams})
            yield made
