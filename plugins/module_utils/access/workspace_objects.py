# SPDX-License-Identifier: BSD-2-Clause
"""What jobs need in a namespace, as Kubernetes objects: a claim, credentials, and a quota of objects. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from .. import labels
from ..kube.api_objects import sparse
from ..kube.resources import PERSISTENT_VOLUME_CLAIM, RESOURCE_QUOTA, SECRET
from ..rbac.levels import managed_object

Object = dict[str, Any]

_CONFIG = ".dockerconfigjson"


def data_claim(namespace: str, claim: Mapping[str, Any], live: Object | None = None) -> Object:
    """The claim of the option of that name. Unset options keep what the live one was created with: Kubernetes does not
    let that change. Without a storage class, the cluster's default one provides the volume.
    """
    # Pods on several nodes mount it, which block devices do not allow (docs, "Persistent Volumes", access modes).
    former = (live or {"spec": {"accessModes": ["ReadWriteMany"]}})["spec"]
    kept = {name: former[name] for name in ("accessModes", "storageClassName") if former.get(name)}
    chosen = {
        "accessModes": claim["access_mode"] and [claim["access_mode"]],
        "storageClassName": claim["storage_class"],
    }
    spec = {**kept, **sparse(chosen), "resources": {"requests": {"storage": str(claim["size"])}}}
    return {**managed_object(PERSISTENT_VOLUME_CLAIM, claim["name"], namespace), "spec": spec}


def token_secret(namespace: str, tokens: Mapping[str, str | None], live: Object | None = None) -> Object:
    """The Secret whose keys ``valueFrom.secretKeyRef`` of a manifest names. None: without this key. Tokens of the live
    one that are not mentioned stay.
    """
    encoded = {name: value and base64.b64encode(value.encode()).decode() for name, value in tokens.items()}
    data = {**((live or {}).get("data") or {}), **encoded}
    kept = {name: value for name, value in sorted(data.items()) if value is not None}
    return {**managed_object(SECRET, labels.TOKEN_SECRET, namespace), "type": "Opaque", "data": kept}


def count_quota(namespace: str, counts: Mapping[str, Any]) -> Object:
    """The ResourceQuota that limits how many objects of each kind the namespace has, whatever their size."""
    # This form counts any namespaced kind, also those of custom resources (docs, "Resource Quotas").
    hard = {f"count/{name}": str(count) for name, count in sorted(counts.items())}
    return {**managed_object(RESOURCE_QUOTA, labels.OBJECT_COUNTS, namespace), "spec": {"hard": hard}}


def pull_secret(namespace: str, registries: Mapping[str, Mapping[str, str]]) -> Object:
    """The Secret that ``environment.imagePullSecret`` of a manifest names."""
    text = json.dumps({"auths": registries}, sort_keys=True)
    data = {_CONFIG: base64.b64encode(text.encode()).decode()}
    return {
        **managed_object(SECRET, labels.PULL_SECRET, namespace),
        "type": "kubernetes.io/dockerconfigjson",
        "data": data,
    }


def login(server: str, username: str, password: str) -> dict[str, dict[str, str]]:
    """The entry for one registry, as ``docker login`` and ``kubectl create secret docker-registry`` write it."""
    auth = base64.b64encode(f"{username}:{password}".encode()).decode()
    return {server: {"username": username, "password": password, "auth": auth}}


def logins_of(text: str) -> dict[str, dict[str, str]]:
    """The entries of a docker config file. Raises ValueError with a message for the user, which quotes none of it."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not a docker config file. Run docker login, or set username and password.") from None
    found = config.get("auths") if isinstance(config, dict) else None
    entries = {
        str(server): {name: value for name, value in entry.items() if isinstance(value, str)}
        for server, entry in (found if isinstance(found, dict) else {}).items()
        if isinstance(entry, dict) and entry
    }
    if not entries:
        store = isinstance(config, dict) and (config.get("credsStore") or config.get("credHelpers"))
        where = "They are in the credential store of this machine" if store else "Run docker login first"
        raise ValueError(f"has no credentials. {where}. Set username and password instead.")
    return entries


def registry_secrets(registries: Mapping[str, Mapping[str, str]]) -> set[str]:
    """What must never be shown of the entries."""
    return {
        value for entry in registries.values() for name, value in entry.items() if name not in ("username", "email")
    }
