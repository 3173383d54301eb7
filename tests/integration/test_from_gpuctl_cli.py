# SPDX-License-Identifier: BSD-2-Clause
"""The guide from gpuctl is true: every call in its tables is executed as it stands, from the first to the last.

The one rule for placeholders: ``<word>`` is replaced by what the fixture ``words`` has under it. Files that the calls
name lie in the directory where they are typed (fixture ``at_home``).
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from .ansible import BIN, ROOT, Ansible
from .api import Api
from .manifests import compute, notebook, training
from .pools import Field
from .prometheus_double import prometheus_double, utilized
from .receivers import http_receiver

DOCUMENT = (ROOT / "docs" / "docsite" / "rst" / "guide_from_gpuctl.rst").read_text(encoding="utf-8")


def rows_of(part: str) -> list[tuple[str, str]]:
    """The tables below a heading: command or endpoint, and the call that does the same."""
    text = re.search(rf"^{part}\n-+\n(.*?)(?=^[^\n]+\n-{{3,}}$)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert text, part
    return re.findall(r"^   \* - (``.*)\n     - ``(.*)``$", text[1], re.MULTILINE)


COMMAND_LINE, REST_API = rows_of("Command line"), rows_of("REST API")
# What the source documents' command tables have, by the words that make it up.
COMMANDS = """
create -f pool.yaml|get pools|query pools|describe pool|add node|remove node|delete -f pool.yaml
get nodes|get nodes -o yaml|get nodes --pool|get nodes --gpu-type|get nodes --status|describe node|get nodes --label
label node|label node <node> <node-2>|--overwrite|--delete|get label|get labels|get gpu-type --all|get node-labels --all
create -f quota.yaml|get quotas|get quotas <user>|describe quota|delete -f quota.yaml
create -f job.yaml|apply -f job.yaml|create -f job.yaml -f job-2.yaml
get jobs|get jobs --pool|get jobs --type|get jobs --pods
describe job|get notebook|logs|pause|resume|scale|scale notebook|delete job|delete -f job.yaml|--force
"""


# And their tables of endpoints.
ENDPOINTS = """
POST /jobs|POST /jobs/batch|GET /jobs|GET /jobs/<job>|DELETE /jobs/<job>|GET /jobs/<job>/logs|GET /jobs/<job>/metrics
GET /pools|GET /pools/<pool>|POST /pools|DELETE /pools/<pool>
GET /nodes|GET /nodes/<node>|POST /nodes/<node>/labels|POST /nodes/labels/batch|GET /nodes/labels|GET /nodes/labels/all
GET /nodes/<node>/labels/|DELETE /nodes/<node>/labels/
GET /quotas|GET /quotas/<user>|POST /quotas|DELETE /quotas/<user>
POST /auth/check|/webhooks|/metrics/custom|/api/v1/docs
"""


def test_every_command_of_the_former_command_line_has_a_row() -> None:
    there = " ".join(row[0] for row in COMMAND_LINE)
    assert [command for command in re.split(r"[|\n]", COMMANDS) if command and command not in there] == []


def test_every_endpoint_of_the_former_interface_is_spoken_of() -> None:
    there = DOCUMENT.partition("\nREST API\n")[2]
    assert [one for one in re.split(r"[|\n]", ENDPOINTS) if one and f"``{one}" not in there] == []


@pytest.fixture
def words(field: Field, namespace: str) -> Iterator[dict[str, str]]:
    with prometheus_double(utilized) as prometheus, http_receiver() as hook:
        yield _words(field, namespace, prometheus.url, hook.url)


def _words(field: Field, namespace: str, url: str, hook: str) -> dict[str, str]:
    return {
        "url": url,
        "hook": hook,
        "pool": field.pool("training"),
        "node": field.nodes[0],
        "node-2": field.nodes[1],
        "gpu-type": "A100-test",
        "user": namespace,
        "namespace": namespace,
        "job": "train",
        "job-2": "web",
    }


@pytest.fixture
def at_home(ansible: Ansible, words: dict[str, str], field: Field) -> Ansible:
    """A directory with the files that the calls name."""
    pool, user = words["pool"], words["user"]
    files: dict[str, Any] = {
        "pool.yaml": {"kind": "pool", "pool": {"name": pool}, "nodes": [words["node"]]},
        "quota.yaml": {"kind": "quota", "quota": {"name": field.pool("quota")}, "users": {user: {"cpu": 8, "gpu": 4}}},
        "job.yaml": training("train", resources={"pool": pool}),
        "job-2.yaml": compute("web"),
        "notebook.yaml": notebook("lab"),
    }
    for name, content in files.items():
        (ansible.directory / name).write_text(yaml.safe_dump(content))
    return ansible


@pytest.mark.parametrize("table", [COMMAND_LINE, REST_API], ids=["command line", "endpoints"])
def test_every_call_does_what_its_row_says(
    at_home: Ansible, api: Api, words: dict[str, str], namespace: str, table: list[tuple[str, str]]
):
    """In the order of the document but for one thing: jobs need a pool, so its deletion comes last."""
    for command, cell in sorted(table, key=lambda row: row[0] == "``gpuctl delete -f pool.yaml``"):
        call = re.sub(r"<([\w-]+)>", lambda match: words[match[1]], cell)
        tool, *arguments = shlex.split(call)
        run = at_home.run(tool, *arguments)
        assert run.status == 0, f"{call}\n{run.output}"
        (task,) = run.tasks
        if "_info" in call:
            assert not task.changed, f"{call} only looks"
            assert task.result.keys() & {"results", "series", "rights"}
        effect = EFFECTS.get(first_of(command))
        if effect:
            assert effect(task.result, words, api), f"{call}\n{run.output}"


def typed(table: list[tuple[str, str]]) -> Iterator[str]:
    """The commands of the first column, one by one, those that delete files with consent."""
    for cell, _call in table:
        for command in re.findall(r"``(gpuctl [^`]*)``", cell):
            yield f"{command} --yes" if " delete -f " in command else command


# What can be read on the screen.
SHOWN = {
    "gpuctl create -f pool.yaml": r"pool +<pool> +create",
    "gpuctl get pools": r"POOL +STATUS +GPUS +USED +FREE +NODES[^$]*\n<pool> +active",
    "gpuctl query pools": r"\n<pool> +active",
    "gpuctl describe pool <pool>": r"<node> +active[^$]*<pool> +active",
    "gpuctl get nodes": r"NODE +STATUS +GPU TYPE +GPUS +USED +FREE +POOL[^$]*\n<node-2> +active",
    "gpuctl get nodes --pool <pool>": r"\n<node> +active +[^$]*<pool>",
    "gpuctl get nodes --gpu-type <gpu-type>": r"\n<node-2> +active +<gpu-type>",
    "gpuctl get nodes -o yaml": r"\n- node_name: <node>\n  status: active",
    "gpuctl scale notebook -f notebook.yaml": r"lab +<namespace> +(notebook +)?create",
    "gpuctl describe node <node>": r'"kubeletVersion"',
    "gpuctl get label <node> --key=runwhere.ai/gpu-type": r"<node> +runwhere.ai/gpu-type=<gpu-type>",
    "gpuctl get nodes --gpu-type runwhere.ai/gpu-type": r"<node> +runwhere.ai/gpu-type=<gpu-type>",
    "gpuctl get gpu-type --all": r"<node> +runwhere.ai/gpu-type=<gpu-type>,runwhere.ai/pool=<pool>",
    "gpuctl get quotas <user>": r"QUOTA +NAMESPACE +GPUS +CPU +MEMORY\n\S+ +<user> +0 of 4 +0 of 8",
    "gpuctl describe quota <user>": r"<user> +0 of 4",
    "gpuctl create -f job.yaml": r"job +<job> +<namespace> +training +create",
    "gpuctl get jobs": r"\n<job> +<namespace> +training",
    "gpuctl get jobs --pods": r"JOB ID[^$]*\n<job>-\w{5} +<job> +<namespace>",
    "gpuctl describe job <job>": r"<namespace>/<job>|job <job>|<job>-\w{5}",
    "gpuctl logs <job>": r"==> <namespace>/<job>-",
    "gpuctl pause <job>": r"<job> +<namespace> +training +pause",
    "gpuctl delete -f job.yaml --yes": r"job +<job> +<namespace> +training +delete",
}


# Before it, there is no such type, and after it, no pool.
LAST = ["gpuctl get nodes --gpu-type <gpu-type>", "gpuctl delete -f pool.yaml --yes"]


@pytest.mark.timeout(900)  # fifty commands, one after the other
def test_every_command_works_as_it_was_typed(
    at_home: Ansible, api: Api, words: dict[str, str], namespace: str, field: Field
):
    """With the shell function, which has no more of the collection than its playbooks."""
    bash = shutil.which("bash")
    assert bash
    at_home.environment.update(GPUCTL_NAMESPACE=namespace, COLUMNS="120", ANSIBLE_STDOUT_CALLBACK=PLAIN)
    for form in sorted(typed(COMMAND_LINE), key=lambda command: LAST.index(command) if command in LAST else -1):
        command = re.sub(r"<([\w-]+)>", lambda match: words[match[1]], form)
        run = at_home.run(bash, "-c", f". {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; {command}")
        assert run.status == 0, f"{command}\n{run.output}"
        expected = re.sub(r"<([\w-]+)>", lambda match: re.escape(words[match[1]]), SHOWN.get(form, ""))
        assert re.search(expected, f"\n{run.output}"), f"{command}\n{expected}\n{run.output}"
        with suppress(KeyError):  # of an effect that looks into the result of a module
            assert EFFECTS.get(form.removesuffix(" --yes"), lambda *_: True)({}, words, api), f"{command}\n{run.output}"


@pytest.mark.parametrize("what", ["jobs", "nodes", "pools", "quotas"])
@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_for_other_programs(
    at_home: Ansible, namespace: str, what: str, form: str, read: Callable[[str], list[dict[str, Any]]]
):
    """Nothing else is on the standard output, and names are as they are."""
    bash = shutil.which("bash")
    assert bash
    at_home.environment.update(GPUCTL_NAMESPACE=namespace, ANSIBLE_STDOUT_CALLBACK=PLAIN)
    gpuctl = f". {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; gpuctl"
    assert at_home.run(bash, "-c", f"{gpuctl} create -f job-2.yaml -f quota.yaml").status == 0
    run = at_home.run(bash, "-c", f"{gpuctl} get {what} -o {form} 2>/dev/null")
    assert run.status == 0, run.output
    rows = read(run.output)
    assert isinstance(rows, list)
    assert what != "jobs" or [row["name"] for row in rows] == ["web"]
    assert all(isinstance(row, dict) for row in rows)
    assert rows


def test_all_data_by_table(at_home: Ansible):
    at_home.environment.update(ANSIBLE_STDOUT_CALLBACK=PLAIN)
    run = at_home.run("ansible-playbook", "runwhere.gpuctl.status", "-e", "gpuctl_format=json")
    assert list(json.loads(run.output[run.output.index("{") :])) == ["jobs", "nodes", "pools", "quotas"]


def test_files_are_deleted_with_consent_alone(at_home: Ansible, api: Api, words: dict[str, str]):
    bash = shutil.which("bash")
    assert bash
    gpuctl = f". {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; gpuctl"
    at_home.environment.update(ANSIBLE_STDOUT_CALLBACK=PLAIN)
    assert at_home.run(bash, "-c", f"{gpuctl} create -f pool.yaml").status == 0
    refused = at_home.run(bash, "-c", f"{gpuctl} delete -f pool.yaml")
    assert refused.status == 2
    assert "Deletion not confirmed." in refused.output
    assert node_labels(api, words["node"])[POOL] == words["pool"]
    assert at_home.run(bash, "-c", f"{gpuctl} delete -f pool.yaml --yes").status == 0
    assert POOL not in node_labels(api, words["node"])


@pytest.mark.parametrize("text", ["a b", "$(id)", "{{ 1+1 }}", "{% raw %}", "null", "数据", "it's", '"'])
def test_an_awkward_word_is_looked_for_as_it_is(ansible: Ansible, namespace: str, text: str):
    bash = shutil.which("bash")
    assert bash
    ansible.environment.update(ANSIBLE_STDOUT_CALLBACK=PLAIN, COLUMNS="120")
    script = f'. {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; gpuctl describe job "$1" -n "$2"'
    run = ansible.run(bash, "-c", script, "bash", text, namespace)
    assert run.status == 2
    assert f"{text} not found" in run.output or f"not found: {text}." in run.output


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize(("words", "status"), [("get nodes", 0), ("get nodes no-such-node", 2), ("describe node", 0)])
def test_a_reader_may_leave(ansible: Ansible, reader: str, words: str, status: int):
    """Before the first line, or after it. Ansible would wait for ever, or warn of a callback that failed."""
    bash = shutil.which("bash")
    assert bash
    ansible.environment.update(ANSIBLE_STDOUT_CALLBACK=PLAIN)
    gpuctl = f". {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; gpuctl"
    run = ansible.run(bash, "-c", f"{gpuctl} {words} | {reader}; exit ${{PIPESTATUS[0]}}")
    assert run.status == status, run.output
    assert "Broken pipe" not in run.output


def test_a_misspelled_node_is_no_empty_description(ansible: Ansible, field: Field):
    bash = shutil.which("bash")
    assert bash
    name = field.nodes[0]
    script = f'. {ROOT}/extras/gpuctl.sh; PATH={BIN}:$PATH; gpuctl describe node "$1"'
    run = ansible.run(bash, "-c", script, "bash", f"{name}-typo")
    assert run.status == 2
    assert f"node not found: {name}-typo. Did you mean {name}?" in run.output


def first_of(commands: str) -> str:
    """Of several commands that do the same, the first one."""
    return commands.split("``, ``")[0].strip("`")


def node_labels(api: Api, node: str) -> dict[str, str]:
    return dict(api.get("node", node)["metadata"].get("labels") or {})


PLAIN = "runwhere.gpuctl.plain"
POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"


def names(result: dict[str, Any], key: str = "name") -> list[str]:
    return [row[key] for row in result["results"]]


# What can be seen after a command (or in what it returns): a function of the result, the words and the cluster.
EFFECTS: dict[str, Any] = {
    "gpuctl create -f pool.yaml": lambda r, w, api: node_labels(api, w["node"])[POOL] == w["pool"],
    "gpuctl get pools": lambda r, w, api: {"default", w["pool"]} <= set(names(r)),
    "gpuctl describe pool <pool>": lambda r, w, api: r["results"][0]["nodes"] == [w["node"]],
    "gpuctl add node <node> <node-2> --pool <pool>": lambda r, w, api: node_labels(api, w["node-2"])[POOL] == w["pool"],
    "gpuctl remove node <node-2> --pool <pool>": lambda r, w, api: POOL not in node_labels(api, w["node-2"]),
    "gpuctl delete -f pool.yaml": lambda r, w, api: POOL not in node_labels(api, w["node"]),
    "gpuctl get nodes --pool <pool>": lambda r, w, api: names(r, "node_name") == [w["node"]],
    "gpuctl describe node <node>": lambda r, w, api: r["results"][0]["object"]["metadata"]["name"] == w["node"],
    "gpuctl label node <node> runwhere.ai/gpu-type=<gpu-type>": lambda r, w, api: (
        node_labels(api, w["node"])[TYPE] == w["gpu-type"]
    ),
    "gpuctl label node <node> <node-2> runwhere.ai/gpu-type=<gpu-type> --overwrite": lambda r, w, api: (
        node_labels(api, w["node-2"])[TYPE] == w["gpu-type"]
    ),
    "gpuctl label node <node> runwhere.ai/pool=<pool> --overwrite": lambda r, w, api: (
        node_labels(api, w["node"])[POOL] == w["pool"]
    ),
    "gpuctl get label <node> --key=runwhere.ai/gpu-type": lambda r, w, api: (
        r["results"][0]["labels"] == {TYPE: w["gpu-type"]}
    ),
    "gpuctl label node <node> runwhere.ai/gpu-type --delete": lambda r, w, api: TYPE not in node_labels(api, w["node"]),
    "gpuctl create -f quota.yaml": lambda r, w, api: len(api.list("resourcequota", w["user"])) == 1,
    "gpuctl get quotas <user>": lambda r, w, api: r["results"][0]["gpu"]["hard"] == 4,
    "gpuctl describe quota <user>": lambda r, w, api: r["results"][0]["cpu"]["percent"] == 0,
    "gpuctl delete -f quota.yaml": lambda r, w, api: api.list("resourcequota", w["user"]) == [],
    "gpuctl create -f job.yaml": lambda r, w, api: api.get("job", "train", w["namespace"]),
    "gpuctl create -f job.yaml -f job-2.yaml": lambda r, w, api: api.get("deployment", "web", w["namespace"]),
    "gpuctl get jobs --pool <pool>": lambda r, w, api: names(r) == ["train"],
    "gpuctl get jobs --pods": lambda r, w, api: {"train", "web"} <= {row["name"] for row in r["pods"]},
    "gpuctl describe job <job>": lambda r, w, api: len(r["results"][0]["pods"]) == 1,
    "gpuctl logs <job>": lambda r, w, api: names(r) == ["train"],
    "gpuctl pause <job>": lambda r, w, api: api.get("job", "train", w["namespace"])["spec"]["suspend"] is True,
    "gpuctl resume <job>": lambda r, w, api: api.get("job", "train", w["namespace"])["spec"]["suspend"] is False,
    "gpuctl scale <job-2> --replicas 2": lambda r, w, api: (
        api.get("deployment", "web", w["namespace"])["spec"]["replicas"] == 2
    ),
    "gpuctl delete job <job>`` and ``gpuctl create -f job.yaml``, to start over": lambda r, w, api: (
        r["results"][0]["action"] == "restart"
    ),
    "gpuctl delete job <job-2>": lambda r, w, api: api.get("deployment", "web", w["namespace"]) is None,
    "POST /pools": lambda r, w, api: node_labels(api, w["node"])[POOL] == w["pool"],
    "GET /pools/<pool>": lambda r, w, api: r["results"][0]["nodes"] == [w["node"]],
    "POST /nodes/<node>/labels": lambda r, w, api: node_labels(api, w["node"])[TYPE] == w["gpu-type"],
    "POST /nodes/labels/batch": lambda r, w, api: r["success"] == [w["node"], w["node-2"]],
    "GET /nodes?gpuType=<gpu-type>": lambda r, w, api: names(r, "node_name") == [w["node"], w["node-2"]],
    "GET /nodes/<node>/labels/runwhere.ai%2Fgpu-type": lambda r, w, api: (
        r["results"][0]["labels"] == {TYPE: w["gpu-type"]}
    ),
    "POST /quotas": lambda r, w, api: len(api.list("resourcequota", w["user"])) == 1,
    "POST /auth/check": lambda r, w, api: {"rights", "pools"} <= r.keys(),
    "/webhooks": lambda r, w, api: r["changed"],
    "POST /jobs/batch": lambda r, w, api: names(r) == ["train", "web"],
    "GET /jobs/<job>/logs?tail=20": lambda r, w, api: len(r["results"][0]["lines"]) <= 20,
    "DELETE /jobs/<job>": lambda r, w, api: r["results"][0]["action"] == "delete",
    "DELETE /quotas/<user>": lambda r, w, api: api.list("resourcequota", w["user"]) == [],
    "DELETE /pools/<pool>": lambda r, w, api: POOL not in node_labels(api, w["node"]),
}


def test_the_effects_are_those_of_rows() -> None:
    assert EFFECTS.keys() <= {first_of(row[0]) for row in [*COMMAND_LINE, *REST_API]}
