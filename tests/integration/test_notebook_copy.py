# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.notebook_copy: what it asks of kubernetes.core, and what it says when it cannot.

The collection kubernetes.core is a stand-in here, whose k8s_cp only reports its arguments: no simulated cluster
runs commands in containers, which is how the real one copies.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .ansible import ROOT, Ansible, TaskResult
from .manifests import notebook

STAND_IN = """
from ansible.module_utils.basic import AnsibleModule

module = AnsibleModule(
    argument_spec={
        "namespace": {"required": True},
        "pod": {"required": True},
        "container": {},
        "local_path": {"type": "path"},
        "remote_path": {"type": "path", "required": True},
        "state": {"choices": ["to_pod", "from_pod"]},
    }
)
module.exit_json(changed=True, asked=module.params)
"""
FILTER = """
class FilterModule:
    def filters(self):
        return {"k8s_config_resource_name": str}
"""


@pytest.fixture
def with_stand_in(ansible: Ansible, tmp_path: Path) -> Ansible:
    """Ansible that finds a collection kubernetes.core."""
    plugins = tmp_path / "collections" / "ansible_collections" / "kubernetes" / "core" / "plugins"
    for kind, name, text in (
        ("modules", "k8s_cp.py", STAND_IN),
        ("filter", "k8s_config_resource_name.py", FILTER),
    ):
        (plugins / kind).mkdir(parents=True)
        (plugins / kind / name).write_text(text)
    paths = f"{ROOT / '.cache' / 'collections'}:{tmp_path / 'collections'}"
    return replace(ansible, environment={**ansible.environment, "ANSIBLE_COLLECTIONS_PATH": paths})


def copy(ansible: Ansible, namespace: str, **variables: str) -> TaskResult:
    """The last task of the playbook."""
    given = {"name": "lab", "namespace": namespace, "local": "data", "remote": "/home/jovyan/data", **variables}
    arguments = [part for name, value in given.items() for part in ("-e", f"gpuctl_{name}={value}")]
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.notebook_copy", *arguments)
    return replace(run.tasks[-1], screen=run.output)


@pytest.mark.parametrize(
    ("variables", "state", "local"),
    [
        ({}, "to_pod", "{here}/data"),
        ({"direction": "from_notebook"}, "from_pod", "{here}/data"),
        ({"direction": ""}, "to_pod", "{here}/data"),
        ({"local": "/tmp/data.csv"}, "to_pod", "/tmp/data.csv"),
    ],
    ids=["to", "from", "unanswered", "absolute"],
)
def test_files_go_to_the_notebooks_container_and_back(
    with_stand_in: Ansible, namespace: str, variables: dict[str, str], state: str, local: str
):
    submitted = with_stand_in.job(definition=notebook(), namespace=namespace, wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    done = copy(with_stand_in, namespace, **variables)
    assert done.outcome == "ok", done.screen
    assert done.result["asked"] == {
        "namespace": namespace,
        "pod": "lab-0",
        "container": "main",
        "local_path": local.format(here=with_stand_in.directory),
        "remote_path": "/home/jovyan/data",
        "state": state,
    }


def test_without_the_collection_that_copies(ansible: Ansible, namespace: str):
    alone = replace(ansible, environment={**ansible.environment, "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "no"})
    said = copy(alone, namespace)
    assert said.failed, said.screen
    assert "ansible-galaxy collection install kubernetes.core" in said.message


def test_a_missing_notebook(with_stand_in: Ansible, namespace: str):
    said = copy(with_stand_in, namespace)
    assert said.failed, said.screen
    assert f"Notebook not found: lab in namespace {namespace}." in said.message


def test_a_notebook_that_does_not_run(with_stand_in: Ansible, namespace: str):
    manifest = notebook(resources={"gpu": 4000})
    with_stand_in.job(definition=manifest, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=3)
    said = copy(with_stand_in, namespace)
    assert said.failed, said.screen
    assert f"Notebook not running: lab in namespace {namespace} is Pending." in said.message
    assert "4000 GPUs" in said.message


@pytest.mark.parametrize(
    ("variables", "words"),
    [({"remote": ""}, "gpuctl_remote to a path in the notebook"), ({"direction": "sideways"}, "or from_notebook")],
    ids=["nowhere", "sideways"],
)
def test_what_cannot_be_meant(with_stand_in: Ansible, namespace: str, variables: dict[str, Any], words: str):
    said = copy(with_stand_in, namespace, **variables)
    assert said.failed, said.screen
    assert words in said.message
