# SPDX-License-Identifier: BSD-2-Clause
"""Write labels to nodes: one guarded PATCH for each node that changes, many nodes concurrently, and the rollback.

A patch carries the resourceVersion that its node was read with. Others write to nodes all the time (the kubelet its
status), so a rejected patch is not yet a conflict: the node is read again, and only if the labels that the change is
based on differ, someone else has changed them. The same reading finds out what became of a patch without an answer.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently_until
from ..kube.errors import ApiError, KubeError
from ..kube.resources import NODE
from ..reporter import Counter, Report, silent
from .changes import map_diff

_ATTEMPTS = 5  # per node; one fails if the node was written in the milliseconds since it was read


@dataclass(frozen=True)
class LabelChange:
    """New labels for one node (None removes), and the labels that the change is based on (None: not set).

    ``found``: the node was found like this, because the answer to the patch was lost or others made the same change.
    """

    metadata: Mapping[str, Any]
    labels: Mapping[str, str | None]
    based_on: Mapping[str, str | None]
    found: bool = False

    @property
    def node(self) -> str:
        return str(self.metadata["name"])

    @property
    def expected(self) -> dict[str, str | None]:
        """The labels of ``based_on``, and the new ones, after the change."""
        return {**self.based_on, **self.labels}


@dataclass(frozen=True)
class NodeFailure:
    """Why a node was not written: a reason (``NodeNotFound``, ``LabelConflict`` …) and a message.

    ``unknown`` is the change if it is not known whether it was made.
    """

    node: str
    error: str
    message: str
    unknown: LabelChange | None = None


@dataclass(frozen=True)
class WriteResult:
    """The changes made, with the new metadata of their nodes, and the failures."""

    done: tuple[LabelChange, ...]
    failures: tuple[NodeFailure, ...]


@dataclass(frozen=True)
class NodeWriter:
    """Writes labels. ``before_each`` is called before each write; a KubeError that it raises stops the rest.

    ``progress`` reports how many nodes are done.
    """

    client: Client
    check_mode: bool = False
    before_each: Callable[[], None] = lambda: None
    progress: Report = silent

    def write(self, changes: Iterable[LabelChange], *, keep_going: bool = False) -> WriteResult:
        """Make the changes. Without ``keep_going``, no further node is started after the first failure."""

        def stops(result: LabelChange | NodeFailure) -> bool:
            return isinstance(result, NodeFailure) and not keep_going

        changes = list(changes)
        counter = Counter(self.progress, len(changes), "node", "labelled")
        results = run_concurrently_until(stops, self._write_labels, changes, self.client.concurrency, counter.add)
        return WriteResult(
            tuple(result for result in results if isinstance(result, LabelChange)),
            tuple(result for result in results if isinstance(result, NodeFailure)),
        )

    def roll_back(self, done: Iterable[LabelChange]) -> tuple[NodeFailure, ...]:
        """Restore the labels. Nodes that someone else has changed since stay as they are, and are failures.

        A change that may not have been made can be rolled back as well: its labels are as they were.
        """
        if self.check_mode:
            return ()
        reverse = (
            LabelChange(change.metadata, {key: change.based_on.get(key) for key in change.labels}, change.expected)
            for change in done
        )
        return self.write(reverse, keep_going=True).failures

    def _write_labels(self, change: LabelChange) -> LabelChange | NodeFailure:
        metadata = change.metadata
        patch = {"metadata": {"labels": dict(change.labels)}}
        try:
            for _attempt in range(_ATTEMPTS):
                self.before_each()
                try:
                    now = self.client.merge_patch(NODE, metadata, patch, dry_run=self.check_mode, metadata_only=True)
                    return replace(change, metadata=now["metadata"])
                except KubeError as error:
                    if not error.may_be_written and not (isinstance(error, ApiError) and error.status == 409):
                        raise
                    problem = error
                latest = self._reread_node(change.node, problem)
                if latest is None:
                    return _node_not_found(change.node)
                metadata = latest["metadata"]
                found = node_label_values(metadata, change.expected)
                if found == change.expected:
                    return replace(change, metadata=metadata, found=True)
                if found != change.based_on:
                    return _conflict(change, found)
                if problem.may_be_written:
                    raise KubeError(f"{change.node} was not changed: {problem}")
        except _NotKnown as error:
            return NodeFailure(change.node, "NotKnown", str(error), unknown=change)
        except ApiError as error:
            if error.status == 404:
                return _node_not_found(change.node)
            return NodeFailure(change.node, error.reason or "ApiError", f"{change.node}: {error}")
        except KubeError as error:
            return NodeFailure(change.node, type(error).__name__, str(error))
        message = f"{change.node} was changed by others during each of {_ATTEMPTS} attempts. Run the task again."
        return NodeFailure(change.node, "Conflict", message)

    def _reread_node(self, node: str, problem: KubeError) -> dict[str, Any] | None:
        try:
            return self.client.get(NODE, None, node)
        except KubeError as error:
            if not problem.may_be_written:
                raise
            raise _NotKnown(f"{problem} It is not known whether the labels of {node} were changed.") from error


class _NotKnown(KubeError):
    """A write has no answer, and the object cannot be read."""


def read_node_metadata(client: Client, labels: str = "") -> dict[str, dict[str, Any]]:
    """The metadata of all nodes (or of those that a label selector matches) by name, from one list in pages."""
    nodes = client.list_objects(NODE, labels=labels, metadata_only=True)
    return {node["metadata"]["name"]: node["metadata"] for node in nodes}


def node_label_values(metadata: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str | None]:
    """The values of the given labels, None for those that are not set."""
    labels = metadata.get("labels") or {}
    return {key: labels.get(key) for key in keys}


# Finding a close match takes 0.1 s per name in a cluster of 2,000 nodes, and many unknown names mean another cluster.
_MOST_SUGGESTIONS = 3


def unknown_nodes(names: Iterable[str], nodes: Collection[str]) -> dict[str, str]:
    """The names that are not among ``nodes``, each with a message; the first few with a suggestion."""
    unknown = [name for name in dict.fromkeys(names) if name not in nodes]
    close = {name: difflib.get_close_matches(name, nodes, n=1, cutoff=0.6) for name in unknown[:_MOST_SUGGESTIONS]}
    hints = {name: f"Did you mean {found[0]}?" for name, found in close.items() if found}
    return {
        name: f"node {name} not found. {hints.get(name, 'To list the nodes, use M(gpuctl_node_info)')}"
        for name in unknown
    }


def _node_not_found(node: str) -> NodeFailure:
    return NodeFailure(node, "NodeNotFound", f"node {node} not found. It may have been deleted.")


def _conflict(change: LabelChange, found: Mapping[str, str | None]) -> NodeFailure:
    what = "; ".join(
        f"{key} is now {_shown_value(found[key])} and was {_shown_value(value)} when this task read it"
        for key, value in change.based_on.items()
        if found[key] != value
    )
    return NodeFailure(change.node, "LabelConflict", f"{change.node}: someone else changed its labels: {what}.")


def _shown_value(value: str | None) -> str:
    return "not set" if value is None else value or "empty"


def label_diff(change: LabelChange) -> dict[str, str]:
    """Ansible's ``diff`` entry for a node: only the labels that change."""
    return map_diff(f"Node {change.node}", {key: change.based_on.get(key) for key in change.labels}, change.labels)
