# SPDX-License-Identifier: BSD-2-Clause
"""awx/ in a real AWX with several clusters: inventory, surveys and workflows, and what happens in the clusters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from integration.api import Api, eventually
from integration.awx_launch import templates
from integration.manifests import IMAGE, compute

from .conftest import CLUSTERS, TEAM, Several
from .server import ADDRESS, Awx, Refused, basic
from .test_real_awx import config, parts

NAMES = [cluster["name"] for cluster in CLUSTERS]
# To configure AWX twice takes minutes.
pytestmark = pytest.mark.timeout(3600)


def test_a_second_run_changes_nothing(several: Several):
    first, second = several.outputs
    assert "failed=0 " in first, first
    assert "failed=0 " in second, second
    assert "changed=0 " in second, second


def test_clusters_are_hosts_with_their_context_and_tags(several: Several):
    inventory = several.only("inventories", name=f"{several.organization} clusters")
    hosts = {host["name"]: yaml.safe_load(host["variables"]) for host in several.awx.related(inventory, "hosts")}
    assert hosts == {
        cluster["name"]: {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "gpuctl_cluster_context": cluster["name"],
            "gpuctl_cluster_tags": {key: value for key, value in cluster.items() if key != "name"},
        }
        for cluster in CLUSTERS
    }


def test_clusters_are_in_a_group_of_all_and_in_those_of_their_tags(several: Several):
    awx = several.awx
    inventory = several.only("inventories", name=f"{several.organization} clusters")
    groups = {group["name"]: group for group in awx.related(inventory, "groups")}
    assert {name: awx.names(group, "hosts") for name, group in groups.items()} == {
        "gpuctl_clusters": sorted(NAMES),
        "region_eu": ["east", "west"],
        "storage_nfs_paris": ["north", "west"],
    }
    assert yaml.safe_load(groups["gpuctl_clusters"]["variables"]) == {"gpuctl_home": "east"}
    nodes = several.only("inventories", name=several.organization)
    assert [source["name"] for source in awx.related(nodes, "inventory_sources")] == ["GPU nodes"]


def test_each_credential_has_one_kubeconfig_for_all_clusters(several: Several):
    found = several.awx.list("credentials/", organization__name=several.organization)
    assert {each["name"]: each["inputs"] for each in found} == {
        several.organization: {"kubeconfig": "$encrypted$"},
        f"{several.organization} team-a": {"kubeconfig": "$encrypted$", "namespaces": ",".join(TEAM)},
    }


def test_the_job_templates_ask_for_clusters(several: Several):
    awx = several.awx
    expected = {
        name: template
        for name, template in templates("team-a", TEAM, NAMES).items()
        if not template.get("cluster_administrator")
    }
    found = {each["name"]: each for each in awx.list("job_templates/", organization__name=several.organization)}
    assert found.keys() == expected.keys()
    inventory = several.only("inventories", name=f"{several.organization} clusters")
    for name, template in found.items():
        given, of_team = expected[name], name.endswith(" team-a")
        assert parts(
            template, {"playbook": None, "inventory": None, "job_type": None, "ask_limit_on_launch": None}
        ) == {
            "playbook": given["playbook"],
            "inventory": inventory["id"],
            "job_type": given.get("job_type", "run"),
            "ask_limit_on_launch": not of_team and "of_clusters" not in given,
        }, name
        survey = awx.call("GET", template["related"]["survey_spec"])
        assert survey.get("spec", []) == given.get("survey", []), name


@pytest.mark.parametrize(("name", "asks_for_limit"), [("GPU change", True), ("GPU cluster drain", False)])
def test_the_workflows(several: Several, name: str, asks_for_limit: bool):
    awx = several.awx
    (expected,) = (each for each in config("workflows")["gpuctl_awx_workflows"] if each["name"] == name)
    workflow = several.only("workflow_job_templates", name=name)
    assert (workflow["description"], workflow["ask_limit_on_launch"]) == (expected["description"], asks_for_limit)
    asked = templates("team-a", TEAM, NAMES)[expected["survey_of"]]["survey"] if "survey_of" in expected else []
    assert awx.call("GET", workflow["related"]["survey_spec"]).get("spec", []) == asked
    nodes = {node["id"]: node for node in awx.related(workflow, "workflow_nodes")}
    for node in nodes.values():
        (given,) = (each for each in expected["nodes"] if each["identifier"] == node["identifier"])
        runs = awx.call("GET", node["related"]["unified_job_template"])
        kept = given.get("approval") or {"name": given["job_template"]}
        assert parts(runs, kept) == kept
        assert [nodes[number]["identifier"] for number in node["success_nodes"]] == given.get("success_nodes", [])
    assert len(nodes) == len(expected["nodes"])


# -- what happens in the clusters --------------------------------------------------------------------------------------

SFT = {"gpuctl_name": "sft", "gpuctl_namespace": "team-a"}
TRAINING = {**SFT, "gpuctl_image": IMAGE, "gpuctl_gpu": 8, "gpuctl_cpu": "1", "gpuctl_memory": "1Gi"}
TRAINING |= {"gpuctl_command": "python train.py"}


def hosts_of(several: Several, job: Mapping[str, Any]) -> dict[str, bool]:
    """The hosts that AWX shows of a job, and whether it has failed there."""
    summaries = several.awx.related(dict(job), "job_host_summaries")
    return {summary["host_name"]: summary["failed"] for summary in summaries}


def record(several: Several, name: str = "sft") -> dict[str, str]:
    """Where the home cluster records that the job is. No other cluster has a record."""
    key = f"gpuctl-placement-{name}"
    assert several.having("configmap", key) in ([], ["east"])
    found = several.apis["east"].get("configmap", key, "team-a")
    return dict(found["data"]) if found else {}


def fill(api: Api) -> None:
    """Let a pod of another team use all GPUs of the cluster, which no job preempts."""
    amount = {"nvidia.com/gpu": "8"}
    container = {"name": "main", "image": "full", "resources": {"requests": amount, "limits": amount}}
    if not api.get("priorityclass", "urgent"):
        api.create("priorityclass", {"metadata": {"name": "urgent"}, "value": 1_000_000})
    spec = {"priorityClassName": "urgent", "containers": [container]}
    api.create("pod", {"metadata": {"name": "full"}, "spec": spec}, "default")
    assert eventually(lambda: api.get("pod", "full", "default")["spec"].get("nodeName"))


def test_the_status_is_of_all_clusters_or_of_those_of_the_limit(several: Several):
    done, output = several.launch("GPU status")
    assert done["status"] == "successful", output
    assert hosts_of(several, done) == dict.fromkeys(NAMES, False)
    assert {line.split()[0] for line in output.splitlines() if line.startswith(tuple(NAMES))} == set(NAMES)
    done, output = several.launch("GPU status", limit="storage_nfs_paris")
    assert done["status"] == "successful", output
    assert hosts_of(several, done) == {"west": False, "north": False}
    done, output = several.launch("GPU status team-a", {"gpuctl_hosts": "west"})
    assert done["status"] == "successful", output
    assert hosts_of(several, done) == {"west": False}


def test_a_team_can_only_choose_clusters_that_the_survey_offers(several: Several):
    awx = several.awx
    with pytest.raises(Refused, match="expected to be one of"):
        awx.launch("job_templates", "GPU status team-a", several.organization, {"gpuctl_hosts": "@/etc/passwd"})
    job = awx.launch("job_templates", "GPU status team-a", several.organization, {}, limit="@/etc/passwd")
    assert job["ignored_fields"] == {"limit": "@/etc/passwd"}
    done = awx.ended(job)
    assert hosts_of(several, done) == dict.fromkeys(NAMES, False), awx.output(done)


def test_a_training_goes_to_the_cluster_that_is_free(several: Several):
    fill(several.apis["east"])
    fill(several.apis["north"])
    done, output = several.launch("GPU submit training team-a", TRAINING)
    assert done["status"] == "successful", output
    assert several.having("job", "sft") == ["west"], output
    assert record(several)["cluster"] == "west"
    (submitted,) = done["artifacts"]["gpuctl_submitted"]
    assert (submitted["name"], submitted["action"], submitted["status"]) == ("sft", "create", "Running")
    by = json.loads(
        several.apis["west"].get("job", "sft", "team-a")["metadata"]["annotations"]["runwhere.ai/submitted-by"]
    )
    assert by["awx_job"] == str(done["id"])


def test_a_job_is_found_in_its_cluster(several: Several):
    assert any(line.split()[:3] == ["west", "sft", "team-a"] for line in several.succeeds("GPU status team-a"))
    assert "step 10/10" in "\n".join(several.succeeds("GPU logs team-a", SFT))
    described = "\n".join(several.succeeds("GPU describe team-a", SFT))
    assert "west" in described, described


def test_the_namespaces_of_a_team_hold_in_all_clusters(several: Several):
    manifest = {**compute("web"), "job": {"name": "web", "namespace": "default"}}
    answers = {"gpuctl_definition": yaml.safe_dump(manifest), "gpuctl_namespace": "team-a"}
    done, output = several.launch("GPU submit manifests team-a", answers)
    assert done["status"] == "failed", output
    assert "namespace not allowed: default" in " ".join(output.split())
    assert not any(api.get("deployment", "web", "default") for api in several.apis.values())


def test_the_usage_is_that_of_all_clusters(several: Several):
    recorded, output = several.launch("GPU job history recording")
    assert recorded["status"] == "successful", output
    assert hosts_of(several, recorded) == dict.fromkeys(NAMES, False)
    history = several.succeeds("GPU job history")
    assert any(line.split()[:2] == ["sft", "team-a"] for line in history), "\n".join(history)
    usage = several.succeeds("GPU usage")
    assert any("team-a" in line.split() for line in usage), "\n".join(usage)


def drain(several: Several, answer: str, **answers: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The workflow after its end, with the jobs of its nodes, once someone has approved or denied it."""
    awx = several.awx
    answers = {"gpuctl_from": "west", **answers}
    workflow = awx.launch("workflow_job_templates", "GPU cluster drain", several.organization, answers)
    waiting = awx.approval(workflow)
    assert (waiting["name"], waiting["status"]) == ("Approve the plan", "pending")
    assert several.having("job", "sft") == ["west"], "nothing moves before that"
    awx.call("POST", waiting["related"][answer])
    ended = awx.ended(workflow)
    nodes = awx.list(f"workflow_jobs/{workflow['id']}/workflow_nodes/")
    return ended, {
        node["identifier"]: awx.ended(awx.call("GET", node["related"]["job"]))
        for node in nodes
        if "job" in node["related"]
    }


