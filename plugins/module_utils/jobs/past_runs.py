# SPDX-License-Identifier: BSD-2-Clause
"""Read what is known of the runs of jobs: their histories and ledgers, and what is live of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..cluster.read import WORKLOADS, JobId, without_managed_fields
from ..cluster.related import own_pods
from ..kube.client import Client
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP, POD
from ..labels import LEDGER, MANAGED, is_managed, job_name_of
from ..namespaces import NamespacesNeeded
from .history import PastRun, last_visit, read_history
from .history_store import read_histories
from .ledger import Entry, read_entries

Object = Mapping[str, Any]
Objects = list[dict[str, Any]]


@dataclass
class KnownRuns:
    """By namespace, but for workloads and pods."""

    histories: dict[str, Objects] = field(default_factory=dict)
    ledgers: dict[str, dict[str, Entry]] = field(default_factory=dict)
    workloads: Objects = field(default_factory=list)
    pods: dict[JobId, Objects] = field(default_factory=dict)
    on_malformed: Callable[[Object, str], object] = lambda _config_map, _key: None

    def runs(self, namespace: str) -> dict[str, PastRun]:
        """The runs of the history, by uid."""
        return read_history(self.histories.get(namespace, ()), self.on_malformed)

    def visited(self, namespace: str) -> float:
        """Until when all pods of a namespace were seen; 0 for never."""
        return last_visit(self.histories.get(namespace, ())) or 0.0

    def pods_of(self, workload: Object) -> list[Object]:
        job = workload["metadata"]["namespace"], job_name_of(workload) or workload["metadata"]["name"]
        return own_pods(workload, self.pods.get(job, ()))


def read_known_runs(client: Client, namespaces: Sequence[str] | None) -> KnownRuns:
    """The histories, the ledgers, the workloads and their pods: a list of each, or one in each namespace named.

    Raises NamespacesNeeded where the account may not read the whole cluster, and KubeError.
    """
    places: Sequence[str | None] = namespaces if namespaces is not None else (None,)

    def every(resource: Any) -> Objects:
        return [
            obj
            for place in places
            for obj in client.list_slim(resource, without_managed_fields, place, labels=MANAGED, whole=True)
        ]

    reads: tuple[Callable[[], Any], ...] = (
        lambda: read_recorded_runs(client, namespaces),
        lambda: [obj for resource in WORKLOADS for obj in every(resource)],
        lambda: every(POD),
    )
    try:
        known, workloads, pods = run_concurrently(lambda read: read(), reads, client.concurrency)
    except ApiError as error:
        if error.is_forbidden and namespaces is None:
            raise NamespacesNeeded.after(error) from None
        raise
    found: KnownRuns = replace(known, workloads=workloads, pods=_by_job(pods))
    return found


def read_recorded_runs(client: Client, namespaces: Sequence[str] | None) -> KnownRuns:
    """The histories and the ledgers alone: enough for what is gone. Raises KubeError."""
    known = KnownRuns(read_histories(client, namespaces), on_malformed=client.leave_out)
    by_name = f"metadata.name={LEDGER}"
    for place in namespaces if namespaces is not None else (None,):
        for ledger in client.list_slim(CONFIG_MAP, without_managed_fields, place, fields=by_name, whole=True):
            if is_managed(ledger):
                known.ledgers[ledger["metadata"]["namespace"]] = read_entries(ledger.get("data") or {})
    return known


def _by_job(pods: Iterable[dict[str, Any]]) -> dict[JobId, Objects]:
    found: dict[JobId, Objects] = defaultdict(list)
    for pod in pods:
        found[pod["metadata"]["namespace"], job_name_of(pod) or ""].append(pod)
    return found
