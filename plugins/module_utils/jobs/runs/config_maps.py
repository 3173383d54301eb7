# SPDX-License-Identifier: BSD-2-Clause
"""What the ledger and the history have in common: JSON in ConfigMaps that other accounts may write as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...kube.answer import read_json
from ...kube.client import Client
from ...kube.resources import CONFIG_MAP
from ...labels import FIELD_MANAGER, MANAGED_BY


def new_config_map(name: str, namespace: str, data: Mapping[str, str | None], **labels: str) -> dict[str, Any]:
    """One without the label ``app``: it belongs to the namespace, not to a job."""
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {MANAGED_BY: FIELD_MANAGER, **labels}},
        "data": {key: text for key, text in data.items() if text is not None},
    }


def read_config_map(client: Client, namespace: str, name: str) -> dict[str, Any] | None:
    """None if there is none, or none that is like one."""
    return client.get(CONFIG_MAP, namespace, name, leaves_out=True)


def read_object(text: Any, longest: int) -> dict[str, Any]:
    """The JSON object in a value of at most so many characters; empty if there is none."""
    if not isinstance(text, str) or len(text) > longest:
        return {}
    try:
        return read_json(text.encode()) or {}
    except ValueError:  # half of a surrogate pair
        return {}
