# SPDX-License-Identifier: BSD-2-Clause
"""Several clusters as hosts of one inventory: the plugin clusters, and tasks and playbooks over its hosts."""

from __future__ import annotations

import csv
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .ansible import Ansible, Run
from .manifests import compute, training
from .prometheus_double import prometheus_double, vector

NAMES = ("east", "west")
PLAIN = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "COLUMNS": "80"}


@pytest.fixture
def clusters() -> Iterator[dict[str, Cluster]]:
    """New for each test, as jobs that stay would take GPUs from those of the next."""
    with Cluster(nodes=2, tls=True).running() as east, Cluster(nodes=3, tls=True).running() as west:
        yield dict(zip(NAMES, (east, west), strict=True))


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never says anything, as a load balancer without a backend."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def ansible(tmp_path: Path, clusters: dict[str, Cluster], silent: str) -> Ansible:
    """With an inventory of both, and the variables of a cluster that is none of them."""
    (tmp_path / "kubeconfigs").mkdir()
    for name, cluster in clusters.items():
        cluster.kubeconfig(tmp_path / "kubeconfigs" / f"{name}.kubeconfig")
    inventory: dict[str, Any] = {
        "plugin": "runwhere.gpuctl.clusters",
        "kubeconfig": ["kubeconfigs"],
        "tags": {"east": {"region": "eu", "price": 2.5}, "west": {"region": "us"}},
    }
    (tmp_path / "clusters.yml").write_text(yaml.safe_dump(inventory))
    other = {"K8S_AUTH_HOST": silent, "K8S_AUTH_API_KEY": "of-another-cluster"}
    return Ansible(tmp_path, {"ANSIBLE_INVENTORY": str(tmp_path / "clusters.yml"), **other, **PLAIN})


def play(ansible: Ansible, *tasks: dict[str, Any], hosts: str = "gpuctl_clusters") -> Run:
    path = ansible.directory / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": hosts, "gather_facts": False, "tasks": [*tasks]}], sort_keys=False))
    return ansible.run("ansible-playbook", str(path))


def playbook(ansible: Ansible, name: str, *arguments: str) -> Run:
    return ansible.run("ansible-playbook", f"runwhere.gpuctl.{name}", *arguments)


def add_silent(ansible: Ansible, silent: str) -> None:
    """A third cluster, whose server never answers."""
    down: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": silent}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        "users": [],
        "current-context": "c",
    }
    (ansible.directory / "kubeconfigs" / "down.kubeconfig").write_text(json.dumps(down))


def names_of(cluster: Cluster, kind: str) -> set[str]:
    return {obj["metadata"]["name"] for obj in cluster.objects() if obj["kind"] == kind}


def test_the_inventory_has_a_host_and_groups_for_each_cluster(ansible: Ansible) -> None:
    run = ansible.run("ansible-inventory", "--list", "--output", "listing.json")
    assert run.status == 0, run.output
    found = json.loads(
        (ansible.directory / "listing.json").read_text(), object_hook=lambda each: each.get("__ansible_unsafe", each)
    )
    assert found["gpuctl_clusters"]["hosts"] == ["east", "west"]
    assert found["region_eu"]["hosts"] == ["east"]
    east = found["_meta"]["hostvars"]["east"]
    assert east["gpuctl_cluster_kubeconfig"] == str(ansible.directory / "kubeconfigs" / "east.kubeconfig")
    assert east["gpuctl_cluster_tags"] == {"region": "eu", "price": 2.5}
    assert "price_2_5" not in found


