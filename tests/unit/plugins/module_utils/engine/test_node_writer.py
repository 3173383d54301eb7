# SPDX-License-Identifier: BSD-2-Clause
"""How labels are written to a node, request by request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.node_writer import (
    LabelChange,
    NodeFailure,
    NodeWriter,
    WriteResult,
    read_node_metadata,
    unknown_nodes,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from kubesim import Cluster

from ..kube.conversation import Exchange, conversation

NODE = "/api/v1/nodes/n1"
QUERY = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"
CHANGE = LabelChange({"name": "n1", "resourceVersion": "5"}, {POOL: "a"}, {POOL: None, TYPE: "T4"})


def node(version: str, **labels: str) -> dict[str, Any]:
    carried = {f"runwhere.ai/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"metadata": {"name": "n1", "resourceVersion": version, "labels": carried}}


def patch(version: str, labels: dict[str, str | None], **answer: Any) -> Exchange:
    sent = {"metadata": {"labels": labels, "resourceVersion": version}}
    return Exchange("PATCH", NODE, answer.pop("query", QUERY), sent=sent, **answer)


def get(**answer: Any) -> Exchange:
    return Exchange("GET", NODE, **answer)


def refused(status: int, reason: str) -> dict[str, Any]:
    return {"status": status, "answer": {"kind": "Status", "code": status, "reason": reason, "message": "no"}}


CONFLICT = refused(409, "Conflict")


def written(*exchanges: Exchange, check_mode: bool = False) -> WriteResult:
    with conversation(*exchanges) as url:
        client = Client(Connection(url, authorization=dict), sleep=lambda seconds: None)
        return NodeWriter(client, check_mode=check_mode).write([CHANGE])


def failure(outcome: WriteResult) -> NodeFailure:
    (found,) = outcome.failures
    return found


def test_a_node_is_one_guarded_patch() -> None:
    outcome = written(patch("5", {POOL: "a"}, answer=node("6", pool="a", gpu_type="T4")))
    assert [change.metadata["resourceVersion"] for change in outcome.done] == ["6"]


def test_check_mode_is_a_dry_run() -> None:
    dry = patch("5", {POOL: "a"}, query={**QUERY, "dryRun": "All"}, answer=node("5", pool="a"))
    assert written(dry, check_mode=True).failures == ()


def test_a_write_to_other_fields_is_not_a_conflict() -> None:
    outcome = written(
        patch("5", {POOL: "a"}, **CONFLICT),
        get(answer=node("7", gpu_type="T4", other="x")),
        patch("7", {POOL: "a"}, answer=node("8", pool="a", gpu_type="T4")),
    )
    assert [change.metadata["resourceVersion"] for change in outcome.done] == ["8"]


def test_a_patch_with_a_lost_answer_is_applied() -> None:
    outcome = written(
        patch("5", {POOL: "a"}, status=0),
        patch("5", {POOL: "a"}, **CONFLICT),
        get(answer=node("6", pool="a", gpu_type="T4")),
    )
    assert [change.metadata["resourceVersion"] for change in outcome.done] == ["6"]


def test_a_label_changed_by_others_is_a_conflict() -> None:
    found = failure(written(patch("5", {POOL: "a"}, **CONFLICT), get(answer=node("7", pool="b", gpu_type="T4"))))
    assert found.error == "LabelConflict"
    assert found.message == (
        "n1: someone else changed its labels: runwhere.ai/pool is now b and was not set when this task read it."
    )


def test_a_label_that_the_plan_is_based_on_is_a_conflict_too() -> None:
    found = failure(written(patch("5", {POOL: "a"}, **CONFLICT), get(answer=node("7", gpu_type="L4"))))
    assert (found.error, "runwhere.ai/gpu-type is now L4 and was T4" in found.message) == ("LabelConflict", True)


def test_attempts_are_limited() -> None:
    tries = [
        exchange
        for version in range(5, 10)
        for exchange in (
            patch(str(version), {POOL: "a"}, **CONFLICT),
            get(answer=node(str(version + 1), gpu_type="T4")),
        )
    ]
    assert failure(written(*tries)).error == "Conflict"


DELETED = {
    "when it is written": [patch("5", {POOL: "a"}, **refused(404, "NotFound"))],
    "when it is read again": [patch("5", {POOL: "a"}, **CONFLICT), get(**refused(404, "NotFound"))],
}


@pytest.mark.parametrize("exchanges", DELETED.values(), ids=DELETED)
def test_a_deleted_node(exchanges: list[Exchange]) -> None:
    assert failure(written(*exchanges)).error == "NodeNotFound"


def test_an_error_keeps_its_reason() -> None:
    assert failure(written(patch("5", {POOL: "a"}, **refused(403, "Forbidden")))).error == "Forbidden"


def test_only_the_first_unknown_nodes_get_a_suggestion() -> None:
    """A play for another cluster names a thousand nodes that this one does not have."""
    unknown = unknown_nodes([f"gpu-{number}x" for number in range(1000)], [f"gpu-{number}" for number in range(2000)])
    assert len(unknown) == 1000
    assert [message for message in unknown.values() if "Did you mean" in message] == [
        f"node gpu-{number}x not found. Did you mean gpu-{number}?" for number in range(3)
    ]
    assert unknown["gpu-999x"] == "node gpu-999x not found. To list the nodes, use M(gpuctl_node_info)"


# ---- Many nodes, against the simulated cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=30, controllers=False).running() as running:
        yield running


def connection(cluster: Cluster, concurrency: int) -> Connection:
    token = {"Authorization": f"Bearer {cluster.token}"}
    return Connection(cluster.url, authorization=lambda: token, concurrency=concurrency)


def client(cluster: Cluster, concurrency: int = 4) -> Client:
    return Client(connection(cluster, concurrency))


def changes(client: Client, pool: str | None) -> list[LabelChange]:
    return [
        LabelChange(metadata, {POOL: pool}, {POOL: (metadata.get("labels") or {}).get(POOL)})
        for metadata in read_node_metadata(client).values()
    ]


def pools(client: Client) -> set[str | None]:
    return {(metadata.get("labels") or {}).get(POOL) for metadata in read_node_metadata(client).values()}


def test_requests_are_concurrent_up_to_the_limit(cluster: Cluster) -> None:
    in_flight, most, lock = 0, 0, threading.Lock()

    class Counted(Client):
        def merge_patch(self, *args: Any, **options: Any) -> dict[str, Any]:
            nonlocal in_flight, most
            with lock:
                in_flight += 1
                most = max(most, in_flight)
            try:
                return super().merge_patch(*args, **options)
            finally:
                with lock:
                    in_flight -= 1

    counted = Counted(connection(cluster, 4))
    outcome = NodeWriter(counted).write(changes(counted, "a"))
    assert (len(outcome.done), outcome.failures) == (30, ())
    assert 1 < most <= 4


def test_a_roll_back_keeps_what_others_changed_since(cluster: Cluster) -> None:
    api = client(cluster)
    writer = NodeWriter(api)
    done = writer.write(changes(api, "a")).done
    theirs = next(change for change in changes(api, "theirs") if change.node == "node-7")
    writer.write([theirs])
    left = writer.roll_back(done)
    assert [(found.node, found.error) for found in left] == [("node-7", "LabelConflict")]
    assert pools(api) == {None, "theirs"}


def test_no_node_is_started_after_the_first_failure(cluster: Cluster) -> None:
    api = client(cluster, concurrency=1)
    gone = LabelChange({"name": "gone", "resourceVersion": "1"}, {POOL: "a"}, {POOL: None})
    outcome = NodeWriter(api).write([gone, *changes(api, "a")])
    assert outcome.done == ()
    assert [found.error for found in outcome.failures] == ["NodeNotFound"]
    outcome = NodeWriter(api).write([gone, *changes(api, "a")], keep_going=True)
    assert (len(outcome.done), len(outcome.failures)) == (30, 1)
