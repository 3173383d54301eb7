# SPDX-License-Identifier: BSD-2-Clause
"""Pod specs and pod templates: the order of their rules.

Source: ValidatePodSpec, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.container_validation import (
    PodContext,
    seccomp_profile,
    validate_containers,
    validate_image_whitespace,
    validate_init_containers,
)
from kubesim.kinds.metadata import label_name, validate_annotations, validate_labels
from kubesim.kinds.resources import pod_level_resource_name, resource_requirements
from kubesim.kinds.scheduling_validation import validate_affinity, validate_tolerations, validate_topology_spread
from kubesim.kinds.volume_validation import usable_volumes, validate_volumes

Object = dict[str, Any]

RESTART_POLICIES = ("Always", "OnFailure", "Never")
DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MAX_INT32 = 2**31 - 1
_MIRROR = "kubernetes.io/config.mirror"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def validate_template(template: Object, path: str) -> Iterator[FieldError]:
    """ValidatePodTemplateSpec."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from validate_labels(meta.get("labels"), f"{path}.labels")
    yield from validate_annotations(meta.get("annotations"), f"{path}.annotations")
    yield from pod_annotations(meta.get("annotations") or {}, spec, f"{path}.annotations")
    yield from validate_pod_spec(spec, f"{path}.spec", is_pod=False)
    if spec.get("ephemeralContainers"):
        yield field.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def pod_annotations(values: dict[str, str], spec: Object, path: str) -> Iterator[FieldError]:
    """ValidatePodSpecificAnnotations."""
    if _MIRROR in values and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        yield field.invalid(f"{path}[{_MIRROR}]", values[_MIRROR], text)
    cost = values.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        yield field.invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def validate_pod_spec(spec: Object, path: str, *, is_pod: bool) -> Iterator[FieldError]:
    volumes, regular = spec.get("volumes") or [], spec.get("containers") or []
    init = spec.get("initContainers") or []
    claims = tuple(claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name"))
    pod = PodContext(
        volumes=usable_volumes(volumes),
        grace_period=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy", ""),
        claims=claims,
        is_pod=is_pod,
    )
    yield from validate_volumes(volumes, f"{path}.volumes")
    yield from _resource_claims(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    yield from validate_containers(regular, f"{path}.containers", pod)
    yield from validate_init_containers(init, regular, f"{path}.initContainers", pod)
    if "resources" in spec:
        yield from resource_requirements(spec["resources"], f"{path}.resources", claims, pod_level_resource_name)
    yield from _host_network_ports(spec, path, is_pod)
    yield from _enumerations(spec, path)
    yield from validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from _security_context(spec, path)
    if affinity := spec.get("affinity"):
        yield from validate_affinity(affinity, f"{path}.affinity")
    yield from _dns_config(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        yield from label_name(gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType")
    yield from _scheduling_gates(spec.get("schedulingGates") or [], f"{path}.schedulingGates")
    yield from validate_topology_spread(
        spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints"
    )
    yield from _references(spec, path)
    if (seconds := spec.get("activeDeadlineSeconds")) is not None and not 1 <= seconds <= MAX_INT32:
        yield field.invalid(f"{path}.activeDeadlineSeconds", seconds, f"must be between 1 and {MAX_INT32}, inclusive")
    for key in ("hostname", "subdomain"):
        if value := spec.get(key):
            for text in names.dns_label(value):
                yield field.invalid(f"{path}.{key}", value, text)
    yield from validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    yield from _host_aliases(spec.get("hostAliases") or [], f"{path}.hostAliases")
    for key in ("priorityClassName", "runtimeClassName"):
        if value := spec.get(key):
            for text in names.dns_subdomain(value):
                yield field.invalid(f"{path}.{key}", value, text)
    if spec.get("preemptionPolicy", "Never") not in ("PreemptLowerPriority", "Never"):
        yield field.not_supported(
            f"{path}.preemptionPolicy", spec["preemptionPolicy"], ("PreemptLowerPriority", "Never")
        )
    if "overhead" in spec:
        yield from resource_requirements({"limits": spec["overhead"]}, f"{path}.overhead")
    if (system := spec.get("os")) is not None:
        yield from _operating_system(system.get("name", ""), f"{path}.os")
    if is_pod:
        yield from validate_image_whitespace(regular, f"{path}.containers")
        yield from validate_image_whitespace(init, f"{path}.initContainers")


def _resource_claims(claims: list[Object], path: str) -> Iterator[FieldError]:
    """validatePodResourceClaims."""
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield field.required(f"{here}.name")
        elif name in seen:
            yield field.duplicate(f"{here}.name", name)
        else:
            for text in names.dns_label(name):
                yield field.invalid(f"{here}.name", name, text)
            seen.add(name)
        yield from _claim_source(claim, here)


def _claim_source(claim: Object, path: str) -> Iterator[FieldError]:
    sources = ("resourceClaimName", "resourceClaimTemplateName")
    given = [source for source in sources if source in claim]
    shown = field.Struct({key[0].upper() + key[1:]: claim.get(key) for key in ("name", *sources)})
    if len(given) > 1:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield field.invalid(path, shown, text)
    elif not given:
        yield field.invalid(path, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for source in given:
        for text in names.dns_subdomain(claim[source]):
            yield field.invalid(f"{path}.{source}", claim[source], text)


def _host_network_ports(spec: Object, path: str, is_pod: bool) -> Iterator[FieldError]:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort", 0):
                here = f"{path}.containers[{index}].ports[{position}].hostPort"
                yield field.invalid(here, host, "must match `containerPort` when `hostNetwork` is true")


def _enumerations(spec: Object, path: str) -> Iterator[FieldError]:
    for key, allowed in (("restartPolicy", RESTART_POLICIES), ("dnsPolicy", DNS_POLICIES)):
        if spec.get(key) not in allowed:
            yield field.not_supported(f"{path}.{key}", spec.get(key, ""), allowed)


def _security_context(spec: Object, path: str) -> Iterator[FieldError]:
    """validatePodSpecSecurityContext."""
    context, here = spec.get("securityContext") or {}, f"{path}.securityContext"
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        if key in context:
            for text in names.user_id(context[key]):
                yield field.invalid(f"{here}.{key}", context[key], text)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        for text in names.user_id(group):
            yield field.invalid(f"{here}.supplementalGroups[{index}]", group, text)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield field.invalid(f"{here}.shareProcessNamespace", True, text)
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in ("Always", "OnRootMismatch"):
        yield field.not_supported(f"{here}.fsGroupChangePolicy", change, ("Always", "OnRootMismatch"))
    yield from seccomp_profile(context.get("seccompProfile"), f"{here}.seccompProfile")


def _dns_config(spec: Object, path: str) -> Iterator[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield field.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield field.required(f"{path}.nameservers", text)
            return
    servers = (config or {}).get("nameservers") or []
    for index, server in enumerate(servers):
        for text in names.ip(server):
            yield field.invalid(f"{path}.nameservers[{index}]", server, text)
    if len(servers) > 3:
        yield field.invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")


def _scheduling_gates(gates: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        yield from label_name(name, f"{path}[{index}]")
        if name in seen:
            yield field.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def _references(spec: Object, path: str) -> Iterator[FieldError]:
    for key in ("serviceAccountName", "nodeName"):
        if value := spec.get(key):
            for text in names.dns_subdomain(value):
                yield field.invalid(f"{path}.{key}", value, text)


def _host_aliases(aliases: list[Object], path: str) -> Iterator[FieldError]:
    for index, alias in enumerate(aliases):
        for text in names.ip(alias.get("ip", "")):
            yield field.invalid(f"{path}[{index}].ip", alias.get("ip", ""), text)
        for position, hostname in enumerate(alias.get("hostnames") or ()):
            for text in names.dns_subdomain(hostname):
                yield field.invalid(f"{path}[{index}].hostnames[{position}]", hostname, text)


def _operating_system(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield field.required(f"{path}.name", "cannot be empty")
    elif name not in ("linux", "windows"):
        yield field.not_supported(path, name, ("linux", "windows"))


def _is_int32(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and (digits == "0" or not digits.startswith("0")) and -(2**31) <= int(text) <= MAX_INT32
