# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_doctor finds each defect that is planted into a healthy cluster, and nothing in the healthy one.

The clusters are simulated, as these defects do harm in a real one; tests at the end run against any cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE, DoctorOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import PRIORITIES, priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import ADMINISTER, READ
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import cluster_roles
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from kubesim import LAB_USER_TOKEN, VERSION, Cluster

from .accounts import account, make_priority_classes
from .ansible import Ansible
from .api import Api
from .prometheus_double import Asked, Reply, prometheus_double, vector
from .recorder import Recorder

Row = dict[str, Any]
OURS = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
GPU_LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/cuda.driver-version.full": "570.86.15",
    "nvidia.com/mig.config.state": "success",
}


def ago(**span: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(name: str, namespace: str, renewed: str, holder: str) -> Row:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": renewed}
    return {"kind": "Lease", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def managed(kind: str, name: str, namespace: str | None = None, **fields: Any) -> Row:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": OURS}
    return {"kind": kind, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}


def exporter(node: str) -> Row:
    container = {"name": "exporter", "image": "dcgm-exporter", "ports": [{"containerPort": 9400}]}
    metadata = {"name": f"exporter-{node}", "namespace": "kube-system"}
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A healthy cluster of two nodes."""
    with Cluster(nodes=0, controllers=False, addons={"metrics"}).running() as cluster:
        cluster.add_nodes(["node-1", "node-2"], labels=GPU_LABELS)
        default = {"storageclass.kubernetes.io/is-default-class": "true"}
        storage = {"metadata": {"name": "fast", "annotations": default}, "provisioner": "csi.example.com"}
        port = {"spec": {"ports": [{"port": 9090}]}}
        cluster.load(
            [
                {"kind": "Namespace", "metadata": {"name": "gpuctl-system"}},
                {"kind": "StorageClass", **storage},
                {"kind": "Service", "metadata": {"name": "prometheus-operated", "namespace": "kube-system"}, **port},
                *(lease(node, "kube-node-lease", ago(), node) for node in ("node-1", "node-2")),
                *(exporter(node) for node in ("node-1", "node-2")),
                *map(priority_class, PRIORITIES),
                *cluster_roles(READ),
            ]
        )
        yield cluster


def examine(cluster: Cluster, token: str | None = None, **options: Any) -> Row:
    cluster.requests.reset()
    task = Task(
        DoctorOptions(**options),
        {"host": cluster.url, "api_key": token or cluster.token},
        False,
        lambda text: None,
        lambda values: None,
    )
    return run_task(task, MODULE)


def node(cluster: Cluster, name: str = "node-2") -> Row:
    return json.loads(json.dumps(cluster.call(lambda: cluster.registry.get("Node", "", name))))


def change_node(**changes: Callable[[Row], object]) -> Callable[[Cluster], None]:
    def plant(cluster: Cluster) -> None:
        found = {**node(cluster), "kind": "Node"}
        for change in changes.values():
            change(found)
        cluster.load([found])

    return plant


def label(key: str, value: str) -> Callable[[Cluster], None]:
    return change_node(change=lambda found: found["metadata"]["labels"].update({key: value}))


def other_cuda(cluster: Cluster) -> None:
    for name, version in (("node-1", "12.8"), ("node-2", "12.4")):
        found = {**node(cluster, name), "kind": "Node"}
        found["metadata"]["labels"]["nvidia.com/cuda.runtime-version.full"] = version
        cluster.load([found])


def load(*objects: Row | Callable[[], Row]) -> Callable[[Cluster], None]:
    return lambda cluster: cluster.load([obj() if callable(obj) else obj for obj in objects]) and None


def delete(kind: str, name: str, namespace: str = "") -> Callable[[Cluster], None]:
    return lambda cluster: cluster.call(lambda: cluster.registry.delete(kind, namespace, name)) and None


def no_plugin(found: Row) -> None:
    for part in ("capacity", "allocatable"):
        found["status"][part] = {"cpu": "128", "memory": "1Ti", "pods": "250"}


def unhealthy(found: Row) -> None:
    found["status"]["allocatable"]["nvidia.com/gpu"] = "6"


def not_ready(found: Row) -> None:
    (ready,) = [one for one in found["status"]["conditions"] if one["type"] == "Ready"]
    ready.update(status="Unknown", message="Kubelet stopped posting node status.")


def replaced() -> Row:
    entry = {"manifest": "", "uid": "u", "submitted_at": ago(hours=2), "finished_at": ago(hours=1)}
    return managed("ConfigMap", "gpuctl-ledger", "default", data={"sft": json.dumps(entry)})


def left_behind() -> Row:
    metadata = {"labels": {**OURS, "app": "sft"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return managed("Service", "svc-sft", "default", metadata=metadata, spec={"ports": [{"port": 80}]})


def in_queue() -> Row:
    labels = {**OURS, "app": "sft", "kueue.x-k8s.io/queue-name": "team-a"}
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}
    return managed("Job", "sft", "default", metadata={"labels": labels}, spec=spec)


def gang_pod(number: int) -> Row:
    index = {"batch.kubernetes.io/job-completion-index": str(number), "runwhere.ai/pool": "training"}
    spec = {"containers": [{"name": "main", "image": "x"}], "nodeName": "node-1"}
    return managed("Pod", f"sft-{number}", "default", metadata={"labels": {**OURS, "app": "sft", **index}}, spec=spec)


def pool_with_queue(backend: str) -> Row:
    data = {"nodes": "", "queue": json.dumps({"backend": backend})}
    labels = {**OURS, "runwhere.ai/pool": "training"}
    return managed("ConfigMap", "pool-training", "gpuctl-system", metadata={"labels": labels}, data=data)


def with_runtime_class() -> Row:
    profile = "kind: accelerator\naccelerator: {name: nvidia}\npod: {runtime_class: nvidia}\n"
    metadata = {"name": "gpuctl-accelerators", "namespace": "gpuctl-system"}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {"nvidia.yml": profile}}


def outdated_role() -> Row:
    return {**cluster_roles(READ)[0], "rules": cluster_roles(READ)[0]["rules"][1:]}


def wrong_priority() -> Row:
    return {**priority_class("high"), "value": 7}


def deleted_namespace() -> Row:
    condition = {
        "type": "NamespaceFinalizersRemaining",
        "status": "True",
        "reason": "SomeFinalizersRemain",
        "message": "Some content in the namespace has finalizers remaining",
    }
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    return managed("Namespace", "team-a", metadata=metadata, status={"phase": "Terminating", "conditions": [condition]})


def deleted_pod() -> Row:
    found = exporter("node-2")
    metadata = {"labels": {**OURS, "app": "sft"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**found, "metadata": {"name": "sft-0", "namespace": "default", **metadata}}


# By what is planted: the check that finds it, how bad it is, and words of where and what.
DEFECTS: dict[str, tuple[Callable[[Cluster], None], str, str, str]] = {
    "no device plugin": (
        change_node(change=no_plugin),
        "device_plugins",
        "error",
        "node-2: it has GPUs by label nvidia.com/gpu.present, but Kubernetes lists no nvidia.com/gpu there",
    ),
    "unhealthy GPUs": (change_node(change=unhealthy), "devices", "error", "node-2: 2 of 8 GPUs (nvidia.com/gpu)"),
    "fewer GPUs than the label says": (
        label("nvidia.com/gpu.count", "7"),
        "devices",
        "warning",
        "node-2: label nvidia.com/gpu.count says 7, but Kubernetes lists 8 nvidia.com/gpu",
    ),
    "drivers that differ": (
        label("nvidia.com/cuda.driver-version.full", "535.1"),
        "drivers",
        "warning",
        "pool default: different versions of the driver of GPUs: 535.1 on node-2; 570.86.15 on node-1",
    ),
    "versions of CUDA that differ": (
        other_cuda,
        "drivers",
        "warning",
        "pool default: different versions of the runtime of GPUs: 12.4 on node-2; 12.8 on node-1",
    ),
    "no RuntimeClass for the GPUs": (
        load(with_runtime_class),
        "runtime_classes",
        "error",
        "RuntimeClass nvidia: missing, although pods with GPUs ask for it",
    ),
    "a failed MIG configuration": (
        label("nvidia.com/mig.config.state", "failed"),
        "partitions",
        "error",
        "node-2: the MIG configuration failed",
    ),
    "an invalid MIG configuration": (
        label("nvidia.com/gpu.product", "NVIDIA-A100-MIG-INVALID"),
        "partitions",
        "error",
        "node-2: GPUs with an invalid configuration of partitions",
    ),
    "a node that is not ready": (change_node(change=not_ready), "nodes", "error", "node-2: not ready"),
    "an old kubelet": (
        change_node(change=lambda found: found["status"]["nodeInfo"].update(kubeletVersion="v1.30.1")),
        "kubelet_versions",
        "warning",
        "node-2: kubelet v1.30.1 is more than 3 minor versions older than the API server",
    ),
    "a node whose clock is wrong": (
        load(lambda: lease("node-2", "kube-node-lease", ago(minutes=-5), "node-2")),
        "node_clocks",
        "warning",
        "s ahead of that of the API server, judged by its Lease",
    ),
    "no exporter": (
        delete("Pod", "exporter-node-2", "kube-system"),
        "exporters",
        "warning",
        "node-2: no exporter of metrics for GPUs: no pod with port 9400",
    ),
    "a job in a queue of Kueue, which is missing": (
        load(in_queue),
        "queues",
        "error",
        "jobs in namespace default: kueue is not installed",
    ),
    "a pool with a queue of Kueue, which is missing": (
        load(lambda: pool_with_queue("kueue")),
        "queues",
        "error",
        "pool training: kueue is not installed",
    ),
    "a pool with a queue of Volcano, which is missing": (
        load(lambda: pool_with_queue("volcano")),
        "queues",
        "error",
        "pool training: volcano is not installed: no API group scheduling.volcano.sh",
    ),
    "a training on two nodes without a queue": (
        load(*(gang_pod(number) for number in range(2))),
        "gangs",
        "warning",
        "pool training: the nodes of training default/sft are allocated one by one",
    ),
    "no Prometheus": (
        delete("Service", "prometheus-operated", "kube-system"),
        "prometheus",
        "warning",
        "cluster: no Prometheus found",
    ),
    "no default StorageClass": (delete("StorageClass", "fast"), "storage", "warning", "cluster: no StorageClass"),
    "a PriorityClass of a wrong value": (
        load(wrong_priority),
        "priorities",
        "error",
        "PriorityClass gpuctl-high: PriorityClass gpuctl-high has value 7 instead of 1000000",
    ),
    "a missing PriorityClass": (
        delete("PriorityClass", "gpuctl-low"),
        "priorities",
        "error",
        "PriorityClass gpuctl-low: missing",
    ),
    "a role of a former version": (
        load(outdated_role),
        "permissions",
        "error",
        "ClusterRole gpuctl-read: missing permissions: get namespaces, list namespaces",
    ),
    "a namespace that is not gone": (
        load(deleted_namespace),
        "namespaces",
        "error",
        "namespace team-a: being deleted for over 10 minutes",
    ),
    "a pod that is not gone": (
        load(deleted_pod),
        "pods",
        "error",
        "pod default/sft-0: still terminating on node node-2",
    ),
    "a Service without its job": (
        load(left_behind),
        "orphans",
        "warning",
        "Service default/svc-sft: left behind: its job sft does not exist",
    ),
    "a training that was not created again": (
        load(replaced),
        "replacements",
        "error",
        "training default/sft: a task began to replace it at",
    ),
    "a Lease of a killed run": (
        load(lambda: lease("pools", "gpuctl-system", ago(hours=1), "ci-7")),
        "lease",
        "warning",
        "Lease gpuctl-system/pools: held since",
    ),
}


def findings(result: Row) -> list[tuple[str, str, str]]:
    return [
        (check["check"], each["level"], f"{each['place']}: {each['problem']}")
        for check in result["checks"]
        for each in check["findings"]
    ]


def test_a_healthy_cluster(cluster: Cluster) -> None:
    result = examine(cluster, fail_on="warning")
    assert findings(result) == []
    assert {check["check"]: check["reason"] for check in result["checks"] if check["status"] != "ok"} == {}
    assert result["msg"] == f"{len(result['checks'])} checks: nothing wrong."
    assert result["passed"]
    assert cluster.requests.writes() == []
    assert sum(cluster.requests.counts().values()) <= 17


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect(cluster: Cluster, defect: str) -> None:
    plant, check, level, words = DEFECTS[defect]
    plant(cluster)
    result = examine(cluster)
    found = findings(result)
    assert [(name, bad) for name, bad, text in found if words in text] == [(check, level)], found
    assert len(found) == 1, found
    assert result.get("failed", False) == (level == "error")
    assert examine(cluster, fail_on="warning")["failed"]
    assert not examine(cluster, fail_on="never").get("failed")


def test_a_prometheus_that_the_environment_names(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked, whether or not one is in the cluster."""
    with prometheus_double(lambda asked: vector(({}, "1"))) as server:
        monkeypatch.setenv("GPUCTL_PROMETHEUS_URL", server.url)
        delete("Service", "prometheus-operated", "kube-system")(cluster)
        assert findings(examine(cluster)) == []
    ((check, level, text),) = findings(examine(cluster))
    assert (check, level) == ("prometheus", "warning")
    assert text.startswith(f"connection: cannot reach Prometheus at {server.url}")


def test_an_old_api_server(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERSION, "gitVersion", "v1.22.17")
    for name in ("node-1", "node-2"):
        found = {**node(cluster, name), "kind": "Node"}
        found["status"]["nodeInfo"]["kubeletVersion"] = "v1.22.17"
        cluster.load([found])
    result = examine(cluster)
    assert findings(result) == [("api_version", "error", "API server: Kubernetes v1.22.17 is too old")]
    assert result["failed"]


def test_the_metrics_api() -> None:
    with Cluster(nodes=1, controllers=False).running() as cluster:
        assert ("metrics_api", "warning", "cluster: no metrics API (metrics.k8s.io)") in findings(examine(cluster))


CUSTOM, GPU_UTILIZATION = "custom.metrics.k8s.io", "DCGM_FI_DEV_GPU_UTIL"


def autoscaler(**status: Any) -> Row:
    metric = {"metric": {"name": GPU_UTILIZATION}, "target": {"type": "AverageValue", "averageValue": "80"}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    return {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "default", "labels": {**OURS, "app": "chat"}},
        "spec": {"scaleTargetRef": target, "maxReplicas": 4, "metrics": [{"type": "Pods", "pods": metric}]},
        "status": status,
    }


FAILED = {
    "type": "ScalingActive",
    "status": "False",
    "reason": "FailedGetPodsMetric",
    "message": "no metrics returned",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def unavailable(cluster: Cluster) -> None:
    why = {"reason": "FailedDiscoveryCheck", "message": "failing or missing response: connection refused"}
    spec = {"group": CUSTOM, "version": "v1beta2", "service": {"name": "adapter", "namespace": "monitoring"}}
    condition = {"type": "Available", "status": "False", "lastTransitionTime": ago(), **why}
    metadata = {"name": f"v1beta2.{CUSTOM}"}
    cluster.load([{"kind": "APIService", "metadata": metadata, "spec": spec, "status": {"conditions": [condition]}}])


def without_values(cluster: Cluster) -> None:
    cluster.call(lambda: cluster.serve_metric(GPU_UTILIZATION, lambda _pod: None))


def with_values(cluster: Cluster) -> None:
    pod = managed("Pod", "chat-1", "default", metadata={"labels": {**OURS, "app": "chat"}}, spec={"containers": []})
    cluster.load([pod])
    cluster.call(lambda: cluster.serve_metric(GPU_UTILIZATION, 50))


def nothing_planted(_cluster: Cluster) -> None:
    pass


@pytest.mark.parametrize(
    ("addons", "plant", "status", "problem", "hint"),
    [
        (set(), nothing_planted, {}, f"it is to scale by {GPU_UTILIZATION}, but nothing serves {CUSTOM}", "Install "),
        (
            {"custom-metrics"},
            unavailable,
            {},
            f"it is to scale by {GPU_UTILIZATION}, but v1beta2.{CUSTOM} is not available: failing or missing response: "
            f"connection refused",
            "See the pods of service monitoring/adapter, and their logs.",
        ),
        (
            {"custom-metrics"},
            nothing_planted,
            {"currentReplicas": 1},
            f"it is to scale by {GPU_UTILIZATION}, but {CUSTOM} does not list it",
            "Check whether Prometheus has namespace_pod_uuid:runwhere_gpu_utilization:ratio of its pods. no Prom",
        ),
        (
            {"custom-metrics"},
            without_values,
            {"currentReplicas": 1},
            f"it is to scale by {GPU_UTILIZATION}, but there is no value of its pods",
            "Check whether Prometheus has ",
        ),
        # A paused service has no pods, so no values.
        ({"custom-metrics"}, without_values, {"currentReplicas": 0}, None, ""),
        (
            {"custom-metrics"},
            with_values,
            {"currentReplicas": 1, "conditions": [FAILED]},
            "its autoscaler has not worked since 2026-01-01T00:00:00Z: no metrics returned",
            "Check that prometheus-adapter or KEDA serves this metric.",
        ),
        ({"custom-metrics"}, with_values, {"currentReplicas": 1}, None, ""),
    ],
)
def test_what_services_scale_by_is_served(
    addons: set[str], plant: Callable[[Cluster], None], status: Row, problem: str | None, hint: str
) -> None:
    with Cluster(nodes=1, controllers=False, addons=addons).running() as cluster:
        cluster.load([autoscaler(**status)])
        plant(cluster)
        found = findings_of("autoscalers", examine(cluster))
    places = [(finding["place"], finding["problem"]) for finding in found]
    assert places == ([("chat in namespace default", problem)] if problem else [])
    assert all(finding["hint"].startswith(hint) for finding in found), found


@pytest.mark.parametrize(
    ("recorded", "exported", "hint"),
    [
        (True, True, "Prometheus has it. Give prometheus-adapter the rules of the role monitoring ("),
        (False, True, "Prometheus has it from the exporter, but not the recorded series. Run the role monitoring"),
        (False, False, "Prometheus has no utilization of its pods. Check that it scrapes the exporter on their nodes."),
    ],
)
def test_prometheus_is_asked_for_what_the_adapter_lacks(recorded: bool, exported: bool, hint: str) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.parameters["query"].startswith("count by(namespace,job_name)"):
            return vector(({"namespace": "default", "job_name": "chat"}, "1")) if recorded else vector()
        return vector(({"namespace": "default", "pod": "chat-1"}, "0.5")) if exported else vector()

    with (
        Cluster(nodes=1, controllers=False, addons={"custom-metrics"}).running() as cluster,
        prometheus_double(answer) as prometheus,
    ):
        cluster.load([autoscaler(currentReplicas=1)])
        (finding,) = findings_of("autoscalers", examine(cluster, prometheus_url=prometheus.url))
    assert finding["hint"].startswith(hint)


def test_nothing_more_is_read_for_services_that_scale_by_cpu(cluster: Cluster) -> None:
    examine(cluster)
    before = [entry.path for entry in cluster.requests]
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    by_cpu = autoscaler()
    by_cpu["spec"]["metrics"] = [{"type": "Resource", "resource": metric}]
    cluster.load([by_cpu])
    examine(cluster)
    assert sorted(entry.path for entry in cluster.requests) == sorted(before)


def test_an_autoscaler_of_keda_is_asked_for_by_the_labels_of_its_metric() -> None:
    with Cluster(nodes=1, controllers=False, addons={"external-metrics", "keda"}).running() as cluster:
        labels = {"scaledobject.keda.sh/name": "chat"}
        metric = {"metric": {"name": "s0-prometheus", "selector": {"matchLabels": labels}}}
        metric["target"] = {"type": "AverageValue", "averageValue": "80"}
        by_queue = autoscaler(currentReplicas=1)
        by_queue["spec"]["metrics"] = [{"type": "External", "external": metric}]
        cluster.load([by_queue])
        (finding,) = findings_of("autoscalers", examine(cluster))
        assert finding["problem"] == "it is to scale by s0-prometheus, but there is no value of its pods"
        cluster.call(lambda: cluster.served.external.update({"s0-prometheus": 120}))
        assert findings_of("autoscalers", examine(cluster)) == []


@pytest.mark.parametrize(
    ("conditions", "created", "problem"),
    [
        ([{"type": "Ready", "status": "True"}], {"hours": 1}, None),
        (
            [{"type": "Ready", "status": "False", "message": "ScaledObject doesn't have correct scaleTargetRef"}],
            {"hours": 1},
            "not ready: ScaledObject doesn't have correct scaleTargetRef",
        ),
        ([], {"hours": 1}, "KEDA has not looked at it for 10 minutes"),
        ([], {"minutes": 1}, None),
    ],
)
def test_scaled_objects_are_ready(conditions: list[Row], created: dict[str, float], problem: str | None) -> None:
    metadata = {"creationTimestamp": ago(**created)}
    obj = managed("ScaledObject", "chat", "default", metadata=metadata, status={"conditions": conditions})
    with Cluster(nodes=1, controllers=False, addons={"keda"}).running() as cluster:
        cluster.load([obj])
        found = findings_of("scaled_objects", examine(cluster))
    assert [finding["problem"] for finding in found] == ([problem] if problem else [])


def findings_of(name: str, result: Row) -> list[Row]:
    assert "checks" in result, result
    (check,) = [check for check in result["checks"] if check["check"] == name]
    assert check["status"] != "unknown", check["reason"]
    return list(check["findings"])


def test_what_may_not_be_read_is_said_to_be_unknown(cluster: Cluster) -> None:
    result = examine(cluster, LAB_USER_TOKEN)
    status = {check["check"]: check["status"] for check in result["checks"]}
    assert not result.get("failed"), result["msg"]
    assert status.pop("api_version") == status.pop("controller_clock") == "ok"
    assert status.pop("scaled_objects") == "ok", "there is no KEDA"
    assert set(status.values()) == {"unknown"}
    (storage,) = [check for check in result["checks"] if check["check"] == "storage"]
    assert storage["missing"] == ["list storageclasses.storage.k8s.io in the whole cluster"]
    assert storage["reason"] == f"Missing permission: {storage['missing'][0]}."
    assert result["hint"].count("An administrator grants them with: ") == 1
    assert result["hint"].count("ansible localhost") == 1
    assert result["hint"].endswith('level=read append=true"')
    assert result["counts"] == {"error": 0, "warning": 0, "unknown": len(status)}


def test_a_clock_of_the_controller(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor import snapshot

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Wrong:
            return cls.fromtimestamp(time.time() - 120, tz)

    monkeypatch.setattr(snapshot, "datetime", Wrong)
    (found,) = findings(examine(cluster))
    assert found[:2] == ("controller_clock", "warning")
    assert "s behind that of the API server" in found[2]


# -- through the front door --------------------------------------------------------------------------------------------


def test_the_playbook(ansible: Ansible, api: Api, recorder: Recorder, tmp_path: Path) -> None:
    """It fails with a summary, prints what to do, and has only read."""
    make_priority_classes(api)
    wide = Ansible(ansible.directory, {**ansible.environment, "COLUMNS": "300"})
    with account(api, READ) as own:
        recorder.identity = own
        recorder.clear()
        run = wide.run("ansible-playbook", "runwhere.gpuctl.doctor", "-e", "gpuctl_fail_on=warning")
    assert run.status == 2, run.output
    assert "no default StorageClass" in run.output or "no StorageClass" in run.output
    assert "metrics API (warning): cluster: no metrics API (metrics.k8s.io). Install metrics-server." in run.output
    assert "0 unknown" not in run.output
    assert "; 1 not known" not in run.output
    assert {request.method for request in recorder.requests} == {"GET"}


def test_a_role_that_is_outdated_anywhere(ansible: Ansible, api: Api, recorder: Recorder) -> None:
    recorder.identity = api
    name = cluster_roles(ADMINISTER)[0]["metadata"]["name"]
    before = api.get("clusterrole", name)["rules"]
    api.patch("clusterrole", name, {"rules": before[1:]})
    try:
        result = ansible.module("gpuctl_doctor", fail_on="never").result
    finally:
        api.patch("clusterrole", name, {"rules": before})
    assert any(check == "permissions" and f"ClusterRole {name}" in text for check, _level, text in findings(result))


def test_defects_of_any_cluster(ansible: Ansible, api: Api, namespace: str, recorder: Recorder) -> None:
    recorder.identity = api
    (name, *_others) = [obj["metadata"]["name"] for obj in api.list("node")]
    ledger, job = replaced(), in_queue()
    ledger["metadata"]["namespace"] = job["metadata"]["namespace"] = namespace
    job["spec"]["suspend"] = True
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    job["metadata"]["name"] = job["metadata"]["labels"]["app"] = "queued"
    api.create("configmap", ledger, namespace)
    api.create("job", job, namespace)
    api.patch("node", name, {"metadata": {"labels": {"nvidia.com/gpu.count": "3"}}})
    try:
        recorder.clear()
        found = findings(ansible.module("gpuctl_doctor", fail_on="never").result)
        assert {request.method for request in recorder.requests} == {"GET"}
    finally:
        api.patch("node", name, {"metadata": {"labels": {"nvidia.com/gpu.count": None}}})
    assert any(text.startswith(f"jobs in namespace {namespace}: kueue is not installed") for *_check, text in found)
    assert any(text.startswith(f"training {namespace}/sft: a task began to replace it at") for *_check, text in found)
    assert any(text.startswith(f"{name}: label nvidia.com/gpu.count says 3") for *_check, text in found)
