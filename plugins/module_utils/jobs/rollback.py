# SPDX-License-Identifier: BSD-2-Clause
"""Go back to the last manifest with which a job was ready: it is read from the record of runs and applied as any other.

The record is written when an update replaces the manifest of a job that is ready (runs/history_writer.py). It has no
secrets, so a manifest with some cannot be applied from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..cluster.lookup import job_hint, job_of_pod, jobs_of_sweep, sweep_text
from ..cluster.read_jobs import WORKLOADS, JobId, read_jobs
from ..cluster.status import is_terminating
from ..kube.resources import CONFIG_MAP
from ..labels import JOB_TYPE
from ..manifest.problems import abridged
from ..namespaces import allowed_namespaces
from ..redaction import MASK
from ..task import Task, TaskFailed
from .job_plans import of_another_kind
from .runs.run_history import HISTORIES, PastRun, read_history, slim_history
from .select import select_jobs

if TYPE_CHECKING:
    from .job_options import JobOptions

_APPLY = "Apply the earlier manifest with O(state=present)."
_NOT_UPDATED = "a training is not updated in place, so there is nothing to go back to."


def with_recorded_manifests(task: Task[JobOptions]) -> Task[JobOptions]:
    """The task that applies the recorded manifests of the jobs. Raises TaskFailed if one of them has none."""
    options, client = task.options, task.client()
    wanted = [job.id for job in select_jobs(task, builds_objects=False)]
    live = read_jobs(client, wanted, WORKLOADS)
    if options.name and not any(live.values()):
        namespace = wanted[0][0]
        if job := job_of_pod(client, options.name, [namespace]):
            task.warn(f"{options.name} is a pod of job {job[1]} in namespace {job[0]}. The task is for the whole job.")
            wanted, live = [job], read_jobs(client, [job], WORKLOADS)
        elif jobs := jobs_of_sweep(client, options.name, [namespace]):
            text = f"{sweep_text(options.name, jobs)} {_NOT_UPDATED.capitalize()} {_APPLY}"
            raise TaskFailed.before_any_write([text])
    runs: dict[str, PastRun] = {}
    for namespace in sorted({namespace for namespace, _name in wanted}):
        histories = client.list_objects(CONFIG_MAP, namespace, labels=HISTORIES)
        runs |= read_history(map(slim_history, histories))
    manifests, problems = [], []
    for job in wanted:
        workload = next((obj for obj in live[job] if not is_terminating(obj)), None)
        if workload is None:
            hint = job_hint(client, job, allowed_namespaces(task))
            problems.append(" ".join(filter(None, (f"{_job_text(job)}: job not found.", hint))))
            continue
        run = runs.get(workload["metadata"]["uid"])
        if problem := _rollback_problem(workload, run, options.kind):
            problems.append(f"{_job_text(job)}: {problem}")
        elif run:
            manifest = run.good["manifest"]
            manifests.append({**manifest, "job": {**manifest["job"], "namespace": job[0], "name": job[1]}})
    if problems:
        raise TaskFailed.before_any_write(problems)
    applied = replace(options, state="present", name=None, kind=None, src=None, definition=manifests, cluster_names=[])
    return task.with_options(applied)


def _job_text(job: JobId) -> str:
    return f"job {job[1]} in namespace {job[0]}"


def _rollback_problem(workload: Mapping[str, Any], run: PastRun | None, kind: str | None) -> str | None:
    """Why a job cannot be rolled back; None if it can."""
    live_kind = (workload["metadata"].get("labels") or {}).get(JOB_TYPE)
    if kind not in (None, live_kind):
        return of_another_kind(str(live_kind))
    if workload["kind"] == "Job":
        return f"{_NOT_UPDATED} {_APPLY}"
    good = run.good if run else {}
    if not good:
        return f"no earlier manifest is recorded with which it was ready. {_APPLY}"
    manifest = good.get("manifest")
    own: dict[str, Any] = manifest if isinstance(manifest, dict) else {}
    if not isinstance(own.get("job"), dict) or own.get("kind") != live_kind:  # Others may write the record as well.
        return f"its earlier manifest is {good.get('manifest_note') or 'not recorded'}. {_APPLY}"
    if hidden := abridged(list(dict.fromkeys(masked_places(manifest))), 3):
        return f"its earlier manifest has secret values, which are not recorded: {hidden}. {_APPLY}"
    return None


def masked_places(data: Any, place: str = "") -> Iterator[str]:
    """Where a recorded manifest has a mask in place of a secret; an item of a list by its name."""
    if isinstance(data, str):
        if MASK in data:
            yield place
    elif isinstance(data, list):
        for item in data:
            name = item.get("name") if isinstance(item, dict) else None
            yield from (f"{place} {name}" if name else place for _each in masked_places(item))
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from masked_places(value, f"{place}.{key}".lstrip("."))
