# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_metrics_info against the real Prometheus over the exporters of a simulated cluster, in several worlds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.job_metrics import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from kubesim import Cluster

from . import manifests, monitoring
from .ansible import ROOT, Ansible
from .monitoring import Prometheus, World
from .tasks import perform

pytestmark = monitoring.needs_prometheus

WORLDS = {
    "labels of the exporter": World(),
    "labels of the workload": World(honor_labels=True, hostname="hostname"),
    "no profiling": World(profiling=False),
    "no labels of pods": World(allow_list=""),
}
Row = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two jobs on NVIDIA GPUs, one with a name like the other's."""
    with Cluster(nodes=2, tls=True).running() as cluster:
        cluster.drive(job="train", utilization=60, tensor=30, memory=10240, temperature=70, power=300, receive=1e6)
        cluster.drive(job="train-0", utilization=10)
        resources = {"gpu": 2, "node_count": 2}
        for definition in (
            manifests.training("train", resources=resources),
            manifests.training("train-0"),
            manifests.inference("serve", environment={"image": "vllm/vllm-openai:v1"}, metrics={"port": 8000}),
            manifests.compute("idle"),
            manifests.compute("web"),
        ):
            done = perform(JOB, cluster, definition=definition, wait=True, wait_timeout=60)
            assert not done.get("failed"), done["msg"]
        yield cluster


@pytest.fixture(scope="module", params=WORLDS)
def server(cluster: Cluster, request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Prometheus]:
    with monitoring.prometheus(tmp_path_factory.mktemp("prometheus"), cluster.url, WORLDS[request.param]) as server:
        server.wait_until_scraped()
        time.sleep(2.5)  # of the simulated exporters, for a rate
        yield server


def metrics(cluster: Cluster, server: Prometheus, name: str, **options: Any) -> Row:
    return perform(MODULE, cluster, name=name, prometheus_url=server.url, **options)


def summary(found: Row) -> dict[str, float]:
    """The last values by metric."""
    return {row["metric"] + row["labels"].get("direction", ""): row["at_end"] for row in found["summary"]}


def test_a_training_has_curves(cluster: Cluster, server: Prometheus) -> None:
    found = metrics(cluster, server, "train")
    assert not found.get("failed"), found["msg"]
    values = summary(found)
    assert values["utilization"] == pytest.approx(0.6)
    assert values["memory"] == 10240 * 2**20
    assert values["temperature"] == 70
    assert values["power"] == 4 * 300
    assert values.get("tensor_activity") == (pytest.approx(0.3) if server.world.profiling else None)
    assert ("tensor_activity" in found["missing"]) is not server.world.profiling
    assert found["job"]["kind"] == "training"
    assert found["missing"]["throughput"].startswith("the job serves none")
    assert "and throughput_query unless" in found["missing"]["throughput"]
    assert found["source"] == ("pod_labels" if server.world.allow_list else "pod_names")
    assert any("distinguished by their" in text for text in found["warnings"]) is not bool(server.world.allow_list)


@pytest.mark.parametrize(("aggregate", "count", "label"), [("pod", 2, "pod"), ("gpu", 4, "UUID")])
def test_curves_of_pods_and_gpus(cluster: Cluster, server: Prometheus, aggregate: str, count: int, label: str) -> None:
    found = metrics(cluster, server, "train", aggregate=aggregate, metrics=["utilization"])
    assert len({row["labels"][label] for row in found["series"]}) == len(found["series"]) == count
    assert all(row["points"][-1][1] == pytest.approx(0.6) for row in found["series"])
    assert [row["metric"] for row in found["summary"]] == ["utilization"]


def test_a_server_of_models_tells_its_tokens(cluster: Cluster, server: Prometheus) -> None:
    found = metrics(cluster, server, "serve", metrics=["throughput"])
    assert not found.get("failed"), found["msg"]
    (row,) = found["summary"]
    assert row["unit"] == "tokens per second"
    assert row["at_end"] > 0


def test_details_of_jobs_say_how_they_use_their_devices_now(cluster: Cluster, server: Prometheus) -> None:
    found = perform(INFO, cluster, namespaces=["default"], details=True, prometheus_url=server.url)
    use = {row["name"]: row["metrics"] for row in found["results"]}
    assert use["train"] == {"utilization": 0.6, "memory": 10240 * 2**20, "power": 1200, "temperature": 70}
    assert use["idle"] is None
    without = perform(INFO, cluster, namespaces=["default"], details=True)
    assert {row["metrics"] for row in without["results"]} == {None}


def test_the_playbook_describe_shows_curves_and_writes_a_page(
    cluster: Cluster, server: Prometheus, tmp_path: Path
) -> None:
    ansible = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig"))})
    page = tmp_path / "job.html"
    given = {"gpuctl_name": "train", "gpuctl_prometheus_url": server.url, "gpuctl_output": str(page)}
    run = ansible.run("ansible-playbook", str(ROOT / "playbooks" / "describe.yml"), "-e", json.dumps(given))
    assert run.status == 0, run.output
    assert "training train in namespace default" in run.output
    (line,) = [line for line in run.output.splitlines() if line.strip().startswith("Utilization")]
    assert line.split()[1:7] == ["60", "%", "60", "%", "60", "%"]
    assert "▅" in line
    text = page.read_text()
    assert "Utilization" in text
    assert "<svg" in text
    again = ansible.run("ansible-playbook", str(ROOT / "playbooks" / "describe.yml"), "-e", '{"gpuctl_name": "none"}')
    assert again.status == 2
    assert again.output.count("job not found: none. Check its name.") == 1 + again.output.count("[ERROR]")
    assert f"Written: {page}" in run.output
    assert 'class="top">100 %' in text


def test_a_job_that_waits_has_no_metrics_yet(cluster: Cluster, server: Prometheus) -> None:
    definition = manifests.training("waits", resources={"gpu": 64})
    try:
        assert not perform(JOB, cluster, definition=definition).get("failed")
        found = metrics(cluster, server, "waits")
    finally:
        perform(JOB, cluster, name="waits", state="absent", force=True)
    assert found["failed"]
    assert found["msg"] == "job waits in namespace default has no metrics: no pod has run yet. Wait until it runs."


ABSENCES: dict[str, tuple[World, Row, str]] = {
    "no exporter": (World(exporters=("kube-state-metrics",)), {}, "scrapes no exporter of accelerators"),
    "no pods": (World(exporters=("dcgm-exporter",), pods=False), {}, "does not say which pod uses a device"),
    "no such job": (World(), {"name": "missing"}, "job missing not found in namespace default"),
    "no GPUs, no exporter": (
        World(exporters=("kube-state-metrics",)),
        {"name": "web"},
        "job web in namespace default has no metrics: it requests no GPUs, and",
    ),
    "before its creation": (World(), {"start": "-3h", "end": "-2h"}, "the range ends before the job was created"),
}


@pytest.mark.parametrize("name", ABSENCES)
def test_where_there_is_nothing_the_task_says_why(cluster: Cluster, tmp_path: Path, name: str) -> None:
    world, options, text = ABSENCES[name]
    with monitoring.prometheus(tmp_path, cluster.url, world) as server:
        server.wait_until_scraped()
        found = metrics(cluster, server, **{"name": "train", "metrics": ["utilization"], **options})
    assert found["failed"]
    assert text in found["msg"]
