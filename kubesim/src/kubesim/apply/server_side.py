# SPDX-License-Identifier: BSD-2-Clause
"""Server-side apply: a configuration laid over the live object, with its owners.

Source: structured-merge-diff merge/update.go (Apply, prune), apimachinery
pkg/util/managedfields/internal/{structuredmerge,versioncheck,conflict}.go, apiserver
pkg/endpoints/handlers/patch.go (applyPatcher).
"""

from __future__ import annotations

from typing import Any

from kubesim import errors, media, schema
from kubesim.apply import fieldset
from kubesim.apply.fieldset import FieldSet, Path
from kubesim.apply.managed_fields import STRIPPED, Manager, Managers, Owned, adopt_unowned, reset_fields
from kubesim.apply.merge import compare, merge, remove
from kubesim.field import go_quote
from kubesim.resources import Resource
from kubesim.schema import ListType, MapType, Struct, Type

Object = dict[str, Any]


def read_configuration(body: bytes, resource: Resource) -> Object:
    """The applied object as it was sent, checked against its type.

    ApiError 400 (no YAML, another kind than the path's), 500 (does not fit the type: so the server says it)."""
    try:
        config = media.load(body, media.YAML)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(config, dict):
        raise errors.bad_request(f"error decoding YAML: error unmarshaling JSON: {type(config).__name__} is no object")
    version, kind = str(config.get("apiVersion") or ""), str(config.get("kind") or "")
    if (version, kind) != (resource.api_version, resource.kind):
        group, _, short = version.rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{short}, Kind={kind}")
    meta = config.setdefault("metadata", {})
    if isinstance(meta, dict) and meta.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    problems = _misfits(config, schema.of_object(version, kind), "")
    if problems:
        where = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {resource.group}/{resource.version}, Kind={kind}"
        text = problems[0] if len(problems) == 1 else "errors:\n  " + "\n  ".join(problems)
        raise errors.ApiError(500, "", f"failed to create typed patch object ({where}): {text}")
    return config


def _misfits(value: Any, kind: Type, path: str) -> list[str]:
    """What typed.AsTyped objects to: unknown fields, wrong types, entries without key or given twice."""
    if value is None:
        return []
    if isinstance(kind, Struct):
        if not isinstance(value, dict):
            return [f"{path}: expected map, got {_go(value)}"]
        found = []
        for key, item in value.items():
            known = kind.fields.get(key)
            here = f"{path}.{key}"
            found += _misfits(item, known.type, here) if known else [f"{here}: field not declared in schema"]
        return found
    if isinstance(kind, MapType):
        if not isinstance(value, dict):
            return [f"{path}: expected map, got {_go(value)}"]
        return [text for key, item in value.items() for text in _misfits(item, kind.item, f"{path}.{key}")]
    if isinstance(kind, ListType):
        return _list_misfits(value, kind, path)
    if isinstance(kind, schema.Scalar):
        wanted = {"string": "string", "[]uint8": "string", "bool": "boolean"}.get(kind.go, "numeric")
        fits = isinstance(value, kind.python) and (kind.python is bool or not isinstance(value, bool))
        number = kind.python in (int, float) and isinstance(value, (int, float)) and not isinstance(value, bool)
        return [] if fits or number else [f"{path}: expected {wanted}, got {_go(value)}"]
    return []


