# SPDX-License-Identifier: BSD-2-Clause
"""A malicious node: what it reports of itself and of its containers runs nothing on the controller."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration import kubelet
from integration.ansible import Ansible, Run
from integration.api import Api
from integration.manifests import compute

from .trap import ESCAPES, SHOWN, Trap, acts_on_a_terminal, serving

MERGE_PATCH = "application/merge-patch+json"


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "sprung")


class Nodes:
    """Nodes of an attacker, who has the credentials of their kubelets."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.names: list[str] = []

    def join(self, *addresses: tuple[str, str], message: str = "") -> str:
        """A node registers and reports the addresses, and why it is not ready."""
        name = f"gpuctl-evil-{secrets.token_hex(4)}"
        self.names.append(name)
        labels = {"nvidia.com/gpu.product": "A100-test"}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self._api.create("node", node)
        ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": message}
        moment = "2026-01-01T00:00:00Z"
        report = {
            "addresses": [{"type": kind, "address": address} for kind, address in addresses],
            "conditions": [{**ready, "lastHeartbeatTime": moment, "lastTransitionTime": moment}],
        }
        path = f"/api/v1/nodes/{name}/status"
        status, answer = self._api.call("PATCH", path, {"status": report}, MERGE_PATCH)
        assert status == 200, answer
        return name


@pytest.fixture
def nodes(api: Api) -> Iterator[Nodes]:
    nodes = Nodes(api)
    yield nodes
    for name in nodes.names:
        api.delete("node", name)


def inventory_file(ansible: Ansible, **options: Any) -> Path:
    path = ansible.directory / "nodes.gpuctl.yml"
    path.write_text(yaml.safe_dump({"plugin": "runwhere.gpuctl.gpuctl", **options}))
    return path


def listing(ansible: Ansible, path: Path) -> tuple[dict[str, dict[str, Any]], Run]:
    """The variables of every host, and the run."""
    target = ansible.directory / "listing.json"
    run = ansible.run("ansible-inventory", "-i", str(path), "--list", "--output", str(target))
    assert run.status == 0, run.output
    return json.loads(target.read_text(), object_hook=_without_mark)["_meta"]["hostvars"], run


def _without_mark(value: dict[str, Any]) -> Any:
    return value["__ansible_unsafe"] if value.keys() == {"__ansible_unsafe"} else value


def without_blanks(text: str) -> str:
    """Ansible wraps warnings, ansible-core 2.16 within words too."""
    return "".join(text.split())


def play(ansible: Ansible, path: Path, hosts: str, *tasks: dict[str, Any]) -> Run:
    """Tasks of a person who uses the inventory, on the controller."""
    book = ansible.directory / "person.yml"
    content = {"hosts": hosts, "gather_facts": False, "connection": "local", "tasks": list(tasks)}
    book.write_text(yaml.safe_dump([content], sort_keys=False))
    run = ansible.run("ansible-playbook", "-i", str(path), str(book))
    assert run.status == 0, run.output
    return run


def test_an_address_that_is_an_option_of_ssh_runs_nothing(ansible: Ansible, nodes: Nodes, trap: Trap):
    """A node reports -oProxyCommand=… as its address: ssh must not get it as an option."""
    name = nodes.join(("InternalIP", trap.option), ("ExternalIP", trap.option))
    ssh = ansible.directory / "ssh"
    calls = ansible.directory / "calls"
    ssh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>{calls}\nexit 255\n')
    ssh.chmod(0o755)
    tool = replace(ansible, environment={**ansible.environment, "ANSIBLE_SSH_EXECUTABLE": str(ssh)})
    path = inventory_file(ansible, all_nodes=True, compose={"other": "gpuctl_address"})
    run = tool.run("ansible", "-i", str(path), name, "-c", "ssh", "-m", "ansible.builtin.raw", "-a", "true")
    arguments = calls.read_text().splitlines()
    assert name in arguments, run.output
    assert [argument for argument in arguments if "ProxyCommand" in argument] == []
    assert without_blanks(f"node {name} reports the address '{trap.option}'") in without_blanks(run.output)
    assert not trap.sprung


