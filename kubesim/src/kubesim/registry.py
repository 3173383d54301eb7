# SPDX-License-Identifier: BSD-2-Clause
"""The path of every write, from HTTP requests, controllers and tests alike.

decode -> default -> field managers -> mutating admission -> prepare -> validate -> validating admission -> store.
Source: apiserver pkg/endpoints/handlers/{create,update,patch,delete}.go, pkg/registry/generic/registry/store.go,
pkg/registry/rest/{create,update}.go. Deletion has its own file, deletion.py.

Everything is synchronous and runs on the thread of the cluster's loop. Objects handed out are shared: copy before
changing.
"""

from __future__ import annotations

import asyncio
import copy
import random
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesim import deletion, errors, resources, schema
from kubesim.apply import managed_fields
from kubesim.auth import SYSTEM, User
from kubesim.clock import Clock, rfc3339
from kubesim.field import invalid as invalid_field
from kubesim.kinds.strategy import Context
from kubesim.resources import Resource
from kubesim.store import Event, Store, Stored
from kubesim.versions import Release

Object = dict[str, Any]
_NEWEST = Release()
DEFAULT_MANAGER = "kube-controller-manager"
#: names.SimpleNameGenerator: five characters that spell no words; the prefix is cut so that 63 are not exceeded.
NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
MAX_GENERATED_PREFIX = 58
NAME_ATTEMPTS = 8


@dataclass
class Write:
    """The author and the options of a write."""

    resource: Resource
    user: User = SYSTEM
    manager: str = DEFAULT_MANAGER
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    #: ApiError 403 where a write that was allowed as a patch or update would create (handlers withAuthorization).
    may_create: Callable[[], None] = lambda: None


