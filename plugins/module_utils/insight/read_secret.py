# SPDX-License-Identifier: BSD-2-Clause
"""Read a value of a Secret."""

from __future__ import annotations

import base64

from ..cluster.endpoints import SecretKey
from ..kube.client import Client
from ..kube.errors import ApiError
from ..kube.resources import SECRET
from ..kube.shapes import UnreadableObject


def secret_value(client: Client, namespace: str, place: SecretKey) -> tuple[str | None, str]:
    """The value; or None, and why."""
    where = f"key {place.key} of Secret {place.name}"
    try:
        secret = client.get(SECRET, namespace, place.name)
    except UnreadableObject:
        return None, f"Secret {place.name} cannot be read"
    except ApiError as error:
        if error.is_forbidden:
            return None, f"reading {where} is forbidden"
        raise
    data = (secret or {}).get("data") or {}
    if place.key not in data:
        return None, f"{where} not found"
    try:
        value = base64.b64decode(data[place.key])
    except ValueError:
        return None, f"{where} is not in Base64"
    return value.decode(errors="replace").strip(), f"{where} is empty"
