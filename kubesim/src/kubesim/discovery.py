# SPDX-License-Identifier: BSD-2-Clause
"""What the server says of itself: version, health, groups, resources (plain and aggregated).

Source: apiserver pkg/endpoints/discovery, staging k8s.io/api/apidiscovery/v2.
"""

from __future__ import annotations

import zlib
from typing import Any

from aiohttp import web

from kubesim import errors, openapi, resources
from kubesim.backend import Backend
from kubesim.metrics.served import ADDONS as METRICS_ADDONS
from kubesim.resources import Resource, Subresource
from kubesim.store import encode
from kubesim.versions import EMULATION_SINCE, NEWEST, Release

Object = dict[str, Any]
Served = tuple[Resource, ...]
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


def answer(backend: Backend, path: str, accept: str) -> web.Response:
    """The document at a path that is not a resource; ApiError 404 or Go's plain 404."""
    if path in _HEALTH or path.startswith(tuple(f"{p}/" for p in _HEALTH)):
        return web.Response(body=b"ok", headers={"Content-Type": TEXT, "X-Content-Type-Options": "nosniff"})
    if path.startswith("/openapi/"):
        document = openapi.document(path)
        return _json(document) if document is not None else page_not_found()
    served = resources.served(backend.addons, backend.without)
    wants_all = "as=APIGroupDiscoveryList" in accept and path in ("/api", "/apis")
    if wants_all:
        kind = f"{JSON};{_AGGREGATED}"
        return _json(_aggregated("" if path == "/api" else None, served), kind)
    if path == "/version":
        return _json(_version(backend.release))
    found = _document(path.rstrip("/") if path != "/" else path, backend.url, served)
    group = path.split("/")[2:3]
    if found is not None and found.get("kind") == "APIResourceList" and group and group[0] in METRICS_ADDONS:
        found["resources"] = backend.served.resources(group[0])
    return _json(found) if found is not None else page_not_found()


def _version(release: Release) -> Object:
    """What a version says of itself; VERSION is that of the newest."""
    if release.name == NEWEST:
        return VERSION
    major, minor = map(str, release.minor)
    later = ("emulation", "minCompatibility") if release.minor < EMULATION_SINCE else ()
    said = {key: value for key, value in VERSION.items() if not key.startswith(tuple(later))}
    return {**said, "major": major, "minor": minor, "gitVersion": release.git_version}


def page_not_found() -> web.Response:
    """Go's http.NotFound: what paths outside every served group answer."""
    return web.Response(body=b"404 page not found\n", status=404, headers={"Content-Type": TEXT})


def _json(document: Object, kind: str = JSON) -> web.Response:
    return web.Response(body=encode(document), headers={"Content-Type": kind})


def _document(path: str, url: str, served: Served) -> Object | None:
    if path == "/":
        return {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
    parts = path.split("/")[1:]
    if parts == ["api"]:
        addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": url.partition("//")[2]}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}
    if parts == ["api", "v1"]:
        return _resource_list("", "v1", served)
    if parts[0] == "api":
        raise errors.no_such_path()
    return _below_apis(parts[1:], served) if parts[0] == "apis" else None


def _below_apis(parts: list[str], served: Served) -> Object | None:
    groups = list(dict.fromkeys(r.group for r in served if r.group))
    if not parts:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(group, served) for group in groups]}
    if parts[0] not in groups:
        return None
    if len(parts) == 1:
        return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[0], served)}
    if len(parts) == 2 and parts[1] in _versions(parts[0], served):
        return _resource_list(parts[0], parts[1], served)
    raise errors.no_such_path()


def _versions(group: str, served: Served) -> list[str]:
    """The versions of a group, the preferred one first."""
    return list(dict.fromkeys(r.version for r in served if r.group == group))


def _group(group: str, served: Served) -> Object:
    versions = [{"groupVersion": f"{group}/{v}", "version": v} for v in _versions(group, served)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _resource_list(group: str, version: str, served: Served) -> Object:
    entries: list[Object] = []
    for resource in _of_version(group, version, served):
        entries.append(_entry(resource))
        entries += [_sub_entry(resource, sub) for sub in resource.subresources]
    head: Object = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": entries}


def _of_version(group: str, version: str, served: Served) -> list[Resource]:
    found = [r for r in served if (r.group, r.version) == (group, version)]
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


def _aggregated(only: str | None, served: Served) -> Object:
    """apidiscovery.k8s.io/v2: every group with its resources in one document."""
    groups = [group for group in dict.fromkeys(r.group for r in served) if (group == "") is (only == "")]
    items = []
    for group in groups:
        versions = [
            {
                "version": version,
                "freshness": "Current",
                "resources": [_aggregated_entry(r) for r in _of_version(group, version, served)],
            }
            for version in _versions(group, served)
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
