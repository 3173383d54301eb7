# SPDX-License-Identifier: BSD-2-Clause
"""Run the real command line tools of Ansible and read their results."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from .forked_tools import run_tool

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
says_while_it_runs = pytest.mark.skipif(
    os.environ.get("GPUCTL_FAST_PATH") == "0", reason="a module says nothing before it ends"
)
_NOT_INHERITED = ("K8S_AUTH_", "KUBECONFIG", "GPUCTL_NAMESPACE")


def _environment() -> dict[str, str]:
    """The variables of every run, without those that say which cluster and how a test differs."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)},
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
        "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callback_plugins")),
        "ANSIBLE_CALLBACKS_ENABLED": "record",
        "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
        "ANSIBLE_NOCOLOR": "true",
        "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}",
    }


_IMPORTED_WITH = _environment()  # before a test has changed any


@dataclass(frozen=True)
class TaskResult:
    """The result of one task, as a callback plugin gets it."""

    task: str
    outcome: str
    result: dict[str, Any]
    diff: Any
    screen: str = ""  # the output of the whole run

    @property
    def changed(self) -> bool:
        return bool(self.result.get("changed"))

    @property
    def failed(self) -> bool:
        return self.outcome == "failed"

    @property
    def message(self) -> str:
        return str(self.result.get("msg", ""))

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        """The entries of ``results`` by job name."""
        return {job["name"]: job for job in self.result["results"]}


@dataclass(frozen=True)
class Run:
    """One run of a command: exit status, output, and the result of each task."""

    status: int
    output: str
    tasks: list[TaskResult]


@dataclass(frozen=True)
class Ansible:
    """The command line tools, run in ``directory`` with the connection in the environment."""

    directory: Path
    environment: dict[str, str]

    def job(self, *, check: bool = False, arguments: tuple[str, ...] = (), **options: Any) -> TaskResult:
        """One gpuctl_job task; ``options`` are the module's."""
        return self.module("gpuctl_job", check=check, arguments=arguments, **options)

    def module(
        self, module: str, *, check: bool = False, arguments: tuple[str, ...] = (), **options: Any
    ) -> TaskResult:
        """One task with a module of the collection; ``options`` are the module's."""
        run = self.play([{"name": module, f"runwhere.gpuctl.{module}": options}], check=check, arguments=arguments)
        (task,) = run.tasks
        return replace(task, screen=run.output)

    def play(self, tasks: list[dict[str, Any]], *, check: bool = False, arguments: tuple[str, ...] = ()) -> Run:
        """Run a play on localhost with these tasks. A failed task does not end it."""
        play = {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{**task, "ignore_errors": True} for task in tasks],
        }
        path = self.directory / "playbook.yml"
        path.write_text(yaml.safe_dump([play], sort_keys=False, allow_unicode=True))
        return self.run("ansible-playbook", str(path), "--diff", *(["--check"] if check else []), *arguments)

    @property
    def _results(self) -> Path:
        return self.directory / "results.jsonl"

    @property
    def full_environment(self) -> dict[str, str]:
        """The variables that the tools get."""
        return {
            **_environment(),
            "GPUCTL_TEST_RESULTS": str(self._results),
            "HOME": str(self.directory),
            **self.environment,
        }

    def run(self, tool: str, *arguments: str) -> Run:
        """Run a tool of ansible-core as a user would."""
        self._results.unlink(missing_ok=True)
        status, output = run_tool(
            BIN / tool, arguments, self.directory, self.full_environment, timeout=300, imported_with=_IMPORTED_WITH
        )
        lines = self._results.read_text().splitlines() if self._results.exists() else []
        return Run(status, output, [TaskResult(**json.loads(line)) for line in lines])