def _list_misfits(value: Any, kind: ListType, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: expected list, got {_go(value)}"]
    if fieldset.is_atomic(kind):
        return [text for i, item in enumerate(value) for text in _misfits(item, kind.item, f"{path}[{i}]")]
    found: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        try:
            element = fieldset.element(item, kind)
        except fieldset.MissingKey as error:
            found.append(
                f"{path}: element {index}: associative list with keys has an element that omits key field "
                f'"{error}" (and doesn\'t have default value)'
            )
            continue
        here = fieldset.describe((element,))
        if element in seen:
            found.append(f"{path}: duplicate entries for key {here}")
        seen.add(element)
        found += _misfits(item, kind.item, path + here)
    return found


def _go(value: Any) -> str:
    shown = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
    shown = go_quote(shown) if isinstance(shown, str) and not isinstance(value, bool) else shown
    return f"&value.valueUnstructured{{Value:{shown}}}"


def apply(live: Object | None, config: Object, manager: str, force: bool, now: str, subresource: str) -> Object:
    """The object after the apply, with its managedFields; still without defaults. `live` None: to be created.

    ApiError 409 naming the owners in the way, unless forced."""
    kind = schema.of_object(config["apiVersion"], config["kind"])
    applier = Manager(manager, "Apply", config["apiVersion"], subresource)
    managers = Managers.of(live) if live else Managers()
    if live and not managers.entries:
        adopt_unowned(live, managers, now)
    base = (
        {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        if live
        else kind.empty()
    )
    ignored = reset_fields(config["kind"], subresource, "status" in kind.fields)
    last = managers.entries.get(applier.identity)
    mine = Owned(config["apiVersion"], fieldset.without_below(fieldset.of_value(config, kind), ignored))
    mine.time = last.time if last else None
    managers.entries[applier.identity] = mine
    merged = merge(base, config, kind)
    new = _prune(merged, managers, last.fields if last else set(), kind)
    _settle(base, new, managers, applier.identity, ignored, kind, force)
    mine.fields = mine.fields - STRIPPED
    managers.drop_empty()
    new["apiVersion"], new["kind"] = config["apiVersion"], config["kind"]
    new = schema.read(new)
    if mine.time is None or live is None or new != schema.read(base):
        mine.time = now
    managers.write_to(new)
    return new


def _settle(
    base: Object, new: Object, managers: Managers, applier: Manager, ignored: FieldSet, kind: Struct, force: bool
) -> None:
    """updater.update: conflicts with other owners, or taking their fields; removed fields leave everybody."""
    change = compare(base, new, kind)
    changed = fieldset.without_below(change.added | change.modified, ignored)
    conflicts = [
        (other, owned.api_version, path)
        for other, owned in managers.entries.items()
        if other != applier
        for path in fieldset.in_order(owned.fields & changed)
    ]
    if conflicts and not force:
        raise _conflict(conflicts)
    for other, owned in managers.entries.items():
        if other != applier:
            owned.fields = owned.fields - changed - change.removed


def _prune(merged: Object, managers: Managers, last: FieldSet, kind: Struct) -> Object:
    """Remove what the applier owned and no longer sends, unless another manager owns it."""
    if not last:
        return merged
    named = fieldset.with_named_parents
    dropped = named(last, kind)
    pruned = remove(merged, dropped, kind) or {}
    owned: FieldSet = set()
    for entry in managers.entries.values():
        owned |= entry.fields
    everything = named(fieldset.of_value(merged, kind), kind)
    kept = named(fieldset.of_value(pruned, kind), kind) | named(owned, kind)
    pruned = remove(merged, everything - kept, kind) or {}
    # what no manager owned but went with its parent comes back (addBackDanglingItems)
    left = named(fieldset.of_value(pruned, kind), kind)
    result: Object = remove(merged, (everything - left) & dropped, kind) or {}
    return result


def _conflict(conflicts: list[tuple[Manager, str, Path]]) -> errors.ApiError:
    """NewConflictError: one cause for each field; the message lists them by manager."""
    rows = [(_shown(manager, version), fieldset.describe(path)) for manager, version, path in conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": where} for who, where in rows
    ]
    if len(rows) == 1:
        text = f"Apply failed with 1 conflict: conflict with {rows[0][0]}: {rows[0][1]}"
    else:
        lines = []
        for who in sorted({who for who, _ in rows}):
            lines += [f"conflicts with {who}:", *(f"- {where}" for other, where in rows if other == who)]
        text = f"Apply failed with {len(rows)} conflicts: " + "\n".join(lines)
    return errors.ApiError(409, "Conflict", text, {"causes": causes})


def _shown(manager: Manager, version: str) -> str:
    text = go_quote(manager.name)
    if manager.subresource:
        text += f" with subresource {go_quote(manager.subresource)}"
    return f"{text} using {version}" if manager.operation == "Update" else text
