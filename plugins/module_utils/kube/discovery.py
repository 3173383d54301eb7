# SPDX-License-Identifier: BSD-2-Clause
"""What an API server serves: its version, API groups, their kinds and metrics.

For groups of controllers that a cluster may lack; Kubernetes' own have fixed paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .answer import Expected, group_versions_in, read_json
from .client import Client
from .errors import InvalidResponse


def preferred_versions(client: Client) -> dict[str, str]:
    """The version of each API group that the server prefers, as ``group/version``, by the name of the group."""
    return preferred_versions_in(api_groups(client))


def preferred_versions_in(groups: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The same of the groups of an APIGroupList."""
    return {group["name"]: group["preferredVersion"]["groupVersion"] for group in groups}


def group_versions(client: Client) -> frozenset[str]:
    """All API groups of the server, in all their versions."""
    return group_versions_in(api_groups(client))


def api_groups(client: Client) -> list[dict[str, Any]]:
    # Not the path of a group itself: that of a missing one is answered in plain text, as a load balancer would.
    return client.transport.request("GET", "/apis", Expected("APIGroupList"))["groups"] or []


def served_kinds(client: Client, api_version: str, field: str = "kind") -> frozenset[str]:
    """The kinds that the server has of a group in a version: an operator may serve only some of its own. With the
    field ``name`` their names, such as ``pods/DCGM_FI_DEV_GPU_UTIL`` of custom metrics."""
    found = client.transport.request("GET", f"/apis/{api_version}", Expected("APIResourceList"))["resources"] or ()
    return frozenset(str(one.get(field)) for one in found)


def server_version(client: Client) -> tuple[str, str | None]:
    """The server's version, such as ``v1.36.2``, and its clock: the header Date of the answer."""

    def read(response: Any) -> tuple[str, str | None]:
        found = (read_json(response.read()) or {}).get("gitVersion")
        if not isinstance(found, str):
            raise InvalidResponse("GET /version", response.status, "no version")
        return found, response.headers.get("Date")

    return client.transport.send("GET", "/version", read)
