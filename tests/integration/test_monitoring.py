# SPDX-License-Identifier: BSD-2-Clause
"""The real Prometheus and Alertmanager over the exporters of the simulated cluster, in the worlds that there are."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster, past_pod

from tools.tree import ROOT

from . import monitoring
from .monitoring import World

FILTER = ROOT / ".cache/collections/ansible_collections/runwhere/gpuctl/extensions/eda/plugins/event_filter/alert.py"
pytestmark = monitoring.needs_prometheus


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With a job on two of the eight GPUs of its only node."""
    pod = {
        "metadata": {"name": "train-0", "namespace": "default", "labels": {"app": "train"}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    }
    with Cluster(nodes=1, tls=True).running() as cluster:
        cluster.drive(job="train", utilization=60, temperature=70)
        cluster.call(lambda: cluster.registry.create("Pod", pod))
        yield cluster


def labels(result: list[dict[str, Any]], *names: str) -> set[tuple[str | None, ...]]:
    return {tuple(one["metric"].get(name) for name in names) for one in result}


@pytest.mark.parametrize(
    ("world", "pod", "free"),
    [
        (World(honor_labels=False), "exported_pod", None),
        # A free GPU gets the labels of the target.
        (World(honor_labels=True, hostname="hostname", profiling=False), "pod", "nvidia-dcgm-exporter"),
    ],
)
def test_honor_labels_decides_whose_pod_it_is(
    cluster: Cluster, tmp_path: Path, world: World, pod: str, free: str | None
) -> None:
    with monitoring.prometheus(tmp_path, cluster.url, world) as server:
        server.wait_until_scraped()
        gpus = server.wait_for("DCGM_FI_DEV_GPU_TEMP", lambda found: ("train-0",) in labels(found, pod))
        assert len(gpus) == 8
        assert {value for (value,) in labels(gpus, world.hostname)} == {"node-1"}
        of_free = labels([gpu for gpu in gpus if gpu["metric"].get(pod) != "train-0"], pod)
        assert len(of_free) == 1
        assert str(of_free.pop()[0]).startswith(str(free))
        assert bool(server.query("DCGM_FI_PROF_GR_ENGINE_ACTIVE")) is world.profiling
        assert server.value(f'avg(DCGM_FI_DEV_GPU_UTIL{{{pod}="train-0"}})') == 60
        assert server.value('kube_pod_labels{label_app="train"}') == 1


@monitoring.needs_alertmanager
def test_a_gpu_at_86_degrees_is_one_event_of_a_rulebook(cluster: Cluster, tmp_path: Path) -> None:
    """By the rule of the collection, Prometheus, Alertmanager and the event filter, with seconds for minutes."""
    rules = monitoring.shipped_rules(tmp_path / "rules.yml", {"GpuTemperatureHigh": {"for": "4s"}}, "2s")
    hot = cluster.drive(node="node-1", gpu=7, temperature=86)
    with (
        monitoring.alertmanager(tmp_path / "alertmanager", repeating) as manager,
        monitoring.prometheus(tmp_path, cluster.url, rules=[rules], alertmanager=manager.url, interval="2s") as server,
    ):
        (alert,) = server.wait_for('ALERTS{alertname="GpuTemperatureHigh"}')
        assert (alert["metric"]["gpu"], alert["metric"]["hostname"]) == ("7", "node-1")
        # Alertmanager says it again and again: a rulebook hears it once.
        manager.webhook.wait_for(lambda payloads: len(payloads) >= 3)
        cluster.release(hot)
        payloads = manager.webhook.wait_for(lambda payloads: payloads[-1]["status"] == "resolved")
    alert_filter = runpy.run_path(str(FILTER))["main"]
    events = [event for payload in payloads for event in alert_filter({"payload": payload, "meta": {}})]
    assert [(event["type"], event["alert"], event["status"]) for event in events] == [
        ("alert", "GpuTemperatureHigh", "firing"),
        ("alert", "GpuTemperatureHigh", "resolved"),
    ]
    assert events[0]["message"] == "GPU 7 of node node-1 is 86 °C hot"


def repeating(url: str) -> dict[str, Any]:
    config = monitoring.alertmanager_config(url)
    config["route"] |= {"group_interval": "1s", "repeat_interval": "1s"}
    return config


def test_hours_can_be_asked_for_without_waiting_for_them(tmp_path: Path) -> None:
    """Two jobs in a day: one on 2 GPUs for 3 hours, one on 4 GPUs for an hour that was deleted while it ran."""
    day = 1_699_228_800.0
    hour = 3600.0
    gpus = "nvidia.com/gpu"
    first = past_pod(
        "first-0",
        node="node-1",
        created=day + hour,
        started=day + hour + 60,
        ended=day + 4 * hour,
        resources={gpus: "2"},
        labels={"app": "first"},
    )
    second = past_pod(
        "second-0",
        node="node-1",
        created=day + 2 * hour,
        started=day + 2 * hour,
        resources={gpus: "4"},
        labels={"app": "second"},
    )
    with Cluster(nodes=1).running() as cluster:
        cluster.remember([(first, None), (second, day + 3 * hour)])
        cluster.drive(job="first", utilization=50)
        names = (
            "kube_pod_(labels|status_phase|container_resource_requests)|DCGM_FI_DEV_(GPU_UTIL|TOTAL_ENERGY_CONSUMPTION)"
        )
        blocks = monitoring.backfill(tmp_path, cluster, day, day + 24 * hour, names=names)
    held = (
        'sum by (pod) (kube_pod_container_resource_requests{resource="nvidia_com_gpu"} * on (namespace, pod) '
        'group_left () max by (namespace, pod) (kube_pod_status_phase{phase=~"Pending|Running"} == 1))'
    )
    with monitoring.prometheus(tmp_path, blocks=blocks) as server:
        hours = server.query(f"sum_over_time(({held})[86399s:1m]) / 60", at=day + 24 * hour)
        assert {one["metric"]["pod"]: float(one["value"][1]) for one in hours} == {"first-0": 6.0, "second-0": 4.0}
        busy = 'avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL{exported_pod="first-0"}[6h]))'
        assert server.value(busy, at=day + 5 * hour) == pytest.approx(50 * 179 / 180)  # a minute to start
        idle = server.value('DCGM_FI_DEV_GPU_UTIL{gpu="0"}', at=day + 6 * hour)
        assert idle == 0
        energy = 'max(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0"}) / 1000'
        used = server.value(energy, at=day + 10 * hour) - server.value(energy, at=day)
        idle_watts, watts_at_half = 62, 62 + 50 * 3.2
        assert used == pytest.approx((10 * hour - 10740) * idle_watts + 10740 * watts_at_half)
        assert server.value('count(kube_pod_labels{label_app="second"})', at=day + 2.5 * hour) == 1
        assert server.query('kube_pod_labels{label_app="second"}', at=day + 3.2 * hour) == []
