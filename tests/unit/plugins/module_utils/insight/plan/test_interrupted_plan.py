# SPDX-License-Identifier: BSD-2-Clause
"""A saved plan whose application was interrupted is finished, and one that was applied is applied again."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.plan.plan_info import MODULE as PLAN
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from kubesim import Cluster, Fault

from ...jobs.sessions import Session

SMALL = {"cpu": 1, "memory": "1Gi", "gpu": 1}
OPTIONS = {"recreate": True, "retries": 0}


@pytest.fixture
def session() -> Iterator[Session]:
    with Cluster(nodes=3, pod_start_seconds=0.0).running() as cluster:
        yield Session(cluster)


def manifests(version: int) -> list[dict[str, Any]]:
    """With the second version, a pool gets a node, a quota is raised, a training and a service are replaced."""
    image = {"image": f"registry.example.com/ml:v{version}"}
    distributed = {"backend": "deepspeed", "deepspeed": "zero2"}
    found: list[dict[str, Any]] = [
        {"kind": "pool", "pool": {"name": "p"}, "nodes": ["node-1", "node-2"][:version]},
        {"kind": "quota", "quota": {"name": "q"}, "namespace": {"default": {"cpu": 50 * version}}},
        _job("training", "train", image, resources={**SMALL, "node_count": 2}, distributed=distributed),
        _job("compute" if version == 1 else "notebook", "web", image),
        _job("inference", "serve", image),
    ]
    new = [_job("training", "new", image, resources={**SMALL, "node_count": 2}, distributed=distributed)]
    return found + (new if version == 2 else [])


def _job(kind: str, name: str, image: dict[str, str], **blocks: Any) -> dict[str, Any]:
    environment = {**image, "command": ["run"]}
    return {"kind": kind, "job": {"name": name}, "environment": environment, "resources": SMALL, **blocks}


def declare(directory: Path, version: int) -> str:
    (directory / "all.yaml").write_text(yaml.safe_dump_all(manifests(version)))
    return str(directory)


def apply(session: Session, src: str) -> bool:
    """What the playbook provision does after the check; False once a task has failed."""
    shared = {"src": [src], "allow_empty": True, "retries": 0}
    tasks = ((POOL, shared), (QUOTA, shared), (JOB, {**shared, "recreate": True, "wait_timeout": 10, "concurrency": 1}))
    return not any(session.run(module, **options).get("failed") for module, options in tasks)


def planned(session: Session, src: str, plan: Any = None) -> dict[str, Any]:
    return session.run(PLAN, src=[src], plan=plan, **OPTIONS)


@pytest.mark.parametrize("number", [0, 4, 8, 12, 16, 20, 24, 28, 32, 36])
def test_a_plan_that_was_interrupted_is_finished(session: Session, tmp_path: Path, number: int) -> None:
    assert apply(session, declare(tmp_path, 1))
    src = declare(tmp_path, 2)
    plan = planned(session, src)["plan"]
    session.cluster.faults.add(Fault("reset", verb="patch", skip=number, count=None))
    session.cluster.faults.add(Fault("reset", verb="create", skip=number, count=None))
    session.cluster.faults.add(Fault("reset", verb="delete", skip=number // 4, count=None))
    complete = apply(session, src)
    session.cluster.faults.clear()

    left = planned(session, src, plan)
    assert not left.get("failed"), left["msg"]
    total = len([title for title in plan["steps"] if title[0].isupper()])
    assert len(left["steps_done"]) == total if complete else len(left["steps_done"]) < total
    if left["steps_done"]:
        done = len(left["steps_done"])
        assert left["msg"].startswith(f"{done} of {total} steps of the plan done before, {total - done} now.")

    assert apply(session, src)
    again = planned(session, src, plan)
    assert (again.get("failed"), len(again["steps_done"]), again["results"]) == (None, total, [])


def test_a_job_that_someone_else_has_deleted_is_not_created(session: Session, tmp_path: Path) -> None:
    assert apply(session, declare(tmp_path, 1))
    src = declare(tmp_path, 2)
    plan = planned(session, src)["plan"]
    session.cluster.call(lambda: session.cluster.registry.delete("Job", "default", "train"))
    refused = planned(session, src, plan)
    assert refused["failed"]
    assert "Job default/train" in refused["msg"]
    assert "missing, another one, or with other values than the plan was made for." in refused["msg"]


def test_what_has_changed_beside_an_interrupted_plan_is_refused(session: Session, tmp_path: Path) -> None:
    assert apply(session, declare(tmp_path, 1))
    src = declare(tmp_path, 2)
    plan = planned(session, src)["plan"]
    assert apply(session, src)

    def scale() -> None:
        serve = copy.deepcopy(session.cluster.registry.get("Deployment", "default", "serve"))
        serve["spec"]["replicas"] = 3
        session.cluster.registry.update("Deployment", serve)

    session.cluster.call(scale)
    assert planned(session, src, plan)["failed"]
