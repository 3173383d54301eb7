# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_node_label: check the labels, read the nodes, decide for each, write what differs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..kube.concurrency import concurrency_argument_spec
from ..labels import DEFAULT_POOL, POOL, PREFIX, RESERVED_POOLS
from ..task import ModuleSpec, Task, TaskFailed

STATES = ("present", "absent")


def node_label_argument_spec() -> dict[str, dict[str, Any]]:
    """The options of gpuctl_node_label beside those of the connection."""
    return {
        "state": {"type": "str", "choices": list(STATES), "default": "present"},
        "nodes": {"type": "list", "elements": "str", "aliases": ["node", "name"]},
        "pool": {"type": "str"},
        "selector": {"type": "str"},
        "labels": {"type": "dict"},
        "keys": {"type": "list", "elements": "str", "no_log": False},
        "overwrite": {"type": "bool", "default": False},
        "continue_on_error": {"type": "bool", "default": False},
        **concurrency_argument_spec(),
    }


NODE_LABEL_CONSTRAINTS: dict[str, Any] = {
    "mutually_exclusive": [("nodes", "pool", "selector"), ("labels", "keys")],
    "required_one_of": [("nodes", "pool", "selector")],
    "required_if": [("state", "present", ("labels",)), ("state", "absent", ("keys",))],
}

Labels = dict[str, "str | None"]


def run(task: Task) -> dict[str, Any]:
    """Bring the labels of the nodes to what the task asks for.

    Returns ``changed``, ``success``, ``failed_nodes``, ``results``, ``diff`` and ``msg``. Raises TaskFailed with the
    same when a node could not be brought there: without ``continue_on_error`` nothing was changed then.
    """
    from ..pools.lease import Abandoned, Overtaken, PoolLease

    labels = _wanted(task.params)
    # Who is in which pool is changed by one run at a time, whichever module it uses.
    lease = PoolLease(task.client()) if POOL in labels else None
    overtaken: Overtaken | None = None
    former: _Plan | None = None  # what was planned before somebody else changed pools
    while True:
        guarded = lease is not None and not task.check_mode and _observed(lease)
        plan = _planned(task, labels)
        if not plan.changed or task.check_mode:
            return _carried_out(task, plan)
        # Whoever changed other nodes' pools is in nobody's way: then the plan is still the same.
        if former and former.edits != plan.edits:
            raise TaskFailed(f"{overtaken}. This run changed nothing; run it again.")
        try:
            if lease is None or not guarded:
                return _carried_out(task, plan)
            with lease.held():
                return _carried_out(task, plan, lease.check)
        except Overtaken as problem:
            overtaken, former = problem, plan
        except Abandoned:
            former = None


MODULE = ModuleSpec(node_label_argument_spec(), run, NODE_LABEL_CONSTRAINTS)


