# SPDX-License-Identifier: BSD-2-Clause
"""Exporters: what Prometheus finds and scrapes."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from kubesim import Cluster
from kubesim.metrics.kube_state import AllowList, prometheus_labels
from kubesim.metrics.load import Curve, Profiles

Series = dict[str, str]
_LINE = re.compile(r"([^{ ]+)(?:\{(.*)\})? (\S+)")


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=2, mixed_nodes=True).running() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.release()
    for pod in shared.call(lambda: shared.registry.list("Pod", "default")):
        name = pod["metadata"]["name"]
        shared.call(lambda name=name: shared.registry.delete("Pod", "default", name))
    _eventually(lambda: not shared.call(lambda: shared.registry.list("Pod", "default")))


def ask(cluster: Cluster, path: str, method: str = "GET", body: Any = None, **options: str) -> str:
    query = f"?{urllib.parse.urlencode(options)}" if options else ""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(cluster.url + path + query, data, method=method)) as answer:
        text: str = answer.read().decode()
        return text


def scrape(cluster: Cluster, exporter: str, place: str, **options: str) -> dict[str, list[tuple[Series, float]]]:
    """The samples by name."""
    found: dict[str, list[tuple[Series, float]]] = {}
    for line in ask(cluster, f"/_sim/metrics/{exporter}/{place}", **options).splitlines():
        if not line.startswith("#"):
            name, labels, value = _LINE.fullmatch(line).groups()  # type: ignore[union-attr]
            found.setdefault(name, []).append((dict(re.findall(r'([^=,]+)="([^"]*)"', labels or "")), float(value)))
    return found


def start(cluster: Cluster, name: str, node: str = "node-1", image: str = "busybox", **resources: str) -> None:
    """A running pod that holds devices."""
    asked = {key.replace("__", "/").replace("_", "."): value for key, value in resources.items()}
    pod = {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name, "runwhere.ai/gpuType": "x"}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": image, "resources": {"requests": asked, "limits": asked}}],
        },
    }
    cluster.call(lambda: cluster.registry.create("Pod", pod))
    _eventually(
        lambda: cluster.call(lambda: cluster.registry.get("Pod", "default", name))["status"]["phase"] == "Running"
    )


def _eventually(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def of(samples: list[tuple[Series, float]], **labels: str) -> list[float]:
    return [value for own, value in samples if labels.items() <= own.items()]


def test_a_pod_is_named_on_the_gpus_that_it_holds(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="2")
    used = scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_FB_USED"]
    assert [own.get("pod") for own, _ in used] == ["train", "train", *[None] * 6]
    assert of(used, pod="train", namespace="default", container="main", Hostname="node-1") == [18423, 18423]
    assert of(used, gpu="7") == [0]


def test_a_gpu_is_free_when_its_pod_has_gone(cluster: Cluster) -> None:
    start(cluster, "first", nvidia_com__gpu="1")
    start(cluster, "second", nvidia_com__gpu="1")
    cluster.call(lambda: cluster.registry.delete("Pod", "default", "first"))
    _eventually(lambda: not cluster.call(lambda: cluster.registry.get("Pod", "default", "first")))
    start(cluster, "third", nvidia_com__gpu="2")
    power = scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_POWER_USAGE"]
    assert [own.get("pod") for own, _ in power][:4] == ["third", "second", "third", None]


def test_options_make_other_worlds(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="1")
    usual = scrape(cluster, "dcgm-exporter", "node-1")
    other = scrape(cluster, "dcgm-exporter", "node-1", hostname="hostname", profiling="false", pod_labels="true")
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in usual
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" not in other
    own = other["DCGM_FI_DEV_GPU_UTIL"][0][0]
    assert own["hostname"] == "node-1"
    assert own["runwhere_ai_gpuType"] == "x"
    assert "pod" not in scrape(cluster, "dcgm-exporter", "node-1", pods="false")["DCGM_FI_DEV_GPU_UTIL"][0][0]


def test_mig_devices_have_no_utilization_but_that_of_profiling(cluster: Cluster) -> None:
    start(cluster, "small", "mig-1", **{"nvidia_com__mig-1g_10gb": "1"})
    found = scrape(cluster, "dcgm-exporter", "mig-1")
    assert len(found["DCGM_FI_DEV_GPU_UTIL"]) == 4  # the whole ones
    assert len(found["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]) == 4 + 14 + 4
    (own,) = (own for own, _ in found["DCGM_FI_DEV_FB_USED"] if own.get("pod") == "small")
    assert (own["GPU_I_PROFILE"], own["GPU_I_ID"], own["gpu"]) == ("1g.10gb", "7", "4")
    keys = {(own["UUID"], own.get("GPU_I_ID")) for own, _ in found["DCGM_FI_DEV_FB_USED"]}
    assert len(keys) == 22


def test_curves_drive_what_is_measured(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="1")
    cluster.drive(job="train", temperature=86, utilization=40, memory=1000)
    found = scrape(cluster, "dcgm-exporter", "node-1")
    assert of(found["DCGM_FI_DEV_GPU_TEMP"], pod="train") == [86]
    assert of(found["DCGM_FI_DEV_GPU_UTIL"], pod="train") == [40]
    assert of(found["DCGM_FI_DEV_FB_USED"], pod="train") == [1000]
    assert of(found["DCGM_FI_DEV_GPU_TEMP"], gpu="1") == [34]
    newer = cluster.drive(node="node-1", gpu=1, temperature=90)
    assert of(scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_GPU_TEMP"], gpu="1") == [90]
    cluster.release(newer)
    assert of(scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_GPU_TEMP"], gpu="1") == [34]


def test_curves_come_from_other_processes_too(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="1")
    answer = json.loads(ask(cluster, "/_sim/load", "POST", {"job": "train", "temperature": [[0, 86]]}))
    assert of(scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_GPU_TEMP"], pod="train") == [86]
    ask(cluster, f"/_sim/load/{answer['number']}", "DELETE")
    assert of(scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_GPU_TEMP"], pod="train") != [86]
    with pytest.raises(urllib.error.HTTPError) as refusal:
        ask(cluster, "/_sim/load", "POST", {"heat": 86})
    assert json.loads(refusal.value.read())["error"].startswith("unknown option: heat. Valid options: ")


def test_counters_never_go_down_when_curves_change(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="1", image="vllm/vllm-openai")

    def counters() -> list[float]:
        energy = scrape(cluster, "dcgm-exporter", "node-1")["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
        network = scrape(cluster, "cadvisor", "node-1")["container_network_receive_bytes_total"]
        tokens = scrape(cluster, "program", "default/train")["vllm:generation_tokens_total"]
        return [*of(energy, pod="train"), *of(network, pod="train"), *of(tokens)]

    before = counters()
    cluster.drive(job="train", utilization=0, power=0)
    after = counters()
    assert len(before) == 3
    assert all(old <= new for old, new in zip(before, after, strict=True))


def test_targets_have_the_labels_of_the_operator(cluster: Cluster) -> None:
    targets = json.loads(ask(cluster, "/_sim/targets/dcgm-exporter", hostname="hostname"))
    labels = {target["labels"]["instance"]: target["labels"] for target in targets}
    assert {"node-1:9400", "mig-1:9400"} <= set(labels)
    assert "amd-1:9400" not in labels
    own = labels["node-1:9400"]
    assert own["__param_hostname"] == "hostname"
    assert (own["job"], own["namespace"]) == ("nvidia-dcgm-exporter", "gpu-operator")
    assert own["pod"].startswith("nvidia-dcgm-exporter-")


@pytest.mark.parametrize(
    ("exporter", "node", "resource", "metric", "pod"),
    [
        ("amd", "amd-1", "amd_com__gpu", "gpu_gfx_activity", "pod"),
        ("npu-exporter", "ascend-1", "huawei_com__Ascend910", "npu_chip_info_utilization", "pod_name"),
        ("hami", "hami-1", "nvidia_com__gpu", "hami_container_device_utilization_ratio", "pod"),
    ],
)
def test_vendors_name_the_pod(cluster: Cluster, exporter: str, node: str, resource: str, metric: str, pod: str) -> None:
    start(cluster, "train", node, **{resource: "1"})
    cluster.drive(job="train", utilization=30)
    assert of(scrape(cluster, exporter, node)[metric], **{pod: "train"}) == [30]


def test_kube_state_metrics_has_labels_only_as_allowed(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="2")
    bare = scrape(cluster, "kube-state-metrics", "cluster")
    own = {"namespace": "default", "pod": "train"}
    assert [set(labels) for labels, _ in bare["kube_pod_labels"] if own.items() <= labels.items()] == [
        {"namespace", "pod", "uid"}
    ]
    assert of(bare["kube_pod_status_phase"], **own, phase="Running") == [1]
    assert of(bare["kube_pod_container_resource_requests"], **own, resource="nvidia_com_gpu", node="node-1") == [2]
    full = scrape(cluster, "kube-state-metrics", "cluster", metric_labels_allowlist="pods=[app],nodes=[*]")
    assert of(full["kube_pod_labels"], **own, label_app="train") == [1]
    assert of(full["kube_node_labels"], node="node-1", label_kubernetes_io_hostname="node-1") == [1]


def test_keys_that_become_the_same_are_numbered() -> None:
    keys = {"runwhere.ai/gpu-type": "a", "runwhere.ai/gpuType": "b", "app": "c"}
    assert prometheus_labels("label", keys) == {
        "label_app": "c",
        "label_runwhere_ai_gpu_type_conflict1": "a",
        "label_runwhere_ai_gpu_type_conflict2": "b",
    }
    assert AllowList("pods=[runwhere.ai/gpuType]").labels("pods", keys) == {"label_runwhere_ai_gpu_type": "b"}


@pytest.mark.parametrize(("status", "answers"), [("Unknown", False), ("False", True)])
def test_no_kubelet_answers_on_a_node_whose_kubelet_has_gone(status: str, answers: bool) -> None:
    with Cluster(nodes=1, controllers=False).running() as cluster:

        def set_ready(node: Any) -> None:
            next(each for each in node["status"]["conditions"] if each["type"] == "Ready")["status"] = status

        cluster.call(lambda: cluster.registry.modify("Node", None, "node-1", set_ready, subresource="status"))
        if answers:
            assert scrape(cluster, "dcgm-exporter", "node-1")
        else:
            with pytest.raises(urllib.error.HTTPError, match="404"):
                scrape(cluster, "dcgm-exporter", "node-1")


def test_programs_show_what_they_are_configured_to(cluster: Cluster) -> None:
    start(cluster, "train", nvidia_com__gpu="1")
    assert json.loads(ask(cluster, "/_sim/targets/program")) == []
    cluster.drive(job="train", program={"train_tokens_total": 1000, "train_loss": 2.5})
    (target,) = json.loads(ask(cluster, "/_sim/targets/program"))
    assert target["labels"]["__metrics_path__"] == "/_sim/metrics/program/default/train"
    assert of(scrape(cluster, "program", "default/train")["train_loss"]) == [2.5]


def test_a_curve_and_its_integral() -> None:
    curve = Curve([(0, 0), (10, 100), (20, 0)], repeat=40)
    assert [curve.at(second) for second in (0, 5, 10, 15, 30, 45)] == [0, 50, 100, 50, 0, 50]
    assert curve.integral(0, 10) == 500
    assert curve.integral(5, 45) == pytest.approx(1000)
    assert curve.integral(0, 85) == pytest.approx(2 * 1000 + 125)
    assert Curve([(10, 4), (20, 8)]).integral(0, 30) == 40 + 60 + 80


def test_what_follows_from_utilization_is_integrated_exactly() -> None:
    profiles = Profiles()
    profiles.add(utilization=[[0, 0], [100, 100]])
    load = profiles.of({"metadata": {"namespace": "x", "name": "y"}}, started=1000.0)
    assert load.at("power", 1050.0) == 62 + 3.2 * 50
    assert load.integral("power", 1000.0, 1100.0) == pytest.approx(100 * (62 + 3.2 * 50))


def test_a_rule_that_begins_later_splits_the_integral() -> None:
    profiles = Profiles()
    profiles.add(power=100)
    profiles.add(power=[[0, 300]], since=1050.0)
    load = profiles.of({"metadata": {"namespace": "x", "name": "y"}}, started=1000.0)
    assert [load.at("power", moment) for moment in (1049.0, 1050.0)] == [100, 300]
    assert load.integral("power", 1000.0, 1100.0) == 50 * 100 + 50 * 300
