# SPDX-License-Identifier: BSD-2-Clause
"""Many jobs from few words: a matrix of trainings, and a directory of manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .ansible import ROOT, Ansible
from .api import Api, eventually
from .manifests import compute, training
from .recorder import Recorder

SWEEP = training(
    "search",
    matrix={"lr": ["1e-4", "3e-5"], "seed": [1, 2]},
    environment={
        "command": ["train", "--lr", "$(matrix.lr)"],
        "args": ["--out=/out/$(matrix.lr)/$(matrix.seed)"],
        "env": {"SEED": "$(matrix.seed)"},
    },
    resources={"gpu": 0},
)
NAMES = ["search-1e-4-1", "search-1e-4-2", "search-3e-5-1", "search-3e-5-2"]
DIRECTORY = 200


def test_a_matrix_runs_a_training_for_each_combination(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    options = {"definition": SWEEP, "namespace": namespace}
    first = ansible.job(**options)
    assert list(first.jobs) == NAMES
    assert {job["action"] for job in first.jobs.values()} == {"create"}
    container = api.get("job", "search-3e-5-2", namespace)["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["train", "--lr", "3e-5"]
    assert container["args"] == ["--out=/out/3e-5/2"]
    assert {"name": "SEED", "value": "2"} in container["env"]

    recorder.clear()
    assert not ansible.job(**options).changed
    assert recorder.writes == []

    more = {**SWEEP, "matrix": {**SWEEP["matrix"], "seed": [1, 2, 3]}}
    added = ansible.job(definition=more, namespace=namespace)
    assert [name for name, job in added.jobs.items() if job["action"] == "create"] == ["search-1e-4-3", "search-3e-5-3"]

    info = ansible.module("gpuctl_job_info", namespaces=[namespace], label_selectors=["runwhere.ai/sweep=search"])
    assert len(info.result["results"]) == 6

    ansible.job(definition=more, namespace=namespace, state="absent", force=True)
    eventually(lambda: not api.list("job", namespace))


def test_the_example_of_a_matrix_runs(ansible: Ansible, api: Api, namespace: str):
    result = ansible.job(src=[str(ROOT / "examples" / "manifests" / "training-experiments.yaml")], namespace=namespace)
    assert {name: job["action"] for name, job in result.jobs.items()} == {
        "resnet-lr-1e-3": "create",
        "resnet-lr-3e-4": "create",
    }
    found = api.list("job", namespace, "runwhere.ai/sweep=resnet-lr")
    assert {obj["metadata"]["name"] for obj in found} == set(result.jobs)


def test_an_error_in_a_matrix_is_reported_once_before_anything_is_sent(
    ansible: Ansible, recorder: Recorder, namespace: str
):
    wrong = {**SWEEP, "matrix": {"lr": ["1e-4", "3e-5"], "sed": [1, 2]}}
    result = ansible.job(definition=wrong, namespace=namespace)
    assert result.failed
    assert result.message.split("\n") == [
        "3 errors in the definition; nothing was sent to the cluster:",
        "definition, document 1, environment.args[0]: unknown parameter: $(matrix.seed). Did you mean $(matrix.sed)?",
        "definition, document 1, environment.env.SEED: unknown parameter: $(matrix.seed). Did you mean $(matrix.sed)?",
        "definition, document 1, matrix.sed: unused parameter, the trainings would be identical. "
        "Write $(matrix.sed) where its values belong, or remove it.",
    ]
    assert recorder.requests == []


def written(directory: Path, manifests: list[dict[str, Any]]) -> str:
    directory.mkdir(exist_ok=True)
    for manifest in manifests:
        name = manifest["job"]["name"]
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    return str(directory)


def some_of_each(number: int) -> list[dict[str, Any]]:
    """Services without copies, so that any cluster holds them, and a training among every twenty."""
    idle = {"replicas": 0, "type": "ClusterIP"}
    return [
        training(f"job-{index:03}", resources={"gpu": 0, "cpu": "10m", "memory": "16Mi"})
        if index % 20 == 0
        else compute(f"job-{index:03}", service=idle)
        for index in range(number)
    ]


def test_a_directory_of_manifests_is_one_task(ansible: Ansible, recorder: Recorder, namespace: str, tmp_path: Path):
    # For a job that is not scheduled yet, the nodes are read as well.
    scheduled: dict[str, Any] = {"wait": True, "wait_for": "scheduled", "wait_timeout": 60}
    few = written(tmp_path / "few", some_of_each(2))
    ansible.job(src=[few], namespace=namespace, **scheduled)
    recorder.clear()
    ansible.job(src=[few], namespace=namespace)
    reads = sorted(str(request) for request in recorder.requests)

    many = written(tmp_path / "many", some_of_each(DIRECTORY))
    first = ansible.job(src=[many], namespace=namespace)
    assert not first.failed, first.message
    assert [job["name"] for job in first.result["results"]] == [f"job-{index:03}" for index in range(DIRECTORY)]
    assert first.message == f"{DIRECTORY} jobs: {DIRECTORY - 2} create, 2 unchanged"
    assert not ansible.job(src=[many], namespace=namespace, **scheduled).changed

    recorder.clear()
    second = ansible.job(src=[many], namespace=namespace)
    assert not second.changed
    assert sorted(str(request) for request in recorder.requests) == reads, "as many as for two manifests"

    changed = some_of_each(DIRECTORY)
    changed[7]["environment"]["image"] = "registry.example.com/ml:v2"
    written(tmp_path / "many", changed)
    recorder.clear()
    third = ansible.job(src=[many], namespace=namespace)
    assert [name for name, job in third.jobs.items() if job["action"] == "update"] == ["job-007"]
    history = f"PATCH /api/v1/namespaces/{namespace}/configmaps/gpuctl-history"
    assert recorder.writes == [f"PATCH /apis/apps/v1/namespaces/{namespace}/deployments/job-007", history]
