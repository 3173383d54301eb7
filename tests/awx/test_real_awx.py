# SPDX-License-Identifier: BSD-2-Clause
"""awx/ in a real AWX: what it keeps of the configuration, and how the job templates end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml
from integration.ansible import ROOT
from integration.awx_launch import templates
from integration.documents import blocks_of
from integration.manifests import IMAGE, compute, notebook, training

from .conftest import PROMETHEUS, TYPE, Configured
from .server import Refused, wait_for

CONFIG = ROOT / "awx" / "config"
# To configure AWX twice takes minutes.
pytestmark = pytest.mark.timeout(3600)


class _Loader(yaml.SafeLoader):
    """Reads what Ansible does not evaluate as the text that it is."""


_Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def config(name: str) -> Any:
    return yaml.load((CONFIG / f"{name}.yml").read_text(), _Loader)


def parts(obj: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an object of which something is expected."""
    return {key: obj[key] for key in expected}


def test_a_second_run_changes_nothing(configured: Configured):
    first, second = configured.outputs
    assert "failed=0 " in first, first
    assert "failed=0 " in second, second
    assert "changed=0 " in second, second


def test_the_credentials(configured: Configured):
    awx = configured.awx
    expected = config("credential_type")["gpuctl_awx_credential_type"]
    (credential_type,) = awx.list("credential_types/", name=TYPE)
    assert parts(credential_type, expected) == expected
    found = awx.list("credentials/", organization__name=configured.organization)
    assert {each["name"]: each["inputs"] for each in found} == {
        configured.organization: {"kubeconfig": "$encrypted$"},
        f"{configured.organization} cluster administrator": {"kubeconfig": "$encrypted$"},
        f"{configured.organization} team-a": {"kubeconfig": "$encrypted$", "namespaces": "team-a,team-a-dev"},
    }
    assert {each["credential_type"] for each in found} == {credential_type["id"]}


def test_the_project_the_environment_and_the_inventory(configured: Configured):
    variables = configured.variables
    environment, project = configured.only("execution_environments"), configured.only("projects")
    expected = {
        "scm_type": "git",
        "scm_url": variables["gpuctl_awx_project"],
        "scm_branch": "main",
        "scm_update_on_launch": True,
        "default_environment": environment["id"],
        "status": "successful",
    }
    assert environment["image"] == variables["gpuctl_awx_image"]
    assert parts(project, expected) == expected
    (source,) = configured.awx.related(configured.only("inventories"), "inventory_sources")
    expected = {
        "name": "GPU nodes",
        "source": "scm",
        "source_project": project["id"],
        "source_path": "inventory/nodes.gpuctl.yml",
        "credential": configured.only("credentials", name=configured.organization)["id"],
        "execution_environment": environment["id"],
        "overwrite": True,
    }
    assert parts(source, expected) == expected


def test_the_job_templates_and_their_surveys(configured: Configured):
    awx, own = configured.awx, configured.organization
    expected = templates("team-a", configured.team["namespaces"])
    found = {each["name"]: each for each in awx.list("job_templates/", organization__name=own)}
    assert found.keys() == expected.keys()
    used = {"project": own, "inventory": own, "execution_environment": own}
    for name, template in found.items():
        given = expected[name]
        assert parts(template, used) == {
            kind: configured.only(kinds)["id"]
            for kind, kinds in zip(used, ("projects", "inventories", "execution_environments"), strict=True)
        }, name
        fields = {
            "description": given["description"],
            "playbook": given["playbook"],
            "job_type": given.get("job_type", "run"),
            "diff_mode": given.get("diff_mode", False),
            "allow_simultaneous": given.get("allow_simultaneous", True),
            "ask_variables_on_launch": False,
            "ask_credential_on_launch": False,
            "survey_enabled": "survey" in given,
        }
        assert parts(template, fields) == fields, name
        assert (yaml.safe_load(template["extra_vars"]) or {}) == given.get("extra_vars", {}) | asked_of(given), name
        survey = awx.call("GET", template["related"]["survey_spec"])
        assert survey.get("spec", []) == given.get("survey", []), name
        assert awx.names(template, "credentials") == [f"{own}{credential_of(name, given)}"], name
        assert awx.names(template, "notification_templates_success") == [f"{own} all"], name
        assert awx.names(template, "notification_templates_error") == [f"{own} all", f"{own} errors"], name


