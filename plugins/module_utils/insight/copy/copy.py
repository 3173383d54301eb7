# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_copy: copy a file or directory to or from a pod of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...engine.changes import map_diff
from ...labels import MAIN_CONTAINER
from ...manifest.problems import abridged, number_of
from ...namespaces import NamespaceOptions, allowed_namespaces, named_job
from ...options import option
from ...printable import one_line
from ...task import ModuleSpec, Task, TaskFailed
from .copy_container import Container
from .copy_direction import DIRECTIONS, Sides
from .copy_local import os_error_text
from .copy_pods import SweepGiven, pod_to_copy
from .copy_tree import CopyPlan, facts, plan_copy

_NAMED = 5  # files in a warning


@dataclass(frozen=True, kw_only=True)
class CopyOptions(NamespaceOptions):
    name: str = option("str", required=True)
    namespace: str | None = option("str")
    pod: str | None = option("str")
    container: str = option("str", default=MAIN_CONTAINER)
    local_path: str = option("path", required=True)
    remote_path: str = option("str", required=True)
    state: str = option("str", default="to_pod", choices=list(DIRECTIONS))


def run(task: Task[CopyOptions]) -> dict[str, Any]:
    """Lists the files on both sides, and transfers those that differ. Raises TaskFailed."""
    options = task.options
    for name in ("local_path", "remote_path"):
        if not getattr(options, name) or "\0" in getattr(options, name):
            raise TaskFailed(f"O({name}) is not a path. Give the path of a file or directory.")
    find_sides, transfer = DIRECTIONS[options.state]
    try:
        container = _find_container(task)
        sides = find_sides(container, options.local_path, options.remote_path)
        plan = _plan_transfer(sides)
        size = _transfer_size(sides, plan)
        _warn_of_skipped(task, container, sides, plan)
        if plan.changed and not task.check_mode:
            transfer(container, sides, plan)
    except OSError as problem:
        raise TaskFailed(f"{os_error_text(problem)}. Nothing was copied.") from None
    return {
        "changed": bool(plan.changed),
        "namespace": container.namespace,
        "pod": container.pod,
        "files": [one_line(name) for name in plan.changed],
        "not_copied": [one_line(name) for name in plan.skipped],
        "size": size,
        "diff": task.diff(lambda: _files_diff(sides, plan)),
        "msg": _copy_message(plan, size, check_mode=task.check_mode),
    }


MODULE = ModuleSpec(CopyOptions, run)


def _find_container(task: Task[CopyOptions]) -> Container:
    options = task.options
    job = named_job(task)
    try:
        pod = pod_to_copy(task.client(), job, options.pod, options.container, allowed_namespaces(task))
    except SweepGiven as found:
        raise TaskFailed(str(found), sweep_jobs=sorted(name for _namespace, name in found.jobs)) from None
    except ValueError as problem:
        raise TaskFailed(str(problem)) from None
    return Container(task.client(), job[0], pod, options.container, task.progress)


def _plan_transfer(sides: Sides) -> CopyPlan:
    try:
        return plan_copy(sides.source, sides.dest)
    except ValueError as problem:
        raise TaskFailed(str(problem)) from None


def _transfer_size(sides: Sides, plan: CopyPlan) -> int:
    size = sum(sides.source[name].size for name in plan.files)
    if sides.space is not None and size > sides.space:
        raise TaskFailed(
            f"not enough space in {one_line(sides.dest_path)}: {size} bytes to copy, {sides.space} are free."
        )
    return size


def _warn_of_skipped(task: Task[CopyOptions], container: Container, sides: Sides, plan: CopyPlan) -> None:
    skipped = [one_line(name) for name in plan.skipped]
    if skipped:
        task.warn(
            f"Not copied: {abridged(skipped, _NAMED)}. Only files, directories and links between them can be copied."
        )
    if not sides.comparable:
        task.warn(f"{container} lacks sha256sum. Files cannot be compared, and are copied even if they are the same.")


def _files_diff(sides: Sides, plan: CopyPlan) -> list[dict[str, str]]:
    changed = plan.changed
    return [map_diff(sides.dest_path, facts(sides.dest, changed), facts(sides.source, changed))] if changed else []


def _copy_message(plan: CopyPlan, size: int, *, check_mode: bool) -> str:
    if not plan.changed:
        return f"{number_of(plan.unchanged, 'file')} unchanged"
    files = number_of(len(plan.changed) - len(plan.directories), "file")
    directories = f" and {number_of(len(plan.directories), 'directory', 'directories')}" if plan.directories else ""
    verb = "would be copied" if check_mode else "copied"
    return f"{files}{directories} {verb} ({number_of(size, 'byte')}), {plan.unchanged} unchanged"
