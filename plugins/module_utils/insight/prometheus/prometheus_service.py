# SPDX-License-Identifier: BSD-2-Clause
"""Where Prometheus is in a cluster: the service that answers queries. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
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
    """Whether a Service of that name belongs to Prometheus, or to a program that comes with it."""
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


def candidates_in(services: Iterable[Mapping[str, Any]]) -> list[PrometheusService]:
    """The services of a cluster whose names and ports are those of a Prometheus, the best of each namespace.

    A rank only decides within a namespace: in another one, any account may have given a service a name that ranks
    higher.
    """
    best: dict[str, int] = {}
    ranked = [candidate for service in services if (candidate := _candidate(service))]
    for rank, service in ranked:
        best[service.namespace] = max(rank, best.get(service.namespace, 0))
    return sorted({service for rank, service in ranked if rank == best[service.namespace]}, key=str)


def is_for_users(binding: Mapping[str, Any]) -> bool:
    """Whether a RoleBinding lets accounts write that do not belong to its namespace: users, groups, and service
    accounts of other namespaces. Those of kube-system are the cluster's own."""
    namespace = binding["metadata"]["namespace"]
    if (binding.get("roleRef") or {}).get("name") in _READ_ONLY:
        return False
    own = {f"system:serviceaccounts:{namespace}", f"system:serviceaccounts:{_CLUSTERS_OWN}"}
    return any(
        subject.get("namespace") not in (namespace, _CLUSTERS_OWN)
        if subject.get("kind") == "ServiceAccount"
        else subject.get("name") not in own
        for subject in binding.get("subjects") or ()
        if isinstance(subject, Mapping)
    )


_CLUSTERS_OWN = "kube-system"
_READ_ONLY = frozenset({"view", "gpuctl-logs"})  # of Kubernetes, and of the level read


def only_service(candidates: Iterable[PrometheusService], of_users: Collection[str]) -> PrometheusService:
    """The service to ask. Raises ConnectionProblem for none, and for several.

    ``of_users`` are namespaces in which users write: a service there may be the work of any of them.
    """
    candidates = list(candidates)
    found = [service for service in candidates if service.namespace not in of_users]
    if not found and candidates:
        raise ConnectionProblem(
            f"no Prometheus found that only administrators can have made: {_some_names(candidates)} is in a namespace "
            f"in which users write. If you trust it, set O(prometheus_service) to it, or set O(prometheus_url)."
        )
    if not found:
        raise ConnectionProblem(
            "no Prometheus found among the services of the cluster. Set O(prometheus_url), or O(prometheus_service) if "
            "its service has an unusual name."
        )
    if len(found) > 1:
        raise ConnectionProblem(
            f"several Prometheus found: {_some_names(found)}. Set O(prometheus_service) to the one that scrapes the "
            f"GPU exporters, or O(prometheus_url)."
        )
    return found[0]


def _some_names(services: Iterable[PrometheusService]) -> str:
    return ", ".join(map(str, list(services)[:10]))


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
