# SPDX-License-Identifier: BSD-2-Clause
"""A task does and says the same, whether it runs in Ansible's own process or as a module in one of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml

from .ansible import BIN, ROOT, Ansible, Run, TaskResult
from .api import Api, eventually
from .manifests import compute, training
from .namespaces import make_namespace, remove_namespaces
from .pools import Field
from .recorder import Recorder

FAST, MODULE = {"GPUCTL_FAST_PATH": "1"}, {"GPUCTL_FAST_PATH": "0"}
WAYS = [pytest.param(FAST, id="fast"), pytest.param(MODULE, id="module")]
AS_MODULE = "runs as a module: "
SECRET = "s-7c1d9be2"
Tasks = list[dict[str, Any]]


def via(ansible: Ansible, way: dict[str, str]) -> Ansible:
    return replace(ansible, environment={**ansible.environment, **way})


def task(module: str, options: dict[str, Any] | None = None, **keywords: Any) -> dict[str, Any]:
    return {"name": f"{module} {json.dumps(options)}", f"runwhere.gpuctl.{module}": options or {}, **keywords}


@pytest.fixture
def namespaces(api: Api) -> Iterator[dict[str, str]]:
    """One for each way, because a result depends on what existed before."""
    names = {way["GPUCTL_FAST_PATH"]: make_namespace(api) for way in (FAST, MODULE)}
    yield names
    remove_namespaces(api, *names.values())


def seen(result: TaskResult, namespace: str) -> dict[str, Any]:
    """A result without what differs between any two runs."""
    text = json.dumps({"outcome": result.outcome, "diff": result.diff, **result.result}, sort_keys=True, default=str)
    text = text.replace(namespace, "NAMESPACE")
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME", text)
    text = re.sub(r'"(age|duration)": ("[^"]*"|[\d.]+)', r'"\1": "…"', text)
    text = re.sub(r"\b3\d{4}\b", "NODE-PORT", text)
    text = re.sub(r'"node": "[^"]*"', '"node": "NODE"', text)  # any that is free
    text = re.sub(r"\b10\.\d+\.\d+\.\d+\b", "ADDRESS", text)
    text = re.sub(r"\b(web|train)-[a-z0-9]+(-[a-z0-9]{5})?\b", r"\1-RANDOM", text)
    text = re.sub(r"Valid booleans include: [^\"]*", "", text)  # ansible-core lists a set
    shown: dict[str, Any] = json.loads(text)
    shown.pop("exception", None)  # Since 2.19 ansible-core notes there whether an action or a module has failed.
    return shown


def assert_same(fast: Run, module: Run, namespaces: dict[str, str] | None = None) -> None:
    names = namespaces or {"1": "NAMESPACE", "0": "NAMESPACE"}
    assert "Using module file" not in fast.output
    assert module.output.count("Using module file") == len(module.tasks)
    assert len(fast.tasks) == len(module.tasks) > 0
    for one, other in zip(fast.tasks, module.tasks, strict=True):
        assert seen(one, names["1"]) == seen(other, names["0"]), one.task


def test_the_life_of_a_job(ansible: Ansible, namespace: str, namespaces: dict[str, str]) -> None:
    """Created, unchanged, changed, refused, listed and deleted, each after a dry run of the same."""
    changed = compute(environment={"image": "registry.example.com/ml:v2"})
    steps: Tasks = [
        {"definition": compute(), "wait": True, "wait_timeout": 60},
        {"definition": compute()},
        {"definition": changed, "wait": True, "wait_timeout": 60},
        {"definition": [changed, training(resources={"gpu": 4000})]},
        {"name": "train", "state": "absent", "wait": True},
        {"name": "web", "state": "absent", "force": True, "wait": True},
        {"name": "web", "state": "absent"},
    ]
    # Priority classes belong to no namespace: the first task makes them.
    assert not ansible.job(definition=changed, namespace=namespace).failed

    def run(way: dict[str, str]) -> Run:
        name = namespaces[way["GPUCTL_FAST_PATH"]]
        tasks: Tasks = []
        for step in steps:
            options = {**step, "namespace": name}
            tasks += [task("gpuctl_job", options, check_mode=True), task("gpuctl_job", options)]
        tasks[2:2] = [  # before there are pods of two images
            task("gpuctl_job_info", {"namespaces": [name], "details": True, "pods": True}),
            task("gpuctl_job_log", {"name": "web", "namespace": name, "tail": 1}),
            task("gpuctl_job_log", {"name": "nothing", "namespace": name}),
        ]
        return via(ansible, way).play(tasks, arguments=("-vvv",))

    fast, module = run(FAST), run(MODULE)
    assert_same(fast, module, namespaces)
    assert {result.outcome for result in fast.tasks} == {"ok", "failed"}


def test_pools_quotas_and_labels(ansible: Ansible, field: Field, namespaces: dict[str, str]) -> None:
    node, pool = field.nodes[0], field.pool("a")
    labels = {"zone": field.prefix}
    declared = {"kind": "pool", "pool": {"name": pool}, "nodes": {node: {"gpu-type": "a100"}}}

    def run(way: dict[str, str]) -> Run:
        name = namespaces[way["GPUCTL_FAST_PATH"]]
        quota = {"kind": "quota", "quota": {"name": pool}, "users": {name: {"cpu": 10, "memory": "10Gi", "gpu": 1}}}
        tasks = [
            task("gpuctl_pool", {"definition": declared}),
            task("gpuctl_pool", {"definition": declared}),
            task("gpuctl_pool", {"name": pool, "nodes": ["no-such-node"]}),
            task("gpuctl_pool_info", {"name": pool}),
            task("gpuctl_node_label", {"nodes": [node, "no-such-node"], "labels": labels, "continue_on_error": True}),
            task("gpuctl_node_label", {"nodes": [node], "labels": labels}),
            task("gpuctl_node_info", {"nodes": [node], "label_keys": ["zone"]}),
            task("gpuctl_node_label", {"nodes": [node], "keys": ["zone"], "state": "absent"}),
            task("gpuctl_quota", {"definition": quota}),
            task("gpuctl_quota", {"definition": quota}),
            task("gpuctl_quota_info", {"namespaces": [name]}),
            task("gpuctl_quota", {"name": pool, "state": "absent"}),
            task("gpuctl_pool", {"name": pool, "state": "absent"}),
        ]
        return via(ansible, way).play(tasks, arguments=("-vvv",))

    # The first pool of a cluster also creates the priority classes.
    via(ansible, FAST).play([task("gpuctl_pool", {"name": field.pool("b"), "nodes": [field.nodes[1]]})])
    assert_same(run(FAST), run(MODULE), namespaces)


def test_refused_options_and_manifests(ansible: Ansible, recorder: Recorder, tmp_path: Path) -> None:
    """One words of a refusal, and the options as Ansible understood them, from one argument spec."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "train.yaml").write_text(yaml.safe_dump(training(resources={"gpus": 1})))
    refused: list[tuple[str, dict[str, Any]]] = [
        ("gpuctl_job", {}),
        ("gpuctl_job", {"definition": training(), "colour": "red"}),
        ("gpuctl_job", {"definition": training(), "state": "gone"}),
        ("gpuctl_job", {"definition": training(), "src": "a.yaml"}),
        ("gpuctl_job", {"definition": training(), "wait_timeout": "soon"}),
        ("gpuctl_job", {"definition": training(), "wait": "perhaps"}),
        ("gpuctl_job", {"name": "x", "state": "absent", "kind": "pod"}),
        ("gpuctl_job", {"kind": "training", "state": "absent", "definition": training()}),
        ("gpuctl_job", {"definition": training(), "proxy_headers": {"agent": "x"}}),
        ("gpuctl_job", {"definition": training(), "proxy_headers": "user_agent"}),
        ("gpuctl_job", {"definition": training(), "kubeconfig": "/nowhere"}),
        ("gpuctl_job", {"definition": training(), "api_key": SECRET, "password": SECRET, "context": SECRET}),
        ("gpuctl_job", {"definition": training(environment={"env": {"HF_TOKEN": SECRET}, "colour": SECRET})}),
        ("gpuctl_job", {"definition": "kind: training\njob: {name: 'Ä'}\nresources: [}"}),
        ("gpuctl_job", {"src": ["manifests", "absent.yaml", "~/absent", "$HOME/absent"]}),
        ("gpuctl_job", {"src": "manifests/train.yaml, manifests/absent.yaml", "validate_certs": "no"}),
        ("gpuctl_job_log", {}),
        ("gpuctl_job_log", {"name": "x", "since": "yesterday"}),
        ("gpuctl_node_info", {"status": "tired"}),
        (
            "gpuctl_node_label",
            {"nodes": ["a"], "node": ["b"], "labels": {"x": 1}, "verify_ssl": True, "host": "http://["},
        ),
        ("gpuctl_node_label", {"nodes": "a,b", "labels": {"example.com/x": "y"}}),
        ("gpuctl_pool", {"nodes": ["a"], "definition": {}}),
        ("gpuctl_quota", {"src": "a", "namespaces": ["b"]}),
    ]
    tasks = [task(module, options) for module, options in refused]
    fast, module = (via(ansible, way).play(tasks, arguments=("-vvv",)) for way in (FAST, MODULE))
    assert_same(fast, module)
    assert {result.outcome for result in fast.tasks} == {"failed"}
    assert SECRET not in "".join(json.dumps(result.result) for result in fast.tasks)
    assert "Traceback" not in fast.output
    assert "defect" not in fast.output
    assert recorder.writes == []


