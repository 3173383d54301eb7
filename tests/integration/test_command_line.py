# SPDX-License-Identifier: BSD-2-Clause
"""What a person types, and what they see."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .ansible import Ansible
from .api import Api
from .manifests import compute, training
from .recorder import Recorder


@pytest.fixture
def manifest(ansible: Ansible) -> str:
    path = ansible.directory / "training.yaml"
    path.write_text(yaml.safe_dump(training()))
    return path.name


def test_ad_hoc(ansible: Ansible, api: Api, namespace: str, manifest: str):
    """``ansible localhost -m runwhere.gpuctl.gpuctl_job -a 'src=training.yaml'``."""
    call = ("localhost", "-m", "runwhere.gpuctl.gpuctl_job", "-a", f"src={manifest} namespace={namespace}")
    planned = ansible.run("ansible", *call, "--check", "--diff")
    assert planned.status == 0, planned.output
    assert f"+++ after: Job {namespace}/train (create)" in planned.output
    assert api.get("job", "train", namespace) is None

    done = ansible.run("ansible", *call)
    assert done.status == 0, done.output
    assert "localhost | CHANGED" in done.output
    assert api.get("job", "train", namespace)

    again = ansible.run("ansible", *call)
    assert "localhost | SUCCESS" in again.output


def test_a_directory_of_manifests(ansible: Ansible, namespace: str):
    folder = ansible.directory / "jobs"
    folder.mkdir()
    (folder / "a.yaml").write_text(yaml.safe_dump_all([compute("a"), compute("b")]))
    (folder / "pool.yml").write_text(yaml.safe_dump({"kind": "pool", "pool": {"name": "p"}, "nodes": ["node-1"]}))
    result = ansible.job(src="jobs", namespace=namespace)
    assert [job["name"] for job in result.result["results"]] == ["a", "b"]


@pytest.mark.parametrize("src", ["jobs", "jobs/*.yaml", "jobs/a.yaml,jobs/b.yaml"])
def test_the_playbook_finds_manifests_from_where_it_is_called(ansible: Ansible, api: Api, namespace: str, src: str):
    """``ansible-playbook runwhere.gpuctl.submit -e gpuctl_src=jobs/`` in the directory that holds ``jobs``."""
    folder = ansible.directory / "jobs"
    folder.mkdir()
    for name in "a", "b":
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(compute(name)))
    run = ansible.run(
        "ansible-playbook", "runwhere.gpuctl.submit", "-e", f"gpuctl_src={src}", "-e", f"gpuctl_namespace={namespace}"
    )
    assert run.status == 0, run.output
    assert api.get("deployment", "a", namespace)
    assert api.get("deployment", "b", namespace)


def test_options_come_from_the_environment_and_from_module_defaults(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    settings = {
        "environment": Ansible(ansible.directory, {"K8S_AUTH_HOST": recorder.url, "K8S_AUTH_API_KEY": "any"}),
        "context": Ansible(
            ansible.directory, {"K8S_AUTH_KUBECONFIG": str(recorder.kubeconfig), "K8S_AUTH_CONTEXT": "recorded"}
        ),
        "KUBECONFIG": Ansible(ansible.directory, {"KUBECONFIG": str(recorder.kubeconfig)}),
    }
    for name, tool in settings.items():
        result = tool.job(definition=compute(), namespace=namespace)
        assert not result.failed, (name, result.message)
        assert result.changed is (name == "environment")

    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "module_defaults": {"group/runwhere.gpuctl.gpuctl": {"host": recorder.url, "api_key": "any"}},
        "tasks": [{"runwhere.gpuctl.gpuctl_job": {"definition": compute(), "namespace": namespace}}],
    }
    path = ansible.directory / "defaults.yml"
    path.write_text(yaml.safe_dump([play]))
    run = Ansible(ansible.directory, {}).run("ansible-playbook", str(path))
    assert run.status == 0, run.output
    assert not run.tasks[0].changed


def test_the_documentation_reads(ansible: Ansible):
    shown = ansible.run("ansible-doc", "runwhere.gpuctl.gpuctl_job")
    assert shown.status == 0, shown.output
    for heading in ("OPTIONS", "EXAMPLES", "RETURN VALUES", "kubeconfig", "on_immutable"):
        assert heading in shown.output


def test_an_empty_variable_counts_as_unset(ansible: Ansible, recorder: Recorder, namespace: str):
    """AWX sets variables that its credential leaves empty."""
    environment = {"K8S_AUTH_HOST": "", "K8S_AUTH_CONTEXT": "", "K8S_AUTH_KUBECONFIG": str(recorder.kubeconfig)}
    assert not Ansible(ansible.directory, environment).job(definition=compute(), namespace=namespace).failed


@pytest.mark.parametrize("fast_path", ["1", "0"])
def test_paths_in_the_environment_are_relative_to_where_the_command_is_typed(ansible: Ansible, fast_path: str):
    """``K8S_AUTH_KUBECONFIG=lab.yaml ansible-playbook runwhere.gpuctl.status``; the playbook lies elsewhere."""
    kubeconfig = ansible.directory / "lab.yaml"
    kubeconfig.write_bytes(Path(ansible.environment["K8S_AUTH_KUBECONFIG"]).read_bytes())
    here = Ansible(ansible.directory, {"K8S_AUTH_KUBECONFIG": kubeconfig.name, "GPUCTL_FAST_PATH": fast_path})
    run = here.run("ansible-playbook", "runwhere.gpuctl.status")
    assert run.status == 0, run.output
