# SPDX-License-Identifier: BSD-2-Clause
"""JSON patch, JSON merge patch and strategic merge patch.

Sources: RFC 6902 as gopkg.in/evanphx/json-patch.v4 reads it (which adds where `replace` finds no key), RFC 7386,
apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

import copy
from typing import Any

from kubesim import errors, media, schema
from kubesim.field import invalid
from kubesim.schema import Free, ListType, MapType, Struct, Type, child
from kubesim.store import encode

Object = dict[str, Any]


def patched(current: Object, kind: str, body: bytes, validation: str) -> tuple[Object, list[str]]:
    """The current object with the patch in a body applied, decoded; and what strict decoding objects to."""
    try:
        patch = media.load(body, media.JSON)
    except ValueError as error:
        raise errors.bad_request(f"{_undecodable(kind)}{error}") from None
    if kind == "json":
        new = json_patch(current, patch)
    elif not isinstance(patch, dict):
        what = {list: "array", str: "string", bool: "bool"}.get(type(patch), "number")
        text = f"json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"{_undecodable(kind)}{text}")
    elif kind == "merge":
        new = merge_patch(current, patch)
    else:
        new = strategic_merge(current, patch, schema.of_object(current["apiVersion"], current["kind"]))
    report = schema.Report(schema.repeated_keys(patch)) if validation != "Ignore" else None
    try:
        obj = schema.read({**new, "apiVersion": current["apiVersion"], "kind": current["kind"]}, report)
        problems = report.problems if report else []
        if problems and validation == "Strict":
            raise schema.DecodeError(f"strict decoding error: {', '.join(problems)}")
    except schema.DecodeError as error:
        raise errors.invalid("", "", [invalid("patch", encode(new).decode(), str(error))]) from None
    return obj, problems


def _undecodable(kind: str) -> str:
    """How a refusal begins: jsonPatcher.applyJSPatch has words of its own, strategicPatchObject has not."""
    return "error decoding patch: " if kind in ("json", "merge") else ""


def json_patch(document: Any, operations: Any) -> Any:
    """Apply a JSON patch to a copy; ApiError 400 when it is no patch, 422 when it cannot be applied."""
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        what = "object" if isinstance(operations, dict) else type(operations).__name__
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {what} into Go value of type jsonpatch.Patch"
        )
    holder = {"": copy.deepcopy(document)}
    try:
        for operation in operations:
            _OPERATIONS[operation["op"]](holder, operation)
    except (KeyError, IndexError, ValueError, TypeError):
        raise errors.rejected() from None
    return holder[""]


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(pointer)
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _container(holder: Any, pointer: str) -> tuple[Any, str]:
    """The parent of what a pointer names, and its last step. The holder's key "" is the document itself."""
    steps = _steps(pointer)
    current = holder
    for step in steps[:-1]:
        current = current[_index(current, step)] if isinstance(current, list) else current[step]
    if not isinstance(current, (dict, list)):
        raise TypeError(pointer)
    return current, steps[-1]


def _index(items: list[Any], step: str) -> int:
    index = int(step)
    if not -len(items) <= index < len(items):
        raise IndexError(step)
    return index


def _read(holder: Any, pointer: str) -> Any:
    parent, last = _container(holder, pointer)
    return parent[_index(parent, last)] if isinstance(parent, list) else parent[last]


def _add(holder: Any, op: Object) -> None:
    _put(holder, op["path"], copy.deepcopy(op["value"]))


def _put(holder: Any, pointer: str, value: Any) -> None:
    parent, last = _container(holder, pointer)
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        index = int(last)
        if not -len(parent) <= index <= len(parent):
            raise IndexError(last)
        parent.insert(index if index >= 0 else index + len(parent) + 1, value)


def _remove(holder: Any, op: Object) -> None:
    parent, last = _container(holder, op["path"])
    del parent[_index(parent, last) if isinstance(parent, list) else last]


def _replace(holder: Any, op: Object) -> None:
    parent, last = _container(holder, op["path"])
    parent[_index(parent, last) if isinstance(parent, list) else last] = copy.deepcopy(op["value"])


def _move(holder: Any, op: Object) -> None:
    value = _read(holder, op["from"])
    _remove(holder, {"path": op["from"]})
    _put(holder, op["path"], value)


def _copy(holder: Any, op: Object) -> None:
    _put(holder, op["path"], copy.deepcopy(_read(holder, op["from"])))


