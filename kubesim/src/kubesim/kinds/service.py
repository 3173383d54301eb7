# SPDX-License-Identifier: BSD-2-Clause
"""v1 Service: cluster IPs, node ports, and what an update that does not mention them keeps.

Sources: pkg/apis/core/v1/defaults.go, pkg/registry/core/service/{strategy.go,storage/{storage,alloc}.go},
ValidateService and below of pkg/apis/core/validation/validation.go.

Nothing is kept beside the services themselves: what is allocated is what the stored services hold.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from kubesim import errors, field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.container_validation import PROTOCOLS, port_number_or_name
from kubesim.kinds.metadata import IMMUTABLE, label_name, object_meta_update, validate_labels
from kubesim.kinds.strategy import Context, Object, Strategy

SERVICE_RANGE = ipaddress.ip_network("10.0.0.0/16")
NODE_PORTS = range(30000, 32768)
#: Where the search for a free one begins; those below are for requests that name one (KEP-3070, KEP-3668).
FIRST_DYNAMIC_IP = 256
FIRST_DYNAMIC_PORT = 30086

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_MAX_AFFINITY_SECONDS = 86400
_DEFAULT_AFFINITY_SECONDS = 10800
_IP_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


class ServiceStrategy(Strategy):
    kind = "Service"
    has_status = True
    name_rule = staticmethod(names.dns_label)

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        elif spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", _DEFAULT_AFFINITY_SECONDS)
        spec["type"] = spec.get("type") or "ClusterIP"
        for port in spec.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if _is_external(spec):
            spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        spec = obj["spec"]
        _sync_cluster_ips(spec)
        # beginCreate: what is wrong in itself is said before anything is allocated.
        if list(self.validate(obj)):
            return
        _allocate(obj, [], ctx)

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        super().prepare_update(obj, old, ctx)
        spec, before = obj["spec"], old["spec"]
        _patch_allocated(spec, before)
        _sync_cluster_ips(spec, before)
        _drop_what_the_type_has_not(spec, before)
        if spec["type"] != "LoadBalancer":
            obj["status"]["loadBalancer"] = {}
        if not list(self.validate_update(obj, old)):
            _allocate(obj, [old], ctx)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        ports = spec.get("ports") or []
        if not ports and not _is_headless(spec) and spec["type"] != "ExternalName":
            yield field.required("spec.ports")
        yield from _type(spec)
        seen: set[str] = set()
        for index, port in enumerate(ports):
            yield from _port(port, f"spec.ports[{index}]", len(ports) > 1, seen)
        yield from validate_labels(spec.get("selector"), "spec.selector")
        yield from _session_affinity(spec)
        yield from _cluster_ips(spec)
        yield from _external_ips(spec)
        if spec["type"] not in TYPES:
            yield field.not_supported("spec.type", spec["type"], TYPES)
        yield from _unique_ports(spec, ports)
        yield from _load_balancer(spec)
        yield from _traffic(spec)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _cluster_ips_update(obj["spec"], old["spec"])
        yield from _health_check_update(obj["spec"], old["spec"])
        yield from self.validate(obj)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        spec, texts = obj["spec"], []
        if spec.get("externalIPs") and _is_headless(spec):
            texts.append('spec.externalIPs is ignored when spec.clusterIP is "None"')
        if spec.get("sessionAffinity") == "ClientIP" and _is_headless(spec):
            texts.append("spec.SessionAffinity is ignored for headless services")
        return texts


# --- allocation ---


def _allocate(service: Object, replaced: list[Object], ctx: Context) -> None:
    spec = service["spec"]
    others = _other_services(service, ctx)
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    held = {ip for old in replaced for ip in old["spec"].get("clusterIPs") or ()}
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_ip(others)
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif not _is_headless(spec):
        _claim_ip(service, others, held)
    if _needs_node_ports(spec):
        _allocate_node_ports(service, others)
    if _needs_health_check(spec) and not any(_needs_health_check(old["spec"]) for old in replaced):
        _allocate_health_check(spec, others)


def _other_services(service: Object, ctx: Context) -> list[Object]:
    key = service["metadata"].get("namespace"), service["metadata"].get("name")
    every = ctx.registry.list("Service")
    return [one["spec"] for one in every if (one["metadata"].get("namespace"), one["metadata"]["name"]) != key]


def _free_ip(others: list[Object]) -> str:
    taken = {ip for other in others for ip in other.get("clusterIPs") or ()}
    size = SERVICE_RANGE.num_addresses - 1
    for offset in [*range(FIRST_DYNAMIC_IP, size), *range(1, FIRST_DYNAMIC_IP)]:
        address = str(SERVICE_RANGE[offset])
        if address not in taken:
            return address
    raise errors.internal("failed to allocate a serviceIP: range is full")


def _claim_ip(service: Object, others: list[Object], held: set[str]) -> None:
    spec = service["spec"]
    address = spec["clusterIP"]
    why = ""
    if ipaddress.ip_address(address) not in SERVICE_RANGE:
        why = "the provided network does not match the current range"
    elif address not in held and any(address in (other.get("clusterIPs") or ()) for other in others):
        why = "provided IP is already allocated"
    if why:
        wrong = field.invalid("spec.clusterIPs", spec["clusterIPs"], f"failed to allocate IP {address}: {why}")
        raise errors.invalid("Service", service["metadata"]["name"], [wrong])


def _allocate_node_ports(service: Object, others: list[Object]) -> None:
    """One number serves several protocols of a service, but never two services."""
    taken = _taken_ports(others)
    ports = service["spec"].get("ports") or []
    chosen: dict[int, int] = {}
    for index, port in enumerate(ports):
        if number := port.get("nodePort"):
            if why := _unavailable(number, taken):
                wrong = field.invalid(f"spec.ports[{index}].nodePort", number, why)
                raise errors.invalid("Service", service["metadata"]["name"], [wrong])
            chosen.setdefault(port["port"], number)
    taken |= {port["nodePort"] for port in ports if port.get("nodePort")}
    free = _free_ports(taken)
    used = {(port.get("protocol"), port.get("nodePort")) for port in ports if port.get("nodePort")}
    for port in ports:
        if not port.get("nodePort"):
            same = chosen.get(port["port"])
            number = same if same and (port.get("protocol"), same) not in used else next(free)
            port["nodePort"] = chosen[port["port"]] = number
            used.add((port.get("protocol"), number))


def _allocate_health_check(spec: Object, others: list[Object]) -> None:
    taken = _taken_ports([*others, {"ports": spec.get("ports")}])
    number = spec.get("healthCheckNodePort")
    if not number:
        spec["healthCheckNodePort"] = next(_free_ports(taken))
    elif why := _unavailable(number, taken):
        raise errors.internal(f"failed to allocate requested HealthCheck NodePort {number}: {why}")


def _taken_ports(services: list[Object]) -> set[int]:
    """The node ports of services, given by their specs."""
    ports = {port.get("nodePort") for spec in services for port in spec.get("ports") or ()}
    return {port for port in (*ports, *(spec.get("healthCheckNodePort") for spec in services)) if port}


def _unavailable(number: int, taken: set[int]) -> str:
    """Why a service cannot have this node port; "" when it can."""
    if number not in NODE_PORTS:
        valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        return f"provided port is not in the valid range. The range of valid ports is {valid}"
    return "provided port is already allocated" if number in taken else ""


def _free_ports(taken: set[int]) -> Iterator[int]:
    every = [*range(FIRST_DYNAMIC_PORT, NODE_PORTS.stop), *range(NODE_PORTS.start, FIRST_DYNAMIC_PORT)]
    return (port for port in every if port not in taken)


# --- what an update keeps ---


def _patch_allocated(spec: Object, before: Object) -> None:
    """patchAllocatedValues: an update that does not name what was allocated keeps it."""
    if before["type"] != "ExternalName" and spec["type"] != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = before.get("clusterIP", "")
        if not spec.get("clusterIPs") and spec["clusterIP"] == before.get("clusterIP"):
            spec["clusterIPs"] = list(before.get("clusterIPs") or ())
        for key in ("ipFamilies", "ipFamilyPolicy"):
            if not spec.get(key) and key in before:
                spec[key] = before[key]
    if _needs_node_ports(before) and _needs_node_ports(spec):
        held = {(p.get("protocol"), p.get("port")): p.get("nodePort") for p in before.get("ports") or ()}
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = held.get((port.get("protocol"), port.get("port")))
            if number and not port.get("nodePort") and number not in used:
                port["nodePort"] = number
    if spec.get("healthCheckNodePort", 0) == 0 and _needs_health_check(before) and _needs_health_check(spec):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)


def _sync_cluster_ips(spec: Object, before: Object | None = None) -> None:
    """NormalizeClusterIPs: the singular and the plural field follow each other, whichever was changed."""
    single, many = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if before is None:
        if single and not many:
            spec["clusterIPs"] = [single]
        return
    if single != before.get("clusterIP", "") and many == (before.get("clusterIPs") or []):
        if single:
            spec["clusterIPs"] = [single]
        else:
            spec.pop("clusterIPs", None)


def _drop_what_the_type_has_not(spec: Object, before: Object) -> None:
    """dropTypeDependentFields: what was filled in for the old type goes, unless it was changed at the same time."""
    if before["type"] != "ExternalName" and spec["type"] == "ExternalName":
        for keys in (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",)):
            if all(spec.get(key) == before.get(key) for key in keys):
                for key in keys:
                    spec.pop(key, None)
    old_ports = {port.get("nodePort") for port in before.get("ports") or ()}
    new_ports = {port.get("nodePort") for port in spec.get("ports") or () if port.get("nodePort")}
    if _needs_node_ports(before) and not _needs_node_ports(spec) and new_ports <= old_ports:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    for needs, key in (
        (_needs_health_check, "healthCheckNodePort"),
        (_is_load_balancer, "allocateLoadBalancerNodePorts"),
        (_is_load_balancer, "loadBalancerClass"),
        (_is_external, "externalTrafficPolicy"),
    ):
        if needs(before) and not needs(spec) and spec.get(key) == before.get(key):
            spec.pop(key, None)


def _is_headless(spec: Object) -> bool:
    return (spec.get("clusterIPs") or [spec.get("clusterIP")]) == ["None"]


def _is_load_balancer(spec: Object) -> bool:
    return bool(spec["type"] == "LoadBalancer")


def _is_external(spec: Object) -> bool:
    """ExternallyAccessible."""
    return spec["type"] in ("LoadBalancer", "NodePort") or (
        spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def _needs_node_ports(spec: Object) -> bool:
    if _is_load_balancer(spec):
        return bool(spec.get("allocateLoadBalancerNodePorts", True))
    return bool(spec["type"] == "NodePort")


def _needs_health_check(spec: Object) -> bool:
    return _is_load_balancer(spec) and bool(spec.get("externalTrafficPolicy") == "Local")


# --- validation ---


def _type(spec: Object) -> Iterator[FieldError]:
    kind = spec["type"]
    if kind in ("LoadBalancer", "NodePort") and _is_headless(spec):
        yield field.invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")
    if kind == "ExternalName":
        for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(key):
                yield field.forbidden(f"spec.{key}", "may not be set for ExternalName services")
        name = spec.get("externalName", "").removesuffix(".")
        if name:
            for text in names.dns_subdomain(name):
                yield field.invalid("spec.externalName", name, text)
        else:
            yield field.required("spec.externalName")


def _port(port: Object, path: str, name_needed: bool, seen: set[str]) -> Iterator[FieldError]:
    name, number, protocol = port.get("name", ""), port.get("port", 0), port.get("protocol", "")
    if name:
        for text in names.dns_label(name):
            yield field.invalid(f"{path}.name", name, text)
        if name in seen:
            yield field.duplicate(f"{path}.name", name)
        seen.add(name)
    elif name_needed:
        yield field.required(f"{path}.name")
    for text in names.port_number(number):
        yield field.invalid(f"{path}.port", number, text)
    if protocol not in PROTOCOLS:
        yield field.not_supported(f"{path}.protocol", protocol, PROTOCOLS)
    yield from port_number_or_name(port.get("targetPort", 0), f"{path}.targetPort")
    if (application := port.get("appProtocol")) is not None:
        yield from label_name(application, f"{path}.appProtocol")


def _session_affinity(spec: Object) -> Iterator[FieldError]:
    affinity = spec["sessionAffinity"]
    if affinity not in ("ClientIP", "None"):
        yield field.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    if affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 1 <= seconds <= _MAX_AFFINITY_SECONDS:
            text = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            yield field.invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, text)


def _cluster_ips(spec: Object) -> Iterator[FieldError]:
    """ValidateServiceClusterIPsRelatedFields."""
    if spec["type"] == "ExternalName":
        return
    single, many, path = spec.get("clusterIP", ""), spec.get("clusterIPs") or [], "spec.clusterIPs"
    if single and not many:
        yield field.required(path)
    elif single and many[0] != single:
        yield field.invalid(path, many, "first value must match `clusterIP`")
    elif many and not single:
        yield field.invalid(path, many, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family not in ("IPv4", "IPv6"):
            yield field.not_supported(f"spec.ipFamilies[{index}]", family, ("IPv4", "IPv6"))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _IP_FAMILY_POLICIES:
        yield field.not_supported("spec.ipFamilyPolicy", policy, _IP_FAMILY_POLICIES)
    for index, address in enumerate(many):
        if index == 0 and address == "None":
            if len(many) > 1:
                yield field.invalid(path, many, "'None' must be the first and only value")
            continue
        for text in names.ip(address):
            yield field.invalid(f"{path}[{index}]", address, text)
    if len(many) > 2:
        yield field.invalid(path, many, "may only hold up to 2 values")


def _cluster_ips_update(spec: Object, before: Object) -> Iterator[FieldError]:
    """validateUpgradeDowngradeClusterIPs."""
    if "ExternalName" in (spec["type"], before["type"]) or (_is_headless(spec) and _is_headless(before)):
        return
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if old and not new:
        yield field.invalid("spec.clusterIPs[0]", new, "primary clusterIP can not be unset")
    for index, (one, other) in enumerate(zip(new, old, strict=False)):
        if one != other:
            yield field.invalid(f"spec.clusterIPs[{index}]", new, "may not change once set")


def _health_check_update(spec: Object, before: Object) -> Iterator[FieldError]:
    if not (_needs_health_check(before) and _needs_health_check(spec)):
        return
    if spec.get("healthCheckNodePort") != before.get("healthCheckNodePort"):
        yield field.forbidden("spec.healthCheckNodePort", IMMUTABLE)


def _external_ips(spec: Object) -> Iterator[FieldError]:
    for index, address in enumerate(spec.get("externalIPs") or ()):
        for text in names.ip(address):
            yield field.invalid(f"spec.externalIPs[{index}]", address, text)


def _unique_ports(spec: Object, ports: list[Object]) -> Iterator[FieldError]:
    if spec["type"] == "ClusterIP":
        for index, port in enumerate(ports):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                yield field.forbidden(f"spec.ports[{index}].nodePort", text)
    for key in ("nodePort", "port"):
        seen: set[tuple[Any, Any]] = set()
        for index, port in enumerate(ports):
            pair = port.get("protocol"), port.get(key)
            if pair in seen and port.get(key):
                if key == "nodePort":
                    yield field.duplicate(f"spec.ports[{index}].nodePort", port[key])
                else:
                    # A core.ServicePort with nothing else set, as Go's JSON of the internal type shows it.
                    shown = {
                        "Name": "",
                        "Protocol": pair[0],
                        "AppProtocol": None,
                        "Port": pair[1],
                        "TargetPort": 0,
                        "NodePort": 0,
                    }
                    yield field.duplicate(f"spec.ports[{index}]", shown)
            seen.add(pair)


def _load_balancer(spec: Object) -> Iterator[FieldError]:
    only = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("loadBalancerSourceRanges") and not _is_load_balancer(spec):
        yield field.forbidden("spec.LoadBalancerSourceRanges", only)
    for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if key in spec and not _is_load_balancer(spec):
            yield field.forbidden(f"spec.{key}", only)


def _traffic(spec: Object) -> Iterator[FieldError]:
    external, internal = spec.get("externalTrafficPolicy", ""), spec.get("internalTrafficPolicy")
    if not _is_external(spec):
        if external:
            text = "may only be set for externally-accessible services"
            yield field.invalid("spec.externalTrafficPolicy", external, text)
    elif external not in ("Cluster", "Local"):
        yield field.not_supported("spec.externalTrafficPolicy", external, ("Cluster", "Local"))
    if spec.get("healthCheckNodePort") and not _needs_health_check(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield field.invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], text)
    if internal is not None and internal not in ("Cluster", "Local"):
        yield field.not_supported("spec.internalTrafficPolicy", internal, ("Cluster", "Local"))
