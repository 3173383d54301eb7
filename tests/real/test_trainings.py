# SPDX-License-Identifier: BSD-2-Clause
"""Trainings that compute: on several nodes, with checkpoints, and while they are paused, replaced and deleted."""

from __future__ import annotations

import time

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually

from .jobs import EARLY, failed_early, has_gpus, info, logged, pods
from .programs import OBEDIENT, STUBBORN, command, python, shell

TORCHRUN = """
cat >/tmp/train.py <<'END'
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(64, 4)
target = data.sum(1, keepdim=True)
for _ in range(30):
    loss = torch.nn.functional.mse_loss(model(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = [torch.zeros(4) for _ in range(world)]
dist.all_gather(weights, model.module.weight.detach().flatten())
print(f"node {os.environ['NODE_RANK']}, rank {rank} of {world}, same weights: {torch.equal(*weights)}")
assert loss < 0.1, loss
dist.destroy_process_group()
END
exec torchrun /tmp/train.py
"""
GROUP = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
line = f"rank {dist.get_rank()} of {dist.get_world_size()}: node {os.environ['GROUP_RANK']}, sum {total.item()}"
os.write(1, f"{line}\\n".encode())
dist.destroy_process_group()
"""
# Counts to 60, saves where it is on SIGTERM, slowly, and continues from there.
COUNTER = """
import os, pathlib, signal, sys, time

checkpoint = pathlib.Path(os.environ["CHECKPOINT"])
begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from step", begin)


def save(number, frame):
    time.sleep(3)
    checkpoint.write_text(str(step))
    sys.exit(143)


signal.signal(signal.SIGTERM, save)
for step in range(begin, 60):
    print("step", step)
    time.sleep(0.25)