def asked_of(template: Mapping[str, Any]) -> dict[str, str]:
    """The variables that name Prometheus."""
    service = "{}/{}:{}".format(*PROMETHEUS)
    return {"gpuctl_prometheus_service": service} if template.get("asks_prometheus") else {}


def credential_of(name: str, template: Mapping[str, Any]) -> str:
    """What follows the name of the configuration in that of the credential."""
    if name.endswith(" team-a"):
        return " team-a"
    return " cluster administrator" if template.get("cluster_administrator") else ""


def test_the_notification_templates(configured: Configured):
    messages = config("notifications")["gpuctl_awx_messages"]
    for entry in configured.variables["gpuctl_awx_notifications"]:
        found = configured.only("notification_templates", name=entry["name"])
        expected = messages[entry["service"]]
        assert found["notification_type"] == "webhook"
        assert found["notification_configuration"]["url"] == entry["url"]
        assert {end: found["messages"][end] for end in expected} == expected


def test_the_workflow(configured: Configured):
    awx = configured.awx
    expected = config("workflows")["gpuctl_awx_workflows"][0]
    workflow = configured.only("workflow_job_templates")
    assert (workflow["name"], workflow["description"]) == (expected["name"], expected["description"])
    nodes = {node["identifier"]: node for node in awx.related(workflow, "workflow_nodes")}
    identifiers = {node["id"]: name for name, node in nodes.items()}
    assert nodes.keys() == {node["identifier"] for node in expected["nodes"]}
    for given in expected["nodes"]:
        node = nodes[given["identifier"]]
        runs = awx.call("GET", node["related"]["unified_job_template"])
        kept = given.get("approval") or {"name": given["job_template"]}
        assert parts(runs, kept) == kept
        assert node["extra_data"] == given.get("extra_data", {})
        assert [identifiers[number] for number in node["success_nodes"]] == given.get("success_nodes", [])
        assert (node["failure_nodes"], node["always_nodes"]) == ([], [])


def test_the_schedules(configured: Configured):
    awx = configured.awx
    expected = {entry["name"]: entry for entry in config("schedules")["gpuctl_awx_schedules"]}
    found = {
        schedule["name"]: schedule
        for template in awx.list("job_templates/", organization__name=configured.organization)
        for schedule in awx.related(template, "schedules")
    }
    assert found.keys() == expected.keys()
    for name, schedule in found.items():
        given = expected[name]
        assert (schedule["rrule"], schedule["description"]) == (given["rrule"], given["description"])
        assert schedule["summary_fields"]["unified_job_template"]["name"] == given["job_template"]
        assert schedule["enabled"], name
        assert schedule["next_run"], name


def row(lines: Iterable[str], *start: str) -> list[str]:
    """The rest of the line of a table that starts with these cells."""
    found = [line.split()[len(start) :] for line in lines if line.split()[: len(start)] == list(start)]
    assert len(found) == 1, "\n".join(lines)
    return found[0]


def test_the_status(configured: Configured):
    assert any("4 nodes: 4 active" in line for line in configured.succeeds("GPU status"))


