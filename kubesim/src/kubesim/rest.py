# SPDX-License-Identifier: BSD-2-Clause
"""The verbs on resources: from a request that has been understood and allowed to an answer.

Source: apiserver pkg/endpoints/handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kubesim import deletion, errors, media, pagination, reviews, schema, selectors, subresources
from kubesim.apply import server_side
from kubesim.auth import Attributes
from kubesim.backend import Backend
from kubesim.calls import Answer, Call
from kubesim.clock import rfc3339
from kubesim.options import ListOptions, read_delete_options, read_list_options, read_write_options
from kubesim.patch import patched
from kubesim.registry import Write
from kubesim.resources import Resource
from kubesim.store import Stored, encode
from kubesim.tables import table
from kubesim.versions import ENDPOINTS_DEPRECATED_SINCE
from kubesim.watch import Watch

Object = dict[str, Any]
DEFAULT_WATCH_SECONDS = 1800
DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
ORPHAN_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
    "or set propagationPolicy=Orphan to suppress this warning"
)


class Rest:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.registry, self.store = backend.registry, backend.store

    def handle(self, call: Call) -> Answer:
        """Answer a call; ApiError for everything that is refused."""
        if call.resource.deprecated and self.backend.release.minor >= ENDPOINTS_DEPRECATED_SINCE:
            call.warnings.append(call.resource.deprecated)
        info, resource = call.info, call.resource
        if info.subresource:
            sub = resource.subresource(info.subresource)
            if sub is None:
                raise errors.no_such_path()
            if info.verb not in sub.verbs:
                raise errors.method_not_allowed()
            answer = subresources.handle(self.backend, call)
            if answer is not None:
                return answer
        elif info.verb not in resource.verbs or not _fits_path(call):
            raise errors.method_not_allowed()
        if resource.namespaced is False and info.namespace and resource.kind != "Namespace":
            raise errors.no_such_path()
        verb: Callable[[Call], Answer] = getattr(self, info.verb)
        return verb(call)

    # --- reading ---

    def get(self, call: Call) -> Answer:
        version = pagination.parse_version(call.query.text("resourceVersion"))
        if version > self.store.version:
            raise errors.too_large_resource_version(version, self.store.version)
        stored = self.registry.require(call.resource, call.info.namespace, call.info.name)
        if call.form.kind:
            return Answer(self._other_form(call, [stored], {"resourceVersion": str(stored.rv)}, single=True))
        if call.form.media == media.JSON:
            return Answer(stored.json)
        return Answer(stored.obj)

    def list(self, call: Call) -> Answer:
        options = read_list_options(call.query, watch=False)
        selected = self._selected(call, options)
        kind, namespace = call.resource.kind, call.info.namespace or None
        page = pagination.page(self.store, kind, namespace, options, selected)
        if call.form.kind:
            return Answer(self._other_form(call, page.items, page.metadata))
        head = {"kind": call.resource.list_kind, "apiVersion": call.resource.api_version, "metadata": page.metadata}
        if call.form.media == media.JSON:
            items = b",".join([stored.item for stored in page.items])
            return Answer(encode(head)[:-1] + b',"items":[' + items + b"]}")
        return Answer({**head, "items": [_item(s.obj) for s in page.items]})

    def watch(self, call: Call) -> Answer:
        options = read_list_options(call.query, watch=True)
        selected = self._selected(call, options)
        if call.info.name:
            name, before = call.info.name, selected
            selected = lambda s: s.obj["metadata"]["name"] == name and (before is None or before(s))  # noqa: E731
        watch = Watch(
            self.store,
            call.resource.kind,
            call.info.namespace or None,
            options,
            selected or (lambda _: True),
            lambda stored: self._watched(call, stored),
            lambda meta: self._bookmark(call, meta),
        )
        seconds = options.timeout if options.timeout else DEFAULT_WATCH_SECONDS
        return Answer(watch, watch_seconds=seconds)

    def _bookmark(self, call: Call, meta: Object) -> bytes:
        """An empty object of the kind with a resourceVersion."""
        r = call.resource
        empty = schema.of(r.group, r.version, r.kind).empty()
        return encode({"kind": r.kind, "apiVersion": r.api_version, **empty, "metadata": meta})

    def _watched(self, call: Call, stored: Stored) -> bytes:
        if call.form.kind:
            meta = {"resourceVersion": str(stored.rv)}
            return encode(self._other_form(call, [stored], meta, single=True))
        return stored.json

    def _selected(self, call: Call, options: ListOptions) -> Callable[[Stored], bool] | None:
        labels = selectors.parse_labels(options.label_selector) if options.label_selector else None
        fields = None
        if options.field_selector:
            requirements = selectors.parse_fields(options.field_selector)
            fields = selectors.field_matcher(call.resource, requirements)
        if labels is None and fields is None:
            return None

        def selected(stored: Stored) -> bool:
            obj = stored.obj
            if labels is not None and not labels.matches(obj["metadata"].get("labels", {})):
                return False
            return fields is None or fields(obj)

        return selected

    def _other_form(self, call: Call, items: Sequence[Stored], meta: Object, *, single: bool = False) -> Object:
        """Tables and metadata only (meta.k8s.io/v1)."""
        if call.form.kind == "Table":
            wide = call.query.text("includeObject") or "Metadata"
            return table(call.resource, [s.obj for s in items], meta, wide, self.registry.clock.now())
        partial = [_partial(s.obj) for s in items]
        if single:
            return partial[0]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return {**head, "items": partial}

    # --- writing ---

    def create(self, call: Call) -> Answer:
        options = read_write_options(call.query, "CreateOptions", call.user_agent)
        resource = call.resource
        obj = self._read_body(call, options.validation)
        if resource.kind in reviews.HANDLERS:
            return Answer(reviews.answer(self.backend, call, obj), 201)
        _match_namespace(obj, call)
        write = Write(resource, call.user, options.manager, "", options.dry_run, call.warnings)
        return self._written(call, self.registry.admit_new(obj, write), 201)

    def update(self, call: Call) -> Answer:
        options = read_write_options(call.query, "UpdateOptions", call.user_agent)
        resource, info = call.resource, call.info
        obj = self._read_body(call, options.validation)
        _match_name(obj, call)
        write = Write(resource, call.user, options.manager, info.subresource, options.dry_run, call.warnings)
        stored = self.store.get(resource.kind, info.namespace if resource.namespaced else None, info.name)
        if stored is None:
            if resource.create_on_update and not info.subresource and not obj["metadata"].get("uid"):
                write.may_create = lambda: self._require_create(call)
                return self._written(call, self.registry.admit_new(obj, write), 201)
            raise errors.not_found(resource.group, resource.plural, info.name)
        uid = obj["metadata"].get("uid")
        if uid and uid != stored.obj["metadata"]["uid"]:
            raise _wrong_uid(resource, stored, uid)
        return self._written(call, self.registry.admit_change(obj, stored.obj, write))

    def patch(self, call: Call) -> Answer:
        kind = media.PATCH_TYPES.get(call.content_type.partition(";")[0].strip())
        if kind is None:
            raise errors.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        options = read_write_options(call.query, "PatchOptions", call.user_agent, apply=kind == "apply")
        info, resource = call.info, call.resource
        write = Write(resource, call.user, options.manager, info.subresource, options.dry_run, call.warnings)
        if kind == "apply":
            return self._apply(call, write, options.force)
        stored = self.registry.require(resource, info.namespace, info.name)
        new, problems = patched(stored.obj, kind, call.body, options.validation)
        call.warnings += problems
        _match_name(new, call)
        return self._written(call, self.registry.admit_change(new, stored.obj, write))

    def _apply(self, call: Call, write: Write, force: bool) -> Answer:
        resource, info = call.resource, call.info
        config = server_side.read_configuration(call.body, resource)
        _match_name(config, call)
        _match_namespace(config, call)
        stored = self.store.get(resource.kind, info.namespace if resource.namespaced else None, info.name)
        if stored is None and info.subresource:
            raise errors.not_found(resource.group, resource.plural, info.name)
        if stored is None and config["metadata"].get("uid"):
            given = config["metadata"]["uid"]
            why = f"uid mismatch: the provided object specified uid {given}, and no existing object was found"
            raise errors.conflict(resource.group, resource.plural, info.name, why)
        live = stored.obj if stored else None
        now = rfc3339(self.registry.clock.now())
        new = server_side.apply(live, config, write.manager, force, now, write.subresource)
        if stored is None:
            new["metadata"].pop("resourceVersion", None)  # As Store.update creates: the storage sets it.
            write.may_create = lambda: self._require_create(call)
            return self._written(call, self.registry.admit_new(new, write, tracked=True), 201)
        return self._written(call, self.registry.admit_change(new, stored.obj, write, tracked=True))

    def delete(self, call: Call) -> Answer:
        options, dry_run = read_delete_options(call.query, _delete_body(call))
        call.warnings += _delete_warnings(call, options)
        write = Write(call.resource, call.user, dry_run=dry_run, warnings=call.warnings)
        stored = self.registry.require(call.resource, call.info.namespace, call.info.name)
        obj, gone = self.registry.delete_stored(stored, options, write)
        if not gone or call.resource.returns_deleted:
            return self._written(call, obj)
        resource, meta = call.resource, obj["metadata"]
        details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta["uid"]}
        if not resource.group:
            del details["group"]
        body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
        return Answer(body)

    def deletecollection(self, call: Call) -> Answer:
        options, dry_run = read_delete_options(call.query, _delete_body(call))
        call.warnings += _delete_warnings(call, options)
        listed = read_list_options(call.query, watch=False)
        selected = self._selected(call, listed)
        page = pagination.page(self.store, call.resource.kind, call.info.namespace or None, listed, selected)
        write = Write(call.resource, call.user, dry_run=dry_run, warnings=call.warnings)
        for stored in page.items:
            self.registry.delete_stored(stored, options, write)
        head = {"kind": call.resource.list_kind, "apiVersion": call.resource.api_version}
        meta = {"resourceVersion": str(self.store.version)}
        items = [_item(stored.obj) for stored in page.items]
        return Answer({**head, "metadata": meta, "items": items})

    # --- parts ---

    def _require_create(self, call: Call) -> None:
        """handlers withAuthorization: says little about why."""
        info = call.info
        asked = Attributes("create", info.group, info.plural, info.subresource, info.namespace, info.name)
        decision = self.backend.authorizer.decide(call.user, asked)
        if not decision.allowed:
            raise errors.forbidden(info.group, info.plural, info.name, decision.reason)

    def _read_body(self, call: Call, validation: str) -> Object:
        r = call.resource
        obj, problems = media.read_object(call.body, call.content_type, r, r.kind, r.api_version, validation)
        call.warnings += problems
        return obj

    def _written(self, call: Call, obj: Object, status: int = 200) -> Answer:
        if call.form.kind:
            stored = Stored("", obj, 0)
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return Answer(self._other_form(call, [stored], meta, single=True), status)
        return Answer(obj, status)


def _fits_path(call: Call) -> bool:
    """Whether the verb exists at this path: POST on collections, PUT and PATCH on objects, in a namespace."""
    info, named = call.info, bool(call.info.name)
    if info.verb == "create":
        return not named and (bool(info.namespace) or not call.resource.namespaced)
    if info.verb in ("update", "patch"):
        return named and (bool(info.namespace) or not call.resource.namespaced)
    return info.verb != "deletecollection" or bool(info.namespace) or not call.resource.namespaced


def _match_namespace(obj: Object, call: Call) -> None:
    """rest.EnsureObjectNamespaceMatchesRequestNamespace."""
    meta, wanted = obj["metadata"], call.info.namespace if call.resource.namespaced else ""
    if not wanted:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", wanted) != wanted:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _match_name(obj: Object, call: Call) -> None:
    """handlers.checkName."""
    meta, name = obj["metadata"], call.info.name
    if not meta.get("name"):
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if meta["name"] != name:
        raise errors.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    _match_namespace(obj, call)


def _wrong_uid(resource: Resource, stored: Stored, uid: str) -> errors.ApiError:
    meta = stored.obj["metadata"]
    prefix = f"/registry/{resource.qualified}/{stored.key}"
    return errors.conflict(
        resource.group,
        resource.plural,
        meta["name"],
        f"StorageError: invalid object, Code: 4, Key: {prefix}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}",
    )


def _delete_body(call: Call) -> Object:
    """The DeleteOptions of a body; empty without one."""
    if not call.body:
        return {}
    try:
        given = media.load(call.body, call.content_type or media.JSON)
        if not isinstance(given, dict):
            raise ValueError(f"{type(given).__name__} is no object")
    except ValueError as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    kind = given.get("kind", "DeleteOptions")
    if kind != "DeleteOptions":
        raise errors.bad_request(f"decoded object cannot be converted to DeleteOptions: {kind}")
    try:
        options: Object = schema.named(DELETE_OPTIONS).read(given, "", None)
    except schema.DecodeError as error:
        version = str(given.get("apiVersion", "v1")).rpartition("/")[2]
        text = f'DeleteOptions in version "{version}" cannot be handled as a DeleteOptions: {error}'
        raise errors.bad_request(text) from None
    return options


def _delete_warnings(call: Call, options: deletion.DeleteOptions) -> list[str]:
    """jobStrategy.WarningsOnDelete… (pkg/registry/batch/job/storage): pods stay behind when nothing was said."""
    silent = options.propagation is None and options.orphan_dependents is None
    return [ORPHAN_WARNING] if call.resource.kind == "Job" and silent else []


def _item(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


def _partial(obj: Object) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
