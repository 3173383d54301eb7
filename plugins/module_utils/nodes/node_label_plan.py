# SPDX-License-Identifier: BSD-2-Clause
"""Read the selected nodes, and plan which of them change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..cluster.pool_declarations import declarations_in
from ..engine.node_writer import LabelChange, NodeFailure, node_label_values, read_node_metadata, unknown_nodes
from ..engine.plan import Plan
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import CONFIG_MAP
from ..labels import DEFAULT_POOL, MANAGED, POOL, SYSTEM_NAMESPACE
from ..pools.declaration import declarations_after, plan_config_maps
from ..pools.lease import Versions, versions_of
from ..task import Task, TaskFailed
from .label_options import Labels

if TYPE_CHECKING:
    from .node_label_options import NodeLabelOptions


@dataclass(frozen=True)
class NodeLabelPlan:
    """The nodes that change, those that have the labels, and those that cannot get them; the ``pools`` afterwards."""

    pools: Mapping[str, str | None]
    changes: tuple[LabelChange, ...]
    unchanged: tuple[str, ...]
    failures: tuple[NodeFailure, ...]
    config_maps: tuple[dict[str, Any], ...]  # the declarations of pools, read only for the pool label
    planned_on: Versions

    @property
    def changed(self) -> bool:
        return bool(self.changes or self.declarations(self.unchanged))

    @property
    def decisions(self) -> list[tuple[Any, ...]]:
        return [(change.node, change.labels, change.based_on) for change in self.changes]

    def declarations(self, nodes: Iterable[str]) -> tuple[Plan, ...]:
        """The pools' ConfigMaps that change when these nodes have the labels.

        Includes nodes that have them already: the task that set them may have been killed before that.
        """
        if not self.config_maps:
            return ()
        pools = {node: self.pools[node] for node in nodes}
        return plan_config_maps(declarations_after(declarations_in(self.config_maps), pools), self.config_maps)


def plan_node_labels(task: Task[NodeLabelOptions], labels: Labels) -> NodeLabelPlan:
    """Raises TaskFailed with all failures, unless ``continue_on_error``."""
    options = task.options
    nodes = _read_nodes(task.client(), options)
    names = sorted(nodes) if options.nodes is None else list(dict.fromkeys(options.nodes))
    if not names:
        selection = {"nodes": options.nodes, "pool": options.pool, "selector": options.selector}
        option, value = next((option, value) for option, value in selection.items() if value is not None)
        task.warn(f"no node found for {option} {value}, so nothing was changed")
    unknown = unknown_nodes(names, nodes)
    planned = [
        NodeFailure(name, "NodeNotFound", unknown[name])
        if name in unknown
        else _plan_node(nodes[name], labels, options)
        for name in names
    ]
    failures = tuple(each for each in planned if isinstance(each, NodeFailure))
    if failures and not options.continue_on_error:
        messages = [failure.message for failure in failures]
        raise TaskFailed.before_any_write(messages, **node_lists([], failures))
    changes = [each for each in planned if isinstance(each, LabelChange)]
    config_maps = []
    if POOL in labels and changes:
        config_maps = task.client().list_objects(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{MANAGED},{POOL}")
    return NodeLabelPlan(
        {change.node: change.expected.get(POOL) for change in changes},
        tuple(change for change in changes if change.labels),
        tuple(change.node for change in changes if not change.labels),
        failures,
        tuple(config_maps),
        versions_of(nodes.values(), config_maps),
    )


def node_lists(success: list[str], failures: Iterable[NodeFailure]) -> dict[str, Any]:
    """The returned ``success`` and ``failed_nodes``; Ansible uses ``failed`` for the task as a whole."""
    return {
        "success": success,
        "failed_nodes": [
            {"node_name": failure.node, "error": failure.error, "message": failure.message} for failure in failures
        ],
    }


def _read_nodes(client: Client, options: NodeLabelOptions) -> dict[str, dict[str, Any]]:
    """The metadata of the nodes that ``pool`` or ``selector`` selects, otherwise of all nodes."""
    selector = options.selector or ""
    if options.pool:
        selector = f"!{POOL}" if options.pool == DEFAULT_POOL else f"{POOL}={options.pool}"
    try:
        return read_node_metadata(client, selector)
    except ApiError as error:
        if error.status == 400 and options.selector:
            raise TaskFailed(f"invalid label selector {options.selector}: {error.message}") from None
        raise


def _plan_node(metadata: Mapping[str, Any], labels: Labels, options: NodeLabelOptions) -> LabelChange | NodeFailure:
    """A change without labels for a node that has all of them, or none of those to remove."""
    live = node_label_values(metadata, labels)
    if options.state == "absent":
        gone = (key for key, value in labels.items() if live[key] is not None and value in (None, live[key]))
        return LabelChange(metadata, dict.fromkeys(gone), live)
    edit = {key: value for key, value in labels.items() if live[key] != value}
    conflicts = [f"{key}={live[key]}" for key, value in edit.items() if value is not None and live[key] is not None]
    if conflicts and not options.overwrite:
        name = str(metadata["name"])
        message = f"{name} already has {' and '.join(conflicts)}. Use O(overwrite=true) to change that."
        return NodeFailure(name, "LabelConflict", message)
    return LabelChange(metadata, edit, live)