checkpoint.unlink(missing_ok=True)
"""


# -- several nodes ----------------------------------------------------------------------------------------------------


def test_torchrun_on_two_nodes(ansible: Ansible, api: Api, namespace: str):
    resources = {"node_count": 2, "cpu": "500m", "memory": "1Gi"}
    manifest = shell("training", "dist", TORCHRUN, resources=resources, environment={"env": {"OMP_NUM_THREADS": "1"}})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete", wait_timeout=280)
    assert not result.failed, result.message
    lines = [line for line in logged(ansible, namespace, "dist") if line.startswith("node ")]
    assert sorted(lines) == [f"node {rank}, rank {rank} of 2, same weights: True" for rank in range(2)]
    if len(api.list("node")) > 1:
        assert len({pod["spec"]["nodeName"] for pod in pods(api, namespace, "dist")}) == 2, "they are spread"


@pytest.mark.timeout(400)
def test_a_python_script_on_two_nodes_is_a_group_with_a_process_for_each_gpu(
    ansible: Ansible, api: Api, namespace: str
):
    """The manifest names no launcher, and torchrun starts the module."""
    if not has_gpus(api):
        pytest.skip("no node of the cluster has GPUs")
    resources = {"gpu": 2, "node_count": 2, "cpu": "500m", "memory": "1Gi"}
    # The image has no training script: this module of the standard library runs what it is given.
    words = ["python3", "-m", "timeit", "-n", "1", "-r", "1", GROUP]
    manifest = command("training", "dist", words, resources=resources, environment={"env": {"OMP_NUM_THREADS": "1"}})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete", wait_timeout=280)
    assert not result.failed, result.message
    lines = [line for line in logged(ansible, namespace, "dist") if line.startswith("rank ")]
    assert sorted(lines) == [f"rank {rank} of 4: node {rank // 2}, sum 6" for rank in range(4)]


def test_the_launcher_finds_a_process_for_each_gpu(ansible: Ansible, api: Api, namespace: str):
    """The environment is that of torchrun: NPROC_PER_NODE follows from the GPUs that the device plugin hands out."""
    if not has_gpus(api):
        pytest.skip("no node of the cluster has GPUs")
    script = "echo $PET_NNODES nodes, $PET_NPROC_PER_NODE processes, $MASTER_ADDR, rank $NODE_RANK"
    manifest = shell("training", "dist", script, resources={"gpu": 1, "node_count": 2})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete", wait_timeout=120)
    assert not result.failed, result.message
    expected = [f"2 nodes, 1 processes, dist-0.svc-dist, rank {rank}" for rank in range(2)]
    assert sorted(logged(ansible, namespace, "dist")) == expected


def test_a_training_of_which_one_rank_is_refused(ansible: Ansible, api: Api, namespace: str):
    api.create("resourcequota", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}, namespace)
    eventually(lambda: "hard" in api.get("resourcequota", "few", namespace).get("status", {}))
    manifest = shell("training", "half", OBEDIENT, resources={"node_count": 2})
    result = failed_early(ansible, manifest, namespace)
    assert "quota few of the namespace" in result.message
    eventually(lambda: info(ansible, namespace, "half")["ready"] == "1/2", EARLY)
    row = info(ansible, namespace, "half")
    assert row["status"] == "Partially Running"
    assert "quota few of the namespace" in row["reason"]
    shown = ansible.run("ansible-playbook", "runwhere.gpuctl.status", "-e", f"gpuctl_namespace={namespace}").output
    assert "Partially Running" in shown


@pytest.mark.timeout(600)
def test_a_training_keeps_its_service_and_files_when_it_is_replaced(ansible: Ansible, api: Api, namespace: str):
    """Foreground deletion of the Job and the garbage collector must not take what its replacement needs."""
    names = [f"dist-{number}" for number in range(5)]
    for run in range(4):
        manifests = [
            shell("training", name, OBEDIENT, resources={"node_count": 2}, environment={"env": {"RUN": str(run)}})
            for name in names
        ]
        result = ansible.job(definition=manifests, namespace=namespace, wait=True, wait_timeout=120)
        assert not result.failed, result.message
    for _ in range(2):
        for name in names[:2]:
            result = ansible.job(name=name, namespace=namespace, state="restarted", wait=True, wait_timeout=120)
            assert not result.failed, result.message
    time.sleep(5)  # for the garbage collector
    for name in names:
        uid = api.get("job", name, namespace)["metadata"]["uid"]
        for kind, dependent in (("service", f"svc-{name}"), ("configmap", f"{name}-hostfile")):
            found = api.get(kind, dependent, namespace)
            assert found, f"{kind} {dependent} is gone"
            assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [uid]


# -- SIGTERM ----------------------------------------------------------------------------------------------------------


def test_a_paused_training_writes_its_checkpoint_and_continues_from_it(
    ansible: Ansible, api: Api, namespace: str, one_node: str
):
    environment = {"env": {"CHECKPOINT": f"/tmp/{namespace}"}}
    storage = {"workdirs": [{"path": "/tmp", "type": "Directory"}]}
    manifest = python(
        "training", "count", COUNTER, environment=environment, storage=storage, resources={"pool": one_node}
    )
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=60)
    assert not result.failed, result.message
    eventually(lambda: "step 5" in logged(ansible, namespace, "count"))

    paused = ansible.job(name="count", namespace=namespace, state="paused", wait=True, wait_timeout=60)
    assert not paused.failed, paused.message
    phases = {pod["status"]["phase"] for pod in pods(api, namespace, "count")}
    assert phases <= {"Failed"}, "it has ended, with the exit code of SIGTERM"
    assert info(ansible, namespace, "count")["status"] == "Paused"

    result = ansible.job(
        name="count", namespace=namespace, state="resumed", wait=True, wait_for="complete", wait_timeout=90
    )
    assert not result.failed, result.message
    lines = logged(ansible, namespace, "count")
    begin = int(lines[0].removeprefix("from step "))
    assert begin > 5, "what it had done before the pause is kept"
    assert lines[1:] == [f"step {step}" for step in range(begin, 60)]


def test_force_ends_a_training_that_is_already_terminating(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=shell("training", "deaf", STUBBORN), namespace=namespace, wait=True, wait_timeout=60)
    ansible.job(name="deaf", namespace=namespace, state="absent")
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in pods(api, namespace, "deaf")))
    assert pods(api, namespace, "deaf"), "it ignores SIGTERM, and has 300 seconds"

    result = ansible.job(name="deaf", namespace=namespace, state="absent", force=True, wait=True, wait_timeout=60)
    assert not result.failed, result.message
    assert result.changed
    assert pods(api, namespace, "deaf") == []
    assert not ansible.job(name="deaf", namespace=namespace, state="absent", force=True, wait=True).changed


def test_a_training_does_not_start_beside_its_predecessor(ansible: Ansible, api: Api, namespace: str):
    """Both would write to the same files. It waits for the old pods, or deletes them with force."""
    manifest = shell("training", "deaf", STUBBORN)
    ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=60)
    ansible.job(name="deaf", namespace=namespace, state="absent")
    eventually(lambda: all("deletionTimestamp" in pod["metadata"] for pod in pods(api, namespace, "deaf")))
    (former,) = pods(api, namespace, "deaf")
    early = ansible.job(definition=manifest, namespace=namespace, wait_timeout=5)
    assert early.failed
    assert f"Pod {former['metadata']['name']}" in early.message
    assert "still terminating after 5 s" in early.message
    assert not api.get("job", "deaf", namespace)

    forced = ansible.job(definition=manifest, namespace=namespace, force=True, wait=True, wait_timeout=60)
    assert not forced.failed, forced.message
    (pod,) = pods(api, namespace, "deaf")
    assert pod["metadata"]["uid"] != former["metadata"]["uid"]


def test_a_command_with_a_wrong_name_next_to_a_right_one(ansible: Ansible, namespace: str):
    """continue_on_error: the one that can run runs, the other one is reported, with its log."""
    jobs = [shell("training", "good", "true"), command("training", "bad", ["no-such-program"])]
    result = ansible.job(
        definition=jobs, namespace=namespace, wait=True, wait_for="complete", wait_timeout=120, continue_on_error=True
    )
    assert result.failed
    assert result.jobs["good"]["status"] == "Succeeded"
    assert "no-such-program" in result.jobs["bad"]["error"]