def test_a_training_of_the_answers_that_the_guide_gives(configured: Configured):
    (block,) = (block for block in blocks_of("docs/docsite/rst/guide_awx.rst") if block.language == "json")
    done, output = configured.launch("GPU submit training team-a", json.loads(block.text)["extra_vars"])
    assert done["status"] == "successful", output
    (submitted,) = done["artifacts"]["gpuctl_submitted"]
    assert (submitted["name"], submitted["action"], submitted["status"]) == ("sft", "create", "Running")
    job = configured.api.get("job", "sft", "team-a")
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"}, "the defaults of the survey"
    by = json.loads(job["metadata"]["annotations"]["runwhere.ai/submitted-by"])
    assert by["awx_job"] == str(done["id"])

    assert "Running" in row(configured.succeeds("GPU status team-a"), "sft", "team-a")
    which = {"gpuctl_name": "sft", "gpuctl_namespace": "team-a"}
    assert "step 10/10" in configured.succeeds("GPU logs team-a", which)
    described = configured.succeeds("GPU describe team-a", which)
    assert f"AWX job {done['id']}" in " ".join(row(described, "Submitted", "by"))


TRAINING = {"gpuctl_name": "other", "gpuctl_image": IMAGE, "gpuctl_wait": "no"}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"gpuctl_namespace": "kube-system"}, "expected to be one of"),
        ({}, "'gpuctl_namespace' value missing"),
    ],
    ids=["of others", "none"],
)
def test_a_namespace_that_the_survey_does_not_offer_is_refused(
    configured: Configured, answers: Mapping[str, Any], reason: str
):
    with pytest.raises(Refused, match=reason):
        configured.awx.launch(
            "job_templates", "GPU submit training team-a", configured.organization, TRAINING | answers
        )


def test_a_variable_that_no_survey_asks_for_is_ignored(configured: Configured):
    answers = {**TRAINING, "gpuctl_namespace": "team-a", "gpuctl_allowed_namespaces": "default"}
    awx = configured.awx
    job = awx.launch("job_templates", "GPU submit training team-a", configured.organization, answers)
    assert job["ignored_fields"]["extra_vars"] == {"gpuctl_allowed_namespaces": "default"}
    done = awx.ended(job)
    assert done["status"] == "successful", awx.output(done)
    assert "gpuctl_allowed_namespaces" not in json.loads(done["extra_vars"])


def test_a_manifest_in_a_namespace_of_others_fails_and_is_notified(configured: Configured):
    manifest = {**compute("web"), "job": {"name": "web", "namespace": "default"}}
    answers = {"gpuctl_definition": yaml.safe_dump(manifest), "gpuctl_namespace": "team-a"}
    done, output = configured.launch("GPU submit manifests team-a", answers)
    assert done["status"] == "failed", output
    assert "namespace not allowed: default" in output

    def posted() -> list[Any]:
        return [(path, body) for path, body in configured.posts if f"AWX job {done['id']}" in json.dumps(body)]

    wait_for(lambda: len(posted()) == 2, "AWX has not notified of the failure")
    bodies = dict(posted())
    text = bodies["/all"]["text"]
    assert text.startswith(f"GPU submit manifests team-a (AWX job {done['id']}) has ended: failed.")
    assert bodies["/errors"] == {"msgtype": "text", "text": {"content": f"GPU: {text}"}}


def test_a_plan_is_applied_after_its_approval(configured: Configured):
    awx, api = configured.awx, configured.api
    workflow = awx.launch("workflow_job_templates", "GPU change", configured.organization, {})
    waiting = awx.approval(workflow)
    assert (waiting["name"], waiting["status"]) == ("Approve the plan", "pending")
    assert api.get("deployment", "web", "team-a") is None
    awx.call("POST", waiting["related"]["approve"])
    assert awx.ended(workflow)["status"] == "successful"
    assert api.get("deployment", "web", "team-a")
    nodes = awx.list(f"workflow_jobs/{workflow['id']}/workflow_nodes/")
    plan = next(node for node in nodes if node["identifier"] == "plan")
    assert awx.call("GET", plan["related"]["job"])["artifacts"]["gpuctl_plan"]["summary"].endswith("1 to create.")

    drift, output = configured.launch("GPU drift")
    assert drift["status"] == "successful", output


