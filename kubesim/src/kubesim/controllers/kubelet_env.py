# SPDX-License-Identifier: BSD-2-Clause
"""The environment of a container, as the kubelet makes it of env, envFrom, valueFrom and $(VAR).

Source: pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables), third_party/forked/golang/expansion,
pkg/fieldpath/fieldpath.go, pkg/api/v1/resource/helpers.go (ExtractContainerResourceValue).
"""

from __future__ import annotations

import base64
import re
from math import ceil
from typing import TYPE_CHECKING, Any

from kubesim.quantity import Quantity

from .base import Object

if TYPE_CHECKING:
    from kubesim.registry import Registry

_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")


class ConfigError(Exception):
    """What a container is configured with is missing, or not allowed: CreateContainerConfigError."""


def environment(registry: Registry, pod: Object, container: Object, pod_ip: str, host_ip: str) -> dict[str, str]:
    """Names and values in order; ConfigError when something that is not optional is missing."""
    env: dict[str, str] = {}
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom") or ():
        for kind, field in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if field in source:
                data = _data(registry, kind, namespace, source[field]) or {}
                env |= {source.get("prefix", "") + key: value for key, value in data.items()}
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom")
        if origin is None:
            env[variable["name"]] = expand(variable.get("value", ""), env)
            continue
        value = _from_origin(registry, pod, container, origin, pod_ip, host_ip)
        if value is not None:
            env[variable["name"]] = value
    return env


def expand(text: str, env: dict[str, str]) -> str:
    """$(NAME) by its value, if there is one so far; $$ by $."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def mounted_data(registry: Registry, namespace: str, volume: Object) -> dict[str, str]:
    """The files that a volume of a ConfigMap or Secret holds, by their path in it; none for other volumes."""
    for kind, field, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
        if field in volume:
            data = _data(registry, kind, namespace, {**volume[field], "name": volume[field][name]}) or {}
            items = volume[field].get("items")
            return {one["path"]: data[one["key"]] for one in items if one["key"] in data} if items else data
    return {}


def _from_origin(
    registry: Registry, pod: Object, container: Object, origin: Object, pod_ip: str, host_ip: str
) -> str | None:
    if "fieldRef" in origin:
        return _pod_field(pod, origin["fieldRef"]["fieldPath"], pod_ip, host_ip)
    if "resourceFieldRef" in origin:
        return _resource(registry, pod, container, origin["resourceFieldRef"])
    for kind, field in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if field in origin:
            reference, namespace = origin[field], pod["metadata"]["namespace"]
            data = _data(registry, kind, namespace, reference)
            if data is not None and reference["key"] in data:
                return data[reference["key"]]
            if reference.get("optional"):
                return None
            raise ConfigError(f"couldn't find key {reference['key']} in {kind} {namespace}/{reference['name']}")
    return None


def _data(registry: Registry, kind: str, namespace: str, reference: Object) -> dict[str, str] | None:
    obj = registry.get(kind, namespace, reference["name"])
    if obj is None:
        if reference.get("optional"):
            return None
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    data: dict[str, str] = obj.get("data") or {}
    if kind == "Secret":
        return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}
    return data


def _pod_field(pod: Object, path: str, pod_ip: str, host_ip: str) -> str:
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript:
        return str((pod["metadata"].get(subscript[1]) or {}).get(subscript[2], ""))
    special: dict[str, str] = {
        "status.podIP": pod_ip,
        "status.podIPs": pod_ip,
        "status.hostIP": host_ip,
        "status.hostIPs": host_ip,
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
    }
    if path in special:
        return special[path]
    value: Any = pod
    for step in path.split("."):
        value = value.get(step, "") if isinstance(value, dict) else ""
    if isinstance(value, dict):
        return "\n".join(f'{key}="{text}"' for key, text in sorted(value.items()))
    return str(value)


def _resource(registry: Registry, pod: Object, container: Object, reference: Object) -> str:
    """limits.* fall back to what the node can give; divided by the divisor and rounded up."""
    name = reference.get("containerName")
    if name:
        container = next((c for c in pod["spec"]["containers"] if c["name"] == name), container)
    group, _, resource = reference["resource"].partition(".")
    amount = (container.get("resources", {}).get(group) or {}).get(resource)
    if amount is None and group == "limits":
        node = registry.get("Node", "", pod["spec"].get("nodeName", "")) or {}
        amount = node.get("status", {}).get("allocatable", {}).get(resource)
    divisor = Quantity.parse(reference.get("divisor", "0")).amount or 1
    return str(ceil(Quantity.parse(amount or "0").amount / divisor))