def test_only_addresses_of_nodes_become_addresses_of_hosts(ansible: Ansible, nodes: Nodes, trap: Trap):
    """A node reports templates, options or the controller's own address as its address: no host gets it."""
    refused = [
        trap.option,
        *trap.texts,
        "10.0.0.1 -oProxyCommand=x",
        "10.0.0.1\n",
        "root@10.0.0.1",
        "2001:db8::1%;reboot",
        "localhost",
        "127.0.0.1",
        "127.1",
        "::ffff:127.0.0.1",
        f"10.0.0.1{ESCAPES}",
    ]
    bad = {nodes.join(("InternalIP", address), ("ExternalIP", address)): address for address in refused}
    good = {
        nodes.join(("InternalIP", trap.option), ("InternalIP", address), ("ExternalIP", address)): address
        for address in ("10.1.2.3", "2001:db8::1", "node-1.example.com")
    }
    variables, run = listing(ansible, inventory_file(ansible, all_nodes=True))
    for name in bad:
        assert "ansible_host" not in variables[name], bad[name]
        assert variables[name]["gpuctl_address"] is None, bad[name]
    for name, address in good.items():
        assert (variables[name]["ansible_host"], variables[name]["gpuctl_address"]) == (address, address)
    assert not acts_on_a_terminal(run.output)
    assert not trap.sprung


def test_a_node_named_localhost_is_no_host(ansible: Ansible, api: Api):
    """A node registers as localhost, to get what plays run on the controller: no such host appears."""
    api.create("node", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "localhost"}})
    try:
        variables, run = listing(ansible, inventory_file(ansible, all_nodes=True))
    finally:
        api.delete("node", "localhost")
    assert "localhost" not in variables
    assert without_blanks("node localhost is left out") in without_blanks(run.output)


def test_what_a_node_reports_is_no_template_for_a_person_s_play(ansible: Ansible, nodes: Nodes, trap: Trap):
    """A node reports templates as addresses: a play that uses the variables of its host runs none of them."""
    name = nodes.join(("InternalIP", trap.template), ("ExternalIP", trap.statement), message=trap.template)
    path = inventory_file(ansible, all_nodes=True, compose={"mine": "gpuctl_address"})
    shown = {"ansible.builtin.debug": {"msg": "{{ vars }} {{ hostvars[inventory_hostname] }} {{ ansible_host }}"}}
    info = {"runwhere.gpuctl.gpuctl_node_info": {"nodes": [name], "full": True}, "register": "info"}
    copied = {"ansible.builtin.set_fact": {"copied": "{{ info.results }}", "text": "{{ info.results | string }}"}}
    again = {"ansible.builtin.debug": {"msg": "{{ copied }} {{ text }} {{ copied | to_nice_yaml }}"}}
    run = play(ansible, path, name, shown, info, copied, again)
    assert str(trap.file) in run.output, "it was shown"
    assert not trap.sprung


# -- what only a server that does not validate passes on ------------------------------------------------------------


