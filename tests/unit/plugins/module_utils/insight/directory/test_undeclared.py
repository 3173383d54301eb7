# SPDX-License-Identifier: BSD-2-Clause
"""What a directory declares, and what it does not declare any more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory import directory_plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.directory_plan import (
    DirectoryOptions,
    DirectoryPlan,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.undeclared import (
    find_undeclared,
    undeclared_jobs,
    whole_source,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER, SOURCE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed


def test_a_policy_that_cannot_be_planned_does_not_make_the_next_one_undeclared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for name in ("first", "second"):
        files.append(str(tmp_path / f"{name}.yaml"))
        Path(files[-1]).write_text(f"kind: policy\npolicy: {{name: {name}}}\nteams: {{a: {{max_gpus_per_job: 1}}}}\n")

    def fail(*_given: Any) -> None:
        raise TaskFailed("no pool of that name")

    monkeypatch.setattr(directory_plan, "plan_policy", fail)
    found = DirectoryPlan(cast(Any, None))
    task = SimpleNamespace(with_options=lambda _options: None)
    directory_plan._plan_policies(cast(Any, task), DirectoryOptions(src=[], policies=files), found)
    assert [(each.name, each.text) for each in found.problems] == [
        ("first", "no pool of that name"),
        ("second", "no pool of that name"),
    ]
    assert found.declared == {"policy": [("", "first"), ("", "second")]}


def test_without_a_source_nothing_is_undeclared() -> None:
    client = cast(Any, None)  # is not asked
    assert list(find_undeclared(client, {"quota": [("", "q")], "job": []}, None, "")) == []


def test_of_a_kind_that_could_not_be_read_nothing_is_undeclared() -> None:
    client = cast(Any, None)  # is not asked
    assert list(find_undeclared(client, {"node": [("", "n")]}, None, "cluster")) == []


def test_single_files_are_not_all_of_a_source(tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"
    file.touch()
    for src, expected in (([str(tmp_path)], "s"), ([str(file)], ""), ([str(tmp_path), str(file)], "")):
        assert whole_source(DirectoryOptions(src=src, source="s")) == expected
    assert whole_source(DirectoryOptions(src=[str(tmp_path)])) == ""


def made(kind: str, name: str, app: str, source: str = "", manager: str = FIELD_MANAGER, **metadata: Any) -> Any:
    """An object of a job, and who holds the annotation with the source."""
    fields = {"f:metadata": {"f:annotations": {f"f:{SOURCE}": {}}}}
    return {
        "kind": kind,
        "metadata": {
            "namespace": "a",
            "name": name,
            "labels": {"app": app, "app.kubernetes.io/managed-by": FIELD_MANAGER},
            "annotations": {SOURCE: source} if source else {},
            "managedFields": [{"manager": manager, "operation": "Apply", "fieldsV1": fields}],
            **metadata,
        },
        "spec": {"replicas": 1},
        "status": {},
    }


WEB = made("Deployment", "web", "web", "ours")
FORGED = made("Service", "svc-web", "web", "ours")
CASES = {
    "a workload of the source": ([WEB, made("Service", "svc-web", "web", "ours")], [WEB]),
    "a workload of another one": ([made("Deployment", "web", "web", "theirs")], []),
    "a workload of no source": ([made("Deployment", "web", "web")], []),
    "a source that a person has written": ([made("Deployment", "web", "web", "ours", manager="kubectl-annotate")], []),
    "a name that none can be": ([made("Deployment", "web", "web", "o\x1b[31mrs")], []),
    "another object that claims the job of others": ([made("Deployment", "web", "web", "theirs"), FORGED], []),
    "another object that claims a job of no source": ([made("Deployment", "web", "web"), FORGED], []),
    "two workloads of one name": ([WEB, made("StatefulSet", "web", "web", "theirs")], []),
    "what is left of a job": ([FORGED], [FORGED]),
    "what is left of the job of others": ([made("Service", "svc-web", "web", "theirs")], []),
    "what goes with its owner": ([made("Service", "svc-web", "web", "ours", ownerReferences=[{"uid": "1"}])], []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_job_is_no_longer_declared_if_its_workload_is_of_the_source(name: str) -> None:
    objects, expected = CASES[name]
    assert undeclared_jobs(objects, set(), "ours") == ({("a", "web"): expected} if expected else {})
    assert undeclared_jobs(objects, {("a", "web")}, "ours") == {}