class _Plan:
    """What is going to be written to which nodes, which stay as they are, and which cannot be brought there."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.changes: list[Any] = []  # node_writer.LabelChange
        self.unchanged: list[str] = []
        self.failures: list[Any] = []  # node_writer.NodeFailure
        self.config_maps: list[Any] = []  # where pools are declared; read when the pool label is among the labels

    @property
    def changed(self) -> bool:
        return bool(self.changes or self.declarations(self.unchanged))

    @property
    def edits(self) -> list[Any]:
        """What is decided, without the versions that nodes were read with."""
        return [(change.node, change.labels, change.decided_on) for change in self.changes]

    def declarations(self, nodes: Iterable[str]) -> list[Any]:
        """An engine.plan.Plan for each pool's ConfigMap that is untrue once these nodes have the labels.

        Also for nodes that have them already: the task that set them may have been killed before it came to this.
        """
        if not self.config_maps:
            return []
        from ..engine.plan import Plan, step_for
        from ..labels import SYSTEM_NAMESPACE, pool_config_map_name
        from ..pools.declaration import declaration_of, pool_config_map
        from ..pools.membership import PoolsNow, declarations_after

        objects = {obj["metadata"]["name"]: obj for obj in self.config_maps}
        declared = [declaration_of(obj) for obj in self.config_maps]
        now = PoolsNow({}, {declaration.name: declaration for declaration in declared if declaration})
        return [
            Plan(
                name,
                SYSTEM_NAMESPACE,
                "pool",
                (step_for(pool_config_map(declaration), objects.get(pool_config_map_name(name))),),
            )
            for name, declaration in declarations_after(now, dict.fromkeys(nodes, self.labels[POOL])).items()
        ]


def _wanted(params: Mapping[str, Any]) -> Labels:
    """The labels by full key, None for those to remove. All mistakes are told at once."""
    absent = params["state"] == "absent"
    given = dict.fromkeys(params["keys"]) if absent else params["labels"]
    option = "keys" if absent else "labels"
    problems: list[str] = []
    # A variable that is empty is not every node of the cluster.
    if params["pool"] is not None and not _is_label_value(params["pool"]):
        problems.append(f"pool {params['pool']!r} is not the name of a pool; {_CHARACTERS}.")
    if params["selector"] is not None and not params["selector"].strip():
        problems.append("selector is empty and would choose every node; for that, say kubernetes.io/os.")
    labels: Labels = {}
    if not given:
        problems.append(f"{option} is empty; name at least one label.")
    for key, value in given.items():
        place = f"{option}.{key}" if not absent else f"{option}: {key}"
        full = key if "/" in key else PREFIX + key
        problems += [f"{place} {problem}" for problem in _key_problems(full)]
        if full in labels:
            problems.append(f"{place} is given twice, with and without the prefix {PREFIX}; keep one.")
        text = _text(value)
        problems += [f"{place} {problem}" for problem in _value_problems(full, value, text)]
        labels[full] = text
    if problems:
        raise TaskFailed("\n".join([*problems, "Nothing was changed."]))
    return labels


# Kubernetes, apimachinery/pkg/util/validation: IsQualifiedName and IsValidLabelValue.
_LONGEST = 63
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_POOL_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")  # the name of its ConfigMap is made of it
_CHARACTERS = "use letters, digits, '-', '_' and '.', and begin and end with a letter or digit"


def _key_problems(key: str) -> Iterable[str]:
    prefix, name = key.split("/", 1)
    if f"{prefix}/" != PREFIX:
        yield f"has the prefix {prefix}/, whose labels belong to others; only {PREFIX} can be set here (or no prefix)."
    elif len(name) > _LONGEST:
        yield f"has {len(name)} characters after the prefix; use at most {_LONGEST}."
    elif not _NAME.fullmatch(name):
        yield f"is not the key of a label; {_CHARACTERS}."


def _value_problems(key: str, value: Any, text: str | None) -> Iterable[str]:
    if isinstance(value, (dict, list)):
        yield f"is a {'map' if isinstance(value, dict) else 'list'}; a label has one text."
    elif text is not None and len(text) > _LONGEST:
        yield f"has a value of {len(text)} characters ({text}); a label's value has at most {_LONGEST}."
    elif text and not _NAME.fullmatch(text):
        yield f"has the value {text!r}, which no label can have; {_CHARACTERS}."
    elif key == POOL and text in RESERVED_POOLS:
        yield f"is {text}, which {RESERVED_POOLS[text]}; to take nodes out of their pool, remove the label (null)."
    elif key == POOL and text == "":
        yield "is empty; to take nodes out of their pool, remove the label (null)."
    elif key == POOL and text is not None and not _POOL_NAME.fullmatch(text):
        yield f"has the value {text!r}, which is no name of a pool; use lower case letters, digits and '-'."


def _is_label_value(text: str) -> bool:
    return len(text) <= _LONGEST and bool(_NAME.fullmatch(text))


def _text(value: Any) -> str | None:
    """As YAML wrote it: Python would say True where the user wrote true."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _observed(lease: Any) -> bool:
    """Where no pool has been declared yet, there is no Lease, and nobody to agree with."""
    from ..kube.errors import ApiError

    try:
        return bool(lease.observe())
    except ApiError as refusal:
        if not refusal.is_forbidden:
            raise
        raise TaskFailed(
            f"{refusal}. Changing the pool of nodes needs the rights to get and patch leases and to list and patch "
            f"configmaps in the namespace gpuctl-system."
        ) from None


def _planned(task: Task, labels: Labels) -> _Plan:
    from ..kube.errors import ApiError
    from ..kube.resources import CONFIG_MAP
    from ..labels import OURS, SYSTEM_NAMESPACE
    from ..pools.membership import unknown_nodes
    from ..engine.node_writer import LabelChange, NodeFailure, labels_of, read_node_metadata

    params, plan = task.params, _Plan(labels)
    try:
        nodes = read_node_metadata(task.client(), _selector(params))
    except ApiError as refusal:
        if refusal.status == 400 and params["selector"]:
            raise TaskFailed(f"selector {params['selector']} is not a label selector: {refusal.message}") from None
        raise
    names = list(dict.fromkeys(params["nodes"])) if params["nodes"] is not None else sorted(nodes)
    if not names:
        task.warn(f"no node is chosen by {_choice(params)}, so there was nothing to do")
    unknown = unknown_nodes(names, nodes)
    for name in names:
        if name in unknown:
            plan.failures.append(NodeFailure(name, "NodeNotFound", unknown[name]))
            continue
        found = labels_of(nodes[name], labels)
        edit = {key: value for key, value in labels.items() if found[key] != value}
        taken = {key: found[key] for key, value in edit.items() if value is not None and found[key] is not None}
        if taken and not params["overwrite"]:
            what = " and ".join(f"{key}={value}" for key, value in taken.items())
            plan.failures.append(
                NodeFailure(name, "LabelConflict", f"{name} has {what} already; set overwrite to true to change that.")
            )
        elif edit:
            plan.changes.append(LabelChange(nodes[name], edit, found))
        else:
            plan.unchanged.append(name)
    if plan.failures and not params["continue_on_error"]:
        raise TaskFailed(
            "\n".join([*(failure.message for failure in plan.failures), "Nothing was changed."]),
            **_lists([], plan.failures),
        )
    if POOL in labels and (plan.changes or plan.unchanged):
        plan.config_maps = task.client().select(CONFIG_MAP, SYSTEM_NAMESPACE, labels=f"{OURS},{POOL}")
    return plan