def test_the_inventory_lists_the_nodes(configured: Configured):
    awx, inventory = configured.awx, configured.only("inventories")
    (source,) = awx.related(inventory, "inventory_sources")
    done = awx.ended(awx.call("POST", source["related"]["update"], {}))
    assert done["status"] == "successful", awx.output(done)
    assert awx.names(inventory, "hosts") == [f"node-{number}" for number in range(1, 5)]
    assert {"pool_default", "status_active"} <= set(awx.names(inventory, "groups"))


SERVE = {"gpuctl_name": "serve", "gpuctl_namespace": "team-a"}


def submit(configured: Configured, manifest: Mapping[str, Any]) -> list[str]:
    answers = {"gpuctl_definition": yaml.safe_dump(manifest), "gpuctl_namespace": "team-a", "gpuctl_wait": "yes"}
    return configured.succeeds("GPU submit manifests team-a", answers)


def test_a_service_is_rolled_back_scaled_restarted_paused_resumed_and_deleted(configured: Configured):
    api = configured.api

    def deployment() -> Any:
        return api.get("deployment", "serve", "team-a")

    def pods() -> set[str]:
        found = api.list("pod", "team-a", "app=serve")
        return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}

    def image() -> str:
        return str(deployment()["spec"]["template"]["spec"]["containers"][0]["image"])

    for version in ("v1", "v2"):
        submit(configured, compute("serve", environment={"image": f"registry.example.com/ml:{version}"}))
    assert image().endswith(":v2")
    assert "update" in row(configured.succeeds("GPU rollback team-a", SERVE), "serve", "team-a")
    assert image().endswith(":v1")
    assert "unchanged" in row(configured.succeeds("GPU rollback team-a", SERVE), "serve", "team-a")

    two = configured.succeeds("GPU scale team-a", {**SERVE, "gpuctl_replicas": 2})
    assert "scale" in row(two, "serve", "team-a")
    assert deployment()["spec"]["replicas"] == 2
    before = wait_for(lambda: len(pods()) == 2 and pods(), "there are no two pods")
    assert "restart" in row(configured.succeeds("GPU restart team-a", SERVE), "serve", "team-a")
    wait_for(lambda: len(pods()) == 2 and not pods() & before, "its pods are the former ones")

    assert "pause" in row(configured.succeeds("GPU pause team-a", SERVE), "serve", "team-a")
    wait_for(lambda: not pods(), "it still has pods")
    assert "resume" in row(configured.succeeds("GPU resume team-a", SERVE), "serve", "team-a")
    wait_for(lambda: len(pods()) == 2, "it has no pods again")
    assert deployment()["spec"]["replicas"] == 2

    assert "delete" in row(configured.succeeds("GPU delete team-a", SERVE), "serve", "team-a")
    assert deployment() is None


PASSWORD = "pw-5d0f31c9aa"


def test_a_colleague_gets_access_and_loses_it(configured: Configured):
    api = configured.api
    who = {"gpuctl_name": "alice"}
    registry = {"gpuctl_registry": "registry.example.com", "gpuctl_registry_username": "alice"}
    wanted = {
        **who,
        "gpuctl_gpu": 4,
        "gpuctl_cpu": "64",
        "gpuctl_memory": "256Gi",
        "gpuctl_storage": "10Gi",
        **registry,
    }
    done, output = configured.launch("GPU onboard", {**wanted, "gpuctl_registry_password": PASSWORD})
    assert done["status"] == "successful", output
    assert PASSWORD not in output + json.dumps(configured.awx.related(done, "job_events"))
    limits = {
        key: value for quota in api.list("resourcequota", "alice") for key, value in quota["spec"]["hard"].items()
    }
    assert (limits["requests.nvidia.com/gpu"], limits["requests.cpu"]) == ("4", "64")
    assert api.get("secret", "gpuctl-registry", "alice")
    ansible = configured.ansible()
    assert not ansible.module("gpuctl_kubeconfig", name="alice", dest=str(configured.folder / "alice")).failed
    hers = configured.ansible("alice").job(definition=training("hers"), namespace="alice", wait=True, wait_timeout=60)
    assert not hers.failed, hers.message

    lines = configured.succeeds("GPU offboard", {**who, "gpuctl_stop_jobs": "yes"})
    assert api.get("serviceaccount", "alice", "gpuctl-system") is None
    assert api.get("job", "hers", "alice")["spec"]["suspend"] is True
    assert "pause" in row(lines, "job", "hers", "alice")
    assert api.get("persistentvolumeclaim", "data", "alice")
    configured.succeeds("GPU offboard", {**who, "gpuctl_delete_data": "yes", "gpuctl_delete_namespaces": "yes"})
    wait_for(lambda: api.get("namespace", "alice") is None, "the namespace is still there")


