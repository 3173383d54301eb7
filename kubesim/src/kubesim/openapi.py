# SPDX-License-Identifier: BSD-2-Clause
"""OpenAPI documents, as much as kubectl needs of them: explain, and whether a query parameter is understood."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from kubesim import schema
from kubesim.resources import GROUP_VERSIONS, RESOURCES, Resource

Object = dict[str, Any]
_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]


@cache
def document(path: str) -> Object | None:
    """The document at /openapi/v2, /openapi/v3 or /openapi/v3/<group version>; None where there is none."""
    if path == "/openapi/v3":
        return {
            "paths": {p: {"serverRelativeURL": f"/openapi/v3/{p}"} for p in map(group_version_path, GROUP_VERSIONS)}
        }
    if path == "/openapi/v2":
        resources = [r for r in RESOURCES if "patch" in r.verbs]
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.36.2"},
            "paths": {_path(r): _operations(r) for r in resources},
            "definitions": _schemas(resources, "#/definitions/"),
        }
    for group, version in GROUP_VERSIONS:
        if path == f"/openapi/v3/{group_version_path((group, version))}":
            resources = [r for r in RESOURCES if (r.group, r.version) == (group, version)]
            return {
                "openapi": "3.0.0",
                "info": {"title": "Kubernetes", "version": "v1.36.2"},
                "paths": {_path(r): _operations(r) for r in resources if "patch" in r.verbs},
                "components": {"schemas": _schemas(resources, "#/components/schemas/")},
            }
    return None


def group_version_path(group_version: tuple[str, str]) -> str:
    group, version = group_version
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _path(resource: Resource) -> str:
    namespace = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{group_version_path((resource.group, resource.version))}{namespace}/{resource.plural}/{{name}}"


def _operations(resource: Resource) -> Object:
    about = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation = {"parameters": _PARAMETERS, "x-kubernetes-group-version-kind": about}
    return {
        "get": {"x-kubernetes-action": "get", **operation, "parameters": []},
        "patch": {"x-kubernetes-action": "patch", **operation},
        "put": {"x-kubernetes-action": "put", **operation},
    }


def _schemas(resources: list[Resource], prefix: str) -> Object:
    names: set[str] = set()
    for resource in resources:
        root = schema.of(resource.group, resource.version, resource.kind)
        names |= {struct.name for struct in schema.walk_types(root)}
    leaves = {name for name in schema.definitions() if name.startswith("io.k8s.apimachinery")}
    found = {name: schema.definitions()[name] for name in sorted(names | leaves)}
    text = json.dumps(_plain(found)).replace('"#/$defs/', f'"{prefix}')
    plain: Object = json.loads(text)
    return plain


def _plain(spec: Any) -> Any:
    """JSON schema as OpenAPI 3.0 writes it: one type, not ["string", "null"]."""
    if isinstance(spec, list):
        return [_plain(item) for item in spec]
    if not isinstance(spec, dict):
        return spec
    out = {key: _plain(value) for key, value in spec.items()}
    kinds = out.get("type")
    if isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds):
        out["type"] = kinds[0]
    return out
