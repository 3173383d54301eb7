# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints and EndpointSlices of the services that have a selector.

Source: pkg/controller/endpoint/endpoints_controller.go, k8s.io/endpointslice (reconciler.go, utils.go).
"""

from __future__ import annotations

from typing import Any

from .base import Controller, Key, Object, batch_delay, key_of
from .owners import controller_reference
from .pods import is_deleted, is_ready, is_terminal

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
SERVICE = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"


class EndpointsController(Controller):
    name = "endpoint-controller"
    watches = ("Service", "Pod")

    def __init__(self, registry: Any) -> None:
        super().__init__(registry)
        self._services: dict[str, dict[str, dict[str, str]]] = {}  # namespace -> name -> selector
        self._sizes: dict[Key, int] = {}  # how many pods a service had

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        namespace, name = key_of(obj)
        if kind == "Service":
            self._services.setdefault(namespace, {})[name] = obj["spec"].get("selector") or {}
            if event == "DELETED":
                del self._services[namespace][name]
            self.enqueue((namespace, name))
            return
        if old is not None and _endpoint_facts(old) == _endpoint_facts(obj):
            return
        for service, selector in self._services.get(namespace, {}).items():
            for version in (obj, old):
                labels = (version or {}).get("metadata", {}).get("labels") or {}
                if selector and selector.items() <= labels.items():
                    self.enqueue((namespace, service), batch_delay(self._sizes.get((namespace, service), 0)))

    def reconcile(self, key: Key) -> None:
        service = self.registry.get("Service", *key)
        slices = self.registry.list("EndpointSlice", key[0], {SERVICE: key[1], MANAGED_BY: SLICE_MANAGER})
        if service is None or not service["spec"].get("selector") or service["spec"]["type"] == "ExternalName":
            if service is None:
                self._sizes.pop(key, None)
                if self.registry.get("Endpoints", *key) is not None:
                    self.registry.delete("Endpoints", *key)
                for one in slices:
                    self.registry.delete("EndpointSlice", *key_of(one))
            return
        pods = [
            pod
            for pod in self.registry.list("Pod", key[0], service["spec"]["selector"])
            if pod.get("status", {}).get("podIP") and not is_terminal(pod)
        ]
        self._sizes[key] = len(pods)
        self._write_endpoints(service, pods)
        self._write_slice(service, pods, slices)

    def _write_endpoints(self, service: Object, pods: list[Object]) -> None:
        subsets: dict[str, tuple[list[Object], list[Object], list[Object]]] = {}
        for pod in pods:
            if is_deleted(pod) and not service["spec"].get("publishNotReadyAddresses"):
                continue
            ports = ports_for(service, pod)
            found = subsets.setdefault(str(ports), (ports, [], []))
            publish = service["spec"].get("publishNotReadyAddresses") or is_ready(pod)
            found[1 if publish else 2].append(_address(service, pod))
        body = []
        for ports, ready, unready in subsets.values():
            subset = {"addresses": ready, "notReadyAddresses": unready, "ports": ports}
            body.append({field: value for field, value in subset.items() if value})
        labels = dict(service["metadata"].get("labels") or {}) | {"endpoints.kubernetes.io/managed-by": self.name}
        if is_headless(service):
            labels[HEADLESS] = ""

        def write(endpoints: Object) -> None:
            endpoints["metadata"]["labels"] = labels
            endpoints.pop("subsets", None)
            if body:
                endpoints["subsets"] = body

        namespace, name = key_of(service)
        if self.registry.modify("Endpoints", namespace, name, write) is None:
            new: Object = {"metadata": {"name": name, "namespace": namespace}}
            write(new)
            self.registry.create("Endpoints", new)

    def _write_slice(self, service: Object, pods: list[Object], slices: list[Object]) -> None:
        """One slice for each set of ports (a named target port may be another number in each pod)."""
        by_ports: dict[str, tuple[list[Object], list[Object]]] = {}
        for pod in pods:
            ports = ports_for(service, pod)
            by_ports.setdefault(str(ports), (ports, []))[1].append(_slice_endpoint(service, pod))
        if not by_ports:
            by_ports[""] = ([], [])
        spare = list(slices)
        for ports, endpoints in by_ports.values():
            spare = self._put_slice(service, ports, endpoints, spare)
        for one in spare:
            self.registry.delete("EndpointSlice", *key_of(one))

    def _put_slice(
        self, service: Object, ports: list[Object], endpoints: list[Object], spare: list[Object]
    ) -> list[Object]:
        labels = dict(service["metadata"].get("labels") or {}) | {
            SERVICE: service["metadata"]["name"],
            MANAGED_BY: SLICE_MANAGER,
        }
        if is_headless(service):
            labels[HEADLESS] = ""

        def write(slice_: Object) -> None:
            slice_["metadata"]["labels"] = labels
            slice_["ports"], slice_["endpoints"] = ports, endpoints

        present = next((one for one in spare if one.get("ports") == ports), spare[0] if spare else None)
        if present is not None:
            self.registry.modify("EndpointSlice", *key_of(present), write)
            return [one for one in spare if one is not present]
        namespace, name = key_of(service)
        metadata = {
            "generateName": f"{name}-",
            "namespace": namespace,
            "ownerReferences": [controller_reference(service)],
        }
        new: Object = {"metadata": metadata, "addressType": "IPv4"}
        write(new)
        self.registry.create("EndpointSlice", new)
        return spare


SLICE_MANAGER = "endpointslice-controller.k8s.io"


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def ports_for(service: Object, pod: Object) -> list[Object]:
    """The service's ports as numbers of this pod; those it does not have are left out."""
    ports = []
    for port in service["spec"].get("ports") or ():
        number = port["targetPort"]
        if isinstance(number, str):
            number = next(
                (
                    own["containerPort"]
                    for container in pod["spec"]["containers"]
                    for own in container.get("ports") or ()
                    if own.get("name") == number and own.get("protocol", "TCP") == port["protocol"]
                ),
                None,
            )
        if number is not None:
            ports.append({"name": port.get("name", ""), "port": number, "protocol": port["protocol"]})
    return ports


def _address(service: Object, pod: Object) -> Object:
    metadata = pod["metadata"]
    target = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    address = {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target}
    return address | _hostname(service, pod)


def _slice_endpoint(service: Object, pod: Object) -> Object:
    address = _address(service, pod)
    serving, leaving = is_ready(pod), is_deleted(pod)
    ready = bool(service["spec"].get("publishNotReadyAddresses")) or (serving and not leaving)
    return {
        "addresses": [address["ip"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": leaving},
        "targetRef": address["targetRef"],
        "nodeName": address["nodeName"],
    } | _hostname(service, pod)


def _hostname(service: Object, pod: Object) -> Object:
    """A pod that has a hostname and names the service as its subdomain gets a DNS name of its own."""
    spec = pod["spec"]
    named = spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
    return {"hostname": spec["hostname"]} if named else {}


def _endpoint_facts(pod: Object) -> tuple[Any, ...]:
    status, metadata = pod.get("status", {}), pod["metadata"]
    return metadata.get("labels"), status.get("podIP"), is_ready(pod), is_terminal(pod), is_deleted(pod)