def free(api: Api) -> None:
    api.delete("pod", "full", "default")
    assert eventually(lambda: api.get("pod", "full", "default") is None)


def test_a_denied_drain_moves_nothing(several: Several):
    free(several.apis["north"])
    before = record(several)
    ended, jobs = drain(several, "deny", gpuctl_running="yes")
    assert ended["status"] == "failed"
    assert {name: job["status"] for name, job in jobs.items()} == {"plan": "successful", "approve": "failed"}
    plan = several.awx.output(jobs["plan"])
    assert "1 job would move." in plan
    assert "gpuctl_confirm" not in plan, "who approves has no variables to set"
    assert (several.having("job", "sft"), record(several)) == (["west"], before)


def test_a_drain_that_leaves_jobs_fails_and_says_why(several: Several):
    """It runs, and no one has consented to stop it."""
    ended, jobs = drain(several, "approve")
    assert ended["status"] == "failed"
    assert {name: job["status"] for name, job in jobs.items()} == {
        "plan": "successful",
        "approve": "successful",
        "drain": "failed",
    }
    assert "Not all jobs have left west." in " ".join(several.awx.output(jobs["drain"]).split())
    assert several.having("job", "sft") == ["west"]


def test_a_drain_moves_what_runs_to_a_cluster_with_the_same_storage(several: Several):
    free(several.apis["east"])
    ended, jobs = drain(several, "approve", gpuctl_running="yes")
    assert ended["status"] == "successful", several.awx.output(jobs["drain"])
    assert several.having("job", "sft") == ["north"], several.awx.output(jobs["drain"])
    assert record(several)["cluster"] == "north"
    by = json.loads(
        several.apis["north"].get("job", "sft", "team-a")["metadata"]["annotations"]["runwhere.ai/submitted-by"]
    )
    assert by["awx_job"] == str(jobs["drain"]["id"])
    assert hosts_of(several, jobs["drain"]) == dict.fromkeys(NAMES, False)


