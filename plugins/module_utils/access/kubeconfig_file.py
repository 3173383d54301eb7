# SPDX-License-Identifier: BSD-2-Clause
"""The contents of a kubeconfig for one account, and what an existing file holds. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from ..kube.connection import Connection

# How an existing file is recognized as ours (is_ours): rewording this line would orphan the files of earlier versions.
HEADER = "# Written by runwhere.gpuctl. It may hold a credential: give it only to"
_CLUSTER = "gpu"


def kubeconfig_text(
    connection: Connection, server: str | None, user: str, namespace: str | None, credentials: Mapping[str, Any]
) -> str:
    """A kubeconfig with one context: the cluster of the connection, the user, and the namespace if there is one."""
    import yaml

    # Kubernetes' names of users may contain what people would mistake for a path.
    context = {"cluster": _CLUSTER, "user": user, **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _CLUSTER, "cluster": _cluster_entry(connection, server)}],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": _CLUSTER, "context": context}],
        "current-context": _CLUSTER,
    }
    return f"{HEADER} {user}.\n{yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000)}"


def is_ours(text: str) -> bool:
    """Whether this module wrote the file, so that it may replace or delete it."""
    return text.startswith(HEADER)


def written_credentials(text: str, name: str) -> dict[str, Any]:
    """The credentials of that user in a kubeconfig of ours; empty if it has none, or cannot be read."""
    import yaml

    try:
        (user,) = yaml.safe_load(text)["users"]
        return dict(user["user"]) if user["name"] == name else {}
    except (yaml.YAMLError, ValueError, LookupError, TypeError, RecursionError):
        return {}


def _cluster_entry(connection: Connection, server: str | None) -> dict[str, Any]:
    cluster: dict[str, Any] = {"server": server or connection.server}
    # One of the two: client-go refuses a CA beside it (client-go/transport, TLSConfigFor).
    if not connection.validate_certs:
        cluster["insecure-skip-tls-verify"] = True
    elif connection.ca_cert:
        cluster["certificate-authority-data"] = base64.b64encode(connection.ca_cert.encode()).decode()
    if connection.tls_server_name:
        cluster["tls-server-name"] = connection.tls_server_name
    if connection.proxy:
        cluster["proxy-url"] = connection.proxy
    return cluster
