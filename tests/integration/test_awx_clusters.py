# SPDX-License-Identifier: BSD-2-Clause
"""The job templates of awx/ over several clusters: the inventory that awx/configure.yml makes, and one credential whose
kubeconfig has a context for each."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .ansible import Ansible
from .awx_launch import AWX, Launched, config, launch
from .documents import blocks_of
from .manifests import IMAGE, compute, training
from .test_move import fill
from .test_placement import Sites

NAMES = ("east", "west")
TAGS = {"east": {"region": "eu", "price": 2.5}, "west": {}}
INVENTORY: dict[str, Any] = {
    "gpuctl_clusters": {
        "hosts": {
            name: {
                "ansible_connection": "local",
                "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                "gpuctl_cluster_context": name,
                "gpuctl_cluster_tags": TAGS[name],
            }
            for name in NAMES
        },
        "vars": {"gpuctl_home": "east"},
    },
    "region_eu": {"hosts": {"east": None}},
}
SFT = {"gpuctl_name": "sft", "gpuctl_namespace": "default", "gpuctl_image": IMAGE, "gpuctl_wait": "no"}
SFT |= {"gpuctl_gpu": 8, "gpuctl_cpu": "1", "gpuctl_memory": "1Gi"}
Launch = Callable[..., Launched]


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    with Cluster(nodes=1, tls=True).running() as east, Cluster(nodes=1, tls=True).running() as west:
        yield Sites(dict(zip(NAMES, (east, west), strict=True)), {}, Ansible(tmp_path, {}))


@pytest.fixture
def awx(sites: Sites, tmp_path: Path) -> Launch:
    """Launches templates with the credential, those of the team with its namespaces. Its current context is none."""
    whole: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, cluster in sites.clusters.items():
        one = json.loads(cluster.kubeconfig(tmp_path / f"{name}.kubeconfig").read_text())
        for kind in ("clusters", "users", "contexts"):
            whole[kind] += [{**one[kind][0], "name": name}]
        whole["contexts"][-1]["context"] = {"cluster": name, "user": name}
    (tmp_path / "kubeconfig").write_text(json.dumps(whole))
    credential = {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"), "K8S_AUTH_CONTEXT": ""}

    def run(name: str, answers: Mapping[str, Any] = {}, **more: Any) -> Launched:
        directory = tmp_path / "job"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        bound = {"GPUCTL_ALLOWED_NAMESPACES": "default" if name.endswith(" team") else ""}
        return launch(directory, name, answers, {**credential, **bound}, inventory=INVENTORY, **more)

    return run


def nodes(done: Launched) -> list[str]:
    """The clusters with a row in the first table of the status."""
    assert done.status == "successful", done.output
    return [name for name in NAMES if any(line.split()[:1] == [name] for line in done.output.splitlines())]


def test_the_status_is_of_all_clusters_or_of_the_one_that_is_chosen(awx: Launch) -> None:
    assert nodes(awx("GPU status")) == ["east", "west"]
    one = awx("GPU status", limit="west")
    assert one.status == "successful", one.output
    assert "1 node: 1 active" in one.output
    chosen = awx("GPU status team", {"gpuctl_hosts": "west"})
    assert [event["event_data"]["host"] for event in chosen.events if event["event"] == "runner_on_ok"] == ["west"] * 2


def test_a_training_goes_to_one_of_them_and_is_found_there(awx: Launch, sites: Sites) -> None:
    """East is full."""
    fill(sites, "east")
    done = awx("GPU submit training team", SFT)
    assert done.status == "successful", done.output
    assert (sites.copies(), sites.record()["cluster"]) == (["west"], "west")
    assert [job["name"] for job in done.artifacts["gpuctl_submitted"]] == ["sft"]
    described = awx("GPU describe team", {"gpuctl_name": "sft", "gpuctl_namespace": "default"})
    assert described.status == "successful", described.output


def test_the_namespaces_of_a_team_hold_in_all_clusters(awx: Launch, sites: Sites) -> None:
    manifest = {**compute("web"), "job": {"name": "web", "namespace": "team-b"}}
    answers = {"gpuctl_definition": yaml.safe_dump(manifest), "gpuctl_namespace": "default"}
    refused = awx("GPU submit manifests team", answers)
    assert refused.status == "failed", refused.output
    assert "namespace not allowed: team-b" in " ".join(refused.output.split())
    assert sites.record("web") == {}


def test_a_cluster_is_drained_as_the_workflow_does_it(awx: Launch, sites: Sites) -> None:
    """Its nodes get the answers of its survey, and the second one runs after the approval."""
    fill(sites, "west")
    assert awx("GPU submit training team", {**SFT, "gpuctl_clusters": "west"}).status == "successful"
    assert sites.copies() == ["west"]
    before = sites.record()
    workflow = next(each for each in config("workflows")["gpuctl_awx_workflows"] if "of_clusters" in each)
    plan, drain = [node["job_template"] for node in workflow["nodes"] if "job_template" in node]

    shown = awx(plan, {"gpuctl_from": "west"})
    assert shown.status == "successful", shown.output
    assert "1 job would move." in shown.output
    assert "gpuctl_confirm" not in shown.output, "who approves has no variables to set"
    assert (sites.copies(), sites.record()) == (["west"], before)

    done = awx(drain, {"gpuctl_from": "west"})
    assert done.status == "successful", done.output
    assert (sites.copies(), sites.record()["cluster"]) == (["east"], "east")


def test_the_accounts_of_the_guide_have_a_context_in_each_cluster(sites: Sites, tmp_path: Path) -> None:
    """That of administrators of onboard, and that of a team, with two namespaces, of the play."""
    (tmp_path / "all").mkdir()
    for name, cluster in sites.clusters.items():
        cluster.kubeconfig(tmp_path / "all" / name)
    inventory = {"plugin": "runwhere.gpuctl.clusters", "kubeconfig": ["all"]}
    (tmp_path / "clusters.yml").write_text(yaml.safe_dump(inventory))
    root = Ansible(tmp_path, {"ANSIBLE_INVENTORY": str(tmp_path / "clusters.yml")})
    blocks = blocks_of("docs/docsite/rst/guide_awx.rst")
    (onboard,) = (
        text for block in blocks if block.language == "console" for text, _ in block.commands if "onboard" in text
    )
    (play,) = (block.text for block in blocks if block.first_line == "- hosts: gpuctl_clusters")
    (tmp_path / "team.yml").write_text(play.replace("/path/to", str(tmp_path)))
    tool, *arguments = shlex.split(onboard.replace("/path/to", str(tmp_path)).replace("\\\n", ""))
    for command in (arguments, [str(tmp_path / "team.yml")]):
        ran = root.run(tool, *command)
        assert ran.status == 0, ran.output
    again = root.run(tool, str(tmp_path / "team.yml"))
    assert again.output.count("changed=0 ") == len(NAMES), again.output
    for name in NAMES:
        where = {"K8S_AUTH_CONTEXT": name}
        administrator = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"), **where})
        assert not administrator.module("gpuctl_node_info").failed
        team = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(tmp_path / "team-a"), **where})
        for namespace in ("team-a", "team-a-dev"):
            made = team.job(definition=compute("web"), namespace=namespace)
            assert not made.failed, made.message
        assert team.job(definition=compute("web"), namespace="default").failed

    fill(sites, "east")
    other = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(tmp_path / "all" / "west")})
    assert not other.job(definition=compute("theirs"), namespace="default").failed
    (tmp_path / "team.clusters.yml").write_text(yaml.safe_dump({**inventory, "kubeconfig": ["team-a"], "home": "east"}))
    placing = {
        "ANSIBLE_INVENTORY": str(tmp_path / "team.clusters.yml"),
        "GPUCTL_ALLOWED_NAMESPACES": "team-a,team-a-dev",
    }
    team = Ansible(tmp_path, placing)
    (tmp_path / "sft.yaml").write_text(yaml.safe_dump(training("sft", resources={"gpu": 8})))
    asked = ("gpuctl_src=sft.yaml", "gpuctl_namespace=team-a", "gpuctl_clusters=all")
    placed = team.run(
        "ansible-playbook", "runwhere.gpuctl.submit", "--check", *(part for each in asked for part in ("-e", each))
    )
    assert "Job sft goes to west, where it runs now." in placed.output
    status = team.run("ansible-playbook", "runwhere.gpuctl.status", "-e", "gpuctl_all_namespaces=true")
    assert "web" in status.output
    assert "theirs" not in status.output, "it may read them, and the templates only show those of the credential"


@pytest.mark.nightly
def test_a_plan_of_one_cluster_is_applied_there(awx: Launch, sites: Sites, tmp_path: Path) -> None:
    """The limit of the workflow is that of its nodes. Without one, the plan of one cluster is handed on."""
    project = tmp_path / "checked-out"
    shutil.copytree(AWX / "project", project)
    (project / "cluster" / "web.yml").write_text(yaml.safe_dump(compute("web")))

    def having() -> list[str]:
        kinds = {name: {obj["kind"] for obj in cluster.objects()} for name, cluster in sites.clusters.items()}
        return [name for name in NAMES if "Deployment" in kinds[name]]

    of_all = awx("GPU plan", project=project)
    applied = awx("GPU apply", {"gpuctl_recreate": "yes"}, project=project, handed_on=of_all.artifacts)
    assert applied.status == "failed", applied.output
    assert "east" not in having()
    of_one = awx("GPU plan", project=project, limit="east")
    answers: dict[str, Any] = {"gpuctl_recreate": "yes"}
    applied = awx("GPU apply", answers, project=project, handed_on=of_one.artifacts, limit="east")
    assert applied.status == "successful", applied.output
    assert "east" in having()
