# SPDX-License-Identifier: BSD-2-Clause
"""A training on several nodes: the environment of its pods, how they find each other, and how failures are handled.

The containers say it themselves, by commands that any busybox has. Where kubelets are fake and run no commands, what
would be given is read from the pods instead.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import kubelet
from .ansible import Ansible
from .api import Api, eventually
from .manifests import training

INDEX = "batch.kubernetes.io/job-completion-index"
MARK = "--- mounted files"
BUSYBOX = "busybox:1.36"


def distributed(name: str, script: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A training on three nodes that runs a line for a shell."""
    environment = {"image": BUSYBOX, "command": ["sh", "-c", script], **blocks.pop("environment", {})}
    return training(name, environment=environment, resources={"gpu": 2, "node_count": 3}, **blocks)


def ranks(api: Api, namespace: str, name: str) -> dict[str, dict[str, Any]]:
    """The pods of a training by their rank, the newest of each."""
    pods = sorted(api.list("pod", namespace, f"app={name}"), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    return {pod["metadata"]["labels"][INDEX]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]}


def job_status(api: Api, namespace: str, name: str) -> dict[str, Any]:
    return dict(api.get("job", name, namespace).get("status") or {})


def test_each_rank_knows_the_group_and_its_place_in_it(ansible: Ansible, api: Api, namespace: str):
    manifest = distributed(
        "dist",
        f"hostname; env; echo {MARK}; cat /job/hostfile; cat $DEEPSPEED_CONFIG_FILE",
        distributed={"backend": "deepspeed", "deepspeed": "zero3", "master_port": 29501, "socket_ifname": "ib0"},
    )
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=120)
    assert not result.failed, result.message
    found = eventually(lambda: spoken(ansible, namespace, "dist"), 60)
    if any(MARK not in said for said in found):
        pytest.skip("the kubelets of this cluster run no commands")

    hosts = [f"dist-{rank}.svc-dist" for rank in range(3)]
    for rank, said in enumerate(found):
        environment = dict(line.partition("=")[::2] for line in said[1 : said.index(MARK)])
        group = {"MASTER_ADDR": hosts[0], "MASTER_PORT": "29501", "NNODES": "3", "NPROC_PER_NODE": "2"}
        expected = {**group, "NODE_RANK": str(rank)}
        assert environment.items() >= expected.items()
        assert environment.items() >= {f"PET_{name}": value for name, value in expected.items()}.items()
        assert environment["NCCL_SOCKET_IFNAME"] == "ib0"
        assert not {"WORLD_SIZE", "RANK", "LOCAL_RANK"} & environment.keys(), "they are per process, not per node"
        assert said[0] == f"dist-{rank}", "the host name that the others know it by"

        files = said[said.index(MARK) + 1 :]
        assert files[:3] == [f"{host} slots=2" for host in hosts]
        assert json.loads("\n".join(files[3:]))["zero_optimization"]["stage"] == 3


def spoken(ansible: Ansible, namespace: str, name: str) -> list[list[str]]:
    """The log of each rank, when all have one."""
    result = ansible.module("gpuctl_job_log", name=name, namespace=namespace, tail=1000)
    rows = [] if result.failed else result.result["results"]
    return [row["lines"] for row in rows] if len(rows) == 3 and all(row["lines"] for row in rows) else []


def test_the_first_rank_has_the_address_that_all_get(ansible: Ansible, api: Api, namespace: str):
    """A cluster's DNS gives each endpoint that has a host name a name (kubernetes/dns, specification.md 2.4)."""
    ansible.job(definition=distributed("dist", "sleep 600"), namespace=namespace, wait=True, wait_for="scheduled")
    pods = eventually(lambda: ranks(api, namespace, "dist"))
    assert pods.keys() == {"0", "1", "2"}
    (address,) = {
        variable["value"]
        for pod in pods.values()
        for variable in pod["spec"]["containers"][0]["env"]
        if variable["name"] == "MASTER_ADDR"
    }
    assert address == f"{pods['0']['spec']['hostname']}.{pods['0']['spec']['subdomain']}"

    service = address.partition(".")[2]
    assert api.get("service", service, namespace)["spec"]["publishNotReadyAddresses"], "before any of them is ready"

    def names() -> dict[str, str]:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        slices = api.call("GET", f"{path}?labelSelector=kubernetes.io/service-name={service}")[1]["items"]
        found = {
            f"{endpoint.get('hostname')}.{service}": endpoint["targetRef"]["name"]
            for one in slices
            for endpoint in one["endpoints"] or ()
        }
        return found if len(found) == 3 else {}

    assert eventually(names)[address] == pods["0"]["metadata"]["name"]


