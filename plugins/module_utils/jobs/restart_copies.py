# SPDX-License-Identifier: BSD-2-Clause
"""Keep what a restart deletes until it is created again, so that an interrupted restart can be repeated.

A restart has no manifest: once the Job is gone, nothing else says what it was. The copy is a ControllerRevision, the
kind that Kubernetes has for such data. It is not in the ledger, because the environment of a Job may hold secrets and a
ConfigMap may have other readers. Of the levels in permissions.py, only those that restart jobs read the copies.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cluster.read_jobs import JobId
from ..engine.plan import Plan
from ..kube.concurrency import run_concurrently
from ..kube.errors import ApiError, KubeError, as_sentence, if_allowed
from ..kube.resources import CONTROLLER_REVISION
from ..labels import FIELD_MANAGER, MANAGED, MANAGED_BY, RESTART_OF, pod_selector, selector_text
from ..task import Task

if TYPE_CHECKING:
    from .job_options import JobOptions

_DEPENDENTS = ("Service", "ConfigMap", "ResourceClaimTemplate")
# Copies of one job that are read: a restart leaves one, and an account with write access can create thousands of 1 MB.
_MOST = 10


class RestartCopy(NamedTuple):
    """The objects of a training as they were applied, the Job first. ``uid`` is that of the Job to be replaced."""

    uid: str
    objects: tuple[dict[str, Any], ...]


class RestartCopies:
    """The copies in all namespaces. Where they are forbidden, that is one warning, and restarts work without."""

    def __init__(self, task: Task[JobOptions]) -> None:
        self._task = task
        self._refused: set[str] = set()

    def save(self, plan: Plan) -> None:
        """Keep a copy of the training that the plan restarts. Raises KubeError. Threads may call this at once."""
        if plan.namespace in self._refused:
            return
        try:
            self._task.client().create(revision_of(plan))
        except KubeError as error:
            if not isinstance(error, ApiError) or error.is_transient:
                error.may_be_written = False  # The job has not been touched.
                raise
            self._warn_of_refusal(plan.namespace, error)

    def find(self, jobs: Iterable[JobId]) -> dict[JobId, list[RestartCopy]]:
        """What interrupted restarts of the jobs have left, the newest first: one list per namespace."""
        wanted = set(jobs)
        found: dict[JobId, list[RestartCopy]] = defaultdict(list)
        for namespace in sorted({namespace for namespace, _name in wanted}):
            for job, revision in self._revisions(namespace, wanted):
                if (copy := copy_in(revision)) is not None:
                    found[job].append(copy)
        return found

    def discard(self, jobs: Iterable[JobId]) -> set[JobId]:
        """Delete the copies of jobs that exist again, or are not needed. Returns the jobs where that failed."""
        client = self._task.client()

        def delete(job: JobId) -> JobId | None:
            namespace, name = job
            labels = selector_text({MANAGED_BY: FIELD_MANAGER, RESTART_OF: name})
            try:
                client.delete_collection(CONTROLLER_REVISION, namespace, labels=labels, grace_seconds=0)
            except KubeError as error:
                if isinstance(error, ApiError) and error.is_forbidden:
                    self._warn_of_refusal(namespace, error)
                    return None
                self._task.warn(
                    f"the copy of training {name} in namespace {namespace} (a ControllerRevision) was not deleted "
                    f"after its restart: {as_sentence(error)} The next task with this training deletes it."
                )
                return job
            return None

        found = run_concurrently(delete, [job for job in jobs if job[0] not in self._refused], client.concurrency)
        return {job for job in found if job}

    def _revisions(self, namespace: str, wanted: Collection[JobId]) -> Iterator[tuple[JobId, dict[str, Any]]]:
        """The copies of the jobs, the newest first. Each is read by itself: the data of others may be anything."""
        client, labels = self._task.client(), f"{MANAGED},{RESTART_OF}"
        read = partial(client.list_objects, CONTROLLER_REVISION, namespace, labels=labels)
        found = if_allowed(lambda: read(metadata_only=True), None) or []
        found.sort(key=lambda revision: str(revision["metadata"].get("creationTimestamp")), reverse=True)
        seen: Counter[JobId] = Counter()
        for revision in found:
            job = namespace, revision["metadata"]["labels"][RESTART_OF]
            seen[job] += 1
            if job in wanted and seen[job] <= _MOST:
                yield from ((job, whole) for whole in read(fields=f"metadata.name={revision['metadata']['name']}"))

    def _warn_of_refusal(self, namespace: str, error: KubeError) -> None:
        if namespace in self._refused:
            return
        self._refused.add(namespace)
        forbidden = isinstance(error, ApiError) and error.is_forbidden
        hint = " Grant list, create and deletecollection on controllerrevisions.apps there." if forbidden else ""
        self._task.warn(
            f"copies of the trainings to restart cannot be kept in namespace {namespace}: {as_sentence(error)} If this "
            f"task is interrupted, O(state=restarted) cannot repeat it; O(state=present) with the manifests can.{hint}"
        )


def revision_of(plan: Plan) -> dict[str, Any]:
    """The ControllerRevision that keeps what a restart creates again."""
    objects = [_without_owner(step.desired) for step in plan.steps if step.desired]
    data = {"uid": plan.steps[0].live["metadata"]["uid"], "objects": objects}
    # The data of a revision cannot change, so its name depends on them, as the StatefulSet controller's does.
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
    return {
        "apiVersion": CONTROLLER_REVISION.api_version,
        "kind": CONTROLLER_REVISION.kind,
        "metadata": {
            "name": f"{plan.name}-{digest[:10]}",
            "namespace": plan.namespace,
            # No label ``app``: a StatefulSet adopts the revisions that its selector matches.
            "labels": {MANAGED_BY: FIELD_MANAGER, RESTART_OF: plan.name},
        },
        # Required, and only of use to a controller that owns the revision.
        "revision": 0,
        "data": data,
    }


def copy_in(revision: Mapping[str, Any]) -> RestartCopy | None:
    """The copy in a revision. None if it has anything else than a training: all of it would be created."""
    namespace, name = revision["metadata"]["namespace"], revision["metadata"]["labels"][RESTART_OF]
    try:
        workload, *dependents = revision["data"]["objects"]
        for obj, kinds in ((workload, ("Job",)), *((dependent, _DEPENDENTS) for dependent in dependents)):
            metadata = obj["metadata"]
            owns = metadata["namespace"] == namespace and pod_selector(name).items() <= metadata["labels"].items()
            if obj["kind"] not in kinds or not owns:
                return None
        if workload["metadata"]["name"] != name:
            return None
        return RestartCopy(str(revision["data"]["uid"]), (workload, *dependents))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _without_owner(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the uid of the Job that is about to be deleted."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "ownerReferences"}
    return {**obj, "metadata": metadata}
