# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_placement: claim a cluster for a job before it is submitted there, and release it once the job is deleted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...jobs.job_options import JOB_KINDS, JobOptions
from ...jobs.objects.priority import PRIORITIES
from ...jobs.ownership import Ownership
from ...jobs.select import SelectedJob, select_jobs
from ...kube.errors import ApiError, KubeError
from ...kube.times import now_as_text
from ...manifest.problems import abridged, number_of
from ...namespaces import NamespaceOptions, job_namespace_problem, listed_namespaces, named_job, own_namespace
from ...options import option
from ...task import ModuleSpec, Task, TaskFailed
from .placement_record import PlacementRecord, claim, list_records, placement_of, read_record, release, usable


@dataclass(frozen=True, kw_only=True)
class PlacementOptions(NamespaceOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    src: list[str] | None = option("list", elements="path")
    definition: Any = option("raw")
    name: str | None = option("str")
    namespace: str | None = option("str")
    cluster: str | None = option("str")
    reason: str | None = option("str")
    assume_lost: list[str] | None = option("list", elements="str")
    clusters: list[str] | None = option("list", elements="str")
    move_from: str | None = option("str")
    placement: dict[str, Any] | None = option("dict")
    all_namespaces: bool = option("bool", default=False)


def run(task: Task[PlacementOptions]) -> dict[str, Any]:
    """Returns ``changed``, the job, and its placement. Without a cluster to claim, only reads."""
    options, client = task.options, task.client()
    if not (options.src or options.definition or options.name):
        return _list_placements(task)
    if not options.name and options.state == "present" and not options.cluster:
        return _read_placements(task)
    namespace, name, wanted = _job_of(task)
    changed = False
    try:
        if options.state == "absent":
            placement, changed = release(client, namespace, name, options.clusters, dry_run=task.check_mode)
        elif options.cluster:
            placement, changed = _claim(task, namespace, name, wanted)
        else:
            placement, _metadata = read_record(client, namespace, name)
    except KubeError as error:
        raise TaskFailed(f"where job {name} is placed is not known: {error}") from None
    return {
        "changed": changed,
        **_row(namespace, name, placement),
        "msg": _summary(options.state, name, placement, changed),
    }


def _row(namespace: str, name: str, placement: PlacementRecord | None) -> dict[str, Any]:
    known = asdict(placement or PlacementRecord(""))
    rows = {"assumed_lost": known.pop("lost"), "moved_from": known.pop("moved")}
    return {
        "name": name,
        "namespace": namespace,
        **{key: value or None for key, value in known.items()},
        **{key: [dict(row) for row in value] for key, value in rows.items()},
    }


def _list_placements(task: Task[PlacementOptions]) -> dict[str, Any]:
    """All jobs of the namespaces that are placed. Records that cannot be read are warnings."""
    options = task.options
    if options.state == "absent" or options.cluster:
        raise TaskFailed(
            "no job given. Set one of O(name), O(src) and O(definition) to claim or release its placement."
        )
    own = None if options.all_namespaces else [own_namespace(task, options.namespace).name]
    rows = []
    for namespace, name, found in list_records(task.client(), listed_namespaces(task, own)):
        if isinstance(found, PlacementRecord):
            rows.append(_row(namespace, name, found))
        else:
            task.warn(str(found))
    rows.sort(key=lambda row: (row["namespace"], row["name"]))
    return {"changed": False, "placements": rows, "msg": f"{number_of(len(rows), 'job')} placed"}


def _read_placements(task: Task[PlacementOptions]) -> dict[str, Any]:
    """Where each job of the manifests is placed, and what its manifest says of that. More important ones come first, as
    in the queue of the scheduler: they take up room before the others."""
    client, found = task.client(), {}
    jobs = sorted(_selected_jobs(task), key=_rank)
    try:
        if len(jobs) == 1:
            found[jobs[0].id] = read_record(client, *jobs[0].id)[0]
        else:
            wanted = {job.id for job in jobs}
            for namespace, name, record in list_records(client, sorted({namespace for namespace, _name in wanted})):
                if (namespace, name) in wanted:
                    found[namespace, name] = usable(record)
    except KubeError as error:
        names = abridged([job.name for job in jobs], 3)
        raise TaskFailed(
            f"where {'job' if len(jobs) == 1 else 'jobs'} {names} is placed is not known: {error}"
        ) from None
    rows = []
    for job in jobs:
        said = job.model.placement if job.model else None
        wanted_there = placement_of(said.model_dump() if said else None)
        image = job.model.environment.image if job.model else None
        rows.append({**_row(*job.id, found.get(job.id)), "placement": wanted_there, "image": image})
    placed = sum(row["cluster"] is not None for row in rows)
    return {
        "changed": False,
        **(rows[0] if len(rows) == 1 else {}),
        "placements": rows,
        "default_namespace": own_namespace(task, task.options.namespace).name,
        "msg": f"{placed} of {number_of(len(rows), 'job')} placed",
    }


def _rank(job: SelectedJob) -> int:
    return PRIORITIES.index(job.model.job.priority) if job.model else 0


def _job_of(task: Task[PlacementOptions]) -> tuple[str, str, dict[str, Any] | None]:
    """Namespace and name of the job that the options mean, and what its manifest says of clusters, {} if nothing.
    Raises TaskFailed for several."""
    if task.options.name:
        return *named_job(task), task.options.placement
    jobs = _selected_jobs(task)
    if len(jobs) != 1:
        names = abridged([job.name for job in jobs], 3)
        raise TaskFailed(f"a placement is for one job, and these are {len(jobs)}: {names}. Submit each by itself.")
    (job,) = jobs
    said = job.model.placement if job.model else None
    return job.namespace, job.name, said.model_dump() if said else {}


def _selected_jobs(task: Task[PlacementOptions]) -> list[SelectedJob]:
    options = task.options
    selecting = JobOptions(
        src=options.src,
        definition=options.definition,
        namespace=options.namespace,
        allowed_namespaces=options.allowed_namespaces,
        cluster_names=[],
    )
    return select_jobs(task.with_options(selecting), builds_objects=True)


def _claim(
    task: Task[PlacementOptions], namespace: str, name: str, said: dict[str, Any] | None
) -> tuple[PlacementRecord | None, bool]:
    options, client = task.options, task.client()
    if problem := job_namespace_problem(namespace, None):
        raise TaskFailed(f"O(namespace): {problem}")
    cluster = str(options.cluster)
    if options.move_from == cluster:
        raise TaskFailed(f"O(move_from): {cluster} is O(cluster) as well. Name the cluster that the job leaves.")

    def wanted() -> PlacementRecord:
        who = Ownership(task.with_options(JobOptions())).submitter.title
        return PlacementRecord(cluster, options.reason or "", who, now_as_text())

    try:
        return claim(
            client,
            namespace,
            name,
            cluster,
            wanted,
            options.assume_lost or (),
            move_from=options.move_from,
            placement=said,
            dry_run=task.check_mode,
        )
    except ApiError as error:
        if error.is_missing_namespace:
            raise TaskFailed(
                f"namespace {namespace} not found in the home cluster, which has the records of placements. "
                f"Create it there."
            ) from None
        raise


def _summary(state: str, name: str, placement: PlacementRecord | None, changed: bool) -> str:
    if placement is None:
        return f"job {name} is not placed"
    if state == "absent" and changed:
        return f"job {name} is no longer placed in {placement.cluster}"
    if placement.leaving:
        return f"job {name} moves from {placement.leaving} to {placement.cluster}"
    return f"job {name} is placed in {placement.cluster}"


MODULE = ModuleSpec(
    PlacementOptions,
    run,
    {
        "mutually_exclusive": [("src", "definition", "name"), ("move_from", "assume_lost")],
        "required_by": dict.fromkeys(("reason", "assume_lost", "move_from", "placement"), "cluster"),
    },
    manifests=JOB_KINDS,
    level="submit",
)
