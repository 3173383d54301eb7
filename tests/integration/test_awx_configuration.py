# SPDX-License-Identifier: BSD-2-Clause
"""awx/configure.yml with the real modules of awx.awx, against a double of AWX's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from tools.peers import awx_awx

from .ansible import ROOT, Ansible, Run
from .awx_double import Awx, Rejected, check_survey, running
from .awx_launch import templates
from .documents import blocks_of

NAMESPACES = ["team-a", "team-a-dev"]
PROJECT = ROOT / "awx" / "project"
GUIDE = "docs/docsite/rst/guide_awx.rst"
# It changes with awx/config and nothing else.
pytestmark = pytest.mark.nightly


@dataclass(frozen=True)
class Configured:
    """AWX after a run of the playbook, which ``again`` repeats, by default with the same variables."""

    awx: Awx
    first: Run
    ansible: Ansible
    again: Callable[..., Run]


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    with _configured(tmp_path_factory.mktemp("awx")) as configured:
        yield configured


CLUSTERS = [
    {"name": "east", "region": "eu", "price": 2.5, "registries": ["docker.io"]},
    {"name": "west"},
    {"name": "north", "region": "eu", "storage": "nfs.paris"},
]
NAMES = [cluster["name"] for cluster in CLUSTERS]


@pytest.fixture(scope="module")
def of_clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    with _configured(tmp_path_factory.mktemp("awx"), gpuctl_awx_clusters=CLUSTERS) as configured:
        yield configured


@contextmanager
def _configured(folder: Path, **more: Any) -> Iterator[Configured]:
    (folder / "kubeconfig").write_text("apiVersion: v1\nkind: Config\n# s3cret\n")
    (folder / "team-a").write_text("apiVersion: v1\nkind: Config\n# t3am\n")
    (folder / "root").write_text("apiVersion: v1\nkind: Config\n# r00t\n")
    awx = Awx(PROJECT)
    awx.create("organizations", {"name": "Default"})
    variables = {
        "gpuctl_awx_project": "https://git.example.com/ml/gpu.git",
        "gpuctl_awx_image": "registry.example.com/gpuctl-ee:1.0",
        "gpuctl_awx_kubeconfig": str(folder / "kubeconfig"),
        "gpuctl_awx_cluster_administrator": str(folder / "root"),
        "gpuctl_awx_prometheus_url": "https://prometheus.example.com",
        "gpuctl_awx_notifications": [
            {
                "name": "ML",
                "service": "dingtalk",
                "url": "https://robot.example.com/?access_token=r0bot",
                "notify_on": ["error", "success"],
            },
            {"name": "Operators", "service": "feishu", "url": "https://feishu.example.com/hook/1"},
        ],
        "gpuctl_awx_teams": [{"name": "team-a", "namespaces": NAMESPACES, "kubeconfig": str(folder / "team-a")}],
        **more,
    }
    with running(awx) as url:
        paths = f"{ROOT / '.cache' / 'collections'}:{awx_awx()}"
        environment = {"CONTROLLER_HOST": url, "CONTROLLER_OAUTH_TOKEN": "t", "ANSIBLE_COLLECTIONS_PATH": paths}
        call = ("ansible-playbook", str(ROOT / "awx" / "configure.yml"), "-e", json.dumps(variables))
        ansible = Ansible(folder, environment)
        again = partial(ansible.run, *call)
        yield Configured(awx, again(), ansible, again)


def test_every_playbook_of_the_project_has_a_template(configured: Configured):
    assert configured.first.status == 0, configured.first.output
    playbooks = [template["playbook"] for template in configured.awx.objects["job_templates"].values()]
    assert set(playbooks) == {path.name for path in PROJECT.glob("*.yml")} - {"drain_cluster.yml", "move.yml"}
    assert playbooks.count("provision.yml") == 1, "apply"


def test_the_credential_hands_the_kubeconfig_on_as_a_file(configured: Configured):
    assert "s3cret" not in configured.first.output
    credential = configured.awx.named("credentials", "gpuctl")
    assert "s3cret" in credential["inputs"]["kubeconfig"]
    injectors = configured.awx.named("credential_types", "GPU cluster")["injectors"]
    assert injectors["file"] == {"template.kubeconfig": "{{ kubeconfig }}"}
    assert injectors["env"]["K8S_AUTH_KUBECONFIG"] == "{{ tower.filename.kubeconfig }}"


def test_a_team_has_a_credential_for_its_namespaces_and_templates_that_use_no_other(configured: Configured):
    awx = configured.awx
    assert "t3am" not in configured.first.output
    team, administrators = awx.named("credentials", "gpuctl team-a"), awx.named("credentials", "gpuctl")
    assert "t3am" in team["inputs"]["kubeconfig"]
    assert team["inputs"]["namespaces"] == "team-a,team-a-dev"
    most = awx.named("credentials", "gpuctl cluster administrator")
    injected = awx.named("credential_types", "GPU cluster")["injectors"]["env"]
    assert injected["GPUCTL_ALLOWED_NAMESPACES"] == "{{ namespaces | default('') }}"
    expected = templates("team-a", NAMESPACES)
    made = {template["name"]: template for template in awx.objects["job_templates"].values()}
    assert made.keys() == expected.keys()
    for name, template in made.items():
        used = awx.links[f"job_templates/{template['id']}/credentials"]
        own = team if name.endswith(" team-a") else most if name == "GPU monitoring" else administrators
        assert used == [own["id"]], name
        assert not template["ask_variables_on_launch"], name
        assert not template["ask_credential_on_launch"], name
        assert awx.surveys[template["id"]].get("spec", []) == expected[name].get("survey", []), name
        provisions = template["playbook"] == "provision.yml"
        assert not (provisions and name.endswith(" team-a"))


def test_each_template_that_asks_prometheus_names_it(configured: Configured):
    asking = {
        template["playbook"]
        for template in configured.awx.objects["job_templates"].values()
        if json.loads(template["extra_vars"]).get("gpuctl_prometheus_url") == "https://prometheus.example.com"
    }
    variables = yaml.safe_load((ROOT / "playbooks" / "vars" / "playbooks.yml").read_text())["playbooks"]
    assert asking == {
        f"{name}.yml"
        for name in variables
        if "gpuctl_prometheus_url" in variables[name].get("variables", ()) and (PROJECT / f"{name}.yml").exists()
    }


def test_without_a_cluster_administrator_there_is_no_template_that_needs_one(configured: Configured):
    objects = configured.awx.objects
    template = configured.awx.named("job_templates", "GPU monitoring")
    credential = configured.awx.named("credentials", "gpuctl cluster administrator")
    removed = {"job_templates": template, "credentials": credential}
    for kind, obj in removed.items():
        del objects[kind][obj["id"]]
    try:
        ran = configured.again("-e", json.dumps({"gpuctl_awx_cluster_administrator": ""}))
        assert "changed=0 " in ran.output, ran.output
    finally:
        for kind, obj in removed.items():
            objects[kind][obj["id"]] = obj


def test_a_plan_is_approved_before_it_is_applied(configured: Configured):
    awx = configured.awx
    nodes = {node["identifier"]: node for node in awx.objects["workflow_job_template_nodes"].values()}

    def after(name: str) -> list[int]:
        return awx.links[f"workflow_job_template_nodes/{nodes[name]['id']}/success_nodes"]

    assert (after("plan"), after("approve")) == ([nodes["approve"]["id"]], [nodes["apply"]["id"]])
    (approval,) = awx.objects["workflow_approval_templates"].values()
    assert approval["name"] == "Approve the plan"
    plan, apply = (awx.objects["job_templates"][nodes[name]["unified_job_template"]] for name in ("plan", "apply"))
    assert (plan["playbook"], apply["playbook"]) == ("plan.yml", "provision.yml")
    same = ("project", "inventory", "execution_environment", "job_type")
    assert [plan[key] for key in same] == [apply[key] for key in same]
    variables = [json.loads(template["extra_vars"]) for template in (plan, apply)]
    applied = {"gpuctl_dir": "cluster", "gpuctl_takeover": True}
    assert variables == [{**applied, "gpuctl_recreate": True}, applied]
    assert nodes["apply"]["extra_data"] == {"gpuctl_recreate": "yes"}, "else it is not the plan that was approved"


def test_each_template_notifies_as_each_service_wants_it(configured: Configured):
    awx = configured.awx
    assert "r0bot" not in configured.first.output
    told = {name: awx.named("notification_templates", name) for name in ("ML", "Operators")}
    assert told["ML"]["notification_type"] == "webhook"
    assert told["ML"]["notification_configuration"]["url"].endswith("r0bot")
    job = {"id": 3, "name": "GPU drift", "status": "failed"}
    bodies = [
        json.loads(jinja2.Template(each["messages"]["error"]["body"]).render(job=job, url="https://awx/3"))
        for each in told.values()
    ]
    text = "GPU: GPU drift (AWX job 3) has ended: failed. https://awx/3"
    assert bodies == [
        {"msgtype": "text", "text": {"content": text}},
        {"msg_type": "text", "content": {"text": text}},
    ]
    for template in awx.objects["job_templates"].values():
        links = {
            end: awx.links[f"job_templates/{template['id']}/notification_templates_{end}"]
            for end in ("error", "success")
        }
        assert links == {"error": [told["ML"]["id"], told["Operators"]["id"]], "success": [told["ML"]["id"]]}


def test_yaml_reads_the_notifications_of_the_guide_as_they_are_written():
    """``on`` would be a key that is true."""
    (block,) = (block for block in blocks_of(GUIDE) if block.text.startswith("gpuctl_awx_notifications:"))
    (entry,) = yaml.safe_load(block.text)["gpuctl_awx_notifications"]
    assert list(entry) == ["name", "service", "url", "notify_on"]


def test_scheduled_templates_run_regularly(configured: Configured):
    awx = configured.awx
    templates = {
        template["playbook"].rpartition("/")[2]: template
        for schedule in awx.objects["schedules"].values()
        for template in [awx.objects["job_templates"][schedule["unified_job_template"]]]
    }
    assert set(templates) == {"drift.yml", "doctor.yml", "record_history.yml", "idle.yml", "expire.yml", "budget.yml"}
    assert json.loads(templates["drift.yml"]["extra_vars"]) == {"gpuctl_dir": "cluster"}
    for name in ("record_history.yml", "idle.yml", "expire.yml", "budget.yml"):
        assert json.loads(templates[name]["extra_vars"])["gpuctl_all_namespaces"] is True, name


def test_the_recipe_of_a_nightly_job_schedules_it(configured: Configured, tmp_path: Path):
    (block,) = (block for block in blocks_of("docs/docsite/rst/guide_recipes.rst") if "awx.awx.schedule" in block.text)
    (tmp_path / "evaluate.yaml").write_text("kind: training\n")
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": yaml.safe_load(block.text)}]
    (tmp_path / "schedule.yml").write_text(yaml.safe_dump(play))
    ran = configured.ansible.run("ansible-playbook", str(tmp_path / "schedule.yml"))
    assert ran.status == 0, ran.output
    schedule = configured.awx.named("schedules", "Nightly evaluation")
    assert schedule["extra_data"] == {
        "gpuctl_definition": "kind: training",
        "gpuctl_namespace": "team-a",
        "gpuctl_rerun": "always",
    }
    template = configured.awx.objects["job_templates"][schedule["unified_job_template"]]
    questions = {question["variable"] for question in configured.awx.surveys[template["id"]]["spec"]}
    assert set(schedule["extra_data"]) <= questions
    del configured.awx.objects["schedules"][schedule["id"]]


def test_a_second_run_changes_nothing_and_a_third_what_was_changed_by_hand(configured: Configured):
    awx = configured.awx
    awx.writes.clear()
    assert "changed=0 " in configured.again().output
    update = [f"POST projects/{number}/update/" for number in awx.objects["projects"]]
    assert awx.writes == update

    awx.writes.clear()
    template = awx.named("job_templates", "GPU submit training team-a")
    template["job_type"] = "check"
    awx.surveys[template["id"]]["spec"].pop()
    assert "changed=1 " in configured.again().output
    url = template["url"].removeprefix("/api/v2/")
    assert awx.writes == [*update, f"PATCH {url}", f"POST {url}survey_spec/"]


# -- several clusters --------------------------------------------------------------------------------------------------


def test_clusters_are_hosts_of_an_inventory_that_the_job_templates_use(of_clusters: Configured):
    awx = of_clusters.awx
    assert of_clusters.first.status == 0, of_clusters.first.output
    inventory = awx.named("inventories", "gpuctl clusters")
    hosts = {host["name"]: host for host in awx.objects["hosts"].values()}
    assert {host["inventory"] for host in hosts.values()} == {inventory["id"]}
    assert list(hosts) == NAMES
    for cluster in CLUSTERS:
        assert json.loads(hosts[cluster["name"]]["variables"]) == {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "gpuctl_cluster_context": cluster["name"],
            "gpuctl_cluster_tags": {key: value for key, value in cluster.items() if key != "name"},
        }
    groups = {group["name"]: group for group in awx.objects["groups"].values()}
    members = {name: awx.links[f"groups/{group['id']}/hosts"] for name, group in groups.items()}
    assert members == {
        "gpuctl_clusters": [hosts[name]["id"] for name in NAMES],
        "region_eu": [hosts["east"]["id"], hosts["north"]["id"]],
        "storage_nfs_paris": [hosts["north"]["id"]],
    }
    assert json.loads(groups["gpuctl_clusters"]["variables"]) == {"gpuctl_home": "east"}
    assert {each["inventory"] for each in awx.objects["job_templates"].values()} == {inventory["id"]}
    (source,) = awx.objects["inventory_sources"].values()
    assert source["inventory"] == awx.named("inventories", "gpuctl")["id"], "the nodes are no clusters"


def test_of_clusters_one_can_be_chosen_and_a_job_is_placed(of_clusters: Configured):
    """Teams are offered clusters, and no limit, which may be the name of a file."""
    awx = of_clusters.awx
    expected = templates("team-a", NAMESPACES, NAMES)
    made = {template["name"]: template for template in awx.objects["job_templates"].values()}
    assert made.keys() == expected.keys()
    assert made.keys() - templates("team-a").keys() == {"GPU drain plan", "GPU drain", "GPU move team-a"}
    asked = {}
    for name, template in made.items():
        survey = awx.surveys[template["id"]].get("spec", [])
        assert survey == expected[name].get("survey", []), name
        of_team, of_all = name.endswith(" team-a"), "of_clusters" in expected[name]
        assert template["ask_limit_on_launch"] == (not of_team and not of_all), name
        if of_team and not of_all:
            asked[name.removesuffix(" team-a")] = survey[-1]["variable"], survey[-1]["default"]
    placed = {name for name, question in asked.items() if question == ("gpuctl_clusters", "all")}
    assert placed == {"GPU submit training", "GPU submit manifests"}
    assert {asked[name] for name in asked.keys() - placed} == {("gpuctl_hosts", "gpuctl_clusters")}


def test_a_drain_is_approved_before_a_job_moves(of_clusters: Configured):
    awx = of_clusters.awx
    change, drain = (awx.named("workflow_job_templates", name) for name in ("GPU change", "GPU cluster drain"))
    assert [each["ask_limit_on_launch"] for each in (change, drain)] == [True, False]
    assert [each["survey_enabled"] for each in (change, drain)] == [False, True]
    nodes = {
        node["identifier"]: node
        for node in awx.objects["workflow_job_template_nodes"].values()
        if node["workflow_job_template"] == drain["id"]
    }
    after = {name: awx.links[f"workflow_job_template_nodes/{node['id']}/success_nodes"] for name, node in nodes.items()}
    assert after == {"plan": [nodes["approve"]["id"]], "approve": [nodes["drain"]["id"]], "drain": []}
    assert nodes["approve"]["related"]["unified_job_template"].startswith("/api/v2/workflow_approval_templates/")
    run = [awx.objects["job_templates"][nodes[name]["unified_job_template"]] for name in ("plan", "drain")]
    assert [(each["playbook"], each["job_type"]) for each in run] == [
        ("drain_cluster.yml", "check"),
        ("drain_cluster.yml", "run"),
    ]
    questions = awx.surveys[drain["id"]]
    assert [question["variable"] for question in questions["spec"]] == ["gpuctl_from", "gpuctl_running"]
    assert [awx.surveys[each["id"]] for each in run] == [questions, questions]


def test_another_home_than_one_of_the_clusters_is_refused_before_anything_is_written(of_clusters: Configured):
    of_clusters.awx.writes.clear()
    refused = of_clusters.again("-e", "gpuctl_awx_home=nrth")
    assert refused.status == 2
    said = "gpuctl_awx_home: nrth is no cluster of gpuctl_awx_clusters. Valid values: east, west, north"
    assert said in " ".join(refused.output.split())
    assert of_clusters.awx.writes == []


@pytest.mark.nightly  # two runs of a minute each; that a second run changes nothing is tested above without clusters
def test_a_second_run_changes_no_cluster_and_a_third_what_is_no_longer_so(of_clusters: Configured):
    """What was changed by hand, and a cluster that is no longer listed. Its host stays, outside of the group."""
    awx = of_clusters.awx
    awx.writes.clear()
    assert "changed=0 " in of_clusters.again().output
    assert awx.writes == [f"POST projects/{number}/update/" for number in awx.objects["projects"]]

    hosts = {host["name"]: host for host in awx.objects["hosts"].values()}
    groups = {group["name"]: group for group in awx.objects["groups"].values()}
    hosts["east"]["variables"] = "{}"
    awx.links[f"groups/{groups['region_eu']['id']}/hosts"].pop(0)
    fewer = {"gpuctl_awx_clusters": CLUSTERS[:2], "gpuctl_awx_home": "west"}
    third = of_clusters.again("-e", json.dumps(fewer))
    assert third.status == 0, third.output
    assert json.loads(hosts["east"]["variables"])["gpuctl_cluster_context"] == "east"
    assert json.loads(groups["gpuctl_clusters"]["variables"]) == {"gpuctl_home": "west"}
    members = {name: awx.links[f"groups/{groups[name]['id']}/hosts"] for name in ("gpuctl_clusters", "region_eu")}
    east, west = hosts["east"]["id"], hosts["west"]["id"]
    assert members == {"gpuctl_clusters": [east, west], "region_eu": [east]}


QUESTION = {"type": "text", "question_name": "q", "variable": "v", "required": True}


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{**QUESTION, "required": "yes"}],
        [QUESTION, QUESTION],
        [{**QUESTION, "type": "list"}],
        [{**QUESTION, "type": "integer", "default": "1"}],
        [{**QUESTION, "type": "multiplechoice", "choices": ["a"], "default": "b"}],
        [{**QUESTION, "type": "multiplechoice", "choices": [True, False], "default": ""}],
        [{**QUESTION, "max": "10"}],
    ],
)
def test_the_double_refuses_what_awx_refuses(questions: list[dict[str, Any]]):
    with pytest.raises(Rejected):
        check_survey({"name": "", "description": "", "spec": questions})
