# SPDX-License-Identifier: BSD-2-Clause
"""What a request is about, read from its method and path.

Source: apiserver pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesim.errors import ApiError
from kubesim.selectors import parse_fields

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class RequestInfo:
    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    #: The one name that a fieldSelector allows: rights are asked for it, as for a name in the path.
    selected_name: str = ""


def parse_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """The request's verb and, below /api/<version>/ and /apis/<group>/<version>/, its resource."""
    parts = [part for part in path.split("/") if part]
    plain = RequestInfo(path, method.lower())
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return plain
    group, rest = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    if len(rest) < 2:
        return plain
    version, rest = rest[0], rest[1:]
    verb = _VERBS.get(method, "")
    if rest[0] == "watch":
        verb, rest = "watch", rest[1:]
    namespace = ""
    if rest and rest[0] == "namespaces":
        # /namespaces/<name>[/status|/finalize] is about the namespace itself
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        elif len(rest) > 1:
            namespace = rest[1]
    plural, name, subresource = (*rest, "", "", "")[:3]
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
    if verb == "list" and query.get("watch", "0").lower() not in ("0", "false"):
        verb = "watch"
    selected = _selected_name(query.get("fieldSelector", "")) if verb in ("list", "watch", "deletecollection") else ""
    return RequestInfo(path, verb, True, group, version, namespace, plural, name, subresource, selected)


def _selected_name(text: str) -> str:
    """fields.Selector.RequiresExactMatch("metadata.name"); nothing for a selector that cannot be read."""
    try:
        terms = parse_fields(text)
    except ApiError:
        return ""
    return next((term.value for term in terms if term.label == "metadata.name" and term.equal), "")
