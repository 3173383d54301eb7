# SPDX-License-Identifier: BSD-2-Clause
"""Which tasks run in Ansible's own process, and why the others do not."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils import fast_path
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fast_path import (
    LIBRARIES,
    SWITCH,
    ExecutionContext,
    module_process_reason,
)

ROOT = Path(__file__).resolve().parents[4]
BESIDE = str(Path(sys.executable).with_name("python3"))

HERE: dict[str, ExecutionContext] = {
    "nothing special": ExecutionContext(),
    "this interpreter": ExecutionContext(interpreter=sys.executable),
    "another name of this interpreter": ExecutionContext(interpreter=BESIDE),
    "an interpreter to be found": ExecutionContext(interpreter="auto_silent"),
    "a connection in the environment": ExecutionContext(
        environment={"K8S_AUTH_HOST": "https://a", "K8S_AUTH_CONTEXT": ""}
    ),
    "switched on": ExecutionContext(environment={SWITCH: "1"}),
    "switch left empty": ExecutionContext(environment={SWITCH: ""}),
}
AS_MODULE: dict[str, tuple[ExecutionContext, str]] = {
    "ssh": (ExecutionContext(transport="ssh"), "the connection is ssh"),
    "a container": (
        ExecutionContext(transport="containers.podman.podman"),
        "the connection is containers.podman.podman",
    ),
    "become": (ExecutionContext(becomes=True), "becomes another user"),
    "async": (ExecutionContext(is_async=True), "asynchronous"),
    "the system's Python": (ExecutionContext(interpreter="/usr/bin/env"), "interpreter is /usr/bin/env"),
    "what the link leads to": (ExecutionContext(interpreter=os.path.realpath(sys.executable)), "interpreter is"),
    "no such interpreter": (ExecutionContext(interpreter="/not/there/python3"), "interpreter is /not/there"),
    "a variable for a library": (
        ExecutionContext(environment={"SSL_CERT_FILE": "/a"}),
        "the environment sets SSL_CERT_FILE",
    ),
    "two variables": (
        ExecutionContext(environment={"B": "1", "A": "2", "K8S_AUTH_HOST": "3"}),
        "the environment sets A, B,",
    ),
    "switched off in the task": (ExecutionContext(environment={SWITCH: "False"}), f"{SWITCH} is off"),
}


@pytest.fixture(autouse=True)
def _no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)


@pytest.mark.parametrize("task", HERE.values(), ids=HERE)
def test_it_runs_here(task: ExecutionContext) -> None:
    assert module_process_reason(task) is None


@pytest.mark.parametrize(("task", "words"), AS_MODULE.values(), ids=AS_MODULE)
def test_it_runs_as_a_module(task: ExecutionContext, words: str) -> None:
    if task.interpreter == sys.executable:
        pytest.skip("this Python is in no virtual environment: the link and its target are one")
    assert words in (module_process_reason(task) or "")


@pytest.mark.parametrize("value", ["0", "false", "No", " off "])
def test_the_environment_switches_it_off_for_all_tasks(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert module_process_reason(ExecutionContext()) == f"{SWITCH} is off"


def test_a_task_may_switch_it_on_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert module_process_reason(ExecutionContext(environment={SWITCH: "1"})) is None


@pytest.mark.parametrize(
    ("version", "words"),
    [(None, "pydantic is not installed for"), ("1.10.13", "pydantic 1.10.13 of"), ("2.10", None), ("2.10b1", None)],
)
def test_a_library_that_is_missing_or_old_may_be_there_for_another_python(
    monkeypatch: pytest.MonkeyPatch, version: str | None, words: str | None
) -> None:
    def installed(name: str) -> str:
        if name != "pydantic":
            return "100.0"
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr("importlib.metadata.version", installed)
    fast_path.unfit_library.cache_clear()
    try:
        reason = module_process_reason(ExecutionContext())
    finally:
        fast_path.unfit_library.cache_clear()
    assert reason is None if words is None else words in (reason or "")


def test_the_lowest_versions_are_those_of_the_requirements() -> None:
    stated = re.findall(r"^([\w-]+)>=([\d.]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert {name: tuple(int(part) for part in version.split(".")[:2]) for name, version in stated} == LIBRARIES
