# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection to Prometheus. Argument spec and variables: module_utils/insight/prometheus/prometheus_options.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  prometheus_url:
    description:
      - URL of Prometheus, Thanos, Grafana Mimir or VictoriaMetrics, as what comes before C(/api/v1), for example
        V(https://prometheus.example.com), V(https://mimir.example.com/prometheus) or
        V(https://vm.example.com/select/0/prometheus).
      - Without it, the module asks the service that O(prometheus_service) names, through the API server.
      - Pods are told apart by namespace and name, so what it answers has to be about one cluster. Of a server that has the series of
        several, give what shows one of them, such as a tenant (O(prometheus_tenant)) or a proxy that adds the label of the cluster.
      - Redirects are not followed. A token or password is not sent over C(http://), except to this machine or with
        O(allow_plaintext_credentials).
      - If unset, E(GPUCTL_PROMETHEUS_URL) is used.
    type: str
  prometheus_service:
    description:
      - Service of Prometheus in the cluster, as C(namespace/name:port), for example V(monitoring/prometheus-operated:9090).
        C(namespace/https:name:port) is one with TLS, and a path after the port is what comes before C(/api/v1).
      - The API server passes the queries on, which requires C(get) and C(create) of C(services/proxy) for it.
      - Without it and O(prometheus_url), the module looks for the service among those of the cluster, by name and port. It fails
        if there is none, or more than one.
      - Only namespaces count in which no users write, since any of them could name a service so. Not looked at are V(default), namespaces
        with the label C(runwhere.ai/namespace), which those of quotas and of the playbook C(runwhere.gpuctl.onboard) have, and
        namespaces in which a RoleBinding gives more than to read to a user, a group, or a service account of another namespace, as far as
        the account may list them. Where users get their namespaces by other means, set this option.
      - If unset, E(GPUCTL_PROMETHEUS_SERVICE) is used.
    type: str
  prometheus_token:
    description: Bearer token for O(prometheus_url). If unset, E(GPUCTL_PROMETHEUS_TOKEN) is used.
    type: str
  prometheus_user:
    description: User for HTTP basic authentication to O(prometheus_url). If unset, E(GPUCTL_PROMETHEUS_USER) is used.
    type: str
  prometheus_password:
    description: Password for O(prometheus_user). If unset, E(GPUCTL_PROMETHEUS_PASSWORD) is used.
    type: str
  prometheus_ca_cert:
    description:
      - Path to the CA certificates that verify the certificate of O(prometheus_url). The default is those of the system.
      - If unset, E(GPUCTL_PROMETHEUS_CA_CERT) is used.
    type: path
  prometheus_client_cert:
    description: Path to a client certificate for O(prometheus_url). If unset, E(GPUCTL_PROMETHEUS_CLIENT_CERT) is used.
    type: path
  prometheus_client_key:
    description:
      - Path to the private key for O(prometheus_client_cert).
      - If unset, E(GPUCTL_PROMETHEUS_CLIENT_KEY) is used.
    type: path
  prometheus_validate_certs:
    description:
      - Whether to verify the certificate of O(prometheus_url). It is verified unless this is V(false).
      - If unset, E(GPUCTL_PROMETHEUS_VALIDATE_CERTS) is used.
    type: bool
  prometheus_tenant:
    description:
      - Tenant whose data to read, for Grafana Mimir (header C(X-Scope-OrgID), several of them separated by C(|)) and Thanos
        (C(THANOS-TENANT)). That of VictoriaMetrics is a part of O(prometheus_url).
      - If unset, E(GPUCTL_PROMETHEUS_TENANT) is used.
    type: str
  prometheus_timeout:
    description:
      - Number of seconds that a query may take. The default is 60.
      - If unset, E(GPUCTL_PROMETHEUS_TIMEOUT) is used.
    type: int
"""
