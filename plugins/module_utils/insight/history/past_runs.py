# SPDX-License-Identifier: BSD-2-Clause
"""Read what is known of the runs of jobs: their histories and ledgers, and what is live of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from ...cluster.read_jobs import WORKLOADS, JobId, job_id_of, without_managed_fields
from ...cluster.related import own_pods
from ...cluster.status import is_terminating
from ...jobs.runs.ledger import Entry, read_entries
from ...jobs.runs.run_history import HISTORIES, PastRun, last_visit, read_history, size_of, slim_history
from ...jobs.submitter import read_submitter
from ...kube.client import Client
from ...kube.concurrency import run_concurrently
from ...kube.resources import CONFIG_MAP, POD, Resource
from ...kube.shapes import MalformedObject
from ...labels import HISTORY, LEDGER, MANAGED, is_managed, job_name_of
from ...listed_namespaces import list_each, whole_cluster_unless
from ..fitting_lists import list_fitting, namespaces_left_out

Object = Mapping[str, Any]
Objects = list[dict[str, Any]]


@dataclass
class KnownRuns:
    """By namespace, except workloads and pods."""

    histories: dict[str, Objects] = field(default_factory=dict)
    ledgers: dict[str, dict[str, Entry]] = field(default_factory=dict)
    workloads: Objects = field(default_factory=list)
    pods: dict[JobId, Objects] = field(default_factory=dict)
    on_malformed: Callable[[Object, str], object] = lambda _config_map, _key: None

    def runs(self, namespace: str) -> dict[str, PastRun]:
        """The runs of the history, by uid. Of those that a task was about to end, what is still there goes on."""
        runs = read_history(self.histories.get(namespace, ()), self.on_malformed)
        for uid in self._prevented(runs):
            runs[uid].reopen()
        return runs

    def prevented_ends(self, namespace: str) -> dict[str, None]:
        """The keys of ends in the newest ConfigMap, of what is still there: they are to be removed, since it may end in
        another way."""
        newest = [each for each in self.histories.get(namespace, ()) if each["metadata"]["name"] == HISTORY]
        return {f"{uid}.end": None for uid in self._prevented(read_history(newest))}

    def _prevented(self, runs: Mapping[str, PastRun]) -> list[str]:
        live = (obj["metadata"]["uid"] for obj in self.workloads if not is_terminating(obj))
        return [uid for uid in live if uid in runs and runs[uid].may_go_on]

    def visited(self, namespace: str) -> float:
        """Until when all pods of a namespace were seen; 0 for never."""
        return last_visit(self.histories.get(namespace, ())) or 0.0

    def without(self, namespaces: Collection[str]) -> KnownRuns:
        """Without those of which something could not be read: what is missing would be taken for gone."""
        return replace(
            self,
            histories={name: found for name, found in self.histories.items() if name not in namespaces},
            ledgers={name: found for name, found in self.ledgers.items() if name not in namespaces},
            workloads=[obj for obj in self.workloads if obj["metadata"]["namespace"] not in namespaces],
        )

    def pods_of(self, workload: Object) -> list[Object]:
        job = workload["metadata"]["namespace"], job_name_of(workload) or workload["metadata"]["name"]
        return own_pods(workload, self.pods.get(job, ()))


def read_known_runs(client: Client, namespaces: Sequence[str] | None) -> KnownRuns:
    """The histories, the ledgers, the workloads and their pods: a list of each, or one in each namespace named.

    Raises NamespacesNeeded where the account may not read the whole cluster, and KubeError.
    """

    def read(kind: Resource, place: str | None) -> Objects:
        return list_fitting(client, kind, without_managed_fields, place, labels=MANAGED)

    with whole_cluster_unless(namespaces):
        # First what is recorded: a job that is submitted meanwhile is there, and not taken for one that is gone.
        known = read_recorded_runs(client, namespaces)
        workloads, pods = run_concurrently(
            lambda kinds: list_each(read, kinds, namespaces), (WORKLOADS, (POD,)), client.concurrency
        )
    found = replace(known, workloads=workloads, pods=_pods_by_job(pods))
    return found.without(namespaces_left_out(client))


def read_histories(client: Client, namespaces: Sequence[str] | None, *, texts: bool = True) -> dict[str, Objects]:
    """The ConfigMaps by namespace, as ``slim_history`` has them; one list, or one for each of those named."""
    slim = partial(slim_history, texts=texts)
    found: dict[str, Objects] = defaultdict(list)
    for namespace in namespaces if namespaces is not None else (None,):
        for config_map in list_fitting(
            client, CONFIG_MAP, slim, namespace, labels=HISTORIES, size_of=lambda each: size_of(each["data"])
        ):
            found[config_map["metadata"]["namespace"]].append(config_map)
    return found


def read_recorded_runs(client: Client, namespaces: Sequence[str] | None) -> KnownRuns:
    """The histories and the ledgers alone: enough for what is gone. Raises KubeError."""
    known = KnownRuns(read_histories(client, namespaces), on_malformed=partial(note_malformed_entry, client))
    by_name = f"metadata.name={LEDGER}"
    for place in namespaces if namespaces is not None else (None,):
        known.ledgers.update(filter(None, client.list_slim(CONFIG_MAP, _slim_ledger, place, fields=by_name)))
    return known


def note_malformed_entry(client: Client, config_map: Object, key: str) -> None:
    """Let the task warn, by name, of an entry that is left out."""
    metadata = config_map["metadata"]
    known = config_map["kind"], metadata.get("namespace"), metadata["name"]
    earlier = client.malformed_objects.get(known)
    number = earlier.malformed + 1 if earlier else 1
    entries = f"entry {key} is malformed" if number == 1 else f"{number} entries are malformed, {key} the last"
    client.malformed_objects[known] = MalformedObject(*known, f"{entries}. The other entries were read", number)


def _slim_ledger(ledger: Object) -> tuple[str, dict[str, Entry]] | None:
    """The namespace and the entries."""
    return (ledger["metadata"]["namespace"], read_entries(ledger.get("data") or {})) if is_managed(ledger) else None


def submitter_of(run: PastRun) -> str | None:
    """Who has submitted a run, for people."""
    found = read_submitter(run.submitter) if run.submitter else None
    return found.title if found else None


@lru_cache(maxsize=64)  # Users have many runs.
def user_of(submitter: str | None) -> str | None:
    """The user to whom a run is charged: of AWX, else of Kubernetes, else of the host."""
    found = read_submitter(submitter) if submitter else None
    return (found.awx_user or found.kubernetes_user or found.user) if found else None


def _pods_by_job(pods: Iterable[dict[str, Any]]) -> dict[JobId, Objects]:
    found: dict[JobId, Objects] = defaultdict(list)
    for pod in pods:
        found[job_id_of(pod)].append(pod)
    return found
