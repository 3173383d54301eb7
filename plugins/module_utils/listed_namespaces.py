# SPDX-License-Identifier: BSD-2-Clause
"""Which namespaces a task lists that looks at jobs: its own, those that the options name, or the whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from .kube.concurrency import run_concurrently
from .kube.errors import ApiError
from .kube.resources import Resource
from .namespaces import NamespaceOptions, allowed_namespaces, context_namespace, own_namespace, require_allowed
from .options import option
from .task import Task, TaskFailed

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ListedNamespacesOptions(NamespaceOptions):
    """The options of modules that look at the jobs of one namespace, of several, or of the whole cluster."""

    namespaces: list[str] | None = option("list", elements="str", aliases=["namespace"])
    all_namespaces: bool = option("bool", default=False)


class NamespacesNeeded(TaskFailed):
    """The account may not read the jobs there, or of the whole cluster."""

    @classmethod
    def after(cls, refusal: ApiError) -> NamespacesNeeded:
        return cls(f"{refusal}. Or set O(namespaces) to those that you may read.")


def list_each(
    read: Callable[[Resource, str | None], Iterable[T]],
    kinds: Iterable[Resource],
    namespaces: Iterable[str] | None,
    concurrency: int = 1,
) -> list[T]:
    """What is read of each kind in each of the namespaces; without ``namespaces``, in the whole cluster."""
    queries = product(kinds, [None] if namespaces is None else namespaces)
    return [each for found in run_concurrently(lambda query: read(*query), queries, concurrency) for each in found]


@contextmanager
def whole_cluster_unless(namespaces: Collection[str] | None) -> Iterator[None]:
    """Without ``namespaces``, the whole cluster is listed here: if the server refuses that, raises NamespacesNeeded."""
    try:
        yield
    except ApiError as error:
        if error.is_forbidden and namespaces is None:
            raise NamespacesNeeded.after(error) from None
        raise


def or_refusal(read: Callable[[], T]) -> T | ApiError:
    """What ``read`` returns, or the server's refusal of it, where the task goes on without that."""
    try:
        return read()
    except ApiError as error:
        if not error.is_forbidden:
            raise
        return error


def in_own_namespace(task: Task[Any]) -> Task[Any]:
    """The task in the namespace in which others act, unless its options name some.

    Where neither the environment nor the context names one, a task that is limited to some namespaces lists these.
    """
    if task.options.namespaces or (context_namespace(task) is None and allowed_namespaces(task)):
        return task
    own = own_namespace(task, None)
    require_allowed(task, [own.name], own.origin)
    return task.with_options(replace(task.options, namespaces=[own.name]))


def in_requested_namespaces(task: Task[Any]) -> tuple[Task[Any], str | None]:
    """The task in its own namespace, and the name of that, unless its options ask for others or for all."""
    if task.options.namespaces or task.options.all_namespaces:
        return task, None
    own = in_own_namespace(task)
    return own, own.options.namespaces[0] if own.options.namespaces else None


def read_permitted(task: Task[Any], read: Callable[[Task[Any]], T]) -> tuple[Task[Any], T]:
    """The task and what it has read: of the whole cluster, or of its own namespace if the account may read no more."""
    try:
        return task, read(task)
    except NamespacesNeeded as refusal:
        own = in_own_namespace(task)
        try:
            found = read(own)
        except ApiError as error:
            if error.is_forbidden:
                raise refusal from None
            raise
        task.warn(
            f"Only namespace {own.options.namespaces[0]} is shown, because this account may not list the jobs of the "
            f"whole cluster. Set O(namespaces) for others."
        )
        return own, found
    except ApiError as error:
        if error.is_forbidden:
            raise NamespacesNeeded.after(error) from None
        raise
