# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Write labels to nodes: one guarded PATCH for each node that changes, many nodes side by side, and the way back.

A patch carries the resourceVersion that its node was read with. Nodes are written all the time by others (the kubelet's
status, other labels), so a refused patch is no conflict yet: the node is read anew, and only if the labels that the
change was made for are not as they were, somebody else has changed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..kube.client import Client
from ..kube.concurrency import run_concurrently_until
from ..kube.errors import ApiError, KubeError
from ..kube.resources import NODE

_ATTEMPTS = 5  # per node; each further one means that the node was written within the milliseconds since it was read


@dataclass(frozen=True)
class LabelChange:
    """New labels for one node (None removes), and the labels that this was decided on (None: not there)."""

    metadata: Mapping[str, Any]
    labels: Mapping[str, str | None]
    decided_on: Mapping[str, str | None]

    @property
    def node(self) -> str:
        return str(self.metadata["name"])

    @property
    def expected(self) -> dict[str, str | None]:
        """The labels decided on, as they are once the change is made."""
        return {**self.decided_on, **self.labels}


@dataclass(frozen=True)
class NodeFailure:
    """Why a node was not written: a word (``NodeNotFound``, ``LabelConflict`` …) and a sentence."""

    node: str
    error: str
    message: str


@dataclass(frozen=True)
class WriteResult:
    """What became of changes: those made, with the metadata that the nodes have since, and those that failed."""

    done: tuple[LabelChange, ...]
    failures: tuple[NodeFailure, ...]


@dataclass(frozen=True)
class NodeWriter:
    """How nodes are written. ``before_each`` is called before each request and stops all that follow by raising a
    KubeError."""

    client: Client
    check_mode: bool = False
    before_each: Callable[[], None] = lambda: None

    def write(self, changes: Iterable[LabelChange], *, keep_going: bool = False) -> WriteResult:
        """Make the changes. Unless told to keep going, no further node is begun after the first failure.

        ``done`` holds each change with the new metadata of its node and what it was decided on, so that ``undo`` can
        take it back.
        """

        def stops(outcome: LabelChange | NodeFailure) -> bool:
            return isinstance(outcome, NodeFailure) and not keep_going

        outcomes = run_concurrently_until(stops, self._write, changes, self.client.concurrency)
        return WriteResult(
            tuple(outcome for outcome in outcomes if isinstance(outcome, LabelChange)),
            tuple(outcome for outcome in outcomes if isinstance(outcome, NodeFailure)),
        )

    def undo(self, done: Iterable[LabelChange]) -> tuple[NodeFailure, ...]:
        """Give nodes their former labels back. A node that somebody has changed since is theirs now and stays."""
        if self.check_mode:
            return ()
        backwards = (
            LabelChange(change.metadata, {key: change.decided_on.get(key) for key in change.labels}, change.expected)
            for change in done
        )
        return NodeWriter(self.client).write(backwards, keep_going=True).failures

    def _write(self, change: LabelChange) -> LabelChange | NodeFailure:
        metadata = change.metadata
        patch = {"metadata": {"labels": dict(change.labels)}}
        try:
            for _attempt in range(_ATTEMPTS):
                self.before_each()
                try:
                    now = self.client.merge_patch(NODE, metadata, patch, dry_run=self.check_mode, metadata_only=True)
                    return LabelChange(now["metadata"], change.labels, change.decided_on)
                except ApiError as refusal:
                    if refusal.status != 409:
                        raise
                latest = self.client.get(NODE, None, change.node)
                if latest is None:
                    return _gone(change.node)
                metadata = latest["metadata"]
                found = labels_of(metadata, change.expected)
                if found == change.expected:  # An earlier try arrived though its answer was lost.
                    return LabelChange(metadata, change.labels, change.decided_on)
                if found != change.decided_on:
                    return _conflict(change, found)
        except ApiError as refusal:
            if refusal.status == 404:
                return _gone(change.node)
            return NodeFailure(change.node, refusal.reason or "ApiError", f"{change.node}: {refusal}")
        except KubeError as problem:
            return NodeFailure(change.node, type(problem).__name__, str(problem))
        return NodeFailure(
            change.node,
            "Conflict",
            f"{change.node} was written by others {_ATTEMPTS} times while this task tried to; run the task again.",
        )


def read_node_metadata(client: Client, labels: str = "") -> dict[str, dict[str, Any]]:
    """The metadata of all nodes (or of those that a label selector chooses) by name, from one list in pages."""
    return {
        node["metadata"]["name"]: node["metadata"] for node in client.select(NODE, labels=labels, metadata_only=True)
    }


def labels_of(metadata: Mapping[str, Any], keys: Iterable[str]) -> dict[str, str | None]:
    """The values of the given labels, None for those that are not there."""
    labels = metadata.get("labels") or {}
    return {key: labels.get(key) for key in keys}


def _gone(node: str) -> NodeFailure:
    return NodeFailure(node, "NodeNotFound", f"{node} is not a node of the cluster (any more).")


def _conflict(change: LabelChange, found: Mapping[str, str | None]) -> NodeFailure:
    what = "; ".join(
        f"{key} is {_shown(found[key])} now and was {_shown(value)} when this task read it"
        for key, value in change.decided_on.items()
        if found[key] != value
    )
    return NodeFailure(change.node, "LabelConflict", f"{change.node}: somebody else changed its labels, {what}.")


def _shown(value: str | None) -> str:
    return "not set" if value is None else value or "empty"


def diff_of(change: LabelChange) -> dict[str, str]:
    """Ansible's ``diff`` entry for a node: the labels that change and nothing else."""
    before = {key: change.decided_on.get(key) for key in change.labels}
    header = f"Node {change.node}"
    return {
        "before": _label_lines(before),
        "after": _label_lines(change.labels),
        "before_header": header,
        "after_header": header,
    }


def _label_lines(labels: Mapping[str, str | None]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in labels.items() if value is not None)
