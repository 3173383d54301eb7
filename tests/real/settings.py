# SPDX-License-Identifier: BSD-2-Clause
"""What these tests have to know about a cluster, by environment variables (CONTRIBUTING.md lists them)."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

IMAGE = os.environ.get("GPUCTL_REAL_IMAGE", "quay.io/jupyter/pytorch-notebook:latest")
KUBECONFIG = "GPUCTL_REAL_KUBECONFIG"
_NODE_STOP, _NODE_START = "GPUCTL_REAL_NODE_STOP", "GPUCTL_REAL_NODE_START"


def required(variable: str, what: str) -> str:
    """The value of a variable; without it the test is skipped."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set: {what}")
    return value


def kubeconfig() -> str:
    return required(KUBECONFIG, "the kubeconfig of a cluster whose kubelets run containers, for its administrator")


def node_commands() -> tuple[str, str]:
    """The commands that stop and start a node, with ``{node}`` for its name."""
    stop = required(_NODE_STOP, "a command that stops the kubelet of {node}")
    return stop, required(_NODE_START, "a command that starts the kubelet of {node} again")


def run_for_node(command: str, node: str) -> None:
    done = subprocess.run(
        command.replace("{node}", shlex.quote(node)), shell=True, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
