# SPDX-License-Identifier: BSD-2-Clause
"""The event source runwhere.gpuctl.jobs: watch the cluster, and report what happens to jobs, nodes and quotas.

Everything is listed once and then watched (wait/watch_cache.py). Each look at an object is compared with what was
reported of it, which a file keeps: so a broken connection and a restart lose nothing and repeat nothing.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, get_origin, get_type_hints

from ...cluster.declared import know_accelerators
from ...cluster.preemption import PREEMPTED, by_start_of_name, last_preemption, preemption_text
from ...cluster.read_jobs import WORKLOADS, JobId, without_managed_fields
from ...jobs.runs.ledger import read_entries
from ...kube.client import Client
from ...kube.errors import ApiError, ConnectionProblem, KubeError, if_allowed
from ...kube.resources import CONFIG_MAP, EVENT, NODE, POD, RESOURCE_QUOTA, Resource
from ...kube.times import read_time, time_as_text
from ...labels import JOB_TYPE, LEDGER, QUOTA
from ...namespaces import NamespaceOptions, listed_namespaces
from ...options import option
from ...task import Task, TaskFailed
from ...wait.polling import backoff
from ...wait.watch_cache import Key, Objects, WatchCache, WatchQuery
from ...wording import worded
from ..prometheus.prometheus_options import PrometheusOptions, prometheus_settings
from .cluster_transitions import KnownNode, KnownQuota, node_change, quota_change, quota_uses
from .event_rows import EVENT_TYPES, job_event, job_fields, node_event, quota_event
from .explanations import failure_details, pending_reason
from .idle_watch import IdleWatch, Rows
from .job_transitions import (
    Known,
    PodsOfJob,
    Transition,
    deletion,
    job_transitions,
    known_at_first,
    pending_deadline,
    recorded_end,
    settled,
)
from .state_file import StateFile
from .watched_objects import (
    event_time,
    job_of,
    jobs_on,
    pods_facts,
    slim_watched_node,
    slim_watched_pod,
    use_of,
)

LOGGER = logging.getLogger("runwhere.gpuctl.jobs")

Object = dict[str, Any]
Deliver = Callable[[dict[str, Any]], None]

_NODES = WatchQuery(NODE, None, optional=True, slim=slim_watched_node)
_LONGEST_PAUSE = 30.0  # seconds without a look at the clock
_HANDLED = 1.0  # seconds after which a rule engine has handled what it has taken


@dataclass(frozen=True, kw_only=True)
class JobsSourceOptions(NamespaceOptions, PrometheusOptions):
    namespaces: list[str] | None = option("list", elements="str", aliases=["namespace"])
    cluster: str | None = option("str")
    types: list[str] | None = option("list", elements="str", choices=list(EVENT_TYPES))
    state_file: str | None = option("path")
    since: int = option("int", default=0)
    pending_after: int = option("int", default=1800)
    quota_percent: int = option("int", default=90)
    log_lines: int = option("int", default=20)
    idle_for: str = option("str", default="1h")
    idle_below: float = option("float", default=0.05)
    feedback: bool = option("bool", default=False)


_RECORDS: Mapping[str, type[tuple[Any, ...]]] = {"job": Known, "node": KnownNode, "quota": KnownQuota}
_FIELDS = {
    word: {name: get_origin(hint) or hint for name, hint in get_type_hints(kind).items()}
    for word, kind in _RECORDS.items()
}
_TIMES = ("since", "preempted")


def _is_record(key: str, record: Any) -> bool:
    """Whether the state can have this record, which another version or an editor may have written."""
    word = key.partition("/")[0]
    if word not in _RECORDS:  # When a job was found idle.
        return isinstance(record, str)
    fields, optional = _FIELDS[word], _RECORDS[word]._field_defaults  # type: ignore[attr-defined]
    if not isinstance(record, dict) or not fields.keys() - optional.keys() <= record.keys() <= fields.keys():
        return False
    if not all(isinstance(value, fields[name]) for name, value in record.items()):
        return False
    try:
        return all(read_time(record[name]) for name in _TIMES if record.get(name))
    except ValueError:
        return False


class JobsSource:
    """One run of the source. ``deliver`` returns when a rule engine has taken the event, and raises to end the run."""

    def __init__(self, task: Task[JobsSourceOptions], client: Client, deliver: Deliver) -> None:
        self._task = task
        self._client = client
        self._options = task.options
        self._deliver = deliver
        self._pending_after = timedelta(seconds=task.options.pending_after)
        self._state = StateFile(task.options.state_file, client.connection.server, _is_record)
        self._began = datetime.now(timezone.utc)
        self._cache: _News | None = None
        self._stopped = False
        self._delivered = 0.0
        self._workloads: dict[JobId, dict[str, Object]] = defaultdict(dict)  # by uid
        self._pods: dict[JobId, dict[str, Object]] = defaultdict(dict)  # by name
        self._victims: dict[str, set[tuple[str, str, str]]] = defaultdict(set)  # by uid of the workload: see PodsOfJob
        self._preemptions: dict[str, str] = {}  # who preempted it, by uid of the workload
        self._deadlines: dict[str, tuple[datetime, JobId]] = {}  # by uid

    def stop(self) -> None:
        """For another thread."""
        self._stopped = True
        self._client.abort()
        if (cache := self._cache) is not None:
            cache.stopped.set()
            cache.submit(lambda: None)

    def run(self) -> None:
        """Until ``stop``. Raises KubeError, StateFileError and TaskFailed."""
        with ExitStack() as stack:
            stack.enter_context(self._state)
            self._cache = cache = _News(self._client, self._log_warning)
            stack.enter_context(cache)
            stack.callback(self._state.flush)  # before the watches end, for which a process may not wait
            self._list_objects(cache)
            self._first_look(cache)
            cache.watch()
            self._watch_idle(cache, stack)
            LOGGER.info(
                "watching %s", ", ".join(query.title for query in self._watch_queries() if cache.is_read(query))
            )
            while not self._stopped:
                cache.wait_for_change(self._seconds_until_due())
                if time.monotonic() - self._delivered >= _HANDLED:
                    self._state.flush()
                self._look_at_news(cache)
                self._look_at_the_clock()

    def _watch_idle(self, cache: _News, stack: ExitStack) -> None:
        """Where there is a Prometheus. Raises TaskFailed for options that are wrong."""
        options = self._options
        is_wanted = not options.types or "gpu.idle" in options.types
        if not is_wanted or not prometheus_settings(options, self._task.environ).is_set:
            return
        watch = IdleWatch(
            self._task,
            lambda rows: cache.submit(lambda: self._look_at_idle(rows, watch.seconds)),
            lambda text: cache.submit(lambda: self._log_warning(text)),
        )
        watch.start()
        stack.callback(watch.stop)

    def _list_objects(self, cache: _News) -> None:
        """The first lists; an API server that does not answer is waited for."""
        delays = backoff(1.0, 2.0, 30.0)
        while not self._stopped:
            try:
                cache.add(self._watch_queries())
                return
            except ApiError as error:
                if error.is_forbidden and self._options.namespaces is None:
                    raise TaskFailed(f"{error}. Or set O(namespaces) to those that you may read.") from None
                if not error.is_transient:
                    raise
                problem: KubeError = error
            except ConnectionProblem as error:
                if not error.is_transient:
                    raise
                problem = error
            self._log_warning(f"waiting for the API server: {problem}")
            cache.stopped.wait(next(delays))
            self._client.begin_task()

    def _watch_queries(self) -> Iterator[WatchQuery]:
        namespaces = listed_namespaces(self._task, self._options.namespaces or None)
        for namespace in [None] if namespaces is None else namespaces:
            for resource in WORKLOADS:
                yield WatchQuery(resource, namespace, JOB_TYPE, slim=without_managed_fields)
            yield WatchQuery(POD, namespace, JOB_TYPE, optional=True, slim=slim_watched_pod)
            yield WatchQuery(EVENT, namespace, fields=PREEMPTED, optional=True, slim=without_managed_fields)
            yield WatchQuery(RESOURCE_QUOTA, namespace, QUOTA, optional=True, slim=without_managed_fields)
        yield _NODES

    def _first_look(self, cache: _News) -> None:
        for query in self._watch_queries():
            if not cache.is_read(query):
                self._log_warning(f"{query.title} cannot be read: {_LACKING[query.resource]}.")
        know_accelerators(
            self._client,
            self._log_warning,
            (obj["spec"]["template"]["spec"] for obj in cache.objects(*WORKLOADS)),
        )
        namespaces = listed_namespaces(self._task, self._options.namespaces or None)
        uids = {obj["metadata"]["uid"] for obj in cache.objects(*WORKLOADS, NODE)}
        missing = [key for key in self._state if key.partition("/")[2] not in uids]
        cache.news += [(query.resource, obj, False) for query in self._watch_queries() for obj in cache.copy_of(query)]
        self._look_at_news(cache)
        for key in missing:
            kind, _slash, uid = key.partition("/")
            if kind == "job":
                known = Known(**self._state.get(key))
                if namespaces is None or known.namespace in namespaces:
                    self._job_is_gone(uid, known)
            elif kind == "node" and cache.is_read(_NODES):  # else nothing is known of it
                self._node_is_gone(cache, uid)
            elif kind == "idle":
                self._state.remove(key)
        self._forget_quotas(cache)
        self._state.begin()

    # -- what was listed, and what has changed ------------------------------------------------------------------------

    def _look_at_news(self, cache: _News) -> None:
        news, cache.news = cache.news, []
        # Pods first: a list of workloads is explained by the pods that were listed at the same time.
        for resource, obj, is_gone in news:
            if resource is POD:
                self._keep_pod(obj, is_gone)
            elif resource in WORKLOADS:
                self._keep_workload(obj, is_gone)
        for resource, obj, is_gone in news:
            if self._stopped:
                return
            if resource is POD:
                if obj["status"]["conditions"] and not is_gone:
                    self._look_at_job(job_of(obj))
            elif resource in WORKLOADS:
                self._look_at_workload(obj)
                if is_gone:
                    self._workload_is_gone(obj)
            elif resource is EVENT and not is_gone:
                self._look_at_preemption(obj)
            elif resource is NODE:
                self._look_at_node(cache, obj, is_gone)
            elif resource is RESOURCE_QUOTA and not is_gone:
                self._look_at_quota(obj)
        cache.forget_deleted()

    def _keep_pod(self, pod: Object, is_gone: bool) -> None:
        job, name = job_of(pod), pod["metadata"]["name"]
        if not is_gone:
            self._pods[job][name] = pod
        elif job in self._pods:
            # What a pod has said is still true, until its workload is gone.
            if not self._workloads.get(job):
                self._pods[job].pop(name, None)
            else:
                self._pods[job][name] = {**pod, "is_gone": True}
            if not self._pods[job]:
                del self._pods[job]

    def _keep_workload(self, workload: Object, is_gone: bool) -> None:
        job, uid = job_of(workload), workload["metadata"]["uid"]
        if not is_gone:
            self._workloads[job][uid] = workload
            self._forget_gone_pods(job)

    def _forget_gone_pods(self, job: JobId) -> None:
        """The newest of those that are gone explain an end that is seen after them."""
        gone = [name for name, pod in self._pods.get(job, {}).items() if pod.get("is_gone")]
        for name in gone[:-_KEPT_PODS]:
            del self._pods[job][name]

    def _workload_is_gone(self, workload: Object) -> None:
        job, uid = job_of(workload), workload["metadata"]["uid"]
        self._workloads[job].pop(uid, None)
        if not self._workloads[job]:
            del self._workloads[job]
            pods = {name: pod for name, pod in self._pods.pop(job, {}).items() if not pod.get("is_gone")}
            if pods:
                self._pods[job] = pods
        self._deadlines.pop(uid, None)
        self._victims.pop(uid, None)
        self._preemptions.pop(uid, None)
        if record := self._state.get(f"job/{uid}"):
            self._job_is_gone(uid, Known(**record))

    def _job_is_gone(self, uid: str, known: Known) -> None:
        """Nothing is left of the workload; what the ledger says of its end may have been written meanwhile."""
        now = datetime.now(timezone.utc)
        step = deletion(known, now)
        entry = self._ledger_entry(known) if step else None
        if entry is not None and entry.uid == uid and entry.result:
            for each in recorded_end(known, entry.result, entry.finished_at):
                self._report_transition(uid, each, reason="Kubernetes has removed the job. The ledger has its result")
        elif step:
            self._report_transition(uid, step, reason=None)
        self._state.remove(f"job/{uid}")
        self._state.remove(f"idle/{uid}")

    def _ledger_entry(self, known: Known) -> Any:
        def read() -> Any:
            found = self._client.list_objects(CONFIG_MAP, known.namespace, fields=f"metadata.name={LEDGER}")
            return read_entries(found[0].get("data") or {}).get(known.name) if found else None

        try:
            self._client.begin_task()
            return if_allowed(read, None)
        except KubeError:
            return None

    def _look_at_job(self, job: JobId) -> None:
        for workload in list(self._workloads.get(job, {}).values()):
            self._look_at_workload(workload)

    def _look_at_workload(self, workload: Object) -> None:
        uid, job, key = workload["metadata"]["uid"], job_of(workload), f"job/{workload['metadata']['uid']}"
        now = datetime.now(timezone.utc)
        record = self._state.get(key)
        known = Known(**record) if record else known_at_first(workload, job_fields(workload))
        for step in job_transitions(workload, known, self._pods_of_job(workload, known), now, self._pending_after):
            self._report_job(uid, step, workload)
            known = step.after
            self._state.put(key, known._asdict())
        known = settled(workload, known, now)
        if known.status and known._asdict() != record:
            self._state.put(key, known._asdict())
        deadline = pending_deadline(known, self._pending_after) if known.status else None
        if deadline and "deletionTimestamp" not in workload["metadata"]:
            self._deadlines[uid] = deadline, job
        else:
            self._deadlines.pop(uid, None)

    def _pods_of_job(self, workload: Object, known: Known) -> PodsOfJob:
        pods = self._pods.get(job_of(workload), {}).values()
        return pods_facts(workload, pods, known.run, self._victims.get(workload["metadata"]["uid"], ()))

    def _look_at_preemption(self, event: Object) -> None:
        namespace, by_start = event["metadata"].get("namespace"), by_start_of_name([event])
        for job, found in list(self._workloads.items()):
            for uid, workload in list(found.items()) if job[0] == namespace else ():
                if last_preemption(workload, by_start):
                    uses = (use_of(pod) for pods in self._pods.values() for pod in pods.values())
                    self._preemptions[uid] = preemption_text(event, {use.uid: use for use in uses})
                    pod = str((event.get("involvedObject") or {}).get("name"))
                    self._victims[uid].add((event_time(event), "PreemptionByScheduler", pod))
                    self._look_at_workload(workload)

    def _look_at_node(self, cache: _News, node: Object, is_gone: bool) -> None:
        uid = node["metadata"]["uid"]
        if is_gone:
            self._node_is_gone(cache, uid)
            return
        record = self._state.get(f"node/{uid}")
        known, lost = node_change(node, KnownNode(**record) if record else None)
        if lost:
            jobs = jobs_on(known.name, cache.objects(POD))
            self._hand_over(node_event(uid, known, jobs, _current_time(), node["since"], node["message"]))
        self._state.put(f"node/{uid}", known._asdict())

    def _node_is_gone(self, cache: _News, uid: str) -> None:
        """A node that is deleted with jobs on it is lost; one without is only removed."""
        record = self._state.get(f"node/{uid}")
        if record and (known := KnownNode(**record)).ready and (jobs := jobs_on(known.name, cache.objects(POD))):
            self._hand_over(node_event(uid, known, jobs, _current_time(), None, "the node was deleted"))
        self._state.remove(f"node/{uid}")

    def _look_at_quota(self, quota: Object) -> None:
        metadata = quota["metadata"]
        title = (metadata.get("labels") or {}).get(QUOTA) or metadata["name"]
        for use in quota_uses(quota):
            key = f"quota/{metadata['uid']}/{use.resource}"
            record = self._state.get(key)
            first = KnownQuota(metadata["namespace"], metadata["name"])
            known, crossed = quota_change(use, KnownQuota(**record) if record else first, self._options.quota_percent)
            if crossed:
                self._hand_over(quota_event(quota, title, use, _current_time()))
            if known.reported or record:
                self._state.put(key, known._asdict())

    def _look_at_idle(self, rows: Rows, seconds: int) -> None:
        """Once for each job, until it was busy in between."""
        for row in rows:
            for uid in list(self._workloads.get((row["namespace"], row["name"]), {})):
                record, key = self._state.get(f"job/{uid}"), f"idle/{uid}"
                if not row["idle"]:
                    self._state.remove(key)
                elif record and self._state.get(key) is None:
                    known, now = Known(**record), _current_time()
                    facts = {"utilization": row["utilization"], "idle_for": seconds, "devices": row["devices"]}
                    step = Transition("gpu.idle", f"idle/{now}", now, known.status, known.status, known, facts)
                    self._report_transition(uid, step, str(row["reason"]))
                    self._state.put(key, now)

    def _forget_quotas(self, cache: _News) -> None:
        uids = {obj["metadata"]["uid"] for obj in cache.objects(RESOURCE_QUOTA)}
        quotas = (query for query in self._watch_queries() if query.resource is RESOURCE_QUOTA)
        unread = {query.namespace for query in quotas if not cache.is_read(query)}
        for key in [key for key in self._state if key.startswith("quota/") and key.split("/")[1] not in uids]:
            if unread.isdisjoint((None, KnownQuota(**self._state.get(key)).namespace)):
                self._state.remove(key)

    def _look_at_the_clock(self) -> None:
        now = datetime.now(timezone.utc)
        for uid, (deadline, job) in list(self._deadlines.items()):
            if deadline <= now and not self._stopped:
                workload = self._workloads.get(job, {}).get(uid)
                if workload:
                    self._look_at_workload(workload)

    def _seconds_until_due(self) -> float:
        """Seconds until something is due, if nothing changes before."""
        first = min((deadline for deadline, _job in self._deadlines.values()), default=None)
        longest = _HANDLED if self._state.holds else _LONGEST_PAUSE
        if first is None:
            return longest
        return min(longest, max(0.05, (first - datetime.now(timezone.utc)).total_seconds()))

    # -- reports ------------------------------------------------------------------------------------------------------

    def _report_job(self, uid: str, step: Transition, workload: Object) -> None:
        if not self._is_news(step):
            return
        details: dict[str, Any] = {}
        reason = None
        pods = self._pods.get(job_of(workload), {}).values()
        self._client.begin_task()
        if step.type == "job.failed":
            reason, details = failure_details(self._task, workload, self._options.log_lines)
        elif step.type == "job.pending_too_long":
            reason = pending_reason(self._client, workload)
        elif step.type == "job.preempted":
            details = {
                "pods": sorted({name for _time, _cause, name in self._pods_of_job(workload, step.after).preempted})
            }
            reason = _preemption_reason(step, self._preemptions.get(uid))
        elif step.type == "job.started":
            details = {"nodes": sorted({node for pod in pods if (node := pod["spec"]["nodeName"])})}
        self._report_transition(uid, step, reason, job_fields(workload), **details)

    def _report_transition(
        self, uid: str, step: Transition, reason: str | None, fields: Mapping[str, Any] | None = None, **details: Any
    ) -> None:
        fields = step.after.row if fields is None else fields
        self._hand_over(job_event(uid, step, fields, _current_time(), reason, **details))

    def _is_news(self, step: Transition) -> bool:
        """Without a state, what was before ``since`` is no news; that a job still waits is."""
        if self._options.types and step.type not in self._options.types:
            return False
        if not self._state.is_new or step.type == "job.pending_too_long":
            return True
        oldest = self._began - timedelta(seconds=self._options.since)
        return step.time is not None and read_time(step.time) >= oldest

    def _hand_over(self, event: dict[str, Any]) -> None:
        if not self._stopped and (not self._options.types or event["type"] in self._options.types):
            cluster = self._options.cluster or None
            named = {"message": f"Cluster {cluster}: {event['message']}"} if cluster else {}
            self._deliver({**event, "cluster": cluster, **named})
            self._delivered = time.monotonic()
            self._state.flush()  # A consumer that takes an event has handled the one before.

    def _log_warning(self, text: str) -> None:
        LOGGER.warning("%s", worded(text))


class _News(WatchCache):
    """A watch cache that queues the changes, in their order, until they are consumed."""

    def __init__(self, client: Client, warn: Callable[[str], None]) -> None:
        super().__init__(client, warn)
        self.news: list[tuple[Resource, Object, bool]] = []  # the kind, the object, whether it is gone

    def copy_of(self, query: WatchQuery) -> Iterable[Object]:
        return self._copy.get(query, {}).values()

    def replace(self, query: WatchQuery, objects: Objects) -> None:
        gone = {key: obj for key, obj in self._copy[query].items() if _is_other(obj, objects.get(key))}
        super().replace(query, objects)
        self.news += [(query.resource, obj, False) for obj in objects.values()]
        self.news += [(query.resource, obj, True) for obj in gone.values()]

    def change(self, query: WatchQuery, event: Mapping[str, Any], memory: int) -> None:
        key: Key = (str(event["object"]["metadata"].get("namespace") or ""), str(event["object"]["metadata"]["name"]))
        former = self._copy[query].get(key)
        super().change(query, event, memory)
        now = self._copy[query].get(key)
        if event["type"] == "DELETED":
            if (last := self._deleted[query].get(key)) is not None:
                self.news.append((query.resource, last, True))
        elif now is not None:
            self.news.append((query.resource, now, False))
        if former is not None and now is not None and _is_other(former, now):
            self.news.append((query.resource, former, True))


def _is_other(former: Object, now: Object | None) -> bool:
    return now is None or bool(former["metadata"].get("uid") != now["metadata"].get("uid"))


_LACKING = {
    POD: "job.preempted and the jobs of node.lost are not reported, and the time of job.started is when it was seen",
    EVENT: "who preempted a job is not reported, nor are preemptions that are not seen when they happen",
    RESOURCE_QUOTA: "quota.nearly_used is not reported",
    NODE: "node.lost is not reported",
}
_KEPT_PODS = 20


def _preemption_reason(step: Transition, by_whom: str | None) -> str:
    if step.facts.get("cause") == "Kueue":
        return "Kueue has taken the quota back, and admits the job again when there is room"
    if step.facts.get("cause") == "PreemptionByScheduler":
        return by_whom or "a job of a higher priority needed its place"
    return f"pod {step.facts.get('pod')} was evicted ({step.facts.get('cause')})"


def _current_time() -> str:
    return time_as_text(datetime.now(timezone.utc))
