# SPDX-License-Identifier: BSD-2-Clause
"""Writes to a simulated API server without server and controllers: what is stored, refused or warned of."""

from __future__ import annotations

import copy
from typing import Any

from kubesim import admission, resources, schema
from kubesim.errors import ApiError
from kubesim.kinds import STRATEGIES
from kubesim.registry import Registry, Write
from kubesim.store import Store
from manual_clock import ManualClock

Object = dict[str, Any]
NAMESPACE = "team"


class Writes:
    def __init__(self, **labels: str) -> None:
        """`labels` of the namespace; `pod_security__enforce` stands for pod-security.kubernetes.io/enforce."""
        self.registry = Registry(Store(), ManualClock(), STRATEGIES, admission)
        named = {key.replace("__", ".kubernetes.io/").replace("_", "-"): value for key, value in labels.items()}
        self.registry.create("Namespace", {"metadata": {"name": NAMESPACE, "labels": named}})
        # Pods name it, and their admission looks it up before it looks at anything else.
        self.registry.create("ServiceAccount", {"metadata": {"name": "bot", "namespace": NAMESPACE}})
        self.warnings: list[str] = []

    def create(self, kind: str, body: Object | None = None, **more: Any) -> Object:
        """`more`: top-level fields, and name and labels; the name is x by default."""
        resource = resources.by_kind(kind)
        obj = copy.deepcopy(body or {}) | {"apiVersion": resource.api_version, "kind": kind}
        given = {key: more.pop(key) for key in ("name", "labels", "annotations") if key in more}
        obj["metadata"] = {"name": "x"} | (obj.get("metadata") or {}) | given
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", NAMESPACE)
        write = Write(resource)
        try:
            return self.registry.admit_new(schema.read(obj | more), write)
        finally:
            self.warnings = write.warnings

    def update(self, kind: str, obj: Object, subresource: str = "") -> Object:
        return self.registry.update(kind, obj, subresource=subresource)

    def why_not_create(self, kind: str, body: Object | None = None, **more: Any) -> list[str] | str:
        """The field errors, or the message of another refusal; [] when nothing is wrong."""
        return _refusal(lambda: self.create(kind, body, **more))

    def why_not_change(self, kind: str, obj: Object, subresource: str = "") -> list[str] | str:
        return _refusal(lambda: self.update(kind, obj, subresource))


def _refusal(write: Any) -> list[str] | str:
    try:
        write()
    except ApiError as error:
        causes = (error.details or {}).get("causes")
        return [f"{cause['field']}: {cause['message']}" for cause in causes] if causes else error.message
    return []


def container(**more: Any) -> Object:
    return {"name": "main", "image": "busybox:1.36"} | more


def pod_spec(*more_containers: Object, main: Object | None = None, **more: Any) -> Object:
    """A valid pod spec; `main` changes its container, the rest is added."""
    return {"containers": [container(**(main or {})), *more_containers]} | more


def template(labels: dict[str, str] | None = None, **more: Any) -> Object:
    return {"metadata": {"labels": labels or {"app": "x"}}, "spec": pod_spec(**more)}


def changed(obj: Object, path: str, value: Any) -> Object:
    """A copy with the value at a dotted path set; None takes it away."""
    new = copy.deepcopy(obj)
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = new
    for step in way:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return new
