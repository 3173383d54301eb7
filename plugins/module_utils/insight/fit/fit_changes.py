# SPDX-License-Identifier: BSD-2-Clause
"""Which other values of a manifest's fields may make a job run, the least change first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...accelerators.hardware import UnfitHardware
from ...cluster.declared import Declared
from ...cluster.nodes import Node
from ...jobs.objects.priority import PRIORITIES
from ...jobs.select import SelectedJob
from ...labels import DEFAULT_POOL
from ...quantity import parse, uniform
from .fit import FitChange

_MOST_POOLS = 8
_FREE = 2  # amounts that are free on nodes, the largest first
_GIB = 2**30


class PoolRoom(NamedTuple):
    """What is free on nodes of a pool, in whole GiB and cores, the largest amounts first."""

    memory: tuple[int, ...] = ()
    cpu: tuple[int, ...] = ()


def room_of_pools(nodes: Sequence[Node]) -> dict[str, PoolRoom]:
    """By the names of the pools."""

    def largest(members: Sequence[Node], resource: str, unit: int) -> tuple[int, ...]:
        return tuple(sorted({node.free(resource) // unit * unit for node in members}, reverse=True)[:_FREE])

    pools = {name: [node for node in nodes if node.pool == name] for name in sorted({node.pool for node in nodes})}
    return {name: PoolRoom(largest(one, "memory", _GIB), largest(one, "cpu", 1000)) for name, one in pools.items()}


def changed_jobs(
    job: SelectedJob,
    declared: Declared,
    pools: Mapping[str, PoolRoom],
    is_wanted: Callable[[FitChange], bool] = lambda change: True,
) -> Iterator[tuple[FitChange, SelectedJob]]:
    """The job with one field, or two that belong together, changed. Of each field, what asks for most comes first.
    ``is_wanted`` is asked before a job is built."""
    for fields, update in _changes(job, pools):
        texts = ((field, str(old), None if new is None else str(new)) for field, old, new in fields)
        change = FitChange(tuple(texts), only_moves=_only_moves(job, update, declared))
        if not is_wanted(change):
            continue
        try:
            other = SelectedJob(job.namespace, job.name, job.kind, model=cast("Any", _updated(job.model, update)))
            yield change, other.built(declared)
        except UnfitHardware:
            continue  # The pool cannot have that.


def _only_moves(job: SelectedJob, update: _Update, declared: Declared) -> bool:
    """Whether the job is the same in another pool, but for the pool that its pods select."""
    resources: Any = job.model.resources if job.model else None
    if set(update.get("resources", ())) != {"pool"} or resources.pool == DEFAULT_POOL or resources.gpu_type:
        return False
    here, there = resources.pool, update["resources"]["pool"]
    queued = any(pool.queue for pool in (declared.pools.get(here), declared.pools.get(there)) if pool)
    hardware = ({**vars(declared.hardware(pool)), "types": None} for pool in (here, there))
    return not queued and next(hardware) == next(hardware)


_Update = dict[str, dict[str, Any]]  # section -> field -> value
_Row = tuple[tuple[tuple[str, Any, Any], ...], _Update]


def _row(field: str, before: Any, after: Any, section: str, **update: Any) -> _Row:
    return ((field, before, after),), {section: update}


def _updated(model: Any, update: _Update) -> Any:
    sections = {name: getattr(model, name).model_copy(update=fields) for name, fields in update.items()}
    return model.model_copy(update=sections)


def _changes(job: SelectedJob, pools: Mapping[str, PoolRoom]) -> Iterator[_Row]:
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
        yield _row("resources.gpu-type", resources.gpu_type, None, "resources", gpu_type=None)
    yield from _pools(resources, pools)
    yield from _less_of(resources, pools.get(resources.pool, PoolRoom()))
    if number > 1 or job.kind == "training":
        yield from _over_more_nodes(resources, number)
    yield from _less_in_all(resources, number)
    higher = PRIORITIES[: PRIORITIES.index(model.job.priority)]
    for priority in reversed(higher):
        yield _row("job.priority", model.job.priority, priority, "job", priority=priority)


def _pools(resources: Any, pools: Iterable[str]) -> Iterator[_Row]:
    for pool in [name for name in pools if name != resources.pool][:_MOST_POOLS]:
        if pool != DEFAULT_POOL:
            yield _row("resources.pool", resources.pool, pool, "resources", pool=pool)


def _less_of(resources: Any, room: PoolRoom) -> Iterator[_Row]:
    """As much CPU and memory as is free on a node of the pool, then half and a quarter of what is asked for."""
    memory, cpu = int(parse(str(resources.memory)).value), int(parse(str(resources.cpu)).value * 1000)
    for free in room.memory:
        if 0 < free < memory:
            yield _memory_row(resources, free)
    for free in room.cpu:
        if 0 < free < cpu:
            yield _cpu_row(resources, free)
    for divisor in (2, 4):
        yield _memory_row(resources, memory // divisor)
        yield _cpu_row(resources, cpu // divisor)


def _memory_row(resources: Any, amount: int) -> _Row:
    memory = uniform(str(amount), of_bytes=True)
    return _row("resources.memory", resources.memory, memory, "resources", memory=memory)


def _cpu_row(resources: Any, thousandths: int) -> _Row:
    cpu = uniform(f"{thousandths}m")
    return _row("resources.cpu", resources.cpu, cpu, "resources", cpu=cpu)


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
