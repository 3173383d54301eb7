# SPDX-License-Identifier: BSD-2-Clause
"""Pools that declare how their GPUs are divided: labels of NVIDIA's software, and jobs that are paused for a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .ansible import Ansible
from .api import Api
from .manifests import training
from .pools import Field, manifest
from .recorder import Recorder
from .test_status import status

MIG, MIG_STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
SHARING = "nvidia.com/device-plugin.config"
STRATEGY, REPLICAS = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.replicas"
DIVISION = "runwhere.ai/division"


@pytest.fixture
def node(api: Api, field: Field) -> Iterator[str]:
    """A node without the labels of NVIDIA's software, before and after."""
    name = field.nodes[0]
    before = labels(api, name)
    field.set_labels(name, dict.fromkeys((MIG, MIG_STATE, SHARING)))
    yield name
    keys = (MIG, MIG_STATE, SHARING, STRATEGY, REPLICAS)
    field.set_labels(name, {key: before.get(key) for key in keys})


def labels(api: Api, node: str) -> dict[str, str]:
    return dict(api.get("node", node)["metadata"].get("labels") or {})


def test_sharing_is_declared_shown_and_removed(
    ansible: Ansible, api: Api, field: Field, recorder: Recorder, node: str
) -> None:
    pool = field.pool("shared")
    declared = {**manifest(pool, [node]), "sharing": {"time_slicing": 4}}
    recorder.clear()
    predicted = ansible.module("gpuctl_pool", definition=declared, check=True)
    assert recorder.writes == []
    result = ansible.module("gpuctl_pool", definition=declared)
    assert not result.failed, result.message
    for each in (predicted, result):
        (row,) = each.result["results"]
        assert row["divided"] == {node: {SHARING: {"before": None, "after": "time-slicing-4"}}}
        assert row["hardware"] == {"sharing": {"time_slicing": 4}}
    assert (labels(api, node)[SHARING], labels(api, node)[DIVISION]) == ("time-slicing-4", "sharing")
    recorder.clear()
    assert ansible.module("gpuctl_pool", definition=declared).result["changed"] is False
    assert recorder.writes == []

    def division() -> dict[str, Any]:
        (row,) = ansible.module("gpuctl_pool_info", name=pool).result["results"]
        (found,) = row["division"]
        return dict(found)

    field.set_labels(node, {STRATEGY: "none", REPLICAS: "1"})
    state = f"{STRATEGY} is none, {REPLICAS} is 1"
    assert division() == {"node_name": node, "done": False, "state": state}
    screen = " ".join(status(ansible, pool=pool).output.split())
    assert f"Not divided as pool {pool} declares: {node} ({state})." in screen
    field.set_labels(node, {STRATEGY: "time-slicing", REPLICAS: "4"})
    assert division()["done"] is True

    ansible.module("gpuctl_pool", name=pool, remove_nodes=[node])
    assert not {SHARING, DIVISION} & labels(api, node).keys(), "the label leaves with the node"
    ansible.module("gpuctl_pool", name=pool, nodes=[node], sharing={"mps": 2})
    assert labels(api, node)[SHARING] == "mps-2"
    ansible.module("gpuctl_pool", name=pool, state="absent")
    assert not {SHARING, DIVISION} & labels(api, node).keys()


def test_jobs_are_paused_while_gpus_are_partitioned(
    ansible: Ansible, api: Api, field: Field, namespace: str, recorder: Recorder, node: str
) -> None:
    pool = field.pool("small")
    ansible.module("gpuctl_pool", name=pool, nodes=[node])
    started = ansible.job(
        definition=training("sft", resources={"pool": pool, "gpu": 1}), namespace=namespace, wait=True, wait_timeout=240
    )
    assert not started.failed, started.message

    recorder.clear()
    predicted = ansible.module("gpuctl_pool", name=pool, mig="all-1g.10gb", drain=True, check=True)
    assert predicted.result["results"][0]["busy_jobs"] == [f"{namespace}/sft"]
    assert "suspend" in str(predicted.diff), "check mode shows which jobs are paused"
    assert recorder.writes == []

    manager = MigManager(api, field, node, namespace)
    manager.start()
    result = ansible.module("gpuctl_pool", name=pool, mig="all-1g.10gb", drain=True, drain_timeout=240)
    manager.join(240)
    assert not result.failed, result.message
    assert manager.was_paused, "the MIG manager finds no job on the GPUs"
    assert labels(api, node)[MIG] == "all-1g.10gb"
    assert not api.get("job", "sft", namespace)["spec"].get("suspend"), "the job is resumed"
    recorder.clear()
    assert ansible.module("gpuctl_pool", name=pool, mig="all-1g.10gb", drain=True).result["changed"] is False
    assert recorder.writes == []


def test_without_drain_a_warning_names_the_jobs(
    ansible: Ansible, api: Api, field: Field, namespace: str, node: str
) -> None:
    pool = field.pool("small")
    ansible.module("gpuctl_pool", name=pool, nodes=[node])
    ansible.job(
        definition=training("sft", resources={"pool": pool, "gpu": 1}), namespace=namespace, wait=True, wait_timeout=240
    )
    result = ansible.module("gpuctl_pool", name=pool, mig="all-1g.10gb")
    screen = " ".join(result.screen.split())
    assert f"pool {pool}: devices that jobs use are divided otherwise: {namespace}/sft." in screen
    assert labels(api, node)[MIG] == "all-1g.10gb"
    assert not api.get("job", "sft", namespace)["spec"].get("suspend")


def test_a_vendor_that_divides_otherwise_is_refused(ansible: Ansible, field: Field) -> None:
    result = ansible.module("gpuctl_pool", name=field.pool("npu"), accelerator="ascend", mig="all-1g.10gb")
    assert f"pool {field.pool('npu')}, mig: Ascend NPUs are not divided so. Remove it." in result.message


class MigManager(threading.Thread):
    """What NVIDIA's MIG manager does on a node: it says that it has begun, and, a while later, that it is done."""

    def __init__(self, api: Api, field: Field, node: str, namespace: str) -> None:
        super().__init__(daemon=True)
        self._api, self._field, self._node, self._namespace = api, field, node, namespace
        self.was_paused = False

    def run(self) -> None:
        deadline = time.monotonic() + 240
        while MIG not in labels(self._api, self._node) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.was_paused = bool(self._api.get("job", "sft", self._namespace)["spec"].get("suspend"))
        self._field.set_labels(self._node, {MIG_STATE: "pending"})
        time.sleep(6)
        self._field.set_labels(self._node, {MIG_STATE: "success"})
