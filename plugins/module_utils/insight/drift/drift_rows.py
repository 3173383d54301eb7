# SPDX-License-Identifier: BSD-2-Clause
"""What differs between what a directory declares and a cluster, as rows: field, declared, live, by whom, when. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ...engine.changes import masked_changes
from ...engine.paths import ABSENT, Change, Path, value_at, with_value_at
from ...engine.plan import Action, Step
from ...jobs.submitter import submitter_title
from ...kube.resources import Object
from ...labels import BUILT_BY, SUBMITTED_BY
from ...manifest.problems import qualified_name
from ...redaction import marked_variables, mask_value, masked_object
from ..directory.source_marks import is_mark
from .field_holders import CONTROLLER, OTHERS, UNKNOWN, Addition, Blame, additions, blame, last_of_others, last_run

Row = dict[str, Any]
# What provision would change, what it leaves as it is, and what is no drift.
ERROR, WARNING, INFO = DRIFT_LEVELS = ("error", "warning", "info")
MISSING, CHANGED, REMOVED, UNDECLARED, ADDED = "missing", "changed", "removed", "undeclared", "added"

_BOOKKEEPING: tuple[Path, ...] = (
    ("metadata", "ownerReferences"),
    ("metadata", "annotations", SUBMITTED_BY),
    ("metadata", "annotations", BUILT_BY),
)


@dataclass(frozen=True)
class Declaring:
    """What declares an object: a manifest of a kind and a name, and the annotation in which a cluster says who changed
    an object last, if it has one."""

    manifest: str
    audit_annotation: str | None = None


def step_rows(step: Step, declaring: Declaring) -> Iterator[Row]:
    """The differences of one object of a manifest."""
    if step.action is Action.CREATE:
        yield _object_row(step.desired, declaring, MISSING, ERROR)
        return
    if step.action is Action.DELETE:
        yield _object_row(step.live, declaring, UNDECLARED, ERROR)
        return
    if step.live["kind"] != step.kind:
        yield _object_row(step.desired, declaring, MISSING, ERROR)
        yield _object_row(step.live, declaring, UNDECLARED, ERROR)
        return
    for change in masked_changes(step):
        if not is_mark(change) and not any(change.path[: len(each)] == each for each in _BOOKKEEPING):
            yield change_row(step.live, change, declaring)


def change_row(live: Object, change: Change, declaring: Declaring) -> Row:
    """A field that is not as declared. What a controller has set, such as an autoscaler, is no drift."""
    kind = REMOVED if change.before is ABSENT else UNDECLARED if change.after is ABSENT else CHANGED
    found = blame(live, change.path)
    level = INFO if found.cause == CONTROLLER else ERROR
    return {
        **_object_row(live, declaring, kind, level, found),
        "field": str(change),
        "declared": _value_or_none(change.after),
        "live": _value_or_none(change.before),
        "id": field_id(live, change.path),
    }


def field_id(obj: Object, path: Path) -> str:
    """``Deployment/team-a/chat:spec.replicas``: how people name a field of an object."""
    return f"{object_place(obj)}:{Change(path, None, None)}"


def step_additions(step: Step) -> list[Addition]:
    """What others have added to an object that we manage. A plan leaves a suspended job suspended."""
    suspended = value_at(step.live, _SUSPEND) is True
    declared = with_value_at(step.desired, _SUSPEND, ABSENT) if suspended else step.desired
    running = () if suspended else (_SUSPEND,)  # false is the default
    return additions(step.live, declared, [*running, *(change.path for change in step.changes)])


_SUSPEND: Path = ("spec", "suspend")


def addition_row(step: Step, addition: Addition, declaring: Declaring) -> Row:
    """Without secrets. What a controller or our own run has added is no drift, such as a taint."""
    shown = value_at(
        masked_object(step.live, marked_variables(step.live) | marked_variables(step.desired)), addition.path
    )
    if addition.path[:-1] == _ANNOTATIONS and isinstance(shown, str):
        shown = mask_value(str(addition.path[-1]), shown)
    level = WARNING if addition.blame.cause in (OTHERS, UNKNOWN) else INFO
    return {
        **_object_row(step.live, declaring, ADDED, level, addition.blame),
        "field": str(Change(addition.path, None, None)),
        "live": addition.value if shown is ABSENT else shown,
        "id": field_id(step.live, addition.path),
    }


_ANNOTATIONS: Path = ("metadata", "annotations")

# Of Kubernetes itself: nodes that are not ready, cordoned, or not initialized by their cloud yet.
_OWN_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def node_additions(node: Object, known_taints: Iterable[str]) -> Iterator[Addition]:
    """What keeps jobs off a node of a pool, and is neither Kubernetes' nor its vendor's: taints, and a cordon.

    The list of taints is one value. If a controller has written it since, its entry in managedFields covers all taints.
    """
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield Addition(("spec", "unschedulable"), True, blame(node, ("spec", "unschedulable")))
    known = (*_OWN_TAINTS, *known_taints)
    for taint in spec.get("taints") or ():
        if not str(taint.get("key")).startswith(known):
            entry = (("key", taint.get("key")), ("effect", taint.get("effect")))
            yield Addition(("spec", "taints", entry), taint, blame(node, ("spec", "taints")))


def stranger_row(obj: Object, declaring: Declaring, found: Blame, text: str) -> Row:
    """An object of others beside a job, with what it does there."""
    return {**_object_row(obj, declaring, ADDED, WARNING, found), "live": text}


def undeclared_row(obj: Object, manifest: str, level: str = WARNING) -> Row:
    """A managed object that no manifest of the directory declares."""
    return _object_row(obj, Declaring(manifest), UNDECLARED, level)


def _object_row(obj: Object, declaring: Declaring, change: str, level: str, found: Blame | None = None) -> Row:
    """A row about a whole object; those about a field add it."""
    metadata, holder = obj["metadata"], found.holder if found else None
    return {
        "manifest": declaring.manifest,
        "kind": obj["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "field": None,
        "change": change,
        "level": level,
        "declared": None,
        "live": None,
        "cause": found.cause if found else Blame().cause,
        "manager": holder.manager if holder else None,
        "user": _user(obj, found, declaring.audit_annotation) if found else None,
        "time": holder.time if holder else None,
        "last_run": last_run(obj),
        "submitted_by": submitter_title(obj),
        "id": object_place(obj),
    }


def _user(obj: Object, found: Blame, audit_annotation: str | None) -> str | None:
    """Who is behind a field manager, where an annotation tells.

    Ours records who submitted a job. That of a cluster's audit is about the last write of an object, so it says nothing
    about earlier ones, also if the last one was ours.
    """
    if found.holder is None:
        return None
    if found.cause != OTHERS:
        return submitter_title(obj)
    is_last = found.holder == last_of_others(obj) and (found.holder.time or "") >= (last_run(obj) or "")
    if audit_annotation and is_last:
        user = (obj["metadata"].get("annotations") or {}).get(audit_annotation)
        return str(user) if user else None
    return None


def object_place(obj: Object) -> str:
    """``Deployment/team-a/chat``; ``Node/node-1`` for what is in no namespace."""
    metadata = obj["metadata"]
    return qualified_name(obj["kind"], metadata.get("namespace"), metadata["name"])


def _value_or_none(value: Any) -> Any:
    return None if value is ABSENT else value