def test_monitoring_is_installed_once(configured: Configured):
    path = "/apis/monitoring.coreos.com/v1/prometheusrules"
    assert configured.api.call("GET", path)[1]["items"] == []
    configured.succeeds("GPU monitoring")
    (rules,) = configured.api.call("GET", path)[1]["items"]
    assert rules["metadata"]["namespace"] == "monitoring"
    again = configured.succeeds("GPU monitoring")
    assert "changed=0" in row(again, "localhost"), "\n".join(again)
    assert configured.api.call("GET", path)[1]["items"] == [rules]


def test_the_doctor_finds_nothing_that_keeps_jobs_from_running(configured: Configured):
    assert any("checks: " in line and "error" not in line for line in configured.succeeds("GPU doctor"))


def test_the_runs_of_jobs_are_recorded_listed_and_counted(configured: Configured):
    configured.succeeds("GPU job history recording")
    assert row(configured.succeeds("GPU job history"), "sft", "team-a")
    assert row(configured.succeeds("GPU usage"), "team-a")


def run_since_hours(configured: Configured, manifest: dict[str, Any]) -> None:
    """Let a job of team-a run since three hours ago, by the clock of the cluster."""
    configured.cluster.set_clock(behind=3 * 3600)
    try:
        made = configured.ansible().job(definition=manifest, namespace="team-a", wait=True, wait_timeout=60)
        assert not made.failed, made.message
    finally:
        configured.cluster.set_clock()


def test_budgets_are_counted(configured: Configured):
    configured.succeeds("GPU budgets")


def test_an_idle_job_is_warned_of_and_paused_later(configured: Configured):
    api = configured.api
    run_since_hours(configured, training("unused"))
    lines = configured.succeeds("GPU idle")
    assert "warned" in row(lines, "unused", "team-a")
    warned = "runwhere.ai/idle-warned-at"
    assert api.get("job", "unused", "team-a")["metadata"]["annotations"][warned]
    configured.succeeds("GPU idle", {"gpuctl_idle_action": "pause"})
    assert not api.get("job", "unused", "team-a")["spec"].get("suspend"), "it was warned a moment ago"
    configured.succeeds("GPU idle", {"gpuctl_idle_action": "pause", "gpuctl_idle_grace": "1s"})
    assert api.get("job", "unused", "team-a")["spec"]["suspend"] is True


def test_a_notebook_is_warned_of_its_end_and_paused_later(configured: Configured):
    api = configured.api
    run_since_hours(configured, notebook(job={"time_limit": "1h"}))
    lines = configured.succeeds("GPU time limits")
    assert "warned" in row(lines, "lab", "team-a")
    assert api.get("statefulset", "lab", "team-a")["spec"]["replicas"] == 1, "it was warned a moment ago"
    configured.succeeds("GPU time limits", {"gpuctl_warn_before": "0"})
    assert api.get("statefulset", "lab", "team-a")["spec"]["replicas"] == 0
    longer = {"gpuctl_name": "lab", "gpuctl_namespace": "team-a", "gpuctl_by": "4h", "gpuctl_takeover": "yes"}
    lines = configured.succeeds("GPU extend team-a", longer)
    assert any("lab" in line.split() for line in lines), "\n".join(lines)
