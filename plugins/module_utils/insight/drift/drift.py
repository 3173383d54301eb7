# SPDX-License-Identifier: BSD-2-Clause
"""Compare a directory with a cluster: what gpuctl_drift_info reports, and gpuctl_drift restores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...accelerators.catalog import catalog
from ...cluster.pool_declarations import pool_config_map
from ...declared_source import require_usable
from ...engine.paths import Path
from ...engine.plan import WORKLOAD_KINDS, Action, Step
from ...jobs.ownership import Ownership
from ...kube.resources import CONFIG_MAP, NODE
from ...labels import POOL, SYSTEM_NAMESPACE, is_managed, pool_config_map_name
from ...manifest.problems import qualified_name
from ...namespaces import allowed_namespaces
from ...options import option
from ...task import Task
from ..directory.directory_plan import DirectoryOptions, DirectoryPlan, PlannedManifest, SourceOptions, plan_directory
from ..directory.source_marks import is_mark
from ..directory.undeclared import Undeclared, find_undeclared, whole_source
from .drift_rows import (
    INFO,
    WARNING,
    Declaring,
    Row,
    addition_row,
    node_additions,
    object_place,
    step_additions,
    step_rows,
    stranger_row,
    undeclared_row,
)
from .field_holders import GPUCTL, Addition, blame
from .strangers import read_candidates, strangers

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class DriftOptions(SourceOptions):
    """And what only a comparison needs."""

    takeover: bool = option("bool", default=False)
    audit_annotation: str | None = option("str")


@dataclass
class Drift:
    """``rows`` are the differences. By kind, namespace and name: ``steps`` the objects of manifests, ``added`` the live
    objects with what others have added to them. ``undeclared`` is what other modules can delete. ``unmarked`` are the
    manifests that do not record their source yet."""

    directory: DirectoryPlan
    rows: list[Row] = field(default_factory=list)
    undeclared: list[Undeclared] = field(default_factory=list)
    unmarked: set[str] = field(default_factory=set)
    steps: dict[str, Step] = field(default_factory=dict)
    added: dict[str, tuple[Object, list[Path]]] = field(default_factory=dict)

    def compare(self, step: Step, declaring: Declaring) -> None:
        """Compare an object of a manifest."""
        self.rows += step_rows(step, declaring)
        if any(map(is_mark, step.changes)):
            self.unmarked.add(declaring.manifest)
        if step.live:
            self.steps[object_place(step.live)] = step
            if step.desired and is_managed(step.live):
                self.add(step, step_additions(step), declaring)

    def add(self, step: Step, found: Iterable[Addition], declaring: Declaring) -> None:
        """Report what others have added to an object."""
        for each in found:
            _live, paths = self.added.setdefault(object_place(step.live), (step.live, []))
            if each.path not in paths:  # Two manifests may be about one namespace.
                self.rows.append(addition_row(step, each, declaring))
                paths.append(each.path)


def find_drift(task: Task[Any]) -> Drift:
    """Plan the whole directory as if everything might be overwritten, and say why it would be. Writes nothing.

    Raises ManifestErrors, and ConnectionProblem. What cannot be planned is among the directory's problems.
    """
    declared = {name: getattr(task.options, name) for name in SourceOptions.argument_spec()}
    # Never refuse because of an owner: a person decides by the report, which writes nothing.
    forced = DirectoryOptions(
        **declared, force=True, takeover=True, force_conflicts=True, recreate=True, wait_for_nodes=True
    )
    require_usable(forced)
    directory = plan_directory(task, forced)
    drift = Drift(directory)
    for manifest in directory.manifests:
        for step in (*manifest.plan.prerequisites, *manifest.plan.steps):
            drift.compare(step, Declaring(_title(manifest), task.options.audit_annotation))
    _compare_pools(task, drift)
    _add_strangers(task, drift)
    _add_undeclared(task, drift)
    return drift


def _add_strangers(task: Task[Any], drift: Drift) -> None:
    """Objects of others that pass for a declared job, or scale it."""
    jobs = {
        (each.namespace, each.name): each
        for each in drift.directory.manifests
        if each.job is not None and each.plan.steps and each.plan.steps[0].kind in WORKLOAD_KINDS
    }
    workloads = {job: each.plan.steps[0].kind for job, each in jobs.items()}
    candidates = read_candidates(task.client(), (namespace for namespace, _name in jobs))
    own = {object_place(step.desired or step.live) for each in jobs.values() for step in each.plan.steps}
    for found in strangers((obj for obj in candidates if object_place(obj) not in own), workloads):
        declaring = Declaring(_title(jobs[found.job]), task.options.audit_annotation)
        drift.rows.append(stranger_row(found.obj, declaring, blame(found.obj, found.path), found.text))


def _title(manifest: PlannedManifest) -> str:
    """How rows name a manifest: ``inference team-a/chat``."""
    namespace = manifest.namespace if manifest.kind != "pool" else None
    return f"{manifest.kind} {qualified_name(namespace, manifest.name)}"


def _compare_pools(task: Task[Any], drift: Drift) -> None:
    """What others have added to the declarations of pools, and what keeps jobs off their nodes."""
    pools, annotation = drift.directory.pools, task.options.audit_annotation
    if pools is None:
        return
    live = {obj["metadata"]["name"]: obj for obj in task.client().list_objects(CONFIG_MAP, SYSTEM_NAMESPACE)}
    changed = {plan.name for plan in pools.config_maps}
    members: dict[str, str] = {}
    for pool in pools.membership.pools:
        members |= dict.fromkeys(pool.nodes, pool.name)
        obj, declaration = live.get(pool_config_map_name(pool.name)), pools.declarations.get(pool.name)
        if obj and declaration and pool.name not in changed:
            step = Step(Action.UNCHANGED, pool_config_map(declaration), obj)
            drift.compare(step, Declaring(f"pool {pool.name}", annotation))
    # One LIST for all nodes, also those of pools that are not declared: a label can outlive its pool.
    for node in task.client().list_slim(NODE, _slim):
        name, label = node["metadata"]["name"], node["metadata"]["labels"].get(POOL)
        step = Step(Action.UNCHANGED, {}, node)
        if name in members:
            added = node_additions(node, catalog().taints())
            drift.add(step, added, Declaring(f"pool {members[name]}", annotation))
        elif label is not None and not pools.declarations.get(label):  # for a pool that is not declared
            stray = Addition(_POOL_LABEL, label, blame(node, _POOL_LABEL))
            if stray.blame.cause != GPUCTL:  # It may be declared elsewhere: labels of nodes carry no source.
                drift.add(step, [stray], Declaring(f"pool {label}", annotation))


_POOL_LABEL: Path = ("metadata", "labels", POOL)


def _slim(node: Mapping[str, Any]) -> Object:
    """What a comparison needs of a node; there may be thousands."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    pool = (metadata.get("labels") or {}).get(POOL)
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            **{key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
            "managedFields": [_without_status(entry) for entry in metadata.get("managedFields") or ()],
            "labels": {} if pool is None else {POOL: pool},
            "annotations": metadata.get("annotations") or {},
        },
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if key in spec},
    }


def _without_status(entry: Mapping[str, Any]) -> Object:
    """An entry of ``managedFields`` without its largest part: conditions and images."""
    fields = entry.get("fieldsV1") or {}
    return {**entry, "fieldsV1": {name: below for name, below in fields.items() if name != "f:status"}}


def _add_undeclared(task: Task[Any], drift: Drift) -> None:
    ownership = Ownership(task)
    declared, allowed = drift.directory.declared, allowed_namespaces(task)
    for found in find_undeclared(task.client(), declared, allowed, whole_source(task.options)):
        title = f"{found.kind} {qualified_name(found.namespace, found.name)}"
        level = _level(ownership, found.objects) if found.kind == "job" else WARNING
        drift.rows += [undeclared_row(obj, title, level) for obj in found.objects]
        if level == WARNING:
            drift.undeclared.append(found)


def _level(ownership: Ownership, objects: list[Object]) -> str:
    """A job that another user submitted belongs to that user, and is no drift of this directory."""
    workload = next((obj for obj in objects if obj["kind"] in WORKLOAD_KINDS), None)
    return INFO if workload and ownership.refusal(workload) else WARNING
