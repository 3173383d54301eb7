# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_pool: declare, change and delete pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .ansible import Ansible, TaskResult
from .api import Api
from .manifests import compute, training
from .pools import GPU_TYPE, GPU_TYPE_INTERNAL, POOL, SYSTEM, Field, manifest
from .recorder import Recorder


@pytest.fixture(autouse=True)
def _three_nodes(field: Field) -> None:
    if len(field.nodes) < 3:
        pytest.skip("needs three nodes without managed labels")


def pools(ansible: Ansible, *manifests: dict[str, Any], **options: Any) -> TaskResult:
    return ansible.module("gpuctl_pool", definition=list(manifests), **options)


def entry(result: TaskResult, index: int = 0) -> dict[str, Any]:
    assert not result.failed, result.message
    return dict(result.result["results"][index])


def node_patches(recorder: Recorder) -> list[str]:
    return [write for write in recorder.writes if write.startswith("PATCH /api/v1/nodes/")]


def test_pools_are_declared_and_a_second_run_only_reads(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    declared = [
        manifest(
            field.pool("train"),
            {one: {"gpu-type": "A100-100G"}, two: {"gpu-type": "A100-100G"}},
            description="大模型训练",
        ),
        manifest(field.pool("lab"), [three]),
    ]
    first = pools(ansible, *declared)

    assert entry(first) == {
        "name": field.pool("train"),
        "action": "create",
        "description": "大模型训练",
        "nodes": [one, two],
        "gpu_types": {one: "A100-100G", two: "A100-100G"},
        "added": [one, two],
        "removed": [],
        "changed_types": {},
        "taken_from": {},
        "hardware": {},
        "queue": {},
        "divided": {},
        "busy_jobs": [],
    }
    assert first.message == "2 pools: 2 create"
    assert field.labels(one) == {
        POOL: field.pool("train"),
        GPU_TYPE: "A100-100G",
        GPU_TYPE_INTERNAL: "A100-100G",
    }
    assert field.labels(three) == {POOL: field.pool("lab")}
    assert field.declared("train") == f"{one}: A100-100G\n{two}: A100-100G\n"
    assert len(node_patches(recorder)) == 3

    recorder.clear()
    second = pools(ansible, *declared)
    assert not second.changed
    assert entry(second)["action"] == "unchanged"
    assert recorder.writes == []
    assert len(recorder.requests) == 3, "the Lease, the nodes, the ConfigMaps"


def test_check_mode_predicts_the_same_and_writes_nothing(ansible: Ansible, field: Field, recorder: Recorder):
    declared = manifest(field.pool("a"), {field.nodes[0]: {"gpu-type": "T4"}, field.nodes[1]: None})
    predicted = pools(ansible, declared, check=True)
    assert predicted.changed
    assert recorder.writes == []
    assert f"PATCH /api/v1/nodes/{field.nodes[0]} (dry run)" in recorder.dry_runs
    assert field.declared("a") is None

    done = pools(ansible, declared)
    assert entry(predicted) == entry(done)
    assert predicted.diff == done.diff
    recorder.clear()
    assert not pools(ansible, declared, check=True).changed
    assert recorder.writes == recorder.dry_runs == []


def test_a_pool_has_exactly_the_declared_nodes_and_removed_ones_lose_their_type(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    field.set_labels(three, {GPU_TYPE: "set-by-hand"})
    pools(ansible, manifest(field.pool("a"), {one: {"gpu-type": "T4"}, two: {"gpu-type": "T4"}, three: None}))
    result = entry(pools(ansible, manifest(field.pool("a"), {two: {"gpu-type": "L4"}})))

    assert (result["action"], result["removed"], result["added"]) == ("update", sorted([one, three]), [])
    assert result["changed_types"] == {two: {"before": "T4", "after": "L4"}}
    assert field.labels(one) == {}
    assert field.labels(two) == {POOL: field.pool("a"), GPU_TYPE: "L4", GPU_TYPE_INTERNAL: "L4"}
    assert field.labels(three) == {GPU_TYPE: "set-by-hand"}, "no pool had set it"
    assert field.declared("a") == f"{two}: L4\n"


def test_nodes_are_added_and_removed_by_name(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    name = field.pool("a")
    ansible.module("gpuctl_pool", name=name, nodes=[one], description="first")
    added = ansible.module("gpuctl_pool", name=name, nodes=f"{two},{three}", purge=False)
    assert entry(added)["added"] == sorted([two, three])
    assert entry(added)["description"] == "first"
    removed = ansible.module("gpuctl_pool", name=name, remove_nodes=[one, two])
    assert entry(removed)["removed"] == sorted([one, two])
    assert field.members("a") == {three}
    assert field.declared("a") == f"{three}:\n"
    assert not ansible.module("gpuctl_pool", name=name, remove_nodes=[one, two]).changed


def test_a_node_moves_between_two_pools_of_one_task(ansible: Ansible, field: Field):
    one, two = field.nodes[:2]
    pools(ansible, manifest(field.pool("a"), [one, two]))
    moved = pools(ansible, manifest(field.pool("a"), [one]), manifest(field.pool("b"), {two: {"gpu-type": "T4"}}))
    assert entry(moved, 1)["taken_from"] == {two: field.pool("a")}
    assert field.members("a") == {one}
    assert field.members("b") == {two}


def test_all_blockers_are_reported_and_nothing_changes(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    pools(ansible, manifest(field.pool("a"), [one, two]))
    recorder.clear()
    result = pools(
        ansible, manifest(field.pool("b"), [one, two, three, f"{three}x"]), manifest(field.pool("c"), ["qq"])
    )
    assert result.failed
    assert result.message.splitlines() == [
        f"pool {field.pool('b')}: node {three}x not found. Did you mean {three}?",
        f"pool {field.pool('c')}: node qq not found. To list the nodes, use gpuctl_node_info",
        f"pool {field.pool('b')}: node {one} is in pool {field.pool('a')}. "
        "Remove it from that pool, or use force=true to move it.",
        f"pool {field.pool('b')}: node {two} is in pool {field.pool('a')}. "
        "Remove it from that pool, or use force=true to move it.",
        "Nothing was changed.",
    ]
    assert recorder.writes == []


def test_force_moves_nodes_and_updates_the_other_declaration(ansible: Ansible, field: Field):
    one, two = field.nodes[:2]
    pools(ansible, manifest(field.pool("a"), {one: {"gpu-type": "T4"}, two: {"gpu-type": "T4"}}))
    forced = pools(ansible, manifest(field.pool("b"), [two]), force=True)
    assert entry(forced)["taken_from"] == {two: field.pool("a")}
    assert f"takes {two} from pool {field.pool('a')}" in " ".join(forced.screen.split())
    assert field.labels(two) == {POOL: field.pool("b")}, "the type was the other pool's"
    assert field.declared("a") == f"{one}: T4\n"
    assert not pools(ansible, manifest(field.pool("a"), {one: {"gpu-type": "T4"}})).changed


def test_removed_labels_are_restored(ansible: Ansible, field: Field, recorder: Recorder):
    one, two = field.nodes[:2]
    declared = manifest(field.pool("a"), {one: {"gpu-type": "T4"}, two: {"gpu-type": "T4"}})
    pools(ansible, declared)
    field.set_labels(one, {POOL: None, GPU_TYPE_INTERNAL: "other"})
    recorder.clear()
    assert entry(pools(ansible, declared))["action"] == "update"
    assert field.labels(one) == {POOL: field.pool("a"), GPU_TYPE: "T4", GPU_TYPE_INTERNAL: "T4"}
    assert node_patches(recorder) == [f"PATCH /api/v1/nodes/{one}"]


def test_deleting_a_pool_frees_its_nodes(ansible: Ansible, field: Field, recorder: Recorder):
    one = field.nodes[0]
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes={one: {"gpu-type": "T4"}})
    predicted = ansible.module("gpuctl_pool", name=field.pool("a"), state="absent", check=True)
    deleted = ansible.module("gpuctl_pool", name=field.pool("a"), state="absent")
    assert entry(predicted) == entry(deleted)
    assert (entry(deleted)["action"], entry(deleted)["removed"]) == ("delete", [one])
    assert field.labels(one) == {}
    assert field.declared("a") is None
    recorder.clear()
    again = ansible.module("gpuctl_pool", name=field.pool("a"), state="absent")
    assert not again.changed
    assert recorder.writes == []


def test_a_pool_in_use_is_only_deleted_by_force_and_its_jobs_continue(
    ansible: Ansible, api: Api, field: Field, namespace: str
):
    one, name = field.nodes[0], field.pool("a")
    ansible.module("gpuctl_pool", name=name, nodes=[one])
    jobs = [training(resources={"pool": name}), compute(resources={"pool": name})]
    ansible.job(definition=jobs, namespace=namespace, wait=True, wait_timeout=60)
    refused = ansible.module("gpuctl_pool", name=name, state="absent")
    assert refused.failed
    assert f"pool {name} is used by {namespace}/train, {namespace}/web" in refused.message
    assert field.members("a") == {one}

    forced = ansible.module("gpuctl_pool", name=name, state="absent", force=True)
    assert entry(forced)["action"] == "delete"
    assert f"is used by {namespace}/train" in " ".join(forced.screen.split()), "ansible-core 2.16 wraps warnings"
    pods = api.list("pod", namespace)
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert all("deletionTimestamp" not in pod["metadata"] for pod in pods)


REFUSED = {
    "a reserved name": ({"name": "default", "nodes": []}, ["default", "denotes the nodes without a pool"]),
    "another reserved name": ({"name": "none"}, ["none", "would read as no pool"]),
    "an invalid name": ({"name": "Pool_A"}, ['pool.name: invalid name: "Pool_A"']),
    "an empty name": ({"name": "", "nodes": ["node-1"]}, ["pool.name"]),
    "an invalid label value": (
        {"name": "a", "nodes": {"node-1": {"gpu-type": "A100 80G"}}},
        ['nodes.node-1.gpu-type: invalid label value: "A100 80G"', "letters"],
    ),
    "a type of 64 characters": ({"name": "a", "nodes": {"n": {"gpu-type": "x" * 64}}}, ["too long (64", "63"]),
    "an unknown key": ({"name": "a", "nodes": {"node-1": {"gputype": "A"}}}, ["gputype", "gpu-type"]),
    "no input": ({}, ["src", "definition", "name"]),
    "nodes without a pool": ({"definition": {}, "nodes": ["a"]}, ["name"]),
    "only a job": ({"definition": training()}, ["no pool found", "training"]),
    "no concurrency": ({"name": "a", "concurrency": 0}, ["concurrency is too small: 0"]),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_clear_message(ansible: Ansible, recorder: Recorder, options: dict, words: list[str]):
    result = ansible.module("gpuctl_pool", **options)
    assert result.failed
    assert [word for word in words if word not in result.message] == []
    assert "Traceback" not in result.screen
    assert recorder.requests == []


def test_a_node_twice_in_the_pool_and_in_remove_nodes(ansible: Ansible, field: Field):
    one = field.nodes[0]
    result = ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[one], remove_nodes=[one])
    assert f"{one} is in both nodes and remove_nodes" in result.message


def test_an_unmanaged_config_map_is_not_changed(ansible: Ansible, api: Api, field: Field, recorder: Recorder):
    pools(ansible, manifest(field.pool("other"), [field.nodes[0]]))  # so that the namespace is there
    name = f"pool-{field.pool('a')}"
    api.create("configmap", {"metadata": {"name": name}, "data": {"theirs": "yes"}}, SYSTEM)
    recorder.clear()
    for state in ("present", "absent"):
        result = ansible.module("gpuctl_pool", name=field.pool("a"), state=state)
        assert "does not belong to gpuctl" in result.message
    assert recorder.writes == []
    assert api.get("configmap", name, SYSTEM)["data"] == {"theirs": "yes"}


def test_a_missing_permission_is_named(ansible: Ansible, field: Field, recorder: Recorder):
    result = ansible.module(
        "gpuctl_pool", name=field.pool("a"), nodes=[field.nodes[0]], impersonate_user="gpuctl-test-nobody"
    )
    assert result.failed
    assert "forbidden" in result.message
    assert "requires permission to list, get and patch nodes" in result.message
    assert recorder.writes == []


def test_check_mode_with_read_permissions_warns(
    ansible: Ansible, api: Api, field: Field, recorder: Recorder, reader: str
):
    options = {"name": field.pool("a"), "nodes": [field.nodes[0]], "impersonate_user": reader}
    pools(ansible, manifest(field.pool("other"), [field.nodes[1]]))  # so that there is something to read
    recorder.clear()
    predicted = ansible.module("gpuctl_pool", **options, check=True)
    assert entry(predicted)["added"] == [field.nodes[0]]
    assert "not validated by the server" in " ".join(predicted.screen.split())
    refused = ansible.module("gpuctl_pool", **options)
    assert refused.failed
    assert "cannot patch resource" in refused.message
    assert "requires permission to list, get and patch nodes" in refused.message
    assert recorder.writes != [], "only the attempt to take the Lease"
    assert field.members("a") == set()


def test_without_permission_to_list_jobs_a_pool_is_only_deleted_by_force(
    ansible: Ansible, field: Field, recorder: Recorder, reader: str
):
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[field.nodes[0]])
    recorder.clear()
    result = ansible.module("gpuctl_pool", name=field.pool("a"), state="absent", impersonate_user=reader)
    assert result.failed
    assert f"cannot check whether jobs use the pool {field.pool('a')}" in result.message
    assert recorder.writes == []


@pytest.fixture
def reader(api: Api, field: Field) -> Iterator[str]:
    """A user with permission to read nodes and declarations, and nothing else."""
    name = f"gpuctl-test-{field.prefix}"
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "configmaps", "namespaces"], "verbs": ["get", "list"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]},
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"metadata": {"name": name}, "rules": rules}
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    }
    for plural, body in {"clusterroles": role, "clusterrolebindings": binding}.items():
        status, answer = api.call("POST", f"{rbac}/{plural}", body)
        assert status == 201, answer
    yield name
    for plural in ("clusterrolebindings", "clusterroles"):
        api.call("DELETE", f"{rbac}/{plural}/{name}")