def _test(holder: Any, op: Object) -> None:
    parent, last = _container(holder, op["path"])
    actual = parent.get(last) if isinstance(parent, dict) else parent[_index(parent, last)]
    if actual != op.get("value") or isinstance(actual, bool) is not isinstance(op.get("value"), bool):
        raise ValueError(op["path"])


_OPERATIONS = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def merge_patch(document: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    out = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


# --- strategic merge --------------------------------------------------------------------------------------------------

_DIRECTIVE, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"


def strategic_merge(document: Object, patch: Object, kind: Type) -> Object:
    """Merge by the merge keys and strategies of the type; ApiError 400/500 in strategicpatch's words when malformed."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {k: v for k, v in patch.items() if k != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise errors.ApiError(500, "", f"unknown patch type found: {directive}")
    out = dict(document)
    if _RETAIN in patch:
        out = {k: v for k, v in out.items() if k in patch[_RETAIN]}
    for key, value in patch.items():
        if key.startswith(_DELETE):
            target = key[len(_DELETE) :]
            out[target] = [item for item in out.get(target) or [] if item not in value]
        elif key not in (_DIRECTIVE, _RETAIN) and not key.startswith(_ORDER):
            _merge_key(out, key, value, patch.get(_ORDER + key), child(kind, key))
    for key, order in patch.items():
        target = key[len(_ORDER) :]
        if key.startswith(_ORDER) and target not in patch and target in out:
            out[target] = _ordered(out[target], order, child(kind, target))
    return out


def _merge_key(out: Object, key: str, value: Any, order: Any, kind: Type) -> None:
    if value is None:
        out.pop(key, None)
    elif isinstance(value, dict):
        old = out.get(key)
        out[key] = strategic_merge(old if isinstance(old, dict) else {}, value, kind)
    elif isinstance(value, list):
        out[key] = _merge_list(out.get(key) or [], value, order, kind)
    else:
        out[key] = value


def _merge_list(old: list[Any], patch: list[Any], order: Any, kind: Type) -> list[Any]:
    if not isinstance(kind, ListType) or "merge" not in kind.patch_strategy:
        return [_plain(item) for item in patch if not _is_replace_mark(item)]
    if any(_is_replace_mark(item) for item in patch):
        return [_plain(item) for item in patch if not _is_replace_mark(item)]
    if not isinstance(kind.item, (Struct, MapType)):
        merged = old + [item for item in patch if item not in old]
        return _ordered(merged, order, kind) if order else merged
    return _merge_objects(old, patch, order, kind)


def _merge_objects(old: list[Object], patch: list[Object], order: Any, kind: ListType) -> list[Any]:
    name = kind.merge_key
    merged = list(old)
    for item in patch:
        if name not in item:
            shown = " ".join(f"{key}:{value}" for key, value in sorted(item.items()))
            raise errors.ApiError(500, "", f"map: map[{shown}] does not contain declared merge key: {name}")
        at = next((i for i, have in enumerate(merged) if have.get(name) == item[name]), None)
        if item.get(_DIRECTIVE) == "delete":
            merged = [have for have in merged if have.get(name) != item[name]]
        elif at is None:
            merged.append(strategic_merge({}, {k: v for k, v in item.items() if k != _DIRECTIVE}, kind.item))
        else:
            merged[at] = strategic_merge(merged[at], item, kind.item)
    return _ordered(merged, order, kind) if order else merged


def _is_replace_mark(item: Any) -> bool:
    return isinstance(item, dict) and item.get(_DIRECTIVE) == "replace"


def _plain(item: Any) -> Any:
    return strategic_merge({}, item, Free()) if isinstance(item, dict) else item


def _ordered(items: list[Any], order: list[Any], kind: Type) -> list[Any]:
    """Items in the order asked for; those it does not name keep their place behind the one they followed."""
    name = kind.merge_key if isinstance(kind, ListType) else ""

    def key(item: Any) -> Any:
        return item.get(name) if name and isinstance(item, dict) else item

    wanted = [key(entry) for entry in order]
    named = sorted((item for item in items if key(item) in wanted), key=lambda item: wanted.index(key(item)))
    out = list(named)
    previous: Any = None
    for item in items:
        if key(item) not in wanted:
            at = next((i for i, have in enumerate(out) if have is previous), -1)
            out.insert(at + 1, item)
        previous = item
    return out
