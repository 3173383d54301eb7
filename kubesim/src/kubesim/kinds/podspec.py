# SPDX-License-Identifier: BSD-2-Clause
"""Defaults of pod specs and pod templates, as pods and every workload have them.

Source: pkg/apis/core/v1/defaults.go and zz_generated.defaults.go (where they are applied).
The rules of validation: pod_validation.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.quantity import Quantity

Object = dict[str, Any]

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
#: Volume sources with a defaultMode, and that mode: 0644.
_MODES = ("configMap", "secret", "downwardAPI", "projected")
_DEFAULT_MODE = 0o644


def default_template(template: Object) -> None:
    """A PodTemplateSpec; `metadata` and `spec` are structs, printed even when empty."""
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def default_pod_spec(spec: Object) -> None:
    """SetDefaults_PodSpec and everything under it; what only pods get is in default_pod_only."""
    if not spec.get("containers"):
        spec["containers"] = None  # no omitempty: Go prints null
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    spec["restartPolicy"] = spec.get("restartPolicy") or "Always"
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec["dnsPolicy"] = spec.get("dnsPolicy") or "ClusterFirst"
    spec.setdefault("securityContext", {})
    spec["schedulerName"] = spec.get("schedulerName") or "default-scheduler"
    if account := spec.get("serviceAccountName"):
        spec["serviceAccount"] = account  # the deprecated alias is printed beside it
    elif account := spec.get("serviceAccount"):
        spec["serviceAccountName"] = account
    _round_resources(spec, "resources")
    _round_list(spec.get("overhead"))


def default_pod_only(spec: Object) -> None:
    """SetDefaults_Pod: run after default_pod_spec, on pods and not on templates."""
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = limits | resources.get("requests", {})
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))


def containers(spec: Object) -> Iterator[Object]:
    """Every container of a pod spec, in the order in which Kubernetes visits them."""
    for key in CONTAINER_LISTS:
        yield from spec.get(key) or ()


def _default_container(container: Object) -> None:
    container["imagePullPolicy"] = container.get("imagePullPolicy") or _pull_policy(container.get("image", ""))
    container["terminationMessagePath"] = container.get("terminationMessagePath") or "/dev/termination-log"
    container["terminationMessagePolicy"] = container.get("terminationMessagePolicy") or "File"
    container.setdefault("resources", {})
    _round_resources(container, "resources")
    for port in container.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        _default_field_ref(source)
    for name in PROBES:
        if name in container:
            _default_probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _default_http_get(hook)


def _default_probe(probe: Object) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe[key] = probe.get(key) or value
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: Object) -> None:
    if "httpGet" in handler:
        get = handler["httpGet"]
        get["path"] = get.get("path") or "/"
        get["scheme"] = get.get("scheme") or "HTTP"


def _default_field_ref(source: Object) -> None:
    if "fieldRef" in source:
        source["fieldRef"]["apiVersion"] = source["fieldRef"].get("apiVersion") or "v1"
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _default_volume(volume: Object) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for source in _MODES:
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", _DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    if "image" in volume:
        image = volume["image"]
        image["pullPolicy"] = image.get("pullPolicy") or _pull_policy(image.get("reference", ""))
    if "ephemeral" in volume:
        claim = volume["ephemeral"].get("volumeClaimTemplate") or {}
        claim.setdefault("metadata", {})
        default_claim_spec(claim.setdefault("spec", {}))
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _default_field_ref(item)
    for projection in (volume.get("projected") or {}).get("sources") or ():
        for item in (projection.get("downwardAPI") or {}).get("items") or ():
            _default_field_ref(item)
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)


def default_claim_spec(spec: Object) -> None:
    """SetDefaults_PersistentVolumeClaimSpec."""
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("resources", {})
    _round_resources(spec, "resources")


def _round_resources(parent: Object, key: str) -> None:
    for resources in ((parent.get(key) or {}).get("limits"), (parent.get(key) or {}).get("requests")):
        _round_list(resources)


def _round_list(resources: dict[str, str] | None) -> None:
    """SetDefaults_ResourceList: quantities finer than a thousandth are rounded up."""
    if resources is None:
        return
    for name, value in resources.items():
        if value.endswith(("n", "u")) or "e" in value:  # what is canonical and coarser needs no rounding
            resources[name] = str(Quantity.parse(value).round_up_to_milli())


def _pull_policy(image: str) -> str:
    """Always for the tag latest, said or meant; an image by digest has no tag."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"