def test_a_misspelt_option_is_named(ansible: Ansible) -> None:
    (ansible.directory / "clusters.yml").write_text("plugin: runwhere.gpuctl.clusters\ncontext: [a]\n")
    strict = replace(ansible, environment={**ansible.environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"})
    run = strict.run("ansible-inventory", "--list")
    assert run.status != 0
    assert "'context': unknown option of runwhere.gpuctl.clusters. Did you mean contexts?" in " ".join(
        run.output.split()
    )


@pytest.mark.parametrize("fast_path", ["1", "0"])
def test_a_task_acts_in_the_cluster_of_its_host(fast_path: str, ansible: Ansible, clusters: dict[str, Cluster]) -> None:
    """Not in that of the variables K8S_AUTH_*, and each host gets its own result."""
    own = replace(ansible, environment={**ansible.environment, "GPUCTL_FAST_PATH": fast_path})
    manifest = training(f"job-{fast_path}-{{{{ inventory_hostname }}}}")
    check = {"that": "nodes.results | length == {'east': 2, 'west': 3}[inventory_hostname]"}
    run = play(
        own,
        {"runwhere.gpuctl.gpuctl_job": {"definition": manifest}},
        {"runwhere.gpuctl.gpuctl_node_info": {}, "register": "nodes"},
        {"ansible.builtin.assert": check},
    )
    assert run.status == 0, run.output
    made = {f"job-{fast_path}-{name}" for name in NAMES}
    assert [names_of(cluster, "Job") & made for cluster in clusters.values()] == [
        {f"job-{fast_path}-east"},
        {f"job-{fast_path}-west"},
    ]
    assert "of-another-cluster" not in run.output


def test_a_cluster_of_another_inventory_has_its_token_in_a_template(
    ansible: Ansible, clusters: dict[str, Cluster]
) -> None:
    east = clusters["east"]
    (ansible.directory / "ca.pem").write_bytes(east.ca or b"")
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "gpuctl_cluster_host": east.url,
        "gpuctl_cluster_ca_cert": "{{ inventory_dir }}/ca.pem",
        "gpuctl_cluster_api_key": "{{ secret_of_east }}",
        "secret_of_east": east.token,
    }
    hosts = {"all": {"children": {"gpuctl_clusters": {"hosts": {"static": variables}}}}}
    (ansible.directory / "static.yml").write_text(yaml.safe_dump(hosts))
    static = {**ansible.environment, "ANSIBLE_INVENTORY": str(ansible.directory / "static.yml")}
    run = playbook(replace(ansible, environment=static), "status")
    assert run.status == 0, run.output
    assert "2 nodes: 2 active" in run.output
    assert "static: changed=0 failed=0" in run.output
    assert east.token not in run.output


def test_a_task_that_names_a_cluster_itself_goes_there(ansible: Ansible, clusters: dict[str, Cluster]) -> None:
    kubeconfig = str(ansible.directory / "kubeconfigs" / "west.kubeconfig")
    del ansible.environment["K8S_AUTH_HOST"], ansible.environment["K8S_AUTH_API_KEY"]
    run = play(
        ansible,
        {"runwhere.gpuctl.gpuctl_node_info": {"kubeconfig": kubeconfig}, "register": "nodes"},
        {"ansible.builtin.assert": {"that": "nodes.results | length == 3"}},
        hosts="east",
    )
    assert run.status == 0, run.output


@pytest.mark.parametrize("fast_path", ["1", "0"])
def test_a_delegated_task_acts_in_the_cluster_that_it_is_delegated_to(fast_path: str, ansible: Ansible) -> None:
    own = replace(ansible, environment={**ansible.environment, "GPUCTL_FAST_PATH": fast_path})
    run = play(
        own,
        {"runwhere.gpuctl.gpuctl_node_info": {}, "register": "nodes", "delegate_to": "west"},
        {"ansible.builtin.assert": {"that": "nodes.results | length == 3"}},
        {"runwhere.gpuctl.gpuctl_node_info": {}, "register": "nodes", "delegate_to": "localhost"},
        {"ansible.builtin.assert": {"that": "nodes.results | length == 2"}},
        hosts="east",
    )
    assert run.status == 0, run.output


def test_a_playbook_for_one_cluster_asks_for_one(ansible: Ansible, clusters: dict[str, Cluster]) -> None:
    (ansible.directory / "job.yaml").write_text(yaml.safe_dump(training("one")))
    run = playbook(ansible, "submit", "-e", "gpuctl_src=job.yaml")
    assert run.status == 2
    expected = (
        "runwhere.gpuctl.submit is for one cluster, and these are 2: east, west. Add --limit east. With -e "
        "gpuctl_clusters=all, the job goes to one in which it runs."
    )
    assert expected in " ".join(run.output.split())
    run = playbook(ansible, "submit", "-e", "gpuctl_src=job.yaml", "--limit", "west")
    assert run.status == 0, run.output
    assert ["one" in names_of(cluster, "Job") for cluster in clusters.values()] == [False, True]


def test_the_variables_of_every_cluster_are_checked_before_anything_happens(ansible: Ansible) -> None:
    (ansible.directory / "host_vars").mkdir()
    (ansible.directory / "host_vars" / "west.yml").write_text('gpuctl_pool: "{{ nothing }}"\n')
    run = playbook(ansible, "status")
    assert run.status == 2
    says = " ".join(run.output.split())
    assert "west: gpuctl_pool: template that cannot be evaluated: 'nothing' is undefined. Correct it." in says
    assert "east: changed=0 failed=1" in says
    assert "nodes" not in says
    (ansible.directory / "host_vars" / "west.yml").write_text('gpuctl_pods: "{{ inventory_hostname }}"\n')
    run = playbook(ansible, "status")
    assert "west: gpuctl_pods: not a boolean: west. Use true or false" in run.output
    assert run.output.count("gpuctl_pods") == 1
    (ansible.directory / "host_vars" / "west.yml").write_text("gpuctl_pods: \"{{ inventory_hostname == 'west' }}\"\n")
    assert playbook(ansible, "status").status == 0


def test_the_status_of_all_clusters_is_one_screen(ansible: Ansible, clusters: dict[str, Cluster]) -> None:
    run = playbook(ansible, "status")
    assert run.status == 0, run.output
    assert "====" not in run.output
    assert "2 of 2 clusters read; 5 nodes: 5 active; " in run.output
    rows = [line.split()[:3] for line in run.output.splitlines() if line.startswith(NAMES)]
    assert ["east", "read", "2"] in rows
    assert ["west", "read", "3"] in rows
    alone = playbook(ansible, "status", "--limit", "west")
    assert "CLUSTER" not in alone.output
    assert "3 nodes: 3 active" in alone.output
    for arguments in (["-e", "gpuctl_table=nodes"], ["-e", "gpuctl_table=nodes", "-e", "gpuctl_format=json"]):
        run = playbook(ansible, "status", *arguments)
        assert run.status == 0, run.output
    found = json.loads(run.output)
    assert [row["cluster"] for row in found] == ["east"] * 2 + ["west"] * 3


def test_reasons_are_shared_over_clusters(ansible: Ansible) -> None:
    for name in NAMES:
        manifest = training("huge", resources={"gpu": 64})
        assert play(ansible, {"runwhere.gpuctl.gpuctl_job": {"definition": manifest}}, hosts=name).status == 0
    run = playbook(ansible, "status", "-e", "gpuctl_name=huge")
    assert run.status == 0, run.output
    assert "2 jobs: 2 Pending" in run.output
    assert "east/default/huge, west/default/huge (Pending): " in " ".join(run.output.split()), run.output


def test_a_job_is_found_in_its_cluster(ansible: Ansible, clusters: dict[str, Cluster]) -> None:
    for name, where in (("here", ["west"]), ("both", [*NAMES])):
        for cluster in where:
            run = play(ansible, {"runwhere.gpuctl.gpuctl_job": {"definition": training(name)}}, hosts=cluster)
            assert run.status == 0, run.output
    shown = playbook(ansible, "status", "-e", "gpuctl_name=here")
    assert shown.status == 0, shown.output
    assert ["east", "not", "found"] in [line.split()[:3] for line in shown.output.splitlines()]
    assert playbook(ansible, "status", "-e", "gpuctl_name=gone").status == 2
    described = playbook(ansible, "describe", "-e", "gpuctl_name=here")
    assert described.status == 0, described.output
    assert "[WARNING]" not in described.output
    assert "training here in namespace default" in described.output
    both = playbook(ansible, "pause", "-e", "gpuctl_name=both")
    assert both.status == 2
    assert "job both exists in east, west. Add --limit east." in both.output
    nowhere = playbook(ansible, "delete", "-e", "gpuctl_name=gone")
    assert nowhere.status == 2
    assert "job gone not found in east and west." in nowhere.output
    deleted = playbook(ansible, "delete", "-e", "gpuctl_name=here")
    assert deleted.status == 0, deleted.output
    assert "west: changed=1 failed=0" in deleted.output
    assert "here" not in names_of(clusters["west"], "Job")


def test_a_job_that_may_exist_elsewhere_is_only_read(ansible: Ansible, silent: str) -> None:
    assert play(ansible, {"runwhere.gpuctl.gpuctl_job": {"definition": training("maybe")}}, hosts="east").status == 0
    add_silent(ansible, silent)
    described = playbook(ansible, "describe", "-e", "gpuctl_name=maybe")
    assert described.status == 0, described.output
    paused = playbook(ansible, "pause", "-e", "gpuctl_name=maybe")
    assert paused.status == 2
    expected = (
        "job maybe exists in east, and may exist elsewhere. Add --limit east if that one is meant. down could not"
    )
    assert expected in " ".join(paused.output.split())
    chosen = playbook(ansible, "pause", "-e", "gpuctl_name=maybe", "--limit", "east")
    assert chosen.status == 0, chosen.output


def test_each_screen_has_the_name_of_its_cluster(ansible: Ansible) -> None:
    run = playbook(ansible, "history")
    assert run.status == 0, run.output
    screens = run.output.split("==== ")[1:]
    assert sorted(screen.partition(" ====")[0] for screen in screens) == ["east", "west"]


def test_what_is_wrong_with_all_clusters_is_one_table(ansible: Ansible, silent: str) -> None:
    run = playbook(ansible, "doctor", "-e", "gpuctl_fail_on=never")
    assert run.status == 0, run.output
    assert "====" not in run.output
    rows = [line.split()[0] for line in run.output.splitlines() if line.startswith(NAMES) and ": " not in line]
    assert set(rows) == {*NAMES}
    add_silent(ansible, silent)
    run = playbook(ansible, "doctor", "-e", "gpuctl_fail_on=never")
    assert run.status == 2
    assert "down could not be read, and is missing here." in run.output


def test_plan_and_drift_of_all_clusters_are_one_screen(ansible: Ansible) -> None:
    (ansible.directory / "cluster").mkdir()
    (ansible.directory / "cluster" / "job.yaml").write_text(yaml.safe_dump(training("planned")))
    given = ("-e", "gpuctl_dir=cluster")
    run = playbook(ansible, "plan", *given, "-e", "gpuctl_output=plan.html")
    assert run.status == 0, run.output
    assert "====" not in run.output
    rows = [line.split()[:3] for line in run.output.splitlines() if line.startswith(NAMES)]
    assert [[name, "create", "training"] in rows for name in NAMES] == [True, True]
    assert "planned" in (ansible.directory / "plan.html").read_text(encoding="utf-8")
    run = playbook(ansible, "plan", *given, "-e", "gpuctl_output=plan.json")
    assert "each cluster would write to this file" in run.output
    own = json.dumps({"gpuctl_output": "plan-{{ inventory_hostname }}.json"})
    run = playbook(ansible, "plan", *given, "-e", own)
    assert run.status == 0, run.output
    saved = [json.loads((ansible.directory / f"plan-{name}.json").read_text())["plan"]["cluster"] for name in NAMES]
    assert len(set(saved)) == 2
    assert playbook(ansible, "provision", *given, "--limit", "west").status == 0
    run = playbook(ansible, "drift", *given)
    assert run.status == 2
    text = " ".join(run.output.split())
    assert " missing. west: Everything is as declared. Jobs were compared in namespace default." in text
    assert "east/Job/default/planned" in text


def test_which_clusters_would_run_a_job_is_one_table(ansible: Ansible, silent: str) -> None:
    wide = training("wide", resources={"gpu": 8, "node_count": 3})
    (ansible.directory / "job.yaml").write_text(yaml.safe_dump(wide))
    given = ("-e", "gpuctl_src=job.yaml")
    run = playbook(ansible, "fit", *given)
    assert run.status == 0, run.output
    assert "====" not in run.output
    assert "west would run job wide now. Submit there with --limit west." in run.output
    rows = [line.split() for line in run.output.splitlines() if line.startswith(NAMES)][1:]
    assert [[row[0], row[-1]] for row in rows[:2]] == [["west", "now"], ["east", "never"]]
    assert "east/default/wide (never): 2 of its 3 pods find room." in run.output
    alone = playbook(ansible, "fit", *given, "--limit", "east")
    assert alone.status == 0, alone.output
    assert "CLUSTER" not in alone.output
    assert "1 job: 1 never" in alone.output
    add_silent(ansible, silent)
    run = playbook(ansible, "fit", *given)
    assert run.status == 2
    assert "down could not be read, and is missing here." in run.output
    (ansible.directory / "job.yaml").write_text(yaml.safe_dump(training("wide", resources={"gpu": 99})))
    assert "No cluster would run job wide now." in playbook(ansible, "fit", *given).output


def test_the_usage_of_all_clusters_is_one_table(ansible: Ansible, silent: str) -> None:
    for name, gpus in (("east", 2), ("west", 3)):
        manifest = training("busy", resources={"gpu": gpus})
        wanted = {"definition": manifest, "wait": True, "wait_for": "scheduled", "wait_timeout": 60}
        assert play(ansible, {"runwhere.gpuctl.gpuctl_job": wanted}, hosts=name).status == 0
    held = ["-e", "gpuctl_range=1h", "-e", "gpuctl_group_by=job"]
    run = playbook(ansible, "usage", *held, "-e", "gpuctl_output=usage.csv")
    assert run.status == 0, run.output
    assert "====" not in run.output
    assert "Only namespace default is shown." in run.output
    rows = [line.split() for line in run.output.splitlines() if line.startswith((*NAMES, "TOTAL"))]
    assert {"east", "west", "TOTAL"} <= {row[0] for row in rows}
    with (ansible.directory / "usage.csv").open(encoding="utf-8-sig") as file:
        assert {row["cluster"] for row in csv.DictReader(file)} == {*NAMES}
    assert "CLUSTER" not in playbook(ansible, "usage", *held, "--limit", "east").output
    add_silent(ansible, silent)
    run = playbook(ansible, "usage", *held)
    assert run.status == 2
    assert "down could not be read, and is missing here." in run.output
    assert f"cannot reach the API server {silent}" in " ".join(run.output.split())


def test_the_history_of_a_job_that_one_cluster_has(ansible: Ansible) -> None:
    assert play(ansible, {"runwhere.gpuctl.gpuctl_job": {"definition": training("only")}}, hosts="west").status == 0
    found = playbook(ansible, "history", "-e", "gpuctl_name=only")
    assert found.status == 0, found.output
    assert "1 run:" in found.output
    assert "not found" not in found.output
    missing = playbook(ansible, "history", "-e", "gpuctl_name=onyl")
    assert missing.status == 2, missing.output
    assert "job not found: onyl. Did you mean only?" in missing.output


def test_idle_jobs_of_all_clusters_are_one_table(ansible: Ansible) -> None:
    for name in NAMES:
        manifest = training("held", resources={"gpu": 1})
        wanted = {"definition": manifest, "wait": True, "wait_for": "scheduled", "wait_timeout": 60}
        assert play(ansible, {"runwhere.gpuctl.gpuctl_job": wanted}, hosts=name).status == 0
    with prometheus_double(lambda _asked: vector()) as prometheus:
        run = playbook(ansible, "idle", "-e", f"gpuctl_prometheus_url={prometheus.url}", "-e", "gpuctl_all=true")
    assert run.status == 0, run.output
    assert "====" not in run.output
    rows = [line.split()[:2] for line in run.output.splitlines() if line.startswith(NAMES)]
    assert ["east", "held"] in rows
    assert ["west", "held"] in rows


def test_time_limits_of_all_clusters_are_one_table(ansible: Ansible) -> None:
    for name in NAMES:
        manifest = compute("ends", job={"time_limit": "1h"})
        assert play(ansible, {"runwhere.gpuctl.gpuctl_job": {"definition": manifest}}, hosts=name).status == 0
    run = playbook(ansible, "expire", "-e", "gpuctl_warn_before=2h", "--check")
    assert run.status == 0, run.output
    assert "====" not in run.output
    rows = [line.split() for line in run.output.splitlines() if line.startswith(NAMES) and " ends " in line]
    assert [(row[0], row[-1]) for row in rows] == [("east", "warned"), ("west", "warned")]
    assert "2 jobs with a time limit, 2 warned of." in run.output


@pytest.mark.skipif(os.environ.get("GPUCTL_FAST_PATH") == "0", reason="a module keeps no facts")
def test_a_cluster_that_is_down_last_answered_in_an_earlier_run(ansible: Ansible, silent: str) -> None:
    """Where Ansible keeps facts from one run to the next. Who invents them is not believed."""
    cache = {"ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(ansible.directory / "facts")}
    caching = replace(ansible, environment={**ansible.environment, **cache})
    add_silent(ansible, silent)
    kubeconfigs = ansible.directory / "kubeconfigs"
    down = (kubeconfigs / "down.kubeconfig").read_text()
    (kubeconfigs / "down.kubeconfig").write_text((kubeconfigs / "east.kubeconfig").read_text())
    assert playbook(caching, "status").status == 0
    (kubeconfigs / "down.kubeconfig").write_text(down)
    (fact,) = (path for path in (ansible.directory / "facts").rglob("*") if path.name.endswith("down"))
    answered = re.search(r"\d{4}-\d\d-\d\dT[\d:]{8}Z", fact.read_text())
    assert answered
    expected = f"It last answered at {answered[0]}."
    assert expected in " ".join(playbook(caching, "status").output.split())
    assert expected in " ".join(playbook(caching, "idle", "-e", "gpuctl_all=true").output.split())
    fact.write_text(fact.read_text().replace(answered[0], "yesterday"))
    assert "last answered" not in playbook(caching, "status").output
    assert "last answered" not in playbook(ansible, "status").output


def test_a_cluster_that_is_down_costs_five_seconds_and_hides_no_other(ansible: Ansible, silent: str) -> None:
    add_silent(ansible, silent)
    run = playbook(ansible, "status")
    assert run.status == 2
    assert "2 of 3 clusters read; " in run.output
    assert ["down", "not", "read"] in [line.split()[:3] for line in run.output.splitlines()]
    reason = f"cannot reach the API server {silent}: no connection within 4 s (connect_timeout)."
    assert reason in " ".join(run.output.split())
    counts = [line for line in run.output.splitlines() if "changed=" in line]
    assert [line.rpartition(" unreachable")[0] for line in counts] == [
        "down: changed=0 failed=1",
        "east: changed=0 failed=0",
        "west: changed=0 failed=0",
    ]
