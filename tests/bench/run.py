# SPDX-License-Identifier: BSD-2-Clause
"""Compare with what people use otherwise, in one run on one machine: what `make bench` prints.

Contenders take turns, so that a busy machine troubles all of them alike. Figures are medians; the ratio is to the first
contender of a group. Peak memory is that of the largest process. Machines are noisy: read the ratios.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
ROUNDS = int(os.environ.get("GPUCTL_BENCH_ROUNDS", "3"))
NODES, PODS = 2_000, 20_000

sys.path.insert(0, str(ROOT))
from tools.peers import kubernetes_core  # noqa: E402  (the tools are beside the tests, not installed)

_TRUSTING = ssl._create_unverified_context()  # of a server that this very program has started


@dataclass
class Contender:
    """A command, and how often the thing that is measured happens in it."""

    name: str
    command: list[str]
    times: int = 1
    seconds: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    requests: int | None = None


@dataclass
class Group:
    title: str
    contenders: list[Contender]
    base: Contender | None = None  # its time is taken off the others': the empty playbook


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gpuctl-bench-") as name:
        directory = Path(name)
        with served(4, 0, directory) as (server, environment):
            print_group(measured(task_group(directory), server, environment))
        with served(NODES, PODS, directory) as (server, environment):
            print_server(server)
            print_group(measured(info_group(directory), server, environment))


def task_group(directory: Path) -> Group:
    """One unchanged job: the price of a task."""
    tasks = 10
    manifest = {
        "kind": "compute",
        "job": {"name": "bench"},
        "environment": {"image": "registry.example.com/ml:v1"},
        "resources": {"cpu": 1, "memory": "1Gi"},
    }
    ours = {"runwhere.gpuctl.gpuctl_job": {"definition": manifest}}
    theirs = {"kubernetes.core.k8s": {"definition": "{{ lookup('file', 'deployment.json') | from_json }}"}}
    (directory / "deployment.json").write_text(json.dumps(deployment("bench-peer")))
    empty = Contender("empty playbook", playbook(directory, "empty", []))
    return Group(
        f"One unchanged task, seconds over an empty playbook ({tasks} tasks each)",
        [
            Contender(
                "ansible.builtin.ping", playbook(directory, "ping", [{"ansible.builtin.ping": {}}] * tasks), tasks
            ),
            Contender("gpuctl_job (Deployment and Service)", playbook(directory, "ours", [ours] * tasks), tasks),
            Contender("kubernetes.core.k8s (Deployment)", playbook(directory, "theirs", [theirs] * tasks), tasks),
        ],
        base=empty,
    )


def info_group(directory: Path) -> Group:
    """Everything about a large cluster."""
    pods = {"kubernetes.core.k8s_info": {"kind": "Pod", "api_version": "v1"}}
    contenders = [
        Contender("gpuctl_node_info", playbook(directory, "nodes", [{"runwhere.gpuctl.gpuctl_node_info": {}}])),
        Contender("gpuctl_pool_info", playbook(directory, "pools", [{"runwhere.gpuctl.gpuctl_pool_info": {}}])),
    ]
    kubectl = shutil.which("kubectl")
    if kubectl:
        contenders.append(Contender("kubectl get pods -A -o json", [kubectl, "get", "pods", "-A", "-o", "json"]))
    contenders.append(Contender("kubernetes.core.k8s_info, pods", playbook(directory, "k8s_info", [pods])))
    return Group(f"{NODES:,} nodes and {PODS:,} pods, seconds and peak memory of the whole command", contenders)


def deployment(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.example.com/ml:v1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def playbook(directory: Path, name: str, tasks: list[dict[str, Any]]) -> list[str]:
    path = directory / f"{name}.yml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    return [str(BIN / "ansible-playbook"), str(path)]


@contextmanager
def served(nodes: int, pods: int, directory: Path) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """A cluster of that size, what it says of itself, and the environment that leads there."""
    kubeconfig = directory / "kubeconfig"
    command = [sys.executable, "-m", "bench.server", str(nodes), str(pods), str(kubeconfig)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        server = json.loads(process.stdout.readline())
        yield (
            server,
            {
                **os.environ,
                "ANSIBLE_COLLECTIONS_PATH": f"{ROOT / '.cache' / 'collections'}:{kubernetes_core()}",
                "ANSIBLE_LOCALHOST_WARNING": "false",
                "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
                "ANSIBLE_PIPELINING": "true",
                "HOME": str(directory),
                "K8S_AUTH_KUBECONFIG": str(kubeconfig),
                "KUBECONFIG": str(kubeconfig),
            },
        )
        process.stdin.close()


def measured(group: Group, server: dict[str, Any], environment: dict[str, str]) -> Group:
    contenders = [*([group.base] if group.base else []), *group.contenders]
    for contender in contenders:
        if contender.times > 1:  # The first time creates what is then unchanged.
            run(contender.command, environment)
        sim(server, "DELETE")
        run(contender.command, environment)
        contender.requests = sum(sim(server, "GET")["counts"].values())
    for _ in range(ROUNDS):
        for contender in contenders:
            seconds, mib = run(contender.command, environment)
            contender.seconds.append(seconds)
            contender.mib.append(mib)
    return group


def run(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds, and the memory in MiB of the largest process that the command was."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(command)} has failed:\n{output.read()[-4000:]}")
    return seconds, usage.ru_maxrss / 1024


def sim(server: dict[str, Any], method: str) -> Any:
    request = urllib.request.Request(f"{server['url']}/_sim/requests", method=method)
    with urllib.request.urlopen(request, context=_TRUSTING) as response:
        return json.loads(response.read() or b"null")


def print_server(server: dict[str, Any]) -> None:
    started = time.perf_counter()
    request = urllib.request.Request(
        f"{server['url']}/api/v1/pods", headers={"Authorization": f"Bearer {server['token']}"}
    )
    with urllib.request.urlopen(request, context=_TRUSTING) as response:
        size = len(response.read())
    print(f"\nThe simulated cluster with {NODES:,} nodes and {PODS:,} pods")
    print(f"  loaded in {server['seconds']:.1f} s, {server['kib'] / 1024:.0f} MiB")
    print(f"  all pods listed in {time.perf_counter() - started:.1f} s ({size / 1e6:.0f} MB)")


def print_group(group: Group) -> None:
    base = statistics.median(group.base.seconds) if group.base else 0.0
    print(f"\n{group.title}", flush=True)
    print(f"  {'':38}{'median':>9}{'spread':>16}{'ratio':>8}{'peak MiB':>10}{'requests':>10}")
    first = None
    for contender in group.contenders:
        each = [(seconds - base) / contender.times for seconds in contender.seconds]
        median = statistics.median(each)
        first = median if first is None else first
        requests = f"{(contender.requests or 0) / contender.times:g}"
        print(
            f"  {contender.name:38}{median:>9.3f}{f'{min(each):.3f}-{max(each):.3f}':>16}{median / first:>8.2f}"
            f"{max(contender.mib):>10.0f}{requests:>10}",
            flush=True,
        )


if __name__ == "__main__":
    main()
