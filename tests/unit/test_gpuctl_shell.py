# SPDX-License-Identifier: BSD-2-Clause
"""extras/gpuctl.sh: what each command of the function gpuctl makes of its words, in bash and in zsh."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

try:
    from ansible.template import trust_as_template
except ImportError:  # before ansible-core 2.19, every text is a template
    trust_as_template = str

from tools import gpuctl_shell
from tools.tree import ROOT

GUIDE = (ROOT / "docs" / "docsite" / "rst" / "guide_from_gpuctl.rst").read_text(encoding="utf-8")
PLAYBOOKS = gpuctl_shell.described_playbooks()
Gpuctl = Callable[..., "Called"]


class Called:
    """What gpuctl has run."""

    def __init__(self, done: subprocess.CompletedProcess[str], record: Path) -> None:
        self.status, self.output = done.returncode, done.stdout + done.stderr
        self.words = record.read_text(encoding="utf-8").split("\0")[:-1] if record.exists() else []

    @property
    def variables(self) -> dict[str, Any]:
        """As Ansible reads and evaluates them."""
        loader, found = DataLoader(), {}
        for option, value in zip(self.words, self.words[1:], strict=False):
            if option == "-e":
                found.update(loader.load(trust_as_template(value)))
        templar = Templar(loader=loader, variables=found)
        return {name: templar.template(trust_as_template(f"{{{{ {name} }}}}")) for name in found}


@pytest.fixture(params=["bash", "zsh"])
def gpuctl(request: pytest.FixtureRequest, tmp_path: Path) -> Gpuctl:
    """Type a command of gpuctl into a shell in which ansible only writes down how it was called."""
    shell = shutil.which(request.param)
    if not shell:
        pytest.skip(f"{request.param} is not installed")
    record, tools = tmp_path / "record", tmp_path / "bin"
    tools.mkdir()
    for name in ("ansible", "ansible-playbook"):
        (tools / name).write_text(f"#!/bin/sh\nprintf '%s\\0' {name} \"$@\" > {record}\nenv > {tmp_path}/env\n")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    environment.pop("ANSIBLE_STDOUT_CALLBACK", None)

    def type_words(*words: str, script: str = 'gpuctl "$@"') -> Called:
        record.unlink(missing_ok=True)
        # -u: a user's shell may have it.
        command = [shell, "-uc", f". {gpuctl_shell.SHELL}; {script}", "shell", *words]
        return Called(subprocess.run(command, env=environment, capture_output=True, text=True), record)

    return type_words


def test_the_file_and_the_tables_are_generated() -> None:
    for path, text in gpuctl_shell.files().items():
        assert path.read_text(encoding="utf-8") == text, "run: make schemas"


def test_the_table_is_in_the_guide() -> None:
    assert gpuctl_shell.table() in GUIDE


def test_every_playbook_has_a_command() -> None:
    there = {each.playbook.name for each in gpuctl_shell.commands() if each.playbook}
    assert set(PLAYBOOKS) - there == {"notebook_copy"}  # the former name of copy


# The commands of the guide with the modules that it names for them.
FORMER = [
    (command, module)
    for cell, module in re.findall(
        r"^   \* - (``gpuctl .*)\n     - ``ansible localhost -m runwhere\.gpuctl\.(\w+)", GUIDE, re.M
    )
    for command in re.findall(r"``(gpuctl [^`]*)``", cell)
]


@pytest.mark.parametrize(("command", "module"), FORMER, ids=[command for command, _module in FORMER])
def test_a_command_of_the_guide_runs_what_has_its_module(gpuctl: Gpuctl, command: str, module: str):
    called = gpuctl(*re.sub(r"[<>]", "", command).split()[1:])
    assert called.status == 0, called.output
    if called.words[0] == "ansible":
        assert called.words[1:4] == ["localhost", "-m", f"runwhere.gpuctl.{module}"]
        return
    playbook = PLAYBOOKS[called.words[1].removeprefix("runwhere.gpuctl.")]
    assert {module} & {*playbook.modules, *playbook.instead_of}
    assert set(called.variables) <= set(playbook.variables)


CALLS: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "files": (
        ["create", "-f", "a.yaml", "-f", "b.yaml", "-n", "team-a", "--wait"],
        "provision",
        {
            "gpuctl_fail_on_drift": "false",
            "gpuctl_dir": ["a.yaml", "b.yaml"],
            "gpuctl_namespace": "team-a",
            "gpuctl_wait": "true",
        },
    ),
    "a file as a word": (["plan", "cluster/"], "plan", {"gpuctl_dir": ["cluster/"]}),
    "a value after =": (
        ["submit", "-f", "a", "--wait-timeout=60"],
        "submit",
        {"gpuctl_src": ["a"], "gpuctl_wait_timeout": "60"},
    ),
    "a flag that is off": (
        ["submit", "-f", "a", "--wait=false"],
        "submit",
        {"gpuctl_src": ["a"], "gpuctl_wait": "false"},
    ),
    "deletion": (["delete", "-f", "a"], "teardown", {"gpuctl_dir": ["a"]}),
    "deletion with consent": (
        ["delete", "-f", "a", "--yes"],
        "teardown",
        {"gpuctl_dir": ["a"], "gpuctl_confirm": "teardown"},
    ),
    "a job": (["delete", "job", "sft", "--force"], "delete", {"gpuctl_name": "sft", "gpuctl_force": "true"}),
    "the jobs of files": (["pause", "-f", "a", "-f", "b"], "pause", {"gpuctl_src": ["a", "b"]}),
    "a sweep with consent": (
        ["delete", "job", "--yes", "{{ s }}"],
        "delete",
        {"gpuctl_name": "{{ s }}", "gpuctl_confirm": "{{ s }}"},
    ),
    "a sweep that stops": (["pause", "s", "--yes"], "pause", {"gpuctl_name": "s", "gpuctl_confirm": "s"}),
    "a sweep that starts again": (["restart", "s", "--yes"], "restart", {"gpuctl_name": "s", "gpuctl_confirm": "s"}),
    "consent without a name": (
        ["delete", "job", "--src", "a", "--yes"],
        "delete",
        {"gpuctl_src": "a", "gpuctl_confirm": ""},
    ),
    "following": (["logs", "sft", "-f"], "logs", {"gpuctl_name": "sft", "gpuctl_follow": "true"}),
    "a table": (["get", "jobs", "--type", "training"], "status", {"gpuctl_table": "jobs", "gpuctl_kind": "training"}),
    "labels": (
        ["label", "node", "a", "b", "gpu-type=x=y", "team=t", "--overwrite"],
        "provision",
        {
            "gpuctl_fail_on_drift": "false",
            "gpuctl_force": "true",
            "gpuctl_node_labels": {name: {"gpu-type": "x=y", "team": "t"} for name in "ab"},
        },
    ),
    "no label": (
        ["label", "node", "a", "b", "gpu-type", "--delete"],
        "provision",
        {"gpuctl_fail_on_drift": "false", "gpuctl_node_labels": {"a": {"gpu-type": None}, "b": {"gpu-type": None}}},
    ),
    "to a job": (
        ["cp", "data/", "lab:/home/data", "--pod", "0"],
        "copy",
        {
            "gpuctl_direction": "to_job",
            "gpuctl_name": "lab",
            "gpuctl_local": "data/",
            "gpuctl_remote": "/home/data",
            "gpuctl_pod": "0",
        },
    ),
    "from a job": (
        ["cp", "lab:/a:b", "./c:d"],
        "copy",
        {"gpuctl_direction": "from_job", "gpuctl_name": "lab", "gpuctl_local": "./c:d", "gpuctl_remote": "/a:b"},
    ),
    "what a message advises": (["usage", "-e", "gpuctl_all=true"], "usage", {}),
}


@pytest.mark.parametrize(("words", "playbook", "variables"), CALLS.values(), ids=CALLS)
def test_what_a_command_runs(gpuctl: Gpuctl, words: list[str], playbook: str, variables: dict[str, Any]):
    called = gpuctl(*words)
    assert called.words[:2] == ["ansible-playbook", f"runwhere.gpuctl.{playbook}"], called.output
    if "-e" in words:
        assert called.words[2:] == ["-e", "gpuctl_all=true"]
    else:
        assert called.variables == variables


def test_what_is_for_ansible(gpuctl: Gpuctl):
    assert gpuctl("plan", "a", "--check", "-v", "--", "--vault-id", "x").words[2:] == [
        *("--check", "-v", "--vault-id", "x", "-e", '{"gpuctl_dir": [{"__ansible_unsafe": "a"}]}'),
    ]


def test_an_ad_hoc_command(gpuctl: Gpuctl):
    called = gpuctl("add", "node", "a", "b", "--pool", "p")
    assert called.words[:4] == ["ansible", "localhost", "-m", "runwhere.gpuctl.gpuctl_pool"]
    assert called.words[5] == '{"name": "{{ gpuctl_pool }}", "nodes": "{{ gpuctl_node }}", "purge": false}'
    assert called.variables == {"gpuctl_pool": "p", "gpuctl_node": ["a", "b"]}


@pytest.mark.parametrize("given", [["-e", "gpuctl_pool=p"], ["--", "-e", "@pool.yaml"]], ids=" ".join)
def test_what_a_command_requires_may_be_a_variable(gpuctl: Gpuctl, given: list[str]):
    assert gpuctl("add", "node", "a", *given).words[0] == "ansible"


def test_all_nodes_are_described_unless_some_are_named(gpuctl: Gpuctl):
    called = gpuctl("describe", "node")
    assert called.words[5] == '{"nodes": "{{ gpuctl_node | default(omit) }}", "full": true, "must_exist": true}'
    assert called.words[6:] == []


AWKWARD = ["a b", "it's", 'say "x"', "$(id)", "`id`", "${HOME}", "{{ 1+1 }}", "{% raw %}", "back\\slash\\", "\\u0041"]
AWKWARD += [
    "#x: [y]",
    "!vault z",
    "null",
    "1e3",
    "&a *b",
    "%s%n",
    "数据 é 🚀",
    "two\nlines",
    "tab\t",
    "@file",
    "~",
    "*",
    "a\r",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_a_value_is_data(gpuctl: Gpuctl, text: str):
    """Neither the shell nor YAML nor Ansible evaluates it."""
    assert gpuctl("describe", "job", text, "--namespace", text).variables == {
        "gpuctl_name": text,
        "gpuctl_namespace": text,
    }
    assert gpuctl("submit", "-f", text, f"--kind={text}", text).status == 2  # submit has no such option
    assert gpuctl("submit", "-f", text, text).variables == {"gpuctl_src": [text, text]}
    assert gpuctl("label", "node", text, f"k={text}").variables["gpuctl_node_labels"] == {text: {"k": text}}


REFUSED = {
    "a command": (["craete", "-f", "a"], "unknown command: craete. To list"),
    "a second word": (["get", "secrets"], "unknown command: get secrets. After get comes one of: jobs notebook "),
    "an option": (["get", "jobs", "--plo", "x"], "unknown option: --plo. To list the options, add --help."),
    "a secret": (["onboard", "x", "--registry-password", "y"], "unknown option: --registry-password."),
    "an option of others": (["get", "jobs", "--delete"], "unknown option: --delete."),
    "no value": (["get", "jobs", "--pool"], "--pool needs a value."),
    "consent that is none": (["delete", "-f", "a", "--yes=no"], "--yes takes no value."),
    "two names": (["pause", "a", "b"], "one name only: a b"),
    "the word job before a name": (["logs", "job", "b"], "one name only: job b. Leave out the word job."),
    "a name in place of a file": (["delete", "sft"], "sft: no such file. To name a job, type gpuctl delete job sft."),
    "a pool without its file": (
        ["delete", "pool", "x"],
        "pool: no such file. Pools, quotas and nodes are deleted with the file that declares them: gpuctl delete -f",
    ),
    "quotas without their file": (["delete", "quotas"], "quotas: no such file. Pools, quotas and nodes are"),
    "no file": (["delete"], "too few words. Usage: gpuctl delete -f FILE..."),
    "no name": (["describe", "job"], "too few words. Usage: gpuctl describe job NAME"),
    "nodes for no pool": (["add", "node", "a"], "too few words. Usage: gpuctl add node NODE... --pool POOL\n"),
    "no nodes of a pool": (["remove", "node", "--pool", "p"], "too few words. Usage: gpuctl remove node NODE..."),
    "a node without a label": (["label", "node", "a", "key"], "too few words. Usage: gpuctl label node NODE... KEY"),
    "a label of no node": (["label", "node", "k=v", "--overwrite"], "too few words. Usage: gpuctl label node"),
    "a label to remove from no node": (["label", "node", "key", "--delete"], "too few words. Usage: gpuctl label node"),
    "a copy of nothing": (["cp", "a"], "give two paths, one of them as JOB:PATH."),
    "a copy of two jobs' worth": (["cp", "a", "./b:c"], "give one of the paths as JOB:PATH."),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(gpuctl: Gpuctl, words: list[str], message: str):
    called = gpuctl(*words)
    assert called.status == 2
    assert called.output.startswith(f"gpuctl: {message}")
    assert called.words == []


def test_help(gpuctl: Gpuctl):
    called = gpuctl("help")
    assert called.status == 0
    assert max(map(len, called.output.splitlines())) <= 80
    assert all(f"\n{each.usage.removeprefix('gpuctl ')}" in called.output for each in gpuctl_shell.commands())
    assert "--gpu-type VALUE" in gpuctl("get", "nodes", "--help").output


def test_the_status_is_that_of_ansible(gpuctl: Gpuctl):
    assert gpuctl(script="ansible-playbook() { return 4; }; gpuctl status").status == 4


def test_tables_without_headings_unless_the_user_has_chosen(gpuctl: Gpuctl, tmp_path: Path):
    gpuctl("status")
    assert "ANSIBLE_STDOUT_CALLBACK=runwhere.gpuctl.plain\n" in (tmp_path / "env").read_text()
    gpuctl(script="ANSIBLE_STDOUT_CALLBACK=default gpuctl status")
    assert "ANSIBLE_STDOUT_CALLBACK=default\n" in (tmp_path / "env").read_text()


COMPLETED = {
    ("pl",): ["plan"],
    ("get", "no"): ["notebook", "nodes", "node-labels"],
    ("get", "nodes", "--lab"): ["--label", "--label-keys"],
    ("describe", "x", "--prometheus-u"): ["--prometheus-url"],
    ("submit", "-f", "ex"): [],  # names of files
}


@pytest.mark.parametrize("typed", COMPLETED, ids=" ".join)
def test_completion(gpuctl: Gpuctl, typed: tuple[str, ...]):
    script = 'COMP_WORDS=(gpuctl "$@"); COMP_CWORD=$#; _gpuctl_complete; echo "${COMPREPLY[*]-}"'
    called = gpuctl(*typed, script=f'[ -z "${{ZSH_VERSION-}}" ] || setopt ksh_arrays; {script}')
    assert sorted(called.output.split()) == sorted(COMPLETED[typed])
