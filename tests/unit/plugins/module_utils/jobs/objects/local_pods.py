# SPDX-License-Identifier: BSD-2-Clause
"""The pods of a training as processes of this machine: their command and environment, without a cluster."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built

INDEX = "metadata.labels['batch.kubernetes.io/job-completion-index']"
_REFERENCE = re.compile(r"\$\$|\$\((\w+)\)")


def start(built: Built, directory: Path, path: str, **env: str) -> list[subprocess.Popen[str]]:
    """A process for each pod, in the directory, with this search path and further variables of the machine."""
    return [
        subprocess.Popen(
            words,
            cwd=directory,
            env={"PATH": path, "HOME": str(directory), **env, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words, variables in (_container(built.workload, index) for index in range(_number_of_pods(built)))
    ]


def outputs(pods: list[subprocess.Popen[str]], timeout: float) -> list[str]:
    """What the pods have printed once they have ended, all with success."""
    try:
        said = [pod.communicate(timeout=timeout)[0] for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
    assert [pod.returncode for pod in pods] == [0] * len(pods), "\n".join(said)
    return said


def _number_of_pods(built: Built) -> int:
    return int(built.workload["spec"].get("completions", 1))


def _container(workload: dict[str, Any], index: int) -> tuple[list[str], dict[str, str]]:
    """Command and environment as a kubelet makes them: the headless Service's names lead to this machine."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    name = workload["metadata"]["name"]
    here = re.compile(rf"\b{name}-[0-9]+\.svc-{name}\b")
    env: dict[str, str] = {}
    for variable in container.get("env", []):
        if source := variable.get("valueFrom"):
            assert source == {"fieldRef": {"fieldPath": INDEX}}
            env[variable["name"]] = str(index)
        else:
            env[variable["name"]] = here.sub("127.0.0.1", _filled_in(variable["value"], env))
    words = [_filled_in(word, env) for word in (*container["command"], *container.get("args", []))]
    return words, env


def _filled_in(text: str, env: dict[str, str]) -> str:
    """$(NAME), as third_party/forked/golang/expansion does."""
    return _REFERENCE.sub(lambda found: env.get(found[1], found[0]) if found[1] else "$", text)


def search_path(*first: Path) -> str:
    return os.pathsep.join([*map(str, first), os.environ["PATH"]])