class Registry:
    def __init__(
        self, store: Store, clock: Clock, strategies: Mapping[str, Any], admission: Any, release: Release = _NEWEST
    ) -> None:
        """`strategies` by kind; `admission` has the lists MUTATING and VALIDATING of callables and AdmissionRequest."""
        self.release = release
        self.store = store
        self.clock = clock
        self.strategies = strategies
        self.admission = admission
        self.webhooks: list[Callable[[Any], None]] = []
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]  # set when the cluster starts

    # --- reading ---

    def get(self, kind: str, namespace: str | None, name: str) -> Object | None:
        stored = self.store.get(kind, namespace, name)
        return stored.obj if stored else None

    def list(self, kind: str, namespace: str | None = None, labels: dict[str, str] | None = None) -> list[Object]:
        found = (stored.obj for stored in self.store.scan(kind, namespace))
        if not labels:
            return list(found)
        wanted = labels.items()
        return [obj for obj in found if wanted <= obj["metadata"].get("labels", {}).items()]

    def subscribe(self, fn: Callable[[str, str, Object, Object | None], None]) -> Callable[[], None]:
        """fn(event type, kind, object, old object) after each write; gives the function that ends it."""

        def notify(event: Event) -> None:
            fn(event.type, event.kind, event.new.obj, event.old.obj if event.old else None)

        return self.store.subscribe(notify)

    def require(self, resource: Resource, namespace: str | None, name: str) -> Stored:
        """The stored object; 404 when there is none."""
        stored = self.store.get(resource.kind, namespace if resource.namespaced else None, name)
        if stored is None:
            raise errors.not_found(resource.group, resource.plural, name)
        return stored

    def strategy(self, kind: str) -> Any:
        return self.strategies[kind]

    # --- what controllers call ---

    def create(
        self, kind: str, obj: Object, *, user: User = SYSTEM, manager: str = DEFAULT_MANAGER, dry_run: bool = False
    ) -> Object:
        write = Write(resources.by_kind(kind, obj.get("apiVersion", "")), user, manager, dry_run=dry_run)
        return self.admit_new(schema.read({**obj, "apiVersion": write.resource.api_version, "kind": kind}), write)

    def update(
        self, kind: str, obj: Object, *, subresource: str = "", user: User = SYSTEM, manager: str = DEFAULT_MANAGER
    ) -> Object:
        write = Write(resources.by_kind(kind, obj.get("apiVersion", "")), user, manager, subresource)
        meta = obj["metadata"]
        old = self.require(write.resource, meta.get("namespace"), meta["name"])
        return self.admit_change(schema.read(obj), old.obj, write)

    def modify(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        fn: Callable[[Object], object],
        *,
        subresource: str = "",
        user: User = SYSTEM,
        manager: str = DEFAULT_MANAGER,
    ) -> Object | None:
        """Change a copy of the present object with `fn` and store it; None when the object is gone."""
        old = self.get(kind, namespace, name)
        if old is None:
            return None
        new = copy.deepcopy(old)
        fn(new)
        if new == old:
            return old
        return self.update(kind, new, subresource=subresource, user=user, manager=manager)

    def delete(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        preconditions: dict[str, str] | None = None,
        user: User = SYSTEM,
    ) -> Object:
        """Delete, or mark as being deleted; the last state, or the object as marked. 404 when there is none."""
        write = Write(resources.by_kind(kind), user)
        options = deletion.DeleteOptions(grace_seconds, propagation, preconditions or {})
        return self.delete_stored(self.require(write.resource, namespace, name), options, write)[0]

    # --- create ---

    def admit_new(self, obj: Object, write: Write, *, tracked: bool = False) -> Object:
        """Create a decoded object. `tracked`: its managedFields are set already (server-side apply)."""
        kind, resource = obj["kind"], write.resource
        meta, strategy = obj["metadata"], self.strategy(kind)
        if meta.get("resourceVersion"):
            raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
        strategy.default(obj)
        if not tracked:
            managed_fields.track_update(None, obj, write.manager, self._now(), write.subresource)
        self._admit("CREATE", obj, None, write, [*self.admission.MUTATING, *self.webhooks])
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            meta.pop(key, None)
        meta["uid"], meta["creationTimestamp"] = str(uuid.uuid4()), self._now()
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = self._generate_name(resource, meta)
        self.release.drop_fields(obj)
        strategy.prepare_create(obj, self._context(write))
        found = strategy.validate(obj)
        if found:
            raise errors.invalid(kind, meta.get("name", ""), found, resource.group)
        write.warnings += strategy.warnings(obj, None)
        write.may_create()
        self._admit("CREATE", obj, None, write, self.admission.VALIDATING)
        if self.store.get(kind, meta.get("namespace"), meta["name"]):
            raise errors.already_exists(resource.group, resource.plural, meta["name"])
        obj = schema.read(obj)
        strategy.complete(obj)
        return obj if write.dry_run else self.store.put(obj).obj

    def _generate_name(self, resource: Resource, meta: Object) -> str:
        prefix: str = meta["generateName"][:MAX_GENERATED_PREFIX]
        for _ in range(NAME_ATTEMPTS):
            name = prefix + "".join(random.choices(NAME_ALPHABET, k=5))
            if not self.store.get(resource.kind, meta.get("namespace"), name):
                break
        return name

    # --- update ---

    def admit_change(self, new: Object, old: Object, write: Write, *, tracked: bool = False) -> Object:
        """Replace `old` by a decoded object: a PUT, or the outcome of a patch. Without a change nothing is written."""
        resource, strategy = write.resource, self.strategy(old["kind"])
        meta, before = new["metadata"], old["metadata"]
        strategy.default(new)
        if not tracked:
            managed_fields.track_update(old, new, write.manager, self._now(), write.subresource)
        self._admit("UPDATE", new, old, write, [*self.admission.MUTATING, *self.webhooks])
        if not meta.get("resourceVersion") and not strategy.allows_unconditional_update:
            # Of kind and resource Kubernetes names the wrong one here, and the version as a number.
            missing = invalid_field("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource.plural, before["name"], [missing], resource.group)
        if meta.setdefault("resourceVersion", before["resourceVersion"]) not in ("0", before["resourceVersion"]):
            raise errors.conflict(resource.group, resource.plural, before["name"])
        _keep_system_fields(meta, before)
        self.release.drop_fields(new)
        self._prepare_change(strategy, new, old, write)
        status_only = write.subresource == "status"
        check = strategy.validate_status_update if status_only else strategy.validate_update
        # pods/binding and namespaces/finalize write past the strategy (BindingREST.setPodNodeAndMetadata, FinalizeREST)
        found = check(new, old) if write.subresource not in ("binding", "finalize") else []
        if found:
            raise errors.invalid(old["kind"], before["name"], found, resource.group)
        if not status_only:
            write.warnings += strategy.warnings(new, old)
        self._admit("UPDATE", new, old, write, self.admission.VALIDATING)
        meta["resourceVersion"] = before["resourceVersion"]
        new = schema.read(new)
        if managed_fields.without_times(new) == managed_fields.without_times(old):
            return old
        if write.dry_run:
            return new
        if deletion.is_finished(new):
            return self._remove(new, write)
        return self.store.put(new).obj

    def _prepare_change(self, strategy: Any, new: Object, old: Object, write: Write) -> None:
        context = self._context(write)
        if write.subresource == "status":
            strategy.prepare_status_update(new, old, context)
        elif write.subresource not in ("binding", "finalize"):
            strategy.prepare_update(new, old, context)

    # --- delete ---

    def delete_stored(self, stored: Stored, options: deletion.DeleteOptions, write: Write) -> tuple[Object, bool]:
        """Delete an object: (its last state or the marked object, whether it is gone)."""
        self._admit("DELETE", None, stored.obj, write, [*self.admission.MUTATING, *self.webhooks])
        self._admit("DELETE", None, stored.obj, write, self.admission.VALIDATING)
        marked, now = deletion.plan(stored.obj, options, self.strategy(stored.obj["kind"]), self.clock.now())
        if marked is not None and marked != stored.obj:
            marked = schema.read(marked)
            if not write.dry_run:
                marked = self.store.put(marked).obj
        obj = marked if marked is not None else stored.obj
        if now and not write.dry_run:
            obj = self._remove(obj, write)
        return obj, now

    def _remove(self, obj: Object, write: Write) -> Object:
        meta = obj["metadata"]
        self.store.remove(obj["kind"], meta.get("namespace"), meta["name"])
        self.strategy(obj["kind"]).on_delete(obj, self._context(write))
        return obj

    # --- parts ---

    def _now(self) -> str:
        return rfc3339(self.clock.now())

    def _context(self, write: Write) -> Any:
        return Context(self, self.clock, write.dry_run, write.user)

    def _admit(self, operation: str, obj: Object | None, old: Object | None, write: Write, plugins: Any) -> None:
        if not plugins:
            return
        meta = (obj or old or {})["metadata"]
        request = self.admission.AdmissionRequest(
            operation=operation,
            resource=write.resource,
            subresource=write.subresource,
            namespace=meta.get("namespace", ""),
            name=meta.get("name", ""),
            obj=obj,
            old=old,
            user=write.user,
            dry_run=write.dry_run,
            registry=self,
            warnings=write.warnings,
        )
        for plugin in plugins:
            plugin(request)


def _keep_system_fields(meta: Object, before: Object) -> None:
    """rest.BeforeUpdate: what no update can change, whatever it says; a missing uid is filled in."""
    meta.setdefault("uid", before["uid"])
    for key in ("creationTimestamp", "deletionTimestamp", "selfLink"):
        meta.pop(key, None)
        if key in before:
            meta[key] = before[key]
    if "deletionGracePeriodSeconds" in before:
        meta.setdefault("deletionGracePeriodSeconds", before["deletionGracePeriodSeconds"])
