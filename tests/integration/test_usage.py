# SPDX-License-Identifier: BSD-2-Clause
"""GPU-hours of a known schedule, with and without Prometheus, and what the playbook shows and writes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from .ansible import ROOT, Ansible
from .api import PATHS, Api
from .monitoring import Prometheus, needs_prometheus, prometheus, promtool
from .usage_schedule import (
    GPUS,
    NODES,
    RANGE,
    SLICE,
    TEAMS,
    WHOLE,
    ZERO,
    ScheduledPod,
    hours,
    job_object,
    openmetrics,
    pod_object,
    pod_status,
    schedule,
)

PODS = schedule()
ONE_PERCENT = 0.01


def text(seconds: float) -> str:
    return datetime.fromtimestamp(ZERO + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


WINDOW = {"start": text(0), "end": text(RANGE)}


class World:
    """A simulated cluster in which nothing moves by itself, and Ansible beside it."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        kubeconfig = directory / "kubeconfig"
        cluster.kubeconfig(kubeconfig)
        self.cluster = cluster
        self.api = Api(str(kubeconfig))
        self.ansible = Ansible(directory, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})

    def report(self, pod: ScheduledPod) -> None:
        path = f"{PATHS['pod'].format(pod.team)}/{pod.name}/status"
        status, answer = self.api.call("PATCH", path, {"status": pod_status(pod)}, "application/merge-patch+json")
        assert status == 200, answer

    def usage(self, **options: Any) -> dict[str, Any]:
        found = self.ansible.module("gpuctl_usage_info", **{"all_namespaces": True, **WINDOW, **options})
        assert not found.failed, found.message
        return found.result


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The cluster at the end of the schedule. What is gone was recorded before it went."""
    with Cluster(nodes=NODES, controllers=False).running() as cluster:
        world = World(cluster, tmp_path_factory.mktemp("usage"))
        api = world.api
        for team in TEAMS:
            api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
        for pod in {pod.job: pod for pod in PODS}.values():
            api.create("job", job_object(pod), pod.team)
        for pod in PODS:
            if pod.gone:
                api.create("pod", pod_object(pod), pod.team)
                world.report(pod)
        recorded = world.ansible.module("gpuctl_job_history", all_namespaces=True)
        assert not recorded.failed, recorded.message
        for pod in PODS:
            if pod.gone:
                api.delete("pod", pod.name, pod.team)
            else:
                api.create("pod", pod_object(pod), pod.team)
                world.report(pod)
        yield world


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    samples, blocks = directory / "samples", directory / "blocks"
    with samples.open("w") as file:
        file.writelines(openmetrics(PODS))
    promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(samples), str(blocks))
    with prometheus(directory / "run", blocks=blocks) as running:
        yield running


def by(result: dict[str, Any], key: str, column: str = "gpu_hours") -> dict[str, float]:
    return {row[key]: row[column] for row in result["results"] if row[column]}


def of_slices(result: dict[str, Any], key: str) -> dict[str, float]:
    found = {}
    for row in result["results"]:
        held = {each["resource"]: each["hours"] for each in row["accelerators"]}
        if held.get(SLICE):
            found[row[key]] = held[SLICE]
    return found


@pytest.mark.parametrize(("group", "attribute"), [("team", "team"), ("user", "user"), ("job", "job")])
def test_the_hours_are_exact_without_prometheus(world: World, group: str, attribute: str):
    result = world.usage(group_by=[group])
    expected, slices = hours(PODS, attribute, WHOLE), hours(PODS, attribute, SLICE)
    if group == "job":
        teams = {pod.job: pod.team for pod in PODS}
        expected, slices = (
            {f"{teams[job]}/{job}": value for job, value in each.items()} for each in (expected, slices)
        )
    assert by(result, group) == pytest.approx({key: value for key, value in expected.items() if value}, abs=1e-4)
    assert of_slices(result, group) == pytest.approx({key: value for key, value in slices.items() if value}, abs=1e-4)
    assert result["totals"]["estimated_hours"] == 0
    assert {row["busy_hours"] for row in result["results"]} == {None}
    assert result["totals"]["coverage"] is None
    assert "not known without Prometheus" in result["notes"][-1]


def test_what_jobs_that_yield_held_and_gave_back(world: World) -> None:
    """Others are preempted, too, and are counted for nothing that they gave."""
    totals = world.usage()["totals"]
    yielding = [pod for pod in PODS if pod.priority == "opportunistic"]
    preempted = [pod for pod in yielding if pod.preempted and 0 <= (pod.end or 0) < RANGE]
    assert len(preempted) < sum(pod.preempted for pod in PODS)
    assert totals["opportunistic_hours"] == pytest.approx(sum(pod.counted for pod in yielding), abs=1e-3)
    assert totals["opportunistic_hours"] > 1
    assert totals["gpus_given_back"] == sum(pod.amount for pod in preempted) > 0
    (pod, *_others) = preempted
    before = world.usage(start=text(0), end=text(pod.end or 0), group_by=["job"])
    (row,) = (row for row in before["results"] if row["job"] == f"{pod.team}/{pod.job}")
    assert (row["gpus_given_back"], row["opportunistic_hours"]) == (0, row["held_hours"])


def test_unallocated_hours_are_the_rest(world: World):
    """The simulated nodes have joined after the schedule, so there was nothing to hold by what Kubernetes knows."""
    assert world.usage()["capacity_hours"] == 0
    later = world.ansible.module("gpuctl_usage_info", range="1m", all_namespaces=True).result
    assert 0 <= later["unallocated_hours"] <= later["capacity_hours"] <= NODES * GPUS


@needs_prometheus
def test_the_hours_are_exact_by_prometheus_alone(server: Prometheus, tmp_path: Path):
    """All objects are gone, and no history has them."""
    with Cluster(nodes=0, controllers=False).running() as cluster:
        result = World(cluster, tmp_path).usage(prometheus_url=server.url)
    assert by(result, "team") == pytest.approx(hours(PODS, "team", WHOLE), rel=ONE_PERCENT)
    assert of_slices(result, "team") == pytest.approx(hours(PODS, "team", SLICE), rel=ONE_PERCENT)
    assert result["totals"]["queued_hours"] == pytest.approx(sum(pod.queued for pod in PODS), rel=ONE_PERCENT)
    assert result["totals"]["queued_hours"] > 1
    assert result["totals"]["estimated_hours"] == result["totals"]["held_hours"]
    assert any(note.startswith("100 % of the held hours are estimated: the end") for note in result["notes"])


@needs_prometheus
def test_busy_and_idle_are_apart_and_add_up(world: World, server: Prometheus):
    result = world.usage(prometheus_url=server.url, prices={"default": 2, SLICE: 0.5})
    assert by(result, "team") == pytest.approx(hours(PODS, "team", WHOLE), rel=1e-4)
    measured = [pod for pod in PODS if pod.measured]
    held = sum(pod.counted for pod in PODS)
    totals = result["totals"]
    assert totals["held_hours"] == pytest.approx(held, rel=1e-4)
    assert totals["busy_hours"] == pytest.approx(0.6 * sum(pod.counted for pod in measured), rel=ONE_PERCENT)
    assert totals["idle_hours"] == pytest.approx(0.4 * sum(pod.counted for pod in measured), rel=ONE_PERCENT)
    assert totals["coverage"] == pytest.approx(sum(pod.counted for pod in measured) / held, rel=ONE_PERCENT)
    assert totals["peak_memory_bytes"] == 40_000 * 2**20
    assert totals["energy_kwh"] == pytest.approx(0.34 * sum(pod.counted for pod in measured), rel=ONE_PERCENT)
    whole, slices = sum(hours(PODS, "team", WHOLE).values()), sum(hours(PODS, "team", SLICE).values())
    assert totals["cost"] == pytest.approx(2 * whole + 0.5 * slices, rel=1e-4)
    assert result["capacity_hours"] == pytest.approx(NODES * GPUS * RANGE / 3600, rel=ONE_PERCENT)
    assert result["unallocated_hours"] == pytest.approx(result["capacity_hours"] - whole, rel=ONE_PERCENT)


@needs_prometheus
def test_a_part_of_the_range_has_its_part_of_the_hours(world: World, server: Prometheus):
    since, until = 3600, 7200
    expected = sum(
        max(0, min(until, pod.end or RANGE) - max(since, pod.start)) / 3600 * pod.amount
        for pod in PODS
        if pod.resource == WHOLE
    )
    result = world.usage(start=text(since), end=text(until), prometheus_url=server.url)
    assert result["totals"]["gpu_hours"] == pytest.approx(expected, rel=1e-4)


@needs_prometheus
def test_each_month_is_counted_by_itself(world: World, server: Prometheus):
    """The first four hours of the schedule are in July."""
    options = {"group_by": ["month", "team"], "prometheus_url": server.url}
    result = world.usage(**options)
    parts = {"2026-07": (0, 4 * 3600), "2026-08": (4 * 3600, RANGE)}
    assert list(dict.fromkeys(row["month"] for row in result["results"])) == list(parts)
    for month, (since, until) in parts.items():
        own = world.usage(**{**options, "group_by": ["team"]}, start=text(since), end=text(until))["results"]
        assert [row for row in result["results"] if row["month"] == month] == [{"month": month, **row} for row in own]
    whole = world.usage(**{**options, "group_by": ["team"]})
    added = ("gpu_hours", "held_hours", "busy_hours", "idle_hours", "queued_hours", "capacity_hours")
    totals, expected = ({**each["totals"], **each} for each in (result, whole))
    assert {name: totals[name] for name in added} == pytest.approx({n: expected[n] for n in added}, rel=ONE_PERCENT)


@needs_prometheus
def test_the_playbook_prints_a_table_and_writes_files(world: World, server: Prometheus, tmp_path: Path):
    playbook = str(ROOT / "playbooks" / "usage.yml")
    given = {
        "gpuctl_start": WINDOW["start"],
        "gpuctl_end": WINDOW["end"],
        "gpuctl_group_by": "team",
        "gpuctl_all_namespaces": "true",
        "gpuctl_prices": "{default: 2}",
        "gpuctl_currency": "EUR",
        "gpuctl_prometheus_url": server.url,
    }
    options = [part for name, value in given.items() for part in ("-e", f'{{"{name}": "{value}"}}')]
    for name in ("usage.csv", "usage.html"):
        done = world.ansible.run("ansible-playbook", playbook, *options, "-e", f"gpuctl_output={tmp_path / name}")
        assert done.status == 0, done.output
        assert "TOTAL" in done.output
        assert max(len(line) for line in done.output.splitlines() if "team-" in line or "TOTAL" in line) <= 80
    rows = list(csv.DictReader(io.StringIO((tmp_path / "usage.csv").read_text(encoding="utf-8-sig"))))
    assert {row["team"]: float(row["gpu_hours"]) for row in rows} == pytest.approx(hours(PODS, "team", WHOLE), rel=1e-4)
    assert "<title>GPU usage by team</title>" in (tmp_path / "usage.html").read_text()
    refused = world.ansible.run("ansible-playbook", playbook, *options, "-e", f"gpuctl_output={tmp_path / 'usage.xls'}")
    assert refused.status != 0
    assert "Use a name that ends with .csv or .html." in refused.output
