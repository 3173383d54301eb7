# SPDX-License-Identifier: BSD-2-Clause
"""The cluster as it will be once plans are applied, for what is planned after them.

The jobs of a directory run in namespaces, under quotas and in pools that the same directory declares. Planning them
against the cluster as it is would find all of that missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, reduce
from typing import Any, TypeVar

from ...cluster.label_selectors import expression_holds
from ...engine.paths import with_value_at
from ...engine.plan import Action, Plan, Step, object_id
from ...kube.client import Client
from ...kube.errors import ApiError
from ...kube.resources import NAMESPACE, Resource

Object = dict[str, Any]
T = TypeVar("T")

_BY_NAME = "metadata.name="
_LABELS = ("metadata", "labels")


class PlannedClient(Client):
    """Reads what the server has, with the steps of plans applied to it. Whatever it sends is a dry run.

    Whole lists are read once, until a plan for one of their objects is assumed. ``reads_only``: no dry run is sent, so
    that nothing is validated.
    """

    def __init__(self, client: Client, *, reads_only: bool = False) -> None:
        self.__dict__.update(vars(client))  # the same connection, with its limits
        self.reads_only = reads_only
        self.remembered = {}
        self._planned: dict[tuple[str, str, str], list[Step]] = {}
        self._read_once: dict[tuple[Any, ...], list[Object]] = {}

    def assume(self, plans: Iterable[Plan]) -> None:
        """Answer from now on as if the plans were applied."""
        for plan in plans:
            for step in (*plan.prerequisites, *plan.steps):
                if step.action is not Action.UNCHANGED:
                    self._planned.setdefault(object_id(step.identity), []).append(step)
                    self.remembered.clear()
        changed = {kind for kind, _namespace, _name in self._planned}
        self._read_once = {key: found for key, found in self._read_once.items() if key[0].kind not in changed}

    def after(self, obj: Object) -> Object | None:
        """An object of the server as it is after the plans; None if they delete it."""
        return after_steps(self._planned.get(object_id(obj), ()), obj)

    def list_objects(self, resource: Resource, namespace: str | None = None, **selection: Any) -> list[Object]:
        key = (resource, namespace, *sorted(each for each in selection.items() if each[1]))
        if key not in self._read_once:
            self._read_once[key] = super().list_objects(resource, namespace, **selection)
        return list(self._read_once[key])

    def list_slim(
        self,
        resource: Resource,
        slim: Callable[[Object], T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        **others: Any,
    ) -> list[T]:
        planned = {
            place: steps
            for place, steps in self._planned.items()
            if place[0] == resource.kind and namespace in (None, place[1])
        }

        present = set()  # as a list may be read again from its beginning

        def slim_after(obj: Object) -> list[T]:
            place = object_id(obj)
            present.add(place)
            after = after_steps(planned.get(place, ()), obj)
            return [slim(after)] if after is not None and selector_matches(labels, after) else []

        # What a plan labels may match only then. Otherwise a large cluster is not asked for all its ConfigMaps.
        changes = (change for steps in planned.values() for step in steps for change in step.changes)
        asked = "" if any(change.path[:2] == _LABELS[: len(change.path)] for change in changes) else labels
        found = super().list_slim(
            resource,
            slim_after if planned else lambda obj: [slim(obj)],
            namespace,
            labels=asked,
            fields=fields,
            **others,
        )
        created = (
            after_steps(steps, None)
            for place, steps in planned.items()
            if place not in present and _is_named(fields, place[2])
        )
        new = (slim(obj) for obj in created if obj is not None and selector_matches(labels, obj))
        return [*(each for part in found for each in part), *new]

    def get(self, resource: Resource, namespace: str | None, name: str, *, leaves_out: bool = False) -> Object | None:
        if self.reads_only and resource.kind != NAMESPACE.kind:  # which those that submit may only get
            live = self._get_by_list(resource, namespace, name)
        else:
            live = super().get(resource, namespace, name, leaves_out=leaves_out)
        return after_steps(self._planned.get((resource.kind, namespace or "", name), ()), live)

    def _get_by_list(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """Accounts that read may list what they may not get."""
        found = super().list_objects(resource, namespace, fields=f"{_BY_NAME}{name}")
        return found[0] if found else None

    def apply(self, obj: Object, **options: Any) -> Object:
        if self.reads_only:
            return obj
        return self._in_planned_namespace(obj, partial(super().apply, obj, **{**options, "dry_run": True}))

    def create(self, obj: Object, **_options: Any) -> Object | None:
        if self.reads_only:
            return obj
        return self._in_planned_namespace(obj, partial(super().create, obj, dry_run=True))

    def merge_patch(
        self, resource: Resource, metadata: Mapping[str, Any], patch: Mapping[str, Any], **options: Any
    ) -> Object:
        if self.reads_only:
            return {"kind": resource.kind, "apiVersion": resource.api_version, **patch, "metadata": {**metadata}}
        return super().merge_patch(resource, metadata, patch, **{**options, "dry_run": True})

    def delete(self, resource: Resource, metadata: Mapping[str, Any], *, propagation: str, **options: Any) -> bool:
        planned = {**options, "dry_run": True}
        return self.reads_only or super().delete(resource, metadata, propagation=propagation, **planned)

    def delete_collection(self, *_given: Any, **_options: Any) -> None:
        raise NotImplementedError("a plan deletes nothing")

    def _in_planned_namespace(self, obj: Object, send: Callable[[], T]) -> T | Object:
        """The answer; the object itself if all that is wrong with it is that a plan has yet to create its namespace."""
        try:
            return send()
        except ApiError as error:
            steps = self._planned.get((NAMESPACE.kind, "", obj["metadata"].get("namespace") or ""), ())
            if error.is_missing_namespace and after_steps(steps, None) is not None:
                return obj
            raise


def after_steps(steps: Iterable[Step], obj: Object | None) -> Object | None:
    """An object as it is after the steps; None if there is none before or after them. Pure."""
    for step in steps:
        if step.action is Action.DELETE:
            obj = None
        elif step.action is Action.CREATE or step.replaces:
            obj = step.desired
        elif obj is not None:
            obj = reduce(lambda now, change: with_value_at(now, change.path, change.after), step.changes, obj)
    return obj


def selector_matches(selector: str, obj: Mapping[str, Any]) -> bool:
    """Whether an object matches a label selector as the collection writes them. Pure."""
    labels = obj["metadata"].get("labels") or {}
    return all(expression_holds(each, labels) for each in _requirements(selector))


def _requirements(selector: str) -> Iterable[dict[str, Any]]:
    """``a=b``, ``a in (b,c)``, ``a`` and ``!a``, separated by commas."""
    rest = selector
    while rest:
        key, is_set, after = rest.partition(" in (")
        if is_set and "," not in key:
            values, _end, rest = after.partition(")")
            yield {"key": key, "operator": "In", "values": values.split(",")}
            rest = rest.lstrip(",")
            continue
        term, _comma, rest = rest.partition(",")
        key, equals, value = term.partition("=")
        if equals:
            yield {"key": key, "operator": "In", "values": [value]}
        else:
            yield {"key": key.lstrip("!"), "operator": "DoesNotExist" if key.startswith("!") else "Exists"}


def _is_named(fields: str, name: str) -> bool:
    """Whether a new object matches a field selector: those of names are all that matter to it."""
    return not fields.startswith(_BY_NAME) or fields.removeprefix(_BY_NAME) == name
