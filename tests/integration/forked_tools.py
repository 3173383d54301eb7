# SPDX-License-Identifier: BSD-2-Clause
"""Run the tools of ansible-core in forks of a process that has imported preloaded.py: two thirds of a short run.

ansible-core reads its configuration when it is imported, with the variables ``imported_with``. A run that has others,
or an ansible.cfg or plugins in HOME, gets a process of its own. So does every run where GPUCTL_TEST_PROCESSES is set.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

TOOLS = {"ansible": "ansible.cli.adhoc", "ansible-playbook": "ansible.cli.playbook"}
_READ_BY_RUNS = ("HOME", "PWD", "GPUCTL_", "K8S_AUTH_", "KUBECONFIG", "PYTEST_")
_context = multiprocessing.get_context("forkserver")
_home = tempfile.TemporaryDirectory(prefix="gpuctl-test-home-", ignore_cleanup_errors=True)


def run_tool(
    tool: Path,
    arguments: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    timeout: float,
    imported_with: Mapping[str, str],
) -> tuple[int, str]:
    """Its exit status and output. Raises ``subprocess.TimeoutExpired``."""
    with tempfile.NamedTemporaryFile() as output:
        command = [str(tool), *arguments]
        if _may_fork(tool, directory, environment, imported_with):
            _start_server(frozenset(_read_on_import(imported_with).items()))
            status = _fork(command, directory, environment, timeout, output.name)
        else:
            status = subprocess.run(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            ).returncode
        return status, Path(output.name).read_text()


def _may_fork(tool: Path, directory: Path, environment: Mapping[str, str], imported_with: Mapping[str, str]) -> bool:
    home = Path(environment["HOME"])
    configured = any(path.exists() for path in (directory / "ansible.cfg", home / ".ansible.cfg", home / ".ansible"))
    if tool.name not in TOOLS or configured or os.environ.get("GPUCTL_TEST_PROCESSES"):
        return False
    return _read_on_import(environment) == _read_on_import(imported_with)


def _read_on_import(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_READ_BY_RUNS)}


@cache
def _start_server(variables: frozenset[tuple[str, str]]) -> None:
    with mock.patch.dict(os.environ, {**dict(variables), "HOME": _home.name}, clear=True):
        forkserver.set_forkserver_preload([f"{__package__}.preloaded"])
        forkserver.ensure_running()


def _fork(command: Sequence[str], directory: Path, environment: Mapping[str, str], timeout: float, output: str) -> int:
    process = _context.Process(target=_become, args=(command, directory, environment, output))
    process.start()
    process.join(timeout)
    if process.is_alive():
        os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        raise subprocess.TimeoutExpired(command, timeout)
    return process.exitcode or 0


def _become(command: Sequence[str], directory: Path, environment: Mapping[str, str], output: str) -> None:
    """In the fork: the tool, with its own session, directory, environment and streams."""
    atexit._clear()  # what the parent has to remove is not ours
    os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    with open(output, "wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.argv = list(command)
    try:
        importlib.import_module(TOOLS[Path(command[0]).name]).main()
    finally:
        atexit._run_exitfuncs()
