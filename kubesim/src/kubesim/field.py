# SPDX-License-Identifier: BSD-2-Clause
"""Field errors: what validation found wrong, and how Kubernetes words it.

Paths are plain strings, built where they are used: ``f"{path}.name"``, ``f"{path}[{index}]"``, ``f"{path}[{key}]"``.

Source of the rules: staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go (Error.ErrorBody).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field; a cause in the details of a Status of reason Invalid."""

    reason: str
    field: str
    message: str

    @property
    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _with_detail("Required value", detail))


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _with_detail("Forbidden", detail))


def invalid(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueInvalid", field, _with_detail(f"Invalid value: {go_value(value)}", detail))


def invalid_omitting_value(field: str, detail: str) -> FieldError:
    """An Invalid whose value is not shown (field.OmitValueType)."""
    return FieldError("FieldValueInvalid", field, _with_detail("Invalid value", detail))


def not_supported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The caller gives the supported values in the order Kubernetes lists them (sorted, where it keeps a set)."""
    values = ", ".join(go_quote(item) for item in supported)
    detail = f"supported values: {values}" if values else ""
    return FieldError("FieldValueNotSupported", field, _with_detail(f"Unsupported value: {go_value(value)}", detail))


def not_found(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", field, _with_detail(f"Not found: {go_value(value)}", detail))


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    return FieldError("FieldValueDuplicate", field, _with_detail(f"Duplicate value: {go_value(value)}", detail))


def too_long(field: str, max_bytes: int) -> FieldError:
    unit = "byte" if max_bytes == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {max_bytes} {unit}")


def too_many(field: str, actual: int, max_items: int) -> FieldError:
    unit = "item" if max_items == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {max_items} {unit}")


def internal(field: str, detail: str) -> FieldError:
    return FieldError("InternalError", field, _with_detail("Internal error", detail))


def _with_detail(body: str, detail: str) -> str:
    return f"{body}: {detail}" if detail else body


def go_value(value: Any) -> str:
    """A bad value as Go prints it: strings quoted, numbers and booleans bare, everything else as compact JSON."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, (int, float)):
        return str(value)
    text = json.dumps(_in_order(value), separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Struct(dict[str, Any]):
    """A value of a Go struct without JSON names: its fields are printed in the order they are given in."""


#: The structs with JSON names that errors quote; everything else that they quote is a map, printed in order of keys.
_STRUCTS = (
    ("matchLabels", "matchExpressions"),
    ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"),
)


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_order(item) for item in value]
    if not isinstance(value, dict):
        return value
    known = next((order for order in _STRUCTS if value.keys() <= set(order)), None)
    keys = list(value) if isinstance(value, Struct) else known or sorted(value)
    return {key: _in_order(value[key]) for key in keys if key in value}


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def go_quote(text: str) -> str:
    """strconv.Quote: Go syntax escapes, printable characters as they are."""
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _go_escape(ord(c))) for c in text) + '"'


def _go_escape(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
