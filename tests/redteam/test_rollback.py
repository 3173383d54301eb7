# SPDX-License-Identifier: BSD-2-Clause
"""A tenant who writes the history of a namespace, where ``state=rolled_back`` finds the manifest to go back to.

Who may write it chooses the manifest (the guide on security says so). Nothing more: it is of the same name, kind and
namespace, it is checked as any other manifest is, and whatever is no manifest ends in a message before any write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from integration.api import Api, eventually
from integration.manifests import inference, notebook
from kubesim import Cluster

from .hostile import Visitor, forward, hostile, run
from .test_stores import TEXTS
from .test_tenant import planted_history
from .trap import ESCAPES, Trap, acts_on_a_terminal

NAMESPACE = "default"
EVIL = "registry.example.com/evil:1"


def serve(version: str, **blocks: Any) -> dict[str, Any]:
    environment = {**inference()["environment"], "image": f"registry.example.com/vllm:{version}"}
    return inference(**{"environment": environment, "resources": {"gpu": 0}, **blocks})


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Api]]:
    """A service of which v1 was ready, and which is v2 now, and a notebook of somebody else."""
    with Cluster(nodes=1).running() as cluster:
        api = Api(str(cluster.kubeconfig(tmp_path_factory.mktemp("cluster") / "kubeconfig")))
        for manifest in (serve("v1"), serve("v2"), notebook("lab")):
            given = {"definition": manifest, "namespace": NAMESPACE, "wait": True, "wait_timeout": 60}
            result = task(cluster, **given)
            assert not result.get("failed"), result["msg"]
        yield cluster, api


def task(cluster: Cluster, url: str = "", **options: Any) -> dict[str, Any]:
    return run("jobs.job", url or cluster.url, api_key=cluster.token, **{"request_timeout": 20, **options}).result


def roll_back(scene: tuple[Cluster, Api], *, url: str = "") -> dict[str, Any]:
    return task(scene[0], url, name="serve", namespace=NAMESPACE, state="rolled_back")


def plant(api: Api, good: Any, name: str = "gpuctl-history") -> str:
    """What the tenant records as the manifest with which the service was ready."""
    uid = str(api.get("deployment", "serve", NAMESPACE)["metadata"]["uid"])
    text = good if isinstance(good, str) else json.dumps(good)
    if not api.patch("configmap", name, {"data": {f"{uid}.good": text}}, NAMESPACE, missing_ok=True):
        api.create("configmap", planted_history(name, {f"{uid}.good": text}), NAMESPACE)
    return uid


def workloads(api: Api) -> dict[str, Any]:
    """What runs: the specifications of all workloads of all namespaces."""
    return {
        f"{kind} {obj['metadata']['namespace']}/{obj['metadata']['name']}": obj["spec"]
        for kind in ("deployment", "statefulset", "job")
        for namespace in ("default", "kube-system", "gpuctl-system")
        for obj in api.list(kind, namespace)
    }


def recorded(**fields: Any) -> dict[str, Any]:
    return {"digest": "0" * 32, "manifest": {**serve("v1"), **fields}}


# What is no manifest that the service could have had. Each is refused, and the service stays as it is.
STORED = [text for text in TEXTS if text != "\ud800" and len(text) < 40_000]  # half of a character is not stored
REFUSED: dict[str, Any] = {
    **{f"text {number}": text for number, text in enumerate(STORED)},
    **{f"manifest {number}": {"digest": "0", "manifest": text} for number, text in enumerate(STORED)},
    "another kind": {"digest": "0", "manifest": notebook("serve")},
    "a pool": {"digest": "0", "manifest": {"kind": "pool", "pool": {"name": "serve"}, "job": {}, "nodes": {}}},
    "no kind": {"digest": "0", "manifest": {"job": {"name": "serve"}}},
    "a path": {"digest": "0", "manifest": "/etc/passwd"},
    "many": {"digest": "0", "manifest": [serve("v1"), serve("v3")]},
    "a sweep": recorded(matrix={"a": list(range(256))}),
    "fields that there are none of": recorded(spec={"hostNetwork": True}, securityContext={"privileged": True}),
    "a path of the node": recorded(storage={"volumes": [{"host_path": "/", "mount_path": "/host"}]}),
    "an image that is none": recorded(environment={"image": "{{ lookup('pipe', 'id') }} \x1b[2J"}),
    "nested": '{"digest": "0", "manifest": {"kind": "inference", "job": ' + '{"a":' * 900 + "1" + "}" * 901 + "}",
    "a mask": recorded(environment={"image": "a", "env": {"TOKEN": "********"}}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_manifest_of_the_job_changes_nothing(scene: tuple[Cluster, Api], name: str) -> None:
    cluster, api = scene
    plant(api, REFUSED[name])
    before, methods = workloads(api), []

    def watched(visitor: Visitor) -> None:
        methods.append((visitor.method, visitor.path))
        status, body = forward(visitor, cluster.url, cluster.token)
        visitor.answer(body, f"{status} Status")

    with hostile(watched) as server:
        result = roll_back(scene, url=server.url)
    assert result.get("failed"), result
    assert "bug in runwhere.gpuctl" not in result["msg"], result.get("exception")
    assert not acts_on_a_terminal(result["msg"])
    assert len(result["msg"]) < 6_000
    assert [one for one in methods if one[0] != "GET" and "selfsubject" not in one[1]] == []
    assert workloads(api) == before


def test_a_planted_manifest_is_of_the_same_name_and_namespace(scene: tuple[Cluster, Api], tmp_path: Path) -> None:
    """Whatever it says itself; and none of its texts acts on the terminal."""
    cluster, api = scene
    trap = Trap(tmp_path / "sprung")
    manifest = serve("v9", job={"name": "lab", "namespace": "kube-system", "description": f"{ESCAPES} {trap.template}"})
    plant(api, {"digest": "0", "manifest": manifest}, "gpuctl-history-zz")
    before = workloads(api)
    result = roll_back(scene)
    assert not trap.sprung
    assert not acts_on_a_terminal(json.dumps(result, ensure_ascii=False))
    after = workloads(api)
    assert before.keys() == after.keys()
    assert {key for key in before if before[key] != after[key]} <= {f"deployment {NAMESPACE}/serve"}
    api.delete("configmap", "gpuctl-history-zz", NAMESPACE)
    assert not task(cluster, definition=serve("v2"), namespace=NAMESPACE).get("failed")


def test_check_mode_shows_the_image_that_was_planted(scene: tuple[Cluster, Api]) -> None:
    """As the guide on security advises."""
    cluster, api = scene
    plant(api, recorded(environment={**serve("v1")["environment"], "image": EVIL}))
    spec = workloads(api)[f"deployment {NAMESPACE}/serve"]
    given = {"host": cluster.url, "api_key": cluster.token, "name": "serve", "namespace": NAMESPACE}
    shown = predicted({**given, "state": "rolled_back"})
    assert shown["changed"]
    assert EVIL in json.dumps(shown["diff"])
    assert workloads(api)[f"deployment {NAMESPACE}/serve"] == spec


def predicted(options: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in options.items() if name not in ("host", "api_key")}
    task = Task(MODULE.options(**own), options, True, lambda text: None, lambda values: None)
    return run_task(task, MODULE)


def test_a_flood_of_histories_does_not_hide_the_recorded_one(scene: tuple[Cluster, Api]) -> None:
    """A tenant plants 22 ConfigMaps of a megabyte: an answer of that size is not read at once."""
    api = scene[1]
    plant(api, recorded())
    names = [f"gpuctl-history-{number}" for number in range(22)]
    for name in names:
        api.create("configmap", planted_history(name, {f"k{part}": "x" * 100_000 for part in range(10)}), NAMESPACE)
    try:
        result = roll_back(scene)
    finally:
        for name in names:
            api.delete("configmap", name, NAMESPACE)
    assert not result.get("failed"), result["msg"]
    image = "registry.example.com/vllm:v1"
    eventually(lambda: image in json.dumps(workloads(api)[f"deployment {NAMESPACE}/serve"]))
