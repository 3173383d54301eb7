# SPDX-License-Identifier: BSD-2-Clause
"""The real Prometheus and Alertmanager over the exporters of the simulated cluster, in the worlds that there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from . import monitoring
from .monitoring import World

pytestmark = monitoring.needs_programs


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With a job on two of the eight GPUs of its only node."""
    pod = {
        "metadata": {"name": "train-0", "namespace": "default", "labels": {"app": "train"}},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    }
    with Cluster(nodes=1, tls=True).running() as cluster:
        cluster.drive(job="train", utilization=60, temperature=86)
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


def test_an_alert_reaches_the_webhook_once(cluster: Cluster, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(
        "groups: [{name: x, rules: [{alert: Hot, expr: max by (instance) (DCGM_FI_DEV_GPU_TEMP) >= 85, for: 3s}]}]"
    )
    with (
        monitoring.alertmanager(tmp_path / "alertmanager") as manager,
        monitoring.prometheus(tmp_path, cluster.url, rules=[rules], alertmanager=manager.url) as server,
    ):
        (payload,) = manager.webhook.wait_for()
        assert payload["status"] == "firing"
        assert payload["commonLabels"] == {"alertname": "Hot", "instance": "node-1:9400"}
        assert server.query('ALERTS{alertname="Hot", alertstate="firing"}')
