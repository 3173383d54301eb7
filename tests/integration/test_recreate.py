# SPDX-License-Identifier: BSD-2-Clause
"""The playbooks do not stop what has run, and say what cannot work before they write it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .pools import Field
from .recorder import Recorder

CHANGED = {"image": "registry.example.com/ml:v2"}


def run(ansible: Ansible, playbook: str, *arguments: str, **variables: Any) -> Run:
    """A playbook with the variables and with the directory ``cluster``."""
    given = {f"gpuctl_{name}": value for name, value in {"dir": "cluster", **variables}.items()}
    return ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", "-e", json.dumps(given), *arguments)


def declare(ansible: Ansible, *manifests: dict[str, Any]) -> None:
    directory = ansible.directory / "cluster"
    directory.mkdir(exist_ok=True)
    (directory / "jobs.yaml").write_text(yaml.safe_dump_all(manifests))


def uids(api: Api, namespace: str) -> dict[str, str]:
    return {job["metadata"]["name"]: job["metadata"]["uid"] for job in api.list("job", namespace)}


@pytest.mark.parametrize("playbook", ["submit", "provision"])
def test_a_training_that_runs_is_only_recreated_on_request(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, playbook: str
):
    declare(ansible, training("one"), training("two"))
    assert run(ansible, playbook, namespace=namespace, wait=True).status == 0
    before = uids(api, namespace)
    declare(ansible, training("one", environment=CHANGED), training("two", environment=CHANGED), compute("new"))
    for arguments in ([], ["--check"]):
        recorder.clear()
        refused = run(ansible, playbook, *arguments, namespace=namespace)
        assert refused.status != 0, refused.output
        text = " ".join(refused.output.split())
        for name in ("one", "two"):
            assert f"training {name} in namespace {namespace}: recreating it stops a training that has run" in text
        assert "on 1 GPU (Kubernetes cannot change spec.template.spec.containers[main].image in place)" in text
        assert "Use -e gpuctl_recreate=true to recreate it all the same." in text
        assert recorder.writes == []
    assert uids(api, namespace) == before
    assert api.get("deployment", "new", namespace) is None

    allowed = run(ansible, playbook, namespace=namespace, recreate=True)
    assert allowed.status == 0, allowed.output
    stops = f"training one in namespace {namespace}: recreating it stops a training that has run for "
    assert stops in " ".join(allowed.output.split()), allowed.output
    after = uids(api, namespace)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    again = run(ansible, playbook, "--check", namespace=namespace)
    assert again.status == 0, again.output


def test_a_training_that_waits_is_recreated_without_a_question(ansible: Ansible, api: Api, namespace: str):
    declare(ansible, training("stuck", resources={"gpu-type": "H9"}))
    assert run(ansible, "submit", namespace=namespace, strict=False).status == 0
    before = uids(api, namespace)
    eventually(lambda: api.list("pod", namespace))
    declare(ansible, training("stuck", resources={"gpu-type": "H9"}, environment=CHANGED))
    done = run(ansible, "submit", namespace=namespace, strict=False)
    assert done.status == 0, done.output
    assert uids(api, namespace) != before


MISTAKES = [
    training("lost", resources={"pool": "no-such-pool"}),
    training("large", resources={"gpu": 4000, "memory": 64}),
    compute("web", environment={"service_account": "nobody", "env": {"URL": "db://me:hunter22@db/x"}}),
    compute("data", storage={"workdirs": [{"path": "/data", "claim": "none"}]}),
]
SAID = [
    "pool no-such-pool has no nodes",
    "it needs 4000 GPUs on one node",
    "quota small of the namespace is too small for the job (nvidia.com/gpu: 4000 requested, at most 100 allowed)",
    "resources.memory: 64 is 64 bytes",
    'serviceaccount "nobody" not found',
    "the value of URL looks like a token or password",
    "PersistentVolumeClaim none not found",
]


@pytest.mark.parametrize("playbook", ["submit", "provision"])
def test_what_cannot_work_is_a_warning_and_with_strict_an_error(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, playbook: str
):
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.nvidia.com/gpu": "100"}}}
    api.create("resourcequota", quota, namespace)
    declare(ansible, *MISTAKES)
    refused = run(ansible, playbook, namespace=namespace, strict=True, all=True)
    assert refused.status != 0
    assert unsaid(refused) == [], refused.output
    assert "hunter22" not in refused.output
    assert recorder.writes == []

    warned = run(ansible, playbook, namespace=namespace, strict=False)
    assert warned.status == 0, warned.output
    assert unsaid(warned) == [], warned.output
    assert len(api.list("job", namespace)) == 2

    recorder.clear()
    again = run(ansible, playbook, namespace=namespace, strict=True, all=True)
    assert again.status == 0, "what is not changed is not checked again"
    asked = {request.path.partition("?")[0].rpartition("/")[2] for request in recorder.requests}
    assert asked.isdisjoint({"serviceaccounts", "persistentvolumeclaims", "resourcequotas"})


IMPOSSIBLE = [
    training("bytes", resources={"memory": 128}),
    training("lost", resources={"pool": "no-such-pool"}),
    training("typed", resources={"gpu-type": "H9"}),
    compute("data", storage={"workdirs": [{"path": "/data", "claim": "none"}]}),
]
NAMED = ["resources.memory: 128 is 128 bytes", "resources.pool: pods cannot be", "resources.gpu-type: pods cannot be"]


@pytest.mark.parametrize("check", [[], ["--check"]], ids=["run", "check"])
def test_submit_refuses_contradictory_options(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, check: list[str]
):
    declare(ansible, *IMPOSSIBLE)
    refused = run(ansible, "submit", *check, namespace=namespace)
    text = " ".join(refused.output.split())
    assert refused.status != 0
    assert [said for said in NAMED if f"jobs.yaml, document {NAMED.index(said) + 1}, {said}" not in text] == []
    assert text.partition("fatal: ")[2].count("-e gpuctl_strict=false") == 1, refused.output
    assert recorder.writes == []

    passed = run(ansible, "submit", *check, namespace=namespace, strict=False)
    assert passed.status == 0, passed.output
    assert len(api.list("job", namespace)) == (0 if check else 3)


def test_a_refusal_names_the_key_as_it_is_written(ansible: Ansible, namespace: str):
    declare(ansible, training("typed", resources={"gpu_type": "H9"}))
    text = " ".join(run(ansible, "submit", namespace=namespace).output.split())
    assert "document 1, resources.gpu_type: pods cannot be" in text
    assert "resources.gpu-type" not in text


def test_a_declared_pool_may_get_its_nodes_later(ansible: Ansible, field: Field, namespace: str):
    pool = field.pool("later")
    ansible.module("gpuctl_pool", definition={"kind": "pool", "pool": {"name": pool}, "nodes": []})
    declare(ansible, training("early", resources={"pool": pool}))
    done = run(ansible, "submit", namespace=namespace)
    assert done.status == 0, done.output
    declare(ansible, *IMPOSSIBLE[1:3])
    assert run(ansible, "submit", namespace=namespace, wait_for_nodes=True).status == 0
    assert not ansible.job(definition=IMPOSSIBLE[0], namespace=namespace).failed


def unsaid(run: Run) -> list[str]:
    """What should be on the screen and is not, however its lines are broken."""
    text = " ".join(run.output.split())
    return [said for said in SAID if said not in text]
