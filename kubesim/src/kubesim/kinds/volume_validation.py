# SPDX-License-Identifier: BSD-2-Clause
"""Volumes of a pod spec. Source: ValidateVolumes and below, pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import label_name
from kubesim.quantity import ZERO, Quantity

Object = dict[str, Any]

FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_RESOURCES = tuple(
    sorted(f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage"))
)
_BYTE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_DIVISORS = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (
        _BYTE_DIVISORS,
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the memory resource",
    ),
    "ephemeral-storage": (
        _BYTE_DIVISORS,
        f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the local ephemeral storage resource",
    ),
}


def validate_volumes(volumes: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        here, name = f"{path}[{index}]", volume.get("name", "")
        errors = [*_source(volume, here), *_name(name, f"{here}.name", seen)]
        if not errors:
            seen.add(name)
        yield from errors


def usable_volumes(volumes: list[Object]) -> dict[str, Object]:
    """Those that mounts can name: only valid volumes count, so that a mount of a broken one is reported too."""
    usable: dict[str, Object] = {}
    for volume in volumes:
        name = volume.get("name", "")
        if not [*_source(volume, ""), *_name(name, "", set(usable))]:
            usable[name] = volume
    return usable


def _name(name: str, path: str, seen: set[str]) -> Iterator[FieldError]:
    if not name:
        yield field.required(path)
    else:
        for text in names.dns_label(name):
            yield field.invalid(path, name, text)
    if name in seen:
        yield field.duplicate(path, name)


def _source(volume: Object, path: str) -> Iterator[FieldError]:
    """validateVolumeSource: the first source is checked, any other is one too many."""
    found = False
    for source in _SOURCE_ORDER:
        if volume.get(source) is None:
            continue
        if found:
            yield field.forbidden(f"{path}.{source}", "may not specify more than 1 volume type")
        elif rule := _SOURCES.get(source):
            yield from rule(volume[source], f"{path}.{source}")
        found = True
    if not found:
        yield field.required(path, "must specify a volume type")


def _empty_dir(source: Object, path: str) -> Iterator[FieldError]:
    if "sizeLimit" in source and Quantity.parse(source["sizeLimit"]) < ZERO:
        yield field.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _host_path(source: Object, path: str) -> Iterator[FieldError]:
    if not source.get("path"):
        yield field.required(f"{path}.path")
        return
    yield from _no_backsteps(source["path"], f"{path}.path")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield field.not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _secret(source: Object, path: str) -> Iterator[FieldError]:
    yield from _required(source, path, "secretName")
    yield from _mode(source, "defaultMode", path)
    yield from _items(source, path)


def _config_map(source: Object, path: str) -> Iterator[FieldError]:
    yield from _required(source, path, "name")
    yield from _mode(source, "defaultMode", path)
    yield from _items(source, path)


def _claim(source: Object, path: str) -> Iterator[FieldError]:
    yield from _required(source, path, "claimName")


#: In the order in which Kubernetes looks at them: the order decides which of two is reported as one too many.
_SOURCE_ORDER = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_SOURCES: dict[str, Callable[[Object, str], Iterator[FieldError]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
    "configMap": _config_map,
}


def field_ref(ref: Object, path: str, supported: tuple[str, ...]) -> Iterator[FieldError]:
    """validateObjectFieldSelector."""
    for key in ("apiVersion", "fieldPath"):
        if not ref.get(key):
            yield field.required(f"{path}.{key}")
            return
    name = ref["fieldPath"]
    if ref["apiVersion"] != "v1":
        text = f"error converting fieldPath: unsupported pod version: {ref['apiVersion']}"
        yield field.invalid(f"{path}.fieldPath", name, text)
        return
    base, bracket, subscript = name.partition("['")
    if bracket and subscript.endswith("']"):
        if base in ("metadata.annotations", "metadata.labels"):
            key = subscript[:-2]
            yield from label_name(key.lower() if base.endswith("annotations") else key, path)
        else:
            text = f"error converting fieldPath: field label not supported: {name}"
            yield field.invalid(f"{path}.fieldPath", name, text)
    elif name not in supported:
        if name in _KNOWN_FIELD_PATHS:
            yield field.not_supported(f"{path}.fieldPath", name, supported)
        else:
            text = f"error converting fieldPath: field label not supported: {name}"
            yield field.invalid(f"{path}.fieldPath", name, text)


#: ConvertDownwardAPIFieldLabel, pkg/apis/core/pods/helpers.go
_KNOWN_FIELD_PATHS = {
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
    "spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName",
    "status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
}  # fmt: skip


def resource_field_ref(ref: Object, path: str) -> Iterator[FieldError]:
    """validateContainerResourceFieldSelector."""
    resource = ref.get("resource", "")
    if not resource:
        yield field.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(("requests.hugepages-", "limits.hugepages-")):
        yield field.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = str(Quantity.parse(ref.get("divisor", "0")))
    allowed = _DIVISORS.get(resource.partition(".")[2])
    if divisor != "0" and allowed and divisor not in allowed[0]:
        yield field.invalid(f"{path}.divisor", resource, allowed[1])


def descending_path(value: str, path: str) -> Iterator[FieldError]:
    """validateLocalDescendingPath."""
    if value.startswith("/"):
        yield field.invalid(path, value, "must be a relative path")
    yield from _no_backsteps(value, path)


def _local_path(value: str, path: str) -> Iterator[FieldError]:
    """ValidateLocalNonReservedPath."""
    yield from descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield field.invalid(path, value, "must not start with '..'")


def _no_backsteps(value: str, path: str) -> Iterator[FieldError]:
    if ".." in value.split("/"):
        yield field.invalid(path, value, "must not contain '..'")


def _items(source: Object, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{index}]"
        yield from _required(item, here, "key", "path")
        yield from _local_path(item.get("path", ""), f"{here}.path")
        yield from _mode(item, "mode", here)


def _mode(source: Object, key: str, path: str) -> Iterator[FieldError]:
    mode = source.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        yield field.invalid(f"{path}.{key}", mode, FILE_MODE)


def _required(source: Object, path: str, *keys: str) -> Iterator[FieldError]:
    for key in keys:
        if not source.get(key):
            yield field.required(f"{path}.{key}")
