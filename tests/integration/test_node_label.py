# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_node_label: labels on many nodes in one call."""

from __future__ import annotations

from typing import Any

import pytest

from .ansible import Ansible
from .pools import GPU_TYPE, POOL, Field
from .recorder import Recorder


@pytest.fixture(autouse=True)
def _three_nodes(field: Field) -> None:
    if len(field.nodes) < 3:
        pytest.skip("needs three nodes without managed labels")


def test_labels_are_set_with_one_patch_for_each_node_that_changes(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    field.set_labels(one, {GPU_TYPE: "A100", "runwhere.ai/rack": "7"})
    options: dict[str, Any] = {"nodes": [one, two, three], "labels": {"gpu-type": "A100", "runwhere.ai/rack": 7}}

    predicted = ansible.module("gpuctl_node_label", **options, check=True)
    assert predicted.changed
    assert recorder.writes == []
    assert field.labels(two) == {}
    recorder.clear()
    first = ansible.module("gpuctl_node_label", **options)
    assert first.result["success"] == sorted([one, two, three])
    assert first.result["failed_nodes"] == []
    assert [row["action"] for row in first.result["results"]] == ["unchanged", "update", "update"]
    assert (first.result["results"], first.diff) == (predicted.result["results"], predicted.diff)
    assert field.labels(two) == field.labels(three) == {GPU_TYPE: "A100", "runwhere.ai/rack": "7"}
    assert sorted(recorder.writes) == sorted(f"PATCH /api/v1/nodes/{node}" for node in (two, three))
    assert [request.path for request in recorder.requests if request.method == "GET"] == ["/api/v1/nodes"]

    recorder.clear()
    assert not ansible.module("gpuctl_node_label", **options).changed
    assert [str(request) for request in recorder.requests] == ["GET /api/v1/nodes"]
    assert not ansible.module("gpuctl_node_label", **options, check=True).changed


def test_by_default_a_conflict_changes_nothing(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]
    field.set_labels(one, {GPU_TYPE: "A10"})
    field.set_labels(two, {GPU_TYPE: "T4"})
    recorder.clear()
    result = ansible.module(
        "gpuctl_node_label", nodes=[one, two, three, "nowhere"], labels={"gpu-type": "A100", "rack": "1"}
    )
    assert result.failed
    assert result.message.splitlines() == [
        f"{one} already has {GPU_TYPE}=A10. Use overwrite=true to change that.",
        f"{two} already has {GPU_TYPE}=T4. Use overwrite=true to change that.",
        "node nowhere not found. To list the nodes, use gpuctl_node_info",
        "Nothing was changed.",
    ]
    assert [(row["node_name"], row["error"]) for row in result.result["failed_nodes"]] == [
        (one, "LabelConflict"),
        (two, "LabelConflict"),
        ("nowhere", "NodeNotFound"),
    ]
    assert result.result["failed_nodes"][0]["message"] == result.message.splitlines()[0]
    assert result.result["success"] == []
    assert recorder.writes == []


def test_with_continue_on_error_other_nodes_change_and_the_task_fails(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    field.set_labels(one, {GPU_TYPE: "A10"})
    result = ansible.module(
        "gpuctl_node_label",
        nodes=[one, two, "nowhere", three],
        labels={"gpu-type": "A100"},
        continue_on_error=True,
    )
    assert result.failed
    assert result.changed
    assert result.result["success"] == sorted([two, three])
    assert {row["node_name"]: row["error"] for row in result.result["failed_nodes"]} == {
        one: "LabelConflict",
        "nowhere": "NodeNotFound",
    }
    assert "4 nodes: 2 update, 0 unchanged, 2 failed" in result.message
    assert [field.labels(node)[GPU_TYPE] for node in (one, two, three)] == ["A10", "A100", "A100"]


def test_overwriting_and_removing(ansible: Ansible, field: Field):
    one, two = field.nodes[:2]
    field.set_labels(one, {GPU_TYPE: "A10", "runwhere.ai/rack": "1"})
    over = ansible.module(
        "gpuctl_node_label", nodes=[one, two], labels={"gpu-type": "A100", "rack": None}, overwrite=True
    )
    assert over.changed, over.message
    assert field.labels(one) == field.labels(two) == {GPU_TYPE: "A100"}
    removed = ansible.module("gpuctl_node_label", nodes=[one, two], keys=["gpu-type", "rack"], state="absent")
    assert removed.changed
    assert removed.result["results"][0]["labels"] == {GPU_TYPE: None}
    assert field.labels(one) == field.labels(two) == {}
    assert not ansible.module("gpuctl_node_label", nodes=[one], keys=["gpu-type"], state="absent").changed


def test_labels_are_removed_where_they_have_the_given_values(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    for node, pool in ((one, "a"), (two, "b")):
        ansible.module("gpuctl_pool", name=field.pool(pool), nodes=[node])
        field.set_labels(node, {"runwhere.ai/rack": pool})
    options = {"nodes": [one, two, three], "labels": {"rack": "a", "pool": field.pool("a")}, "state": "absent"}
    removed = ansible.module("gpuctl_node_label", **options)
    assert removed.result["success"] == sorted([one, two, three]), removed.message
    assert field.labels(one) == {}
    assert field.labels(two) == {"runwhere.ai/rack": "b", POOL: field.pool("b")}
    assert (field.declared("a"), field.declared("b")) == ("", f"{two}:\n")
    assert not ansible.module("gpuctl_node_label", **options).changed
    either = ansible.module("gpuctl_node_label", nodes=[one], state="absent")
    assert "any of the following are missing: labels, keys" in either.message


def test_nodes_are_selected_by_pool_or_selector(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[one, two])
    by_pool = ansible.module("gpuctl_node_label", pool=field.pool("a"), labels={"rack": "1"})
    assert by_pool.result["success"] == sorted([one, two])
    by_selector = ansible.module("gpuctl_node_label", selector="runwhere.ai/rack=1", labels={"row": "2"})
    assert by_selector.result["success"] == sorted([one, two])
    assert field.labels(three) == {}
    nobody = ansible.module("gpuctl_node_label", pool=field.pool("b"), labels={"rack": "1"})
    assert not nobody.failed
    assert not nobody.changed
    assert f"no node found for pool {field.pool('b')}" in " ".join(nobody.screen.split())


def test_the_pool_label_moves_a_node_and_the_declarations_follow(ansible: Ansible, field: Field):
    one, two, three = field.nodes[:3]
    pools = [
        {"kind": "pool", "pool": {"name": field.pool(name)}, "nodes": nodes}
        for name, nodes in {"a": [one, two], "b": [three]}.items()
    ]
    ansible.module("gpuctl_pool", definition=pools)
    refused = ansible.module("gpuctl_node_label", nodes=[two], labels={"pool": field.pool("b")})
    assert f"{two} already has {POOL}={field.pool('a')}" in refused.message
    moved = ansible.module("gpuctl_node_label", nodes=[two], labels={"pool": field.pool("b")}, overwrite=True)
    assert moved.changed, moved.message
    assert (field.members("a"), field.members("b")) == ({one}, {two, three})
    assert field.declared("a") == f"{one}:\n"
    assert field.declared("b") == "".join(f"{node}:\n" for node in sorted([two, three]))

    ansible.module("gpuctl_node_label", nodes=[three], keys=["pool"], state="absent")
    assert field.declared("b") == f"{two}:\n"
    assert not ansible.module("gpuctl_pool", name=field.pool("b"), nodes=[two]).changed


def test_an_outdated_declaration_is_updated(ansible: Ansible, field: Field, recorder: Recorder):
    one, two = field.nodes[:2]
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[one, two])
    field.set_labels(two, {POOL: None})
    options: dict[str, Any] = {"nodes": [two], "keys": ["pool"], "state": "absent"}
    predicted = ansible.module("gpuctl_node_label", **options, check=True)
    finished = ansible.module("gpuctl_node_label", **options)
    assert finished.changed, finished.message
    assert (predicted.changed, predicted.diff) == (True, finished.diff)
    assert field.declared("a") == f"{one}:\n"
    recorder.clear()
    assert not ansible.module("gpuctl_node_label", **options).changed
    assert recorder.writes == []


def test_a_rejected_write_rolls_back_the_others(ansible: Ansible, field: Field, recorder: Recorder):
    one, two, three = field.nodes[:3]

    def interfere(request: Any) -> None:
        if request.method == "PATCH" and request.path == f"/api/v1/nodes/{two}":
            recorder.before = lambda request: None
            field.set_labels(two, {"runwhere.ai/rack": "theirs"})

    recorder.before = interfere
    result = ansible.module("gpuctl_node_label", nodes=[one, two, three], labels={"rack": "1"})
    assert result.failed
    assert result.message.endswith("Nothing was changed.")
    assert [row["error"] for row in result.result["failed_nodes"]] == ["LabelConflict"]
    assert field.labels(one) == field.labels(three) == {}
    assert field.labels(two) == {"runwhere.ai/rack": "theirs"}


def test_a_missing_permission(ansible: Ansible, field: Field, recorder: Recorder):
    result = ansible.module(
        "gpuctl_node_label", nodes=[field.nodes[0]], labels={"a": "1"}, impersonate_user="gpuctl-test-nobody"
    )
    assert result.failed
    assert "forbidden" in result.message
    assert recorder.writes == []


def test_an_invalid_selector(ansible: Ansible, recorder: Recorder):
    result = ansible.module("gpuctl_node_label", selector="a=b=c", labels={"x": "1"})
    assert "invalid label selector a=b=c: " in result.message
    assert recorder.writes == []


def test_all_invalid_labels_are_reported_without_a_request(ansible: Ansible, recorder: Recorder):
    result = ansible.module(
        "gpuctl_node_label",
        nodes=["a"],
        labels={"nvidia.com/gpu.product": "A", "rack": "x" * 64, "row": "a b", "pool": "default", "list": [1]},
    )
    assert result.failed
    assert len(result.message.splitlines()) == 6
    assert "Traceback" not in result.screen
    assert recorder.requests == []
