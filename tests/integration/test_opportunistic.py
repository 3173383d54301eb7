# SPDX-License-Identifier: BSD-2-Clause
"""Opportunistic jobs run on what is free, beside the quota of their team, and make room for everybody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import MODULE as STATUS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE as INFO
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import status_screen
from kubesim import Cluster

from .api import eventually
from .manifests import training
from .tasks import perform

Row = dict[str, Any]
OPPORTUNISTIC = {"priority": "opportunistic"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A node with eight GPUs."""
    with Cluster(nodes=1).running() as cluster:
        yield cluster


def declare(cluster: Cluster, limits: Row, *, check: bool = False) -> Row:
    done = perform(QUOTA, cluster, check=check, definition={"kind": "quota", "quota": {"name": "q"}, "users": limits})
    assert not done.get("failed"), done["msg"]
    return done


def submit(cluster: Cluster, name: str, gpus: int, **more: Any) -> None:
    done = perform(JOB, cluster, definition=training(name, resources={"gpu": gpus}, **more), namespace="team")
    assert not done.get("failed"), done["msg"]


def live(cluster: Cluster, kind: str, name: str) -> Row:
    found: Row = cluster.call(lambda: cluster.registry.get(kind, "team", name))
    return found


def pods(cluster: Cluster, job: str) -> list[Row]:
    """Those that run, or will."""
    found = cluster.call(lambda: cluster.registry.list("Pod", "team"))
    return [
        pod
        for pod in found
        if pod["metadata"]["labels"].get("app") == job and pod["status"].get("phase") in ("Pending", "Running")
    ]


def placed(cluster: Cluster, job: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods(cluster, job))


def used(cluster: Cluster) -> str | None:
    return live(cluster, "ResourceQuota", "q-team")["status"]["used"].get("requests.nvidia.com/gpu")


def test_a_quota_does_not_count_them_once_it_says_so(cluster: Cluster) -> None:
    """The ResourceQuota that is there is changed in place: it limits the namespace at all times."""
    declare(cluster, {"team": {"gpu": 4}})
    before = live(cluster, "ResourceQuota", "q-team")
    submit(cluster, "yields", 4, job=OPPORTUNISTIC)
    eventually(lambda: used(cluster) == "4")
    opened = {"team": {"gpu": 4, "opportunistic": True}}
    assert declare(cluster, opened, check=True)["results"][0]["action"] == "update"
    assert live(cluster, "ResourceQuota", "q-team")["spec"] == before["spec"]
    assert declare(cluster, opened)["results"][0]["action"] == "update"
    after = live(cluster, "ResourceQuota", "q-team")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["hard"] == before["spec"]["hard"]
    assert not declare(cluster, opened)["changed"]
    (row,) = perform(INFO, cluster, namespaces=["team"])["results"]
    assert row["opportunistic"] is True

    submit(cluster, "beside", 2, job=OPPORTUNISTIC)
    eventually(lambda: placed(cluster, "beside") == 1)
    submit(cluster, "beyond", 8)
    eventually(lambda: "exceeded quota" in str(cluster.call(lambda: cluster.registry.list("Event", "team"))))
    assert pods(cluster, "beyond") == []

    assert declare(cluster, {"team": {"gpu": 4}})["results"][0]["action"] == "update"
    assert "scopeSelector" not in live(cluster, "ResourceQuota", "q-team")["spec"]
    assert not declare(cluster, {"team": {"gpu": 4}})["changed"]


def test_they_are_preempted_first_and_start_again_without_a_retry(cluster: Cluster) -> None:
    declare(cluster, {"team": {"gpu": 8, "opportunistic": True}})
    submit(cluster, "low", 2, job={"priority": "low"})
    submit(cluster, "yields", 6, job=OPPORTUNISTIC)
    eventually(lambda: placed(cluster, "low") == placed(cluster, "yields") == 1)
    submit(cluster, "guaranteed", 6)
    eventually(lambda: placed(cluster, "guaranteed") == 1)
    assert placed(cluster, "low") == 1
    eventually(lambda: [bool(pod["spec"].get("nodeName")) for pod in pods(cluster, "yields")] == [False])
    job = live(cluster, "Job", "yields")
    assert job["status"].get("failed", 0) == 0
    assert not [one for one in job["status"].get("conditions") or () if one["type"] == "Failed"]
    eventually(lambda: used(cluster) == "8")

    perform(JOB, cluster, name="guaranteed", namespace="team", state="absent")
    eventually(lambda: placed(cluster, "yields") == 1)


def test_they_preempt_nobody(cluster: Cluster) -> None:
    declare(cluster, {"team": {"gpu": 8, "opportunistic": True}})
    submit(cluster, "first", 8, job=OPPORTUNISTIC)
    eventually(lambda: placed(cluster, "first") == 1)
    submit(cluster, "second", 8, job=OPPORTUNISTIC)
    eventually(lambda: len(pods(cluster, "second")) == 1)
    assert (placed(cluster, "first"), placed(cluster, "second")) == (1, 0)


def test_status_shows_them_apart(cluster: Cluster) -> None:
    declare(cluster, {"team": {"gpu": 4, "opportunistic": True}})
    submit(cluster, "guaranteed", 1)
    found = perform(STATUS, cluster, namespaces=["team"])
    assert "PRIORITY" not in "\n".join(status_screen(found, 120, everything=True, paint=lambda _column, text: text))
    submit(cluster, "yields", 1, job=OPPORTUNISTIC)
    eventually(
        lambda: {job["status"] for job in perform(STATUS, cluster, namespaces=["team"])["jobs"]} == {"Running"},
    )
    found = perform(STATUS, cluster, namespaces=["team"])
    screen = status_screen(found, 120, everything=True, paint=lambda _column, text: text)
    assert any(line.startswith("2 jobs: 2 Running; 1 opportunistic") for line in screen)
    marked = [line.split()[0] for line in screen if "opportunistic" in line.split()]
    assert marked[-1] == "yields"
    assert not any(line.startswith("guaranteed") and "opportunistic" in line for line in screen)
