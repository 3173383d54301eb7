# SPDX-License-Identifier: BSD-2-Clause
"""A service scales by the utilization of its GPUs: the real road, from exporters to replicas.

The real prometheus-adapter with the rules that the role has for it, the real Prometheus with the recorded series, and
the API server, aggregator and autoscaler of the cluster in GPUCTL_TEST_KUBECONFIG. The exporters are simulated: they
have the pods of that cluster, and the load that the test gives them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.monitoring.adapter import adapter_rules
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import plain_queries

from . import metrics_adapter, monitoring
from .ansible import Ansible
from .api import Api, eventually
from .manifests import inference

METRIC = "DCGM_FI_DEV_GPU_UTIL"
needs_adapter = pytest.mark.skipif(
    not (metrics_adapter.PROGRAM and os.environ.get("GPUCTL_TEST_KUBECONFIG")),
    reason="GPUCTL_TEST_PROMETHEUS_ADAPTER and GPUCTL_TEST_KUBECONFIG do not name a prometheus-adapter and a cluster",
)


def service(name: str = "chat") -> dict[str, Any]:
    scaling = {"max_replicas": 4, "metric": "gpu_utilization", "target": 60}
    return inference(name, autoscaling=scaling, service={"port": 8000})


def replicas(api: Api, namespace: str) -> int:
    return int(api.get("deployment", "chat", namespace)["spec"]["replicas"])


@needs_adapter
@monitoring.needs_prometheus
def test_replicas_follow_the_utilization(
    ansible: Ansible, api: Api, namespace: str, kubeconfig: Path, tmp_path: Path
) -> None:
    rules = monitoring.shipped_rules(tmp_path / "rules.json", interval="1s")
    mapped = adapter_rules(plain_queries(built_in_catalog()))
    done = ansible.job(definition=service(), namespace=namespace)
    assert not done.failed, done.message
    nobody = f"it is to scale by {METRIC}, but nothing serves custom.metrics.k8s.io"
    assert problems(ansible, namespace) == [nobody]
    with (
        metrics_adapter.exporters_of(api, namespace) as cluster,
        monitoring.prometheus(tmp_path / "prometheus", cluster.url, rules=[rules]) as prometheus,
        metrics_adapter.adapter(tmp_path, kubeconfig, api, prometheus.url, mapped, namespace) as log,
    ):
        cluster.drive(namespace=namespace, utilization=95)
        prometheus.wait_for(f'namespace_pod_uuid:runwhere_gpu_utilization:ratio{{namespace="{namespace}"}}')
        metrics_adapter.wait_until_available(api, log)
        # 95 % of one pod against 60: two, and 95 % of each of two: four.
        eventually(lambda: replicas(api, namespace) == 4, 240)
        row = autoscaler(ansible, namespace)
        assert (row["min_replicas"], row["max_replicas"], row["problem"]) == (1, 4, None)
        (metric,) = row["metrics"]
        assert (metric["metric"], metric["target"], metric["current"]) == (METRIC, "60", "95")
        assert problems(ansible, namespace) == []
        # By itself it waits for ten quiet minutes.
        behavior = {"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}
        api.patch("hpa", "chat", behavior, namespace)
        cluster.drive(namespace=namespace, utilization=5)
        eventually(lambda: replicas(api, namespace) == 1, 240)


def problems(ansible: Ansible, namespace: str) -> list[str]:
    """What the doctor says of the autoscaler, in the name of an account of gpuctl_rbac."""
    done = ansible.module("gpuctl_doctor", fail_on="never")
    (check,) = [check for check in done.result["checks"] if check["check"] == "autoscalers"]
    assert check["status"] != "unknown", check["reason"]
    return [one["problem"] for one in check["findings"] if one["place"] == f"chat in namespace {namespace}"]


def autoscaler(ansible: Ansible, namespace: str) -> dict[str, Any]:
    done = ansible.module("gpuctl_job_info", name="chat", namespaces=[namespace])
    assert not done.failed, done.message
    return dict(done.jobs["chat"]["autoscaler"])