def _selector(params: Mapping[str, Any]) -> str:
    if params["pool"]:
        return f"!{POOL}" if params["pool"] == DEFAULT_POOL else f"{POOL}={params['pool']}"
    return params["selector"] or ""


def _choice(params: Mapping[str, Any]) -> str:
    return next(f"{name} {params[name]}" for name in ("nodes", "pool", "selector") if params[name] is not None)


def _carried_out(task: Task, plan: _Plan, before_each: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Write, take it back if that is asked for, and report. In check mode the same, with all writes dry runs."""
    from ..engine.apply import Executor
    from ..engine.results import diffs_of
    from ..kube.errors import KubeError
    from ..engine.node_writer import NodeWriter, diff_of

    go_on = task.params["continue_on_error"]
    writer = NodeWriter(task.client(), task.check_mode, before_each)
    written = writer.write(plan.changes, keep_going=go_on)
    done, failures = written.done, [*plan.failures, *written.failures]
    if task.check_mode and any(failure.error == "Forbidden" for failure in written.failures):
        # A dry run needs the right to write; the plan itself needed only reading.
        task.warn(f"labels were not validated by the server, {written.failures[0].message}")
        done, failures = tuple(plan.changes), list(plan.failures)
    if failures and not go_on:
        _take_back(writer, done, failures)
    executor = Executor(task.client(), task.check_mode, gone_timeout=0, warn=task.warn, force_conflicts=True)
    names = {change.node for change in done}
    declared = []
    try:
        for declaration in plan.declarations([*names, *plan.unchanged]):
            executor.apply_plan(declaration)
            declared.append(declaration)
    except KubeError as problem:
        task.warn(f"the labels are set, but a pool's declaration could not be brought in line with them: {problem}")
    entries = [
        *({"node_name": change.node, "action": "update", "labels": dict(change.labels)} for change in done),
        *({"node_name": node, "action": "unchanged", "labels": {}} for node in plan.unchanged),
    ]
    entries.sort(key=lambda entry: str(entry["node_name"]))
    result = {
        "changed": bool(done or declared),
        "results": entries,
        "diff": task.diff(
            lambda: [
                *(diff_of(change) for change in plan.changes if change.node in names),
                *(diff for declaration in declared for diff in diffs_of(declaration, ())),
            ]
        ),
        **_lists([str(entry["node_name"]) for entry in entries], failures),
    }
    if failures:
        raise TaskFailed("\n".join([failure.message for failure in failures] + [_summary(entries, failures)]), **result)
    return {**result, "msg": _summary(entries, failures)}


def _take_back(writer: Any, done: Iterable[Any], failures: list[Any]) -> None:
    left = writer.undo(done)
    end = f"What could not be taken back: {'; '.join(failure.message for failure in left)}"
    lines = [*(failure.message for failure in failures), end if left else "Nothing was changed."]
    raise TaskFailed("\n".join(lines), **_lists([], failures))


def _lists(success: list[str], failures: Iterable[Any]) -> dict[str, Any]:
    """The two lists that tell which nodes are as they should be, and which are not and why."""
    return {
        "success": success,
        # Not "failed": Ansible has that word for the task as a whole.
        "failed_nodes": [
            {"node_name": failure.node, "error": failure.error, "message": failure.message} for failure in failures
        ],
    }


def _summary(entries: list[dict[str, Any]], failures: list[Any]) -> str:
    updated = sum(1 for entry in entries if entry["action"] == "update")
    failed = f", {len(failures)} failed" if failures else ""
    number = len(entries) + len(failures)
    return (
        f"{number} {'node' if number == 1 else 'nodes'}: {updated} update, {len(entries) - updated} unchanged{failed}"
    )
