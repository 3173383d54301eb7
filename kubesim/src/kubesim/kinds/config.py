# SPDX-License-Identifier: BSD-2-Clause
"""v1 ConfigMap and Secret: maps of small files.

Sources: pkg/apis/core/validation/validation.go, pkg/apis/core/v1/{defaults,conversion}.go.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import immutable, object_meta, object_meta_update
from kubesim.kinds.strategy import Object, Strategy

MAX_BYTES = 1024 * 1024
_SET = "field is immutable when `immutable` is set"
_DOCKER = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


class ConfigMapStrategy(Strategy):
    kind = "ConfigMap"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            for text in names.config_key(key):
                yield field.invalid(f"data[{key}]", key, text)
            if key in binary:
                yield field.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        for key in binary:
            for text in names.config_key(key):
                yield field.invalid(f"binaryData[{key}]", key, text)
        size = sum(len(value.encode()) for value in data.values())
        size += sum(len(base64.b64decode(value)) for value in binary.values())
        if size > MAX_BYTES:
            yield field.too_long("", MAX_BYTES)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _while_immutable(obj, old, "data", "binaryData")
        yield from object_meta(obj["metadata"], "metadata", self.name_rule, self.namespaced)
        yield from self.validate_spec(obj)


class SecretStrategy(Strategy):
    kind = "Secret"

    def default(self, obj: Object) -> None:
        """stringData is write-only: Convert_v1_Secret_To_core_Secret lays it over data."""
        if strings := obj.pop("stringData", None):
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
            obj["data"] = (obj.get("data") or {}) | encoded
        obj["type"] = obj.get("type") or "Opaque"

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        data = {key: base64.b64decode(value or "") for key, value in (obj.get("data") or {}).items()}
        for key in data:
            for text in names.config_key(key):
                yield field.invalid(f"data[{key}]", key, text)
        if sum(map(len, data.values())) > MAX_BYTES:
            yield field.too_long("data", MAX_BYTES)
        yield from _what_the_type_needs(obj, data)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from immutable(obj, old, "type", "")
        yield from _while_immutable(obj, old, "data")
        yield from object_meta(obj["metadata"], "metadata", self.name_rule, self.namespaced)
        yield from self.validate_spec(obj)


def _while_immutable(obj: Object, old: Object, *keys: str) -> Iterator[FieldError]:
    if old.get("immutable"):
        if not obj.get("immutable"):
            yield field.forbidden("immutable", _SET)
        for key in keys:
            if (obj.get(key) or {}) != (old.get(key) or {}):
                yield field.forbidden(key, _SET)


def _what_the_type_needs(secret: Object, data: dict[str, bytes]) -> Iterator[FieldError]:
    match secret["type"]:
        case "kubernetes.io/service-account-token":
            if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
                yield field.required(f"metadata.annotations[{_ACCOUNT_NAME}]")
        case "kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson" as kind:
            yield from _json_object(data, _DOCKER[kind])
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                yield field.required("data[username]")
                yield field.required("data[password]")
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                yield field.required("data[ssh-privatekey]")
        case "kubernetes.io/tls":
            for key in ("tls.crt", "tls.key"):
                if key not in data:
                    yield field.required(f"data[{key}]")


def _json_object(data: dict[str, bytes], key: str) -> Iterator[FieldError]:
    if key not in data:
        yield field.required(f"data[{key}]")
        return
    try:
        if not isinstance(json.loads(data[key]), dict):
            raise ValueError("json: cannot unmarshal into Go value of type map[string]interface {}")
    except ValueError as error:
        yield field.invalid(f"data[{key}]", "<secret contents redacted>", str(error))