@contextmanager
def colleague(several: Several, *templates: str) -> Iterator[Awx]:
    """AWX in the name of a user who may execute these job templates, and nothing else."""
    awx = several.awx
    account = {"username": f"{several.organization}-colleague", "password": uuid.uuid4().hex}
    user = awx.call("POST", "users/", account)
    try:
        for name in templates:
            roles = several.only("job_templates", name=name)["summary_fields"]["object_roles"]
            awx.call("POST", user["related"]["roles"], {"id": roles["execute_role"]["id"]})
        yield Awx(awx.url, basic(account["username"], account["password"]))
    finally:
        awx.call("DELETE", user["url"])


def test_a_moved_job_is_deleted_by_another_user_with_consent(several: Several):
    """It belongs to the AWX user who has launched the workflow."""
    template = "GPU delete team-a"
    with colleague(several, template) as theirs:
        assert [each["name"] for each in theirs.list("job_templates/")] == [template]
        done = theirs.ended(theirs.launch("job_templates", template, several.organization, SFT))
        assert done["status"] == "failed", theirs.output(done)
        assert "gpuctl_takeover" in theirs.output(done)
        assert several.having("job", "sft") == ["north"]
        consent = {**SFT, "gpuctl_takeover": "yes"}
        done = theirs.ended(theirs.launch("job_templates", template, several.organization, consent))
        assert done["status"] == "successful", theirs.output(done)
    assert several.having("job", "sft") == []
    assert record(several) == {}