@pytest.fixture
def careless(trap: Trap) -> Iterator[str]:
    """The URL of a server with a node whose every text is an attack."""
    text = f"{trap.template}{ESCAPES}"
    labels = {"runwhere.ai/pool": text, "runwhere.ai/gpu-type": trap.statement, trap.template: trap.header}

    def node(name: str, time: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
        metadata = {"name": name, "uid": name, "labels": labels, "annotations": labels, "creationTimestamp": time}
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
        addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
        return {"metadata": metadata, "spec": {}, "status": {"conditions": [condition], "addresses": addresses}}

    lists = {
        "/api/v1/nodes": ("NodeList", [node("n1"), node(trap.option), node(text), node("127.0.0.1"), node("n2", text)]),
        "/api/v1/pods": ("PodList", []),
        "/api/v1/namespaces/gpuctl-system/configmaps": ("ConfigMapList", []),
    }

    def answer(path: str) -> tuple[int, dict[str, Any]]:
        kind, items = lists[path]
        return 200, {"apiVersion": "v1", "kind": kind, "metadata": {}, "items": items}

    with serving(answer) as url:
        yield url


@pytest.mark.parametrize("cached", [False, True], ids=["read", "from the cache"])
def test_no_text_from_the_cluster_is_a_template(ansible: Ansible, trap: Trap, careless: str, cached: bool):
    """Templates in labels, annotations, names, pools and times: all stay text, and malformed nodes are no hosts."""
    tool = replace(ansible, environment={})
    folder = str(ansible.directory / "cache")
    cache = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": folder} if cached else {}
    path = inventory_file(
        tool,
        host=careless,
        strict=True,
        compose={"mine": "gpuctl_pool", "all_labels": "gpuctl_labels", "joined": "'a' ~ gpuctl_gpu_type"},
        groups={"grouped": "gpuctl_pool != ''"},
        keyed_groups=[{"key": "gpuctl_pool", "prefix": "p"}, {"key": "gpuctl_labels", "prefix": ""}],
        **cache,
    )
    if cached:
        listing(tool, path)
    variables, run = listing(tool, path)
    assert set(variables) == {"n1"}
    if not cached:
        assert without_blanks("Node n2 cannot be read: ") in without_blanks(run.output)
    host = variables["n1"]
    assert host["gpuctl_pool"] == host["mine"] == f"{trap.template}{SHOWN}"
    assert host["joined"] == f"a{trap.statement}"
    assert host["gpuctl_labels"][trap.template] == trap.header
    shown = {"ansible.builtin.debug": {"msg": "{{ vars }} {{ mine }} {{ joined }} {{ all_labels }} {{ group_names }}"}}
    one = {"ansible.builtin.debug": {"var": "hostvars[inventory_hostname]"}}
    used = {"ansible.builtin.set_fact": {"copied": "{{ gpuctl_labels }}", "text": "x {{ gpuctl_pool }} {{ joined }}"}}
    again = {"ansible.builtin.debug": {"msg": "{{ copied }} {{ text }}"}}
    run = play(tool, path, "all", shown, one, used, again)
    assert str(trap.file) in run.output, "it was shown"
    assert not acts_on_a_terminal(run.output)
    assert not trap.sprung


# -- what a node reports of containers ------------------------------------------------------------------------------


def test_what_a_node_reports_of_a_container_is_text(
    ansible: Ansible, api: Api, namespace: str, trap: Trap, tmp_path: Path
):
    """A node reports templates and escape sequences as the state of a container, in an event too: all stay text."""
    job = compute()
    submitted = ansible.job(definition=job, namespace=namespace, wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    kubelet.waiting(api, namespace, "web", f"X{ESCAPES}{trap.template}", f"{trap.template} {trap.statement} {ESCAPES}")
    (pod,) = api.list("pod", namespace)
    kubelet.event(api, pod, f"{trap.template}{ESCAPES}")
    names = ("-e", f"gpuctl_namespace={namespace}")
    status = ansible.run("ansible-playbook", "runwhere.gpuctl.status", *names)
    source = tmp_path / "web.yaml"
    source.write_text(yaml.safe_dump(job))
    with_stats = replace(ansible, environment={**ansible.environment, "ANSIBLE_SHOW_CUSTOM_STATS": "true"})
    submit = with_stats.run("ansible-playbook", "runwhere.gpuctl.submit", *names, "-e", f"gpuctl_src={source}")
    info = {"runwhere.gpuctl.gpuctl_job_info": {"namespaces": [namespace], "full": True}, "register": "info"}
    wait = {"runwhere.gpuctl.gpuctl_job": {"definition": job, "namespace": namespace, "wait": True, "wait_timeout": 3}}
    report = {"dest": str(tmp_path / "report"), "content": "{{ info.results | runwhere.gpuctl.table }}"}
    stats = {"data": {"jobs": "{{ info.results }}"}, "aggregate": False}
    again = ansible.play(
        [
            info,
            {**wait, "register": "waited"},
            {"ansible.builtin.set_fact": {"copied": "{{ [info, waited] }}", "text": "{{ info.results | string }}"}},
            {"ansible.builtin.copy": report},
            {"ansible.builtin.set_stats": stats},
            {"ansible.builtin.debug": {"msg": "{{ copied }} {{ text }}"}},
        ]
    )
    runs = {"status": status, "submit": submit, "play": again}
    assert [name for name, run in runs.items() if acts_on_a_terminal(run.output)] == []
    assert [name for name in ("status", "play") if str(trap.file) not in runs[name].output] == [], "it was shown"
    assert SHOWN in (tmp_path / "report").read_text()
    passed_on = submit.output[submit.output.index("CUSTOM STATS") :]
    assert "gpuctl_submitted" in passed_on
    assert "lookup" not in passed_on, "variables of the next job in a workflow may be templates"
    assert not acts_on_a_terminal((tmp_path / "report").read_text())
    assert not trap.sprung
