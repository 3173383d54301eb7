# SPDX-License-Identifier: BSD-2-Clause
"""Time limits of trainings, of their manifests and of their pools, until one has reached its end."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as JOB_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool_info import MODULE as POOL_INFO
from kubesim import Cluster

from .ansible import Ansible
from .api import Api, eventually
from .manifests import training
from .recorder import Recorder
from .tasks import perform

LIMIT = "runwhere.ai/time-limit"
AGAIN = "To go on from its last checkpoint, submit it again with rerun=on_failure, and with a longer job.time_limit"


def limited(limit: str | None = None) -> dict[str, Any]:
    return training(job={"name": "train", "time_limit": limit} if limit else {"name": "train"})


def test_a_training_runs_until_its_time_limit(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    def job() -> Any:
        return api.get("job", "train", namespace)

    assert ansible.job(definition=limited(), namespace=namespace, wait=True, wait_timeout=90).changed
    uid = job()["metadata"]["uid"]
    recorder.clear()
    predicted = ansible.job(definition=limited("12h"), namespace=namespace, check=True)
    assert (predicted.jobs["train"]["action"], recorder.writes) == ("update", [])
    for limit, seconds in (("12h", 42900), ("1d", 86100)):
        changed = ansible.job(definition=limited(limit), namespace=namespace)
        assert changed.jobs["train"]["action"] == "update"
        assert job()["spec"]["activeDeadlineSeconds"] == seconds
        assert job()["metadata"]["annotations"][LIMIT] == limit
        recorder.clear()
        assert not ansible.job(definition=limited(limit), namespace=namespace).changed
        assert recorder.writes == []
    assert ansible.job(definition=limited(), namespace=namespace).changed
    assert "activeDeadlineSeconds" not in job()["spec"]
    assert LIMIT not in job()["metadata"].get("annotations", {})
    assert job()["metadata"]["uid"] == uid  # It has run all the time.

    api.patch("job", "train", {"spec": {"activeDeadlineSeconds": 1}}, namespace)
    eventually(lambda: any(one["type"] == "Failed" for one in job()["status"].get("conditions", ())), 90)
    late = ansible.job(definition=limited("12h"), namespace=namespace, wait=True, wait_for="complete", wait_timeout=5)
    assert late.failed
    assert "the training was stopped at its time limit" in late.message
    assert AGAIN in late.message
    assert late.jobs["train"]["status"] == "TimedOut"
    again = ansible.job(definition=limited("12h"), namespace=namespace, rerun="on_failure")
    assert again.jobs["train"]["action"] == "recreate"
    assert job()["spec"]["activeDeadlineSeconds"] == 42900


POOLED: dict[str, Any] = {"kind": "pool", "pool": {"name": "a"}, "nodes": ["node-1"]}
LIMITS = {"default": "8h", "max": "3d"}


def pooled(limit: str | None = None) -> dict[str, Any]:
    return {**limited(limit), "resources": {"gpu": 1, "cpu": 1, "memory": "1Gi", "pool": "a"}}


def row_of(cluster: Cluster) -> dict[str, Any]:
    (row,) = perform(JOB_INFO, cluster, name="train")["results"]
    return {name: row[name] for name in ("status", "ends_at", "time_left")}


@pytest.fixture
def cluster() -> Any:
    with Cluster(nodes=1).running() as found:
        assert perform(POOL, found, definition=POOLED)["changed"]
        yield found


def test_a_pool_limits_the_trainings_that_start_on_it(cluster: Cluster) -> None:
    options = {"definition": pooled(), "wait": True, "wait_timeout": 60}
    assert perform(JOB, cluster, **options)["changed"]
    assert row_of(cluster) == {"status": "Running", "ends_at": None, "time_left": None}
    declared = {**POOLED, "time_limit": LIMITS}
    assert perform(POOL, cluster, definition=declared)["results"][0]["hardware"] == {"time_limit": LIMITS}
    assert not perform(POOL, cluster, definition=declared)["changed"]
    assert perform(POOL_INFO, cluster)["results"][0]["hardware"] == {"time_limit": LIMITS}
    # What runs does not get a limit by itself: it may have run for longer.
    assert not perform(JOB, cluster, **options)["changed"]
    refused = perform(JOB, cluster, definition=pooled("4d"))
    assert "job.time_limit: pool a allows at most 3d: 4d. Use a shorter one" in refused["msg"]
    assert perform(JOB, cluster, definition=pooled("3d"))["results"][0]["action"] == "update"
    assert row_of(cluster)["time_left"] in ("2d", "3d")
    assert perform(JOB, cluster, name="train", state="absent", wait=True)["changed"]
    assert perform(JOB, cluster, **options, rerun="always")["changed"]
    assert not perform(JOB, cluster, **options)["changed"]
    (found,) = perform(JOB_INFO, cluster, name="train", full=True)["results"]
    assert found["object"]["spec"]["activeDeadlineSeconds"] == 8 * 3600 - 300
    assert found["object"]["metadata"]["annotations"]["runwhere.ai/time-limit-of"] == "a"
    perform(POOL, cluster, definition={**POOLED, "time_limit": {"default": "1h"}})
    assert not perform(JOB, cluster, **options)["changed"]
    assert row_of(cluster)["time_left"] in ("7h", "8h")


def test_others_know_when_it_ends(cluster: Cluster) -> None:
    perform(JOB, cluster, definition=pooled("20h"), wait=True, wait_timeout=60)
    all_gpus = {**pooled(), "job": {"name": "other"}, "resources": {**pooled()["resources"], "gpu": 8}}
    (fit,) = perform(FIT, cluster, definition=[all_gpus])["results"]
    assert fit["verdict"] == "after_jobs"
    assert fit["runs_at"] == row_of(cluster)["ends_at"]


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("1m", 'time limit out of range: "1m". Use 15m to 366d.'),
        ("367d", 'time limit out of range: "367d". Use 15m to 366d.'),
        ("soon", 'invalid duration: "soon". Use a number of minutes, hours or days, such as 8h.'),
    ],
)
def test_limits_that_cannot_be_meant_are_refused(limit: str, message: str) -> None:
    refused = perform(JOB, None, definition=limited(limit))
    assert f"job.time_limit: {message}" in refused["msg"]