def test_a_team_moves_a_job_that_waits(several: Several):
    fill(several.apis["north"])
    waits = {"gpuctl_name": "waits", "gpuctl_namespace": "team-a"}
    submitted = {**TRAINING, **waits, "gpuctl_clusters": "north", "gpuctl_wait": "no"}
    several.succeeds("GPU submit training team-a", submitted)
    assert several.having("job", "waits") == ["north"]
    several.succeeds("GPU move team-a", {**waits, "gpuctl_clusters": "region_eu"})
    (target,) = several.having("job", "waits")
    assert target in ("east", "west"), "the order in which AWX lists hosts is its own"
    assert record(several, "waits")["cluster"] == target
    several.succeeds("GPU delete team-a", waits)
    assert (several.having("job", "waits"), record(several, "waits")) == ([], {})


def change(several: Several, limit: str | None = None) -> dict[str, Any]:
    awx = several.awx
    workflow = awx.launch("workflow_job_templates", "GPU change", several.organization, {}, limit=limit)
    awx.call("POST", awx.approval(workflow)["related"]["approve"])
    ended: dict[str, Any] = awx.ended(workflow)
    return ended


def test_a_plan_is_applied_in_the_cluster_of_the_limit(several: Several):
    assert change(several, "west")["status"] == "successful"
    assert several.having("deployment", "web") == ["west"]


def test_a_plan_of_all_clusters_is_not_applied_in_all(several: Several):
    assert change(several)["status"] == "failed"
    assert len(several.having("deployment", "web")) < len(NAMES)


def test_access_is_given_in_the_cluster_of_the_limit(several: Several):
    done, output = several.launch("GPU onboard", {"gpuctl_name": "alice"})
    assert done["status"] == "failed", output
    assert "runwhere.gpuctl.onboard is for one cluster" in " ".join(output.split())
    several.succeeds("GPU onboard", {"gpuctl_name": "alice"}, limit="north")
    accounts = [name for name, api in several.apis.items() if api.get("serviceaccount", "alice", "gpuctl-system")]
    assert accounts == ["north"]


def test_a_cluster_that_does_not_answer_fails_alone(several: Several):
    """It is added to the list and to the credentials, and is taken from the list again."""
    for name in ("administer", "submit"):
        kubeconfig = yaml.safe_load((several.folder / name).read_text())
        context = {"cluster": "south", "user": kubeconfig["users"][0]["name"]}
        kubeconfig["clusters"].append({"name": "south", "cluster": {"server": f"https://{ADDRESS}:1"}})
        kubeconfig["contexts"].append({"name": "south", "context": context})
        (several.folder / name).write_text(yaml.safe_dump(kubeconfig))
    output = several.again(
        gpuctl_awx_clusters=[*CLUSTERS, {"name": "south"}],
        gpuctl_awx_update_credentials=True,
    )
    assert "failed=0 " in output, output
    done, output = several.launch("GPU status")
    assert done["status"] == "failed", output
    assert hosts_of(several, done) == {**dict.fromkeys(NAMES, False), "south": True}
    assert any(line.split()[:1] == ["south"] and "not read" in line for line in output.splitlines()), output
    assert all(any(line.split()[:1] == [name] for line in output.splitlines()) for name in NAMES), output
    refused, output = several.launch("GPU submit training team-a", {**TRAINING, "gpuctl_name": "late"})
    assert refused["status"] == "failed", output
    assert "job late may be in south, so it was not placed." in " ".join(output.split())
    assert several.having("job", "late") == []

    output = several.again()
    assert "failed=0 " in output, output
    done, output = several.launch("GPU status")
    assert done["status"] == "successful", output
    assert hosts_of(several, done) == dict.fromkeys(NAMES, False)
