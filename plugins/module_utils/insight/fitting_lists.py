# SPDX-License-Identifier: BSD-2-Clause
"""Lists of many namespaces for what only informs: a namespace that is too large is left out, by name, so that none can
hide the objects of others. What writes must see all of what it asks for, and fails instead."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..kube.client import Client
from ..kube.errors import AnswerTooLarge, ApiError
from ..kube.limits import LIST_MEMORY, size_text
from ..kube.list_limits import ListLimits
from ..kube.resources import Resource
from ..kube.shapes import MalformedObject
from ..kube.transport import JSON

T = TypeVar("T")

ALL = "*"  # in place of a name
_OTHERS = 4  # a part of the memory, for lists of other kinds
_PAGES = 4  # A page has a part of the rest at most: several are read at once.


class LeftOut(MalformedObject):
    """All objects of a kind in a namespace."""

    @property
    def sentence(self) -> str:
        return (
            f"Objects of kind {self.kind} in namespace {self.namespace} are left out: there is too much of them to be "
            f"read. Delete what is not needed, and limit how many objects the namespace may have (object_counts of "
            f"M(gpuctl_workspace))."
        )


class FittingLimits(ListLimits):
    """What is read is charged to namespaces. Where all such lists together are too large, the namespace with most is
    left out of them."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._pages: deque[int] = deque()  # the memory of those that were read and not charged yet
        self.charges: Counter[str] = Counter()
        self.left_out: set[str] = set()

    def weigh(self, memory: int) -> None:
        most = LIST_MEMORY - LIST_MEMORY // _OTHERS
        with self.lists.lock:
            while memory > most // _PAGES or self.lists.memory + memory > most:
                fitting = [each for each in [*self.lists.opened] if isinstance(each, FittingLimits)]
                charges = sum((each.charges for each in fitting), Counter[str]())
                # What is being read cannot be left out, so a smaller page has to do.
                if memory > most // _PAGES or self.lists.memory + memory - sum(charges.values()) > most:
                    raise AnswerTooLarge(self.request, f"{size_text(LIST_MEMORY)} of objects")
                largest = max(charges, key=charges.__getitem__)
                for each in fitting:
                    each.leave_out(largest)
            self.memory += memory
            self._pages.append(memory)

    def charge(self, namespaces: Sequence[str], sizes: Sequence[int] | None) -> None:
        """Charge a page to the namespaces of its objects: the sizes of what is kept of them, else equal parts."""
        with self.lists.lock:
            page = self._pages.popleft()
            parts = sizes or [page // max(len(namespaces), 1)] * len(namespaces)
            kept = [(name, part) for name, part in zip(namespaces, parts, strict=True) if name not in self.left_out]
            for name, part in kept:
                self.charges[name] += part
            self.memory += sum(part for _name, part in kept) - page

    def leave_out(self, namespace: str) -> None:
        if namespace in self.charges:
            self.memory -= self.charges.pop(namespace)
            self.left_out.add(namespace)


def list_fitting(
    client: Client,
    resource: Resource,
    slim: Callable[[dict[str, Any]], T],
    namespace: str | None = None,
    *,
    labels: str = "",
    fields: str = "",
    size_of: Callable[[T], int] | None = None,
) -> list[T]:
    """What ``slim`` returns for each object of a kind, as far as they fit into memory. ``size_of``: what is kept of
    one, if that is less than the object."""

    def read() -> list[T]:
        kept: list[tuple[str, T]] = []
        with client.lists.open(resource.path(namespace), True, FittingLimits) as limits:
            for page in client.pages(resource, namespace, labels, fields, JSON, limits):
                new = [(obj["metadata"]["namespace"], slim(obj)) for obj in client.items(resource, page)]
                limits.charge(
                    [place for place, _each in new], [size_of(each) for _place, each in new] if size_of else None
                )
                kept += new
                if limits.left_out:
                    kept = [each for each in kept if each[0] not in limits.left_out]
            for place in limits.left_out:
                client.malformed_objects[resource.kind, place, ALL] = LeftOut(resource.kind, place, ALL, "")
            return [each for place, each in kept if place not in limits.left_out]

    try:
        return read()
    except ApiError as error:
        if error.status != 410:  # The continue token has expired.
            raise
        return read()


def namespaces_left_out(client: Client) -> set[str]:
    """Those of which a list of this task lacks the objects."""
    return {
        malformed.namespace or "" for malformed in client.malformed_objects.values() if isinstance(malformed, LeftOut)
    }
