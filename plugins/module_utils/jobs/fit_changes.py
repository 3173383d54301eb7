# SPDX-License-Identifier: BSD-2-Clause
"""Which other values of a manifest's fields may make a job run, the least change first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ..accelerators import UnfitHardware
from ..cluster.declared import Declared
from ..cluster.nodes import Node
from ..labels import DEFAULT_POOL
from ..quantity import parse, uniform
from ..scheduling.fit import FitChange
from .objects.priority import PRIORITIES
from .select import SelectedJob

_MOST_POOLS = 8


def changed_jobs(
    job: SelectedJob, declared: Declared, nodes: Sequence[Node]
) -> Iterator[tuple[FitChange, SelectedJob]]:
    """The job with one field, or two that belong together, changed. Of each field, what asks for most comes first."""
    for fields, update in _changes(job, nodes):
        try:
            other = SelectedJob(job.namespace, job.name, job.kind, model=cast("Any", _updated(job.model, update)))
            yield FitChange(tuple((field, str(old), str(new)) for field, old, new in fields)), other.built(declared)
        except UnfitHardware:
            continue  # The pool cannot have that.


_Update = dict[str, dict[str, Any]]  # section -> field -> value
_Row = tuple[tuple[tuple[str, Any, Any], ...], _Update]


def _row(field: str, before: Any, after: Any, section: str, **update: Any) -> _Row:
    return ((field, before, after),), {section: update}


def _updated(model: Any, update: _Update) -> Any:
    sections = {name: getattr(model, name).model_copy(update=fields) for name, fields in update.items()}
    return model.model_copy(update=sections)


def _changes(job: SelectedJob, nodes: Sequence[Node]) -> Iterator[_Row]:
    model: Any = job.model
    resources = model.resources
    number = getattr(resources, "node_count", 1)
    placement = model.distributed.placement if hasattr(model, "distributed") else None
    if placement is not None and placement.required:
        free = placement.model_copy(update={"required": False})
        yield _row("distributed.placement.required", "true", "false", "distributed", placement=free)
    if resources.interconnect == "nvlink-domain":
        yield _row("resources.interconnect", "nvlink-domain", "none", "resources", interconnect="none")
    if resources.gpu_type:
        yield _row("resources.gpu-type", resources.gpu_type, "any", "resources", gpu_type=None)
    yield from _pools(resources, nodes)
    yield from _less_of(resources)
    if number > 1 or job.kind == "training":
        yield from _over_more_nodes(resources, number)
    yield from _less_in_all(resources, number)
    higher = PRIORITIES[: PRIORITIES.index(model.job.priority)]
    for priority in reversed(higher):
        yield _row("job.priority", model.job.priority, priority, "job", priority=priority)


def _pools(resources: Any, nodes: Sequence[Node]) -> Iterator[_Row]:
    pools = sorted({node.pool for node in nodes} - {resources.pool})
    for pool in pools[:_MOST_POOLS]:
        if pool != DEFAULT_POOL:
            yield _row("resources.pool", resources.pool, pool, "resources", pool=pool)


def _less_of(resources: Any) -> Iterator[_Row]:
    """Half, and a quarter of the CPU and the memory."""
    for divisor in (2, 4):
        memory = uniform(str(int(parse(str(resources.memory)).value) // divisor), of_bytes=True)
        cpu = uniform(f"{int(parse(str(resources.cpu)).value * 1000) // divisor}m")
        yield _row("resources.memory", resources.memory, memory, "resources", memory=memory)
        yield _row("resources.cpu", resources.cpu, cpu, "resources", cpu=cpu)


def _less_in_all(resources: Any, number: int) -> Iterator[_Row]:
    """Fewer GPUs on each node, or fewer nodes: those that keep the most GPUs first."""
    fewer = [
        (gpus * number, _row("resources.gpu", resources.gpu, gpus, "resources", gpu=gpus))
        for gpus in range(resources.gpu - 1, 0, -1)
    ]
    fewer += [
        (count * resources.gpu, _row("resources.node_count", number, count, "resources", node_count=count))
        for count in range(number - 1, 0, -1)
    ]
    for _total, row in sorted(fewer, key=lambda each: -each[0]):
        yield row


def _over_more_nodes(resources: Any, number: int) -> Iterator[_Row]:
    """As many GPUs in all, fewer on each node."""
    if resources.partition or resources.gpu_share:
        return
    for factor in (2, 4, 8):
        if resources.gpu and resources.gpu % factor == 0:
            nodes, gpus = number * factor, resources.gpu // factor
            fields = (("resources.node_count", number, nodes), ("resources.gpu", resources.gpu, gpus))
            yield fields, {"resources": {"node_count": nodes, "gpu": gpus}}