@pytest.mark.parametrize("way", WAYS)
def test_defaults_of_the_group_and_of_the_play(ansible: Ansible, recorder: Recorder, way: dict[str, str]) -> None:
    """module_defaults know an action plugin's tasks by the module; ``environment`` reaches them."""
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "environment": {"K8S_AUTH_HOST": recorder.url},
        "module_defaults": {
            "group/runwhere.gpuctl.gpuctl": {"api_key": "the-proxy-has-its-own", "retries": 3},
            "runwhere.gpuctl.gpuctl_node_info": {"retries": 7},
        },
        "tasks": [task("gpuctl_node_info"), task("gpuctl_pool_info")],
    }
    path = ansible.directory / "defaults.yml"
    path.write_text(yaml.safe_dump([play]))
    unconnected = replace(ansible, environment={"KUBECONFIG": "/nowhere", "ANSIBLE_INJECT_INVOCATION": "true", **way})
    run = unconnected.run("ansible-playbook", str(path), "-vvv")
    assert [result.result["invocation"]["module_args"]["retries"] for result in run.tasks] == [7, 3]
    assert {result.outcome for result in run.tasks} == {"ok"}


STEPS_ASIDE: dict[str, tuple[dict[str, Any], str]] = {
    "async": ({"async": 60, "poll": 1}, "it is asynchronous"),
    "a variable": ({"environment": {"EDITOR": "ed"}}, "the environment sets EDITOR"),
    "an interpreter": (
        {"vars": {"ansible_python_interpreter": "/usr/bin/env python3"}},
        "the interpreter is /usr/bin/env python3",
    ),
}


