# SPDX-License-Identifier: BSD-2-Clause
"""What exporters would have shown of pods that were."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kubesim import Cluster, past_pod
from kubesim.metrics.history import versions
from kubesim.metrics.targets import scraped

T = 1_699_200_000.0
GPUS = {"nvidia.com/gpu": "2"}


def phases(pod: dict[str, Any], deleted: float = float("inf")) -> list[tuple[float, float, str, bool]]:
    return [
        (start - T, end - T, obj["status"]["phase"], "nodeName" in obj["spec"])
        for start, end, obj in versions(pod, deleted)
    ]


INF = float("inf")


@pytest.mark.parametrize(
    ("times", "deleted", "expected"),
    [
        ({}, INF, [(0, INF, "Pending", False)]),
        ({"node": "n"}, INF, [(0, INF, "Pending", True)]),
        ({"node": "n", "started": T + 10}, INF, [(0, 10, "Pending", True), (10, INF, "Running", True)]),
        (
            {"node": "n", "started": T + 10, "ended": T + 60},
            T + 90,
            [(0, 10, "Pending", True), (10, 60, "Running", True), (60, 90, "Succeeded", True)],
        ),
        ({"node": "n", "started": T}, T + 5, [(0, 5, "Running", True)]),
        (
            {"node": "n", "started": T, "ended": T + 5, "phase": "Failed"},
            INF,
            [(0, 5, "Running", True), (5, INF, "Failed", True)],
        ),
        ({"node": "n", "ended": T + 5, "phase": "Failed"}, INF, [(0, 5, "Pending", True), (5, INF, "Failed", True)]),
    ],
)
def test_a_pod_tells_its_history(times: dict[str, Any], deleted: float, expected: list[Any]) -> None:
    assert phases(past_pod("x", created=T, **times), deleted) == expected


def test_a_pod_waits_before_it_gets_its_node() -> None:
    pod = past_pod("x", created=T, node="n", started=T + 30)
    pod["status"]["conditions"][0]["lastTransitionTime"] = "2023-11-05T16:00:20Z"  # T + 20
    assert phases(pod) == [(0, 20, "Pending", False), (20, 30, "Pending", True), (30, INF, "Running", True)]


def read(paths: list[Path]) -> dict[str, list[tuple[float, float]]]:
    """Points by series, in the order in which promtool reads them."""
    found: dict[str, list[tuple[float, float]]] = {}
    for path in paths:
        lines = path.read_text().splitlines()
        assert lines[-1] == "# EOF"
        for line in lines[:-1]:
            name, value, moment = line.rsplit(" ", 2)
            found.setdefault(name, []).append((float(moment) - T, float(value)))
    return found


def test_series_begin_and_end_with_their_pod(tmp_path: Path) -> None:
    first = past_pod("first", created=T + 60, node="node-1", started=T + 120, ended=T + 300, resources=GPUS)
    second = past_pod("second", created=T + 240, node="node-1", started=T + 240, resources=GPUS)
    with Cluster(nodes=1).running() as cluster:
        cluster.remember([(first, None), (second, T + 420)])
        cluster.drive(name="first", utilization=[[0, 0], [180, 90]])
        cluster.drive(name="second", utilization=10)
        exporters = {"dcgm-exporter": ({}, False), "kube-state-metrics": ({}, True)}
        names = "DCGM_FI_DEV_GPU_UTIL|kube_pod_labels"
        found = read(cluster.write_history(tmp_path, T, T + 600, 60, exporters, names))
    of_gpu = {
        (
            re.search('gpu="(.)"', name)[1],
            "first" if '"first"' in name else "second" if '"second"' in name else "",
        ): points  # type: ignore[index]
        for name, points in found.items()
        if name.startswith("DCGM")
    }
    assert of_gpu["0", "first"] == [(60, 0), (120, 0), (180, 30), (240, 60)]
    assert of_gpu["2", "second"] == [(240, 10), (300, 10), (360, 10)]
    assert of_gpu["0", ""] == [(0, 0), *((second, 0) for second in range(300, 601, 60))]
    assert of_gpu["7", ""] == [(second, 0) for second in range(0, 601, 60)]
    infos = {name: points for name, points in found.items() if name.startswith("kube_pod_labels")}
    assert [[second for second, _ in points] for name, points in infos.items() if '"second"' in name] == [
        [240, 300, 360]
    ]


def test_what_is_asked_live_goes_on_where_the_past_ends() -> None:
    first = past_pod("first", created=T - 7200, node="node-1", started=T - 7200, ended=T - 3600, resources=GPUS)
    second = past_pod("second", created=T - 5000, node="node-1", started=T - 5000, resources=GPUS)
    with Cluster(nodes=1).running() as cluster:
        cluster.remember([(first, None), (second, None)])
        text = cluster.call(lambda: cluster._backend.exporters.text("dcgm-exporter", "node-1", {}))
    held = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_GPU_UTIL") and 'pod="second"' in line]
    assert [re.search('gpu="(.)"', line)[1] for line in held] == ["2", "3"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("labels", "honor", "expected"),
    [
        ({"pod": "a"}, False, {"pod": "exporter", "exported_pod": "a", "job": "j"}),
        ({"pod": "a"}, True, {"pod": "a", "job": "j"}),
        ({}, True, {"pod": "exporter", "job": "j"}),
        ({"pod": ""}, True, {"job": "j"}),
        ({"pod": ""}, False, {"pod": "exporter", "job": "j"}),
    ],
)
def test_labels_are_merged_as_prometheus_does(labels: dict[str, str], honor: bool, expected: dict[str, str]) -> None:
    assert scraped(labels, {"pod": "exporter", "job": "j"}, honor) == expected
