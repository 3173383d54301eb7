# SPDX-License-Identifier: BSD-2-Clause
"""Every code block of the documentation is executed as it stands, on the cluster that `make cluster` starts.

Commands are typed in their order into one shell per document, in a directory that holds what a clone holds. What they
print is compared with the blocks that show it. Tasks and plays are run, manifests are submitted in check mode, and
parts of manifests are submitted as part of a training. test_documents.yaml names the blocks that cannot be run here,
with the reason; their syntax is checked. With GPUCTL_UPDATE_DOCUMENTS=1, blocks with output are written again.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.demo.cluster import provisioned, several
from tests.demo.terminal import Answer, Terminal, same_every_time
from tools.tree import ROOT

from .api import Api
from .documents import Block, blocks_of, documents
from .manifests import training

RULES: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
# The same text in another language.
_TRANSLATED = re.compile(r"(\.zh-CN|_zh)(?=\.\w+$)")
ORIGINALS = {name: _TRANSLATED.sub("", name) for name in documents() if _TRANSLATED.search(name)}
UPDATES = os.environ.get("GPUCTL_UPDATE_DOCUMENTS", "") == "1"
BIN = Path(sys.executable).parent
GROUPS = {name: rules["documents"] for name, rules in RULES.items() if "documents" in rules}
READINGS = sorted({*documents(), *GROUPS} - {*ORIGINALS, *(name for group in GROUPS.values() for name in group)})


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory in which a reader types: what a clone has, without anything that a command could spoil."""
    for name in ("awx", "examples", "schemas"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def environment(clone: Path) -> dict[str, str]:
    home = clone / "home"
    (home / ".kube").mkdir(parents=True)
    return {"HOME": str(home), "LC_ALL": "C.UTF-8", "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin"}


@pytest.fixture
def terminal(clone: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    """A shell beside `make cluster`."""
    kubeconfig = clone / "build" / "cluster.kubeconfig"
    containers = clone / "containers"
    with provisioned(kubeconfig, exec_root=containers), Terminal(clone, environment) as terminal:
        _write_kubeconfig_of_kubectl(kubeconfig, clone / "home" / ".kube" / "config")
        yield terminal


@pytest.fixture
def terminal_of_several(clone: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    """A shell beside `make clusters N=3`."""
    kubeconfig = clone / "build" / "clusters.kubeconfig"
    with several(kubeconfig, 3), Terminal(clone, environment) as terminal:
        _write_kubeconfig_of_kubectl(kubeconfig, clone / "home" / ".kube" / "config")
        yield terminal


def _write_kubeconfig_of_kubectl(kubeconfig: Path, path: Path) -> None:
    """With the context that the documents name."""
    content = json.loads(kubeconfig.read_text(encoding="utf-8"))
    content["contexts"][0]["name"] = content["current-context"] = "gpu-cluster"
    path.write_text(json.dumps(content), encoding="utf-8")


def _documents_of(reading: str) -> list[str]:
    files_of = RULES.get(reading, {}).get("files_of")
    return [*GROUPS.get(reading, [reading]), *filter(None, [files_of])]


@pytest.mark.parametrize(
    "reading", [pytest.param(name, marks=pytest.mark.about(*_documents_of(name))) for name in READINGS]
)
def test_the_blocks_do_what_they_show(reading: str, request: pytest.FixtureRequest, clone: Path):
    reader = Reader(reading, clone)
    if reader.needs_a_cluster:
        reader.terminal = request.getfixturevalue("terminal_of_several" if reader.clusters else "terminal")
    reader.read()


# How else a playbook can be started -> the shell function that does so.
STARTERS = {
    "the default callback": 'ansible-playbook() { ANSIBLE_STDOUT_CALLBACK=default command ansible-playbook "$@"; }',
    "ansible-runner": 'ansible-playbook() { ansible-runner run runner --playbook "$1" --cmdline "${*:2}"; }',
}


@pytest.mark.nightly  # the screens themselves are tested elsewhere
@pytest.mark.parametrize("starter", STARTERS.values(), ids=STARTERS)
def test_the_first_job_of_the_readme_with(starter: str, terminal: Terminal, clone: Path):
    """The same commands print the same tables, and more around them."""
    (clone / "runner").mkdir()
    (clone / "runner" / "project").symlink_to(clone)
    reader = Reader("README.md", clone)
    reader.terminal = terminal
    reader.starts_with = [". build/cluster.env", starter]
    reader.shows_more = True
    reader.read()


@pytest.mark.parametrize(
    "document", [pytest.param(name, marks=pytest.mark.about(name, original)) for name, original in ORIGINALS.items()]
)
def test_a_translation_has_the_same_blocks(document: str):
    """But for comments and descriptions."""

    def code(name: str) -> list[tuple[str, str]]:
        return [(block.language, re.sub(r"#.*|(?<=description: ).*", "", block.text)) for block in blocks_of(name)]

    assert code(document) == code(ORIGINALS[document])


@pytest.mark.about(*documents())
def test_the_rules_are_about_blocks_that_exist():
    lines = {
        name: {line for document in GROUPS.get(name, [name]) for block in blocks_of(document) for line in _lines(block)}
        for name in [*documents(), *GROUPS]
    }
    stale = [
        (name, line)
        for name, rules in RULES.items()
        for part in ("not_run", "statuses", "in_another_terminal", "in_the_foreground")
        for line in rules.get(part, {})
        if line not in lines.get(name, ())
    ]
    assert stale == []


def _lines(block: Block) -> list[str]:
    return [block.first_line, *block.text.splitlines()]


class Reader:
    """Someone who does what a document says, or some documents, from the first block to the last."""

    def __init__(self, document: str, directory: Path) -> None:
        rules = RULES.get(document, {})
        self.document = document
        self.directory = directory
        self.blocks = [block for name in GROUPS.get(document, [document]) for block in blocks_of(name)]
        self.others = blocks_of(rules["files_of"]) if "files_of" in rules else []
        self.variables: dict[str, Any] = rules.get("variables", {})
        self.not_run: dict[str, str] = rules.get("not_run", {})
        self.statuses: dict[str, int] = rules.get("statuses", {})
        self.objects: list[dict[str, Any]] = rules.get("objects", [])
        self.setup: list[str] = rules.get("setup", [])
        self.starts_with: list[str] = rules.get("starts_with", [". build/cluster.env"])
        self.expected_warnings: list[str] = rules.get("warnings", [])
        self.in_another_terminal: list[str] = rules.get("in_another_terminal", [])
        self.in_the_foreground: list[str] = rules.get("in_the_foreground", [])
        self.clusters: int = rules.get("clusters", 0)
        self.prelude: str = rules.get("prelude", "")
        self.terminal: Terminal
        self.printed = ""
        self.manifests: list[dict[str, Any]] = []
        self.shows_more = False  # than the document does, which shows the callback plugin plain

    @property
    def needs_a_cluster(self) -> bool:
        return any(self._lines_to_run(block) for block in self.blocks)

    def _lines_to_run(self, block: Block) -> list[str]:
        first_lines = [command.partition("\n")[0] for command, _output in block.commands] if _is_console(block) else []
        first_lines = [f"$ {line}" for line in first_lines] or [block.first_line]
        return [line for line in first_lines if line not in self.not_run]

    def read(self) -> None:
        for block in self.others:
            if block.file:
                self._write(block)
        for obj in self.objects:
            api = Api(str(self.directory / "build" / "cluster.kubeconfig"))
            api.create(obj["kind"].lower(), obj, obj["metadata"].get("namespace", ""))
        for command in [*self.starts_with, *self.setup] if self.needs_a_cluster else []:
            answer = self.terminal.type(command)
            assert answer.status == 0, f"{command}\n{answer.output}"
        for number, block in enumerate(self.blocks):
            if not self._lines_to_run(block):
                check_syntax(block)
            elif block.first_line in self.in_another_terminal:
                self._type("(" + "\n".join(command for command, _output in block.commands) + ")")
            elif _is_console(block):
                self._type_commands(block)
            elif block.language == "text":
                self._compare(block.text)
            elif block.file:
                self._write(block)
                if not self._is_used_later(block.file, number):
                    self._run_code(block)
            else:
                self._run_code(block)
        self._submit_manifests()

    def _type_commands(self, block: Block) -> None:
        for command, output in block.commands:
            if f"$ {command.partition(chr(10))[0]}" in self.not_run:
                continue
            self._type(command, until=len(output) if f"$ {command}" in self.in_the_foreground else 0)
            if output:
                self._compare("\n".join(output))

    def _type(self, command: str, *, until: int = 0) -> None:
        """`until`: of a command that runs until it is stopped, after how many lines that is."""
        answer: Answer = self.terminal.type(_stopped_after(command, until) if until else command)
        expected = self.statuses.get(f"$ {command.partition(chr(10))[0]}", 0)
        assert answer.status == expected, f"{self.document}: {command}\n{answer.output}"
        self._judge_warnings(command, answer.output)
        # The plain callback indents the further lines of a warning.
        self.printed = re.sub(r"^\[WARNING\]: .*\n(?:  .*\n)*", "", answer.output, flags=re.MULTILINE)

    def _judge_warnings(self, command: str, output: str) -> None:
        """A reader wonders about a warning that the document does not explain."""
        flat = " ".join(output.split())
        for warning in self.expected_warnings:
            assert warning in " ".join((ROOT / self.document).read_text(encoding="utf-8").split())
            flat = _without_warning(flat, warning)
        if "gpuctl_dir=blocks/" in command:  # A quota in the place of one that the cluster has for more namespaces
            flat = _without_warning(flat, "no source declares it, so it is kept.")
        assert "[WARNING]" not in flat, f"{self.document}: {command}\n{output}"
        assert "[DEPRECATION" not in flat, f"{self.document}: {command}\n{output}"

    def _compare(self, shown: str) -> None:
        """A line with nothing but dots stands for any lines."""
        parts = [same_every_time(part) for part in re.split(r"^\s*(?:\.\.\.|…)\s*$", shown, flags=re.MULTILINE)]
        printed = same_every_time(self.printed)
        if self.shows_more:
            lines = [line for part in parts for line in part if not line.startswith("localhost: ")]
            assert [line for line in lines if line not in printed] == [], self.printed
            return
        position = 0
        for part in filter(None, parts):
            starts = [at for at in range(position, len(printed)) if printed[at : at + len(part)] == part]
            if not starts:
                self._update(shown)
                assert printed == part, f"{self.document}, after a command, prints:\n{self.printed}"
            position = starts[0] + len(part)
        if parts[0]:
            assert printed[: len(parts[0])] == parts[0], f"more is printed before this:\n{self.printed}"
        if parts[-1]:
            assert printed[-len(parts[-1]) :] == parts[-1], f"more is printed after this:\n{self.printed}"

    def _update(self, shown: str) -> None:
        if not UPDATES:
            return
        path = ROOT / self.document
        text = path.read_text(encoding="utf-8")
        lines = [line.rstrip() for line in self.printed.strip().splitlines()]
        for indent in (" " * width for width in range(8)):
            old = "".join(f"{indent}{line}".rstrip() + "\n" for line in shown.strip("\n").splitlines())
            if text.count(old) == 1:
                path.write_text(text.replace(old, "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)))
                return

    def _write(self, block: Block) -> None:
        path = self.directory / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _is_used_later(self, file: str, number: int) -> bool:
        folder = f"{Path(file).parent}/"
        later = "\n".join(block.text for block in self.blocks[number + 1 :])
        return file in later or (folder != "./" and folder in later)

    def _run_code(self, block: Block) -> None:
        if block.language == "python":
            self._run_python(block)
            return
        if block.language == "ini":
            assert settings(block.text) == settings((ROOT / "examples" / "ansible.cfg").read_text(encoding="utf-8"))
            return
        assert block.language in ("yaml", "yaml+jinja"), f"nothing runs a block like this:\n{block.text}"
        for content in yaml.safe_load_all(block.text):
            if isinstance(content, list):
                self._run_tasks(content)
            elif "module_defaults" in content:
                nodes = {"name": "List the nodes", "runwhere.gpuctl.gpuctl_node_info": {}}
                self._run_play([{"hosts": "localhost", "gather_facts": False, **content, "tasks": [nodes]}])
            elif content.get("kind") == "policy":
                self._apply_policy(content)
            elif "kind" in content:
                self.manifests.append(content)
            else:
                self.manifests.append(training(f"part-{len(self.manifests)}", **content))

    def _apply_policy(self, content: dict[str, Any]) -> None:
        """To a manifest that it allows."""
        (self.directory / "policy.yaml").write_text(yaml.safe_dump(content))
        manifest = "examples/manifests/inference-sglang-debug.yaml"
        self._type(
            f"GPUCTL_POLICY=policy.yaml ansible-playbook runwhere.gpuctl.submit -e gpuctl_src={manifest} --check"
        )

    def _run_tasks(self, content: list[dict[str, Any]]) -> None:
        is_play = any("hosts" in item for item in content)
        self._run_play(content if is_play else [{"hosts": "localhost", "gather_facts": False, "tasks": content}])

    def _run_play(self, plays: list[dict[str, Any]]) -> None:
        (self.directory / "block.yml").write_text(yaml.safe_dump(plays, sort_keys=False, allow_unicode=True))
        (self.directory / "block-variables.yml").write_text(yaml.safe_dump(self.variables))
        self._type("ansible-playbook block.yml -e @block-variables.yml")

    def _run_python(self, block: Block) -> None:
        is_test = "def test_" in block.text
        path = self.directory / ("test_block.py" if is_test else "block.py")
        path.write_text(f"{self.prelude}\n{block.text}", encoding="utf-8")
        self._type(f"python -m pytest -q -p no:cacheprovider {path.name}" if is_test else f"python {path.name}")

    def _submit_manifests(self) -> None:
        """All that are no file of a command, in check mode. Some are in the place of what the cluster has."""
        if self.manifests:
            (self.directory / "blocks").mkdir()
            (self.directory / "blocks" / "all.yaml").write_text(yaml.safe_dump_all(self.manifests))
            variables = "-e gpuctl_dir=blocks/ -e gpuctl_namespace=team-a -e gpuctl_fail_on_drift=false"
            self._type(f"ansible-playbook runwhere.gpuctl.provision {variables} --check")


def _without_warning(flat: str, warning: str) -> str:
    return re.sub(rf"\[WARNING\]: (?:(?!\[WARNING\]).)*?{re.escape(warning)}", "", flat)


def _stopped_after(command: str, lines: int) -> str:
    there = f"[ -e printed ] && [ $(wc -l <printed) -ge {lines} ]"
    return f"{command} >printed & until {there}; do sleep 0.1; done; kill $!; wait $!; cat printed"


def _is_console(block: Block) -> bool:
    return block.language == "console"


def settings(text: str) -> dict[str, dict[str, str]]:
    """Of Ansible, as build/cluster.env brings them from examples/ansible.cfg."""
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {name: dict(section) for name, section in parser.items()}


def check_syntax(block: Block) -> None:
    """Of a block that is not run."""
    if block.language in ("console", "shell"):
        script = "\n".join(command for command, _ in block.commands) if _is_console(block) else block.text
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif block.language in ("yaml", "yaml+jinja"):
        list(yaml.safe_load_all(block.text))
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "python":
        compile(block.text, "block", "exec")