@pytest.mark.parametrize(("keywords", "reason"), STEPS_ASIDE.values(), ids=STEPS_ASIDE)
def test_it_steps_aside(ansible: Ansible, tmp_path: Path, keywords: dict[str, Any], reason: str) -> None:
    run = via(ansible, {**FAST, "ANSIBLE_ASYNC_DIR": str(tmp_path / "async")}).play(
        [task("gpuctl_quota_info", **keywords)], arguments=("-vvv",)
    )
    assert AS_MODULE + reason in " ".join(run.output.split())
    if reason == "it is asynchronous":
        assert run.tasks[-1].result["results"] == []


def test_another_host_with_a_local_connection_is_the_same_place(ansible: Ansible, tmp_path: Path) -> None:
    """gpuctl tasks of plays for GPU nodes are delegated to the controller; no discovered Python matters to them."""
    (tmp_path / "hosts").write_text("node-a ansible_host=192.0.2.1\nhere ansible_connection=local\n")
    play = {
        "hosts": "node-a",
        "gather_facts": False,
        "tasks": [task("gpuctl_quota_info", delegate_to="here"), task("gpuctl_quota_info", delegate_to="localhost")],
    }
    (tmp_path / "delegated.yml").write_text(yaml.safe_dump([play]))
    run = via(ansible, FAST).run("ansible-playbook", "-vvv", "-i", "hosts", "delegated.yml")
    assert [result.outcome for result in run.tasks] == ["ok", "ok"]
    assert "Using module file" not in run.output


@pytest.mark.parametrize("way", WAYS)
def test_an_ad_hoc_call(ansible: Ansible, way: dict[str, str]) -> None:
    run = via(ansible, way).run("ansible", "localhost", "-m", "runwhere.gpuctl.gpuctl_quota_info", "-a", "name=absent")
    assert '"results": []' in run.output


@pytest.mark.parametrize("way", WAYS)
def test_diffs_only_in_diff_mode(ansible: Ansible, namespace: str, way: dict[str, str]) -> None:
    options = {"definition": compute(), "namespace": namespace}
    tasks = [{**task("gpuctl_job", options, check_mode=True), "diff": asked} for asked in (True, False)]
    shown, silent = via(ansible, way).play(tasks).tasks
    assert shown.diff
    assert not silent.diff


def test_nothing_is_left_behind_and_no_temporary_directory_made(ansible: Ansible) -> None:
    run = via(ansible, FAST).play([task("gpuctl_quota_info")], arguments=("-vvv",))
    assert run.tasks[0].outcome == "ok"
    assert "ansible-tmp" not in run.output


