# SPDX-License-Identifier: BSD-2-Clause
"""Where Prometheus is in a cluster: the service that answers queries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...kube.errors import ConnectionProblem

_NAMED = re.compile(r"prometheus|victoria-?metrics|vmsingle|vmselect")
# Parts that have the same words in their names: those of kube-prometheus-stack are all called after it.
_OTHERS = re.compile(
    r"alertmanager|operator(?!-prometheus)|exporter|adapter|pushgateway|state-metrics|webhook|kubelet|coredns|kube-dns"
    r"|etcd|scheduler|controller|kube-proxy|grafana|vmagent|vminsert|vmstorage|vmalert|sidecar|discovery"
)
_QUERIES = re.compile(r"thanos-quer|mimir-(?:nginx|gateway)")
# Prometheus, VictoriaMetrics as a single program and the queries of its cluster, Thanos' queries.
_PORTS = (9090, 8428, 8429, 8481, 10902, 10904)
_TLS = frozenset({443, 8443})
_VMSELECT = 8481
_GIVEN = re.compile(
    r"(?:(?P<namespace>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)/)(?:(?P<scheme>https?):)?(?P<name>[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)"
    r":(?P<port>[a-z0-9-]+)(?P<path>(?:/[\w.:-]+)*)/?"
)


@dataclass(frozen=True)
class PrometheusService:
    """A service that answers queries. ``path`` is what comes before ``/api/v1``."""

    namespace: str
    name: str
    port: str
    scheme: str = "http"
    path: str = ""

    @property
    def proxied(self) -> str:
        """Its name in the path of the API server's proxy, and in ``resourceNames`` of a role for it."""
        return f"{self.scheme}:{self.name}:{self.port}"

    def __str__(self) -> str:
        scheme = "https:" if self.scheme == "https" else ""
        return f"{self.namespace}/{scheme}{self.name}:{self.port}{self.path}"


def names_prometheus(service: str) -> bool:
    """Whether a service of that name is of Prometheus, or of a program that comes with it."""
    return bool(_NAMED.search(service))


def given_service(text: str) -> PrometheusService:
    """The service of the option. Raises ConnectionProblem."""
    found = _GIVEN.fullmatch(text)
    if not found:
        raise ConnectionProblem(
            f"O(prometheus_service): {text} is not a service. Write namespace/name:port, such as "
            f"monitoring/prometheus-operated:9090."
        )
    return PrometheusService(found["namespace"], found["name"], found["port"], found["scheme"] or "http", found["path"])


def only_service(services: Iterable[Mapping[str, Any]]) -> PrometheusService:
    """The service to ask, among all of a cluster. Raises ConnectionProblem for none, and for several.

    A rank only decides within a namespace: in another one, anybody may have given a service a name that ranks higher.
    """
    best: dict[str, int] = {}
    candidates = [candidate for service in services if (candidate := _candidate(service))]
    for rank, service in candidates:
        best[service.namespace] = max(rank, best.get(service.namespace, 0))
    found = sorted({service for rank, service in candidates if rank == best[service.namespace]}, key=str)
    if not found:
        raise ConnectionProblem(
            "no Prometheus found among the services of the cluster. Set O(prometheus_url), or O(prometheus_service) if "
            "its service has an unusual name."
        )
    if len(found) > 1:
        names = ", ".join(map(str, found[:10]))
        raise ConnectionProblem(
            f"several Prometheus found: {names}. Set O(prometheus_service) to the one that scrapes the GPU exporters, "
            f"or O(prometheus_url)."
        )
    return found[0]


def _candidate(service: Mapping[str, Any]) -> tuple[int, PrometheusService] | None:
    """The service with its rank: one that asks several Prometheus before a Prometheus, that before its headless one."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    name = metadata["name"]
    queries = bool(_QUERIES.search(name))
    if not queries and (not names_prometheus(name) or _OTHERS.search(name)):
        return None
    ports = [port for port in spec.get("ports") or () if isinstance(port, Mapping) and port.get("protocol") != "UDP"]
    usual = {port.get("port"): port for port in ports if port.get("port") in _PORTS}
    port = next((usual[number] for number in _PORTS if number in usual), None)
    if port is None and (queries or name.endswith(("-server", "prometheus"))):
        port = next((each for each in ports if each.get("port") in (80, *_TLS)), None)
    if port is None:
        return None
    number = port["port"]
    scheme = "https" if number in _TLS or port.get("name") == "https" else "http"
    path = "/select/0/prometheus" if number == _VMSELECT else "/prometheus" if "mimir" in name else ""
    rank = 3 if queries else 1 if spec.get("clusterIP") == "None" else 2
    return rank, PrometheusService(metadata["namespace"], name, str(number), scheme, path)