def test_what_the_user_sets_wins_with_a_warning(ansible: Ansible, api: Api, namespace: str):
    environment = {"env": {"NCCL_SOCKET_IFNAME": "bond0", "INIT": "tcp://$(MASTER_ADDR):$(MASTER_PORT)"}}
    result = ansible.job(definition=distributed("dist", "env", environment=environment), namespace=namespace)
    assert "environment.env sets NCCL_SOCKET_IFNAME" in " ".join(result.screen.split())
    found = eventually(lambda: spoken(ansible, namespace, "dist"), 60)
    if "NODE_RANK=1" not in found[1]:
        pytest.skip("the kubelets of this cluster run no commands")
    for said in found:
        assert "NCCL_SOCKET_IFNAME=bond0" in said
        assert "NCCL_SOCKET_IFNAME=eth0" not in said
        assert "INIT=tcp://dist-0.svc-dist:29500" in said, "the user's variables can refer to provided ones"


def test_a_template_that_the_command_names_is_mounted_where_it_is_pointed_to(
    ansible: Ansible, api: Api, namespace: str
):
    manifest = distributed("dist", "echo --deepspeed ds_config.json && cat /etc/gpuctl/deepspeed/ds_config.json")
    ansible.job(definition=manifest, namespace=namespace)
    found = eventually(lambda: spoken(ansible, namespace, "dist"), 60)
    if not found[0][0].startswith("--deepspeed"):
        pytest.skip("the kubelets of this cluster run no commands")
    for said in found:
        assert said[0] == "--deepspeed /etc/gpuctl/deepspeed/ds_config.json"
        assert json.loads("\n".join(said[1:]))["zero_optimization"]["stage"] == 2


@pytest.mark.parametrize("code", [2, 126, 127, 128])
def test_a_command_that_cannot_work_is_not_retried(ansible: Ansible, api: Api, namespace: str, code: int):
    result = ansible.job(definition=distributed("typo", "sleep 600"), namespace=namespace)
    assert not result.failed, result.message
    kubelet.ended(api, namespace, "typo", code)
    failed = eventually(lambda: [c for c in conditions(api, namespace, "typo") if c["type"] == "Failed"])
    assert failed[0]["reason"] == "PodFailurePolicy"
    assert f"exit code {code}" in failed[0]["message"]
    (row,) = ansible.module("gpuctl_job_info", name="typo", namespaces=[namespace]).result["results"]
    assert row["status"] == "Failed"


def test_a_crash_is_retried(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=distributed("crash", "sleep 600"), namespace=namespace)
    kubelet.ended(api, namespace, "crash", 1)
    eventually(lambda: job_status(api, namespace, "crash").get("failed", 0) >= 3)
    assert api.get("job", "crash", namespace)["spec"]["backoffLimit"] == 9, "a crash of one rank fails all three"
    assert not [c for c in conditions(api, namespace, "crash") if c["type"] in ("Failed", "FailureTarget")]


def conditions(api: Api, namespace: str, name: str) -> list[dict[str, Any]]:
    return list(job_status(api, namespace, name).get("conditions") or ())


def test_a_rank_whose_node_is_drained_comes_back_and_costs_no_retry(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=distributed("dist", "sleep 600"), namespace=namespace, wait=True, wait_for="scheduled")
    before = ranks(api, namespace, "dist")["1"]["metadata"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": before["name"]}}
    body["deleteOptions"] = {"gracePeriodSeconds": 1}
    status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/pods/{before['name']}/eviction", body)
    assert status == 201, answer
    eventually(lambda: uid_of_rank(api, namespace, "1") not in (None, before["uid"]), 60)
    assert not job_status(api, namespace, "dist").get("failed")
    assert ranks(api, namespace, "dist")["1"]["spec"]["hostname"] == "dist-1"


def uid_of_rank(api: Api, namespace: str, rank: str) -> str | None:
    pod = ranks(api, namespace, "dist").get(rank)
    return str(pod["metadata"]["uid"]) if pod else None
