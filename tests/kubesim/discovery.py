# SPDX-License-Identifier: BSD-2-Clause
"""What the server says of itself: version, health, groups, resources (plain and aggregated).

Source: apiserver pkg/endpoints/discovery, staging k8s.io/api/apidiscovery/v2.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kubesim import errors, openapi
from kubesim.resources import GROUP_VERSIONS, RESOURCES, Resource, Subresource
from kubesim.store import encode

if TYPE_CHECKING:
    from kubesim.cluster import Cluster

Object = dict[str, Any]
JSON, TEXT = "application/json", "text/plain; charset=utf-8"
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "0000000000000000000000000000000000000000",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26.0",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_HEALTH = ("/healthz", "/readyz", "/livez")
_AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(cluster: Cluster, path: str, accept: str) -> web.Response:
    """The document at a path that is not a resource; ApiError 404 or Go's plain 404."""
    if path in _HEALTH or path.startswith(tuple(f"{p}/" for p in _HEALTH)):
        return web.Response(body=b"ok", headers={"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"})
    if path.startswith("/openapi/"):
        document = openapi.document(path)
        return _json(document) if document is not None else page_not_found()
    wants_all = "as=APIGroupDiscoveryList" in accept and path in ("/api", "/apis")
    if wants_all:
        kind = f"{JSON};{_AGGREGATED}"
        return _json(_aggregated("" if path == "/api" else None), kind)
    found = _document(path.rstrip("/") if path != "/" else path, cluster.url)
    return _json(found) if found is not None else page_not_found()


def page_not_found() -> web.Response:
    """Go's http.NotFound: what paths outside every served group answer."""
    return web.Response(body=b"404 page not found\n", status=404, headers={"Content-Type": TEXT})


def _json(document: Object, kind: str = JSON) -> web.Response:
    return web.Response(body=encode(document), headers={"Content-Type": kind})


def _document(path: str, url: str) -> Object | None:
    if path == "/version":
        return VERSION
    if path == "/":
        return {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
    parts = path.split("/")[1:]
    if parts == ["api"]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": url.partition("//")[2]}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
    if parts == ["api", "v1"]:
        return _resource_list("", "v1")
    if parts[0] == "api":
        raise errors.no_such_path()
    return _below_apis(parts[1:]) if parts[0] == "apis" else None


def _below_apis(parts: list[str]) -> Object | None:
    groups = list(dict.fromkeys(group for group, _ in GROUP_VERSIONS if group))
    if not parts:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group) for group in groups]}
    if parts[0] not in groups:
        return None
    if len(parts) == 1:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0])}
    if len(parts) == 2 and (parts[0], parts[1]) in GROUP_VERSIONS:
        return _resource_list(parts[0], parts[1])
    raise errors.no_such_path()


def _group(group: str) -> Object:
    versions = [{"groupVersion": f"{g}/{v}", "version": v} for g, v in GROUP_VERSIONS if g == group]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str) -> Object:
    entries: list[Object] = []
    for resource in _served(group, version):
        entries.append(_entry(resource))
        entries += [_sub_entry(resource, sub) for sub in resource.subresources]
    head: Object = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries}


def _served(group: str, version: str) -> list[Resource]:
    found = [r for r in RESOURCES if (r.group, r.version) == (group, version)]
    return sorted(found, key=lambda r: r.plural)


def _entry(resource: Resource) -> Object:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if "list" in resource.verbs:
        entry["storageVersionHash"] = f"{zlib.crc32(resource.qualified.encode()):08x}AAA="
    return entry


def _sub_entry(resource: Resource, sub: Subresource) -> Object:
    entry: Object = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind or resource.kind,
        "verbs": list(sub.verbs),
    }
    if sub.version:
        entry["group"], entry["version"] = sub.group, sub.version
    return entry


def _aggregated(only: str | None) -> Object:
    """apidiscovery.k8s.io/v2: every group with its resources in one document."""
    groups = [group for group in dict.fromkeys(g for g, _ in GROUP_VERSIONS) if (group == "") is (only == "")]
    items = []
    for group in groups:
        versions = [
            {"version": v, "freshness": "Current", "resources": [_aggregated_entry(r) for r in _served(group, v)]}
            for g, v in GROUP_VERSIONS
            if g == group
        ]
        items.append({"metadata": {"name": group} if group else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_entry(resource: Resource) -> Object:
    entry: Object = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {
                    "group": sub.group if sub.version else resource.group,
                    "version": sub.version or resource.version,
                    "kind": sub.kind or resource.kind,
                },
                "verbs": list(sub.verbs),
            }
            for sub in resource.subresources
        ]
    return entry
