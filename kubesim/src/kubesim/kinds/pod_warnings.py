# SPDX-License-Identifier: BSD-2-Clause
"""Warnings about pods and pod templates. Sources: pkg/api/pod/warnings.go, pkg/api/node/util.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.field import go_quote
from kubesim.kinds import names
from kubesim.kinds.podspec import CONTAINER_LISTS
from kubesim.quantity import Quantity

Object = dict[str, Any]

_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageOS": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def pod_warnings(pod: Object) -> list[str]:
    """GetWarningsForPod: paths start at the object."""
    return list(_warnings(pod.get("spec") or {}, pod.get("metadata") or {}, ""))


def template_warnings(template: Object, path: str, old: Object | None = None) -> list[str]:
    """GetWarningsForPodTemplate; an unchanged template is not warned about again."""
    if template == old:
        return []
    return list(_warnings(template.get("spec") or {}, template.get("metadata") or {}, f"{path}."))


def name_warnings(obj: Object) -> list[str]:
    """Names of objects that name pods: a subdomain is allowed, a label is better."""
    if wrong := names.dns_label(obj["metadata"].get("name", "")):
        text = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        return [f"{text}a DNS label is recommended: [{' '.join(wrong)}]"]
    return []


def node_label_warnings(labels: dict[str, str]) -> list[str]:
    """nodeapi.GetWarningsForNode."""
    return [f"metadata.labels[{key}]: {_NODE_LABELS[key]}" for key in labels if key in _NODE_LABELS]


def _warnings(spec: Object, meta: Object, path: str) -> Iterator[str]:
    yield from _deprecated_node_labels(spec, path)
    for key, text in _ANNOTATIONS.items():
        if key in (meta.get("annotations") or {}):
            yield f"{path}metadata.annotations[{key}]: {text}"
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _VOLUMES.items():
            if source in volume:
                yield f"{path}spec.volumes[{index}].{source}: {text}"
    yield from _duplicates(spec, path)
    for key in ("memory", "ephemeral-storage"):
        yield from _fraction(spec.get("overhead"), key, f"{path}spec.overhead")
    for container, here in _containers(spec, path):
        resources = container.get("resources") or {}
        for key in ("memory", "ephemeral-storage"):
            for kind in ("limits", "requests"):
                yield from _fraction(resources.get(kind), key, f"{here}.resources.{kind}")
        yield from _hidden_variables(container.get("env") or [], f"{here}.env")
    yield from _overlapping_ports(spec, path)


def _deprecated_node_labels(spec: Object, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _NODE_LABELS:
            yield f"{path}spec.nodeSelector[{key}]: {_NODE_LABELS[key]}"
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{path}spec.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if key in _NODE_LABELS:
            yield f"{here}.topologyKey: {key} is {_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{here}.labelSelector: a null labelSelector results in matching no pod"


def _duplicates(spec: Object, path: str) -> Iterator[str]:
    for key, item, what in (("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")):
        seen: set[str] = set()
        for index, entry in enumerate(spec.get(key) or ()):
            value = entry.get(item, "")
            if value in seen:
                yield f"{path}spec.{key}[{index}].{item}: duplicate {what} {go_quote(value)}"
            seen.add(value)
    for index, entry in enumerate(spec.get("imagePullSecrets") or ()):
        if not entry.get("name"):
            yield f'{path}spec.imagePullSecrets[{index}].name: invalid empty name ""'


def _fraction(resources: dict[str, str] | None, key: str, path: str) -> Iterator[str]:
    value = (resources or {}).get(key)
    if value is not None and not Quantity.parse(value).is_integer:
        yield f"{path}[{key}]: fractional byte value {go_quote(value)} is invalid, must be an integer"


def _hidden_variables(variables: list[Object], path: str) -> Iterator[str]:
    """A name given again is fine only where the new value refers to the old one."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            hidden = f"hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            yield f"{path}[{index}]: {hidden}"
        seen.add(name)


def _overlapping_ports(spec: Object, path: str) -> Iterator[str]:
    seen: dict[tuple[int, str], list[tuple[str, Object]]] = {}
    for container, here in _containers(spec, path):
        for index, port in enumerate(container.get("ports") or ()):
            place = f"{here}.ports[{index}]"
            others = seen.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
            for other_place, other in others:
                ip, host = port.get("hostIP", ""), port.get("hostPort", 0)
                other_ip, other_host = other.get("hostIP", ""), other.get("hostPort", 0)
                if (ip, host) == (other_ip, other_host):
                    yield f"{place}: duplicate port definition with {other_place}"
                elif not host or not other_host or (host == other_host and not (ip and other_ip)):
                    yield f"{place}: overlapping port definition with {other_place}"
            others.append((place, port))


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    for key in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(key) or ()):
            yield container, f"{path}spec.{key}[{index}]"