def test_a_result_is_not_a_template(ansible: Ansible, namespace: str) -> None:
    """What a manifest says comes back as it was written, marked by nothing that Ansible would evaluate."""
    text = "{{ 6 * 7 }} {% raw %}"
    tasks = [
        {
            **task("gpuctl_job", {"definition": "{{ manifest }}", "namespace": namespace}, check_mode=True),
            "register": "job",
            "vars": {"manifest": compute(job={"description": "!unsafe"})},
        },
        {"ansible.builtin.debug": {"msg": "{{ job.diff | to_json }} {{ job | to_json }}"}},
    ]
    path = ansible.directory / "unsafe.yml"
    play = yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    path.write_text(play.replace("description: '!unsafe'", f"description: !unsafe '{text}'"))
    run = via(ansible, FAST).run("ansible-playbook", str(path), "--diff")
    assert run.status == 0, run.output
    assert "{{ 6 * 7 }}" in json.dumps(run.tasks[1].result)


def test_the_items_of_a_loop_share_a_connection(ansible: Ansible, recorder: Recorder, tmp_path: Path) -> None:
    """Counted by an exec plugin, which is run for a token at each connection."""
    plugin = tmp_path / "plugin"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "the-proxy-has-its-own"},
    }
    plugin.write_text(f"#!/bin/sh\necho called >>{tmp_path}/calls\necho '{json.dumps(credential)}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    config = yaml.safe_load(recorder.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": credential["apiVersion"],
            "command": "./plugin",
            "interactiveMode": "Never",
        }
    }
    (tmp_path / "exec.kubeconfig").write_text(yaml.safe_dump(config))
    looped = task("gpuctl_quota_info", {"name": "{{ item }}", "kubeconfig": "exec.kubeconfig"}, loop=["a", "b", "c"])
    run = via(ansible, FAST).play([looped])
    assert run.tasks[-1].outcome == "ok", run.output
    assert (tmp_path / "calls").read_text() == "called\n"
    assert len(recorder.requests) == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_takes_too_long_is_ended(ansible: Ansible, recorder: Recorder, way: dict[str, str]) -> None:
    answer = Event()
    recorder.before = lambda request: answer.wait(60)
    run = via(ansible, way).play([task("gpuctl_quota_info", timeout=3)])
    answer.set()
    assert run.tasks[0].failed
    assert re.search("timed out|time frame", run.tasks[0].message, re.IGNORECASE)


def test_an_interrupt_ends_the_playbook_and_its_task(ansible: Ansible, recorder: Recorder, tmp_path: Path) -> None:
    answer, mark = Event(), secrets.token_hex(8)
    recorder.before = lambda request: answer.wait(120)
    (tmp_path / "waiting.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [task("gpuctl_quota_info")]}])
    )
    process = subprocess.Popen(
        [str(BIN / "ansible-playbook"), str(tmp_path / "waiting.yml")],
        env={
            **os.environ,
            **ansible.environment,
            **FAST,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "GPUCTL_TEST_MARK": mark,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: bool(recorder.requests), 60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=30) != 0
        eventually(lambda: not _marked(mark), 10)
    finally:
        answer.set()
        process.kill()
        process.wait()


def _marked(mark: str) -> list[str]:
    """The processes with that mark in their environment."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (directory / "environ").read_bytes():
                found.append(directory.name)
    return found


def test_a_long_wait_shows_its_progress(ansible: Ansible, namespace: str) -> None:
    """A module cannot: its process has no way to the screen before it ends."""
    waiting = {"definition": training(), "namespace": namespace, "wait": True, "wait_for": "complete"}
    run = via(ansible, FAST).play([{**task("gpuctl_job", {**waiting, "wait_timeout": 6}), "name": "Train it"}])
    assert run.tasks[0].failed
    assert "[localhost: Train it] 0 of 1 job complete after " in run.output


@pytest.mark.parametrize("way", WAYS)
def test_no_log_hides_all_results(ansible: Ansible, namespace: str, way: dict[str, str]) -> None:
    hidden = {"definition": compute(environment={"env": {"A": SECRET}}), "namespace": namespace, "wait": True}
    run = via(ansible, way).play([task("gpuctl_job", hidden, no_log=True)])
    assert run.tasks[0].outcome == "ok"
    assert SECRET not in json.dumps(run.tasks[0].result)
    assert "web" not in json.dumps(run.tasks[0].result)
    assert "[localhost: " not in run.output
