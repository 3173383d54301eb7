# SPDX-License-Identifier: BSD-2-Clause
"""The contents of a kubeconfig for one account, in one cluster or several, and what an existing file holds. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..kube.connection import Connection

# How an existing file is recognized as ours (is_ours): rewording this line would orphan the files of earlier versions.
HEADER = "# Written by runwhere.gpuctl. It may hold a credential: give it only to"
DEFAULT_CONTEXT = "gpu"


@dataclass(frozen=True)
class WrittenContext:
    """A context of a file with the cluster and the user that it names, as entries of the lists that they are in."""

    entry: Mapping[str, Any]
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])


def new_context(
    connection: Connection,
    server: str | None,
    user: str,
    namespace: str | None,
    credentials: Mapping[str, Any],
    name: str | None = None,
) -> WrittenContext:
    """The cluster of the connection, the user, and the namespace if there is one. With a name, a file has several."""
    cluster, user = name or DEFAULT_CONTEXT, user_entry_name(user, name)
    # Kubernetes' names of users may contain what people would mistake for a path.
    context = {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}
    return WrittenContext(
        {"name": cluster, "context": context},
        {"name": cluster, "cluster": _cluster_entry(connection, server)},
        {"name": user, "user": dict(credentials)},
    )


def user_entry_name(user: str, context: str | None) -> str:
    """How a file names the user: each cluster has issued a token of its own."""
    return f"{user}@{context}" if context else user


def kubeconfig_text(user: str, contexts: Sequence[WrittenContext], current: str = "") -> str:
    """The file of a user with these contexts; ``current`` stays the one in use if it is among them, else the first."""
    import yaml

    names = [each.name for each in contexts]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [dict(each.cluster) for each in contexts],
        "users": [dict(each.user) for each in contexts],
        "contexts": [dict(each.entry) for each in contexts],
        "current-context": current if current in names else names[0],
    }
    return f"{_heading(user)}{yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=1000)}"


def _heading(user: str) -> str:
    return f"{HEADER} {user}.\n"


def is_of_user(text: str, user: str) -> bool:
    """Whether a file of ours is for that user."""
    return text.startswith(_heading(user))


def is_ours(text: str) -> bool:
    """Whether this module wrote the file, so that it may replace or delete it."""
    return text.startswith(HEADER)


def read_contexts(text: str) -> tuple[list[WrittenContext], str] | None:
    """The contexts of a kubeconfig, and the name of the current one; None if it cannot be read."""
    import yaml

    try:
        config = yaml.safe_load(text)
        clusters, users = ({str(each["name"]): dict(each) for each in config[part]} for part in ("clusters", "users"))
        found = [
            WrittenContext(dict(each), clusters[each["context"]["cluster"]], users[each["context"]["user"]])
            for each in config["contexts"]
        ]
        # What is read of them later.
        _shapes = [(dict(each.user["user"]), each.cluster["cluster"]["server"], each.name) for each in found]
        return found, str(config.get("current-context"))
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


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
