# SPDX-License-Identifier: BSD-2-Clause
"""Compare with what people use otherwise, in one run on one machine: what `make bench` does.

GPUCTL_BENCH_ROUNDS=3 is how often each is measured; the folder, 5,000 nodes and 5,000 jobs once. That takes three
quarters of an hour. GPUCTL_BENCH_FULL=1 measures these as often too, which takes two hours.
GPUCTL_BENCH_ONLY=jobs,nodes takes some of the groups. GPUCTL_BENCH_KUBECONFIG=/path measures on that cluster what can
be measured there: a task, and many jobs.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / ".cache" / "collections")]

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import (  # noqa: E402
    MODULE as USAGE,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_store import (  # noqa: E402
    write_history,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import (  # noqa: E402
    resolve_connection,
)
from bench import figures, scenarios  # noqa: E402  (tests, tools and the collection are not installed)
from bench.cluster import Served, named, simulated  # noqa: E402
from bench.measure import Group, measure  # noqa: E402
from integration import usage_samples  # noqa: E402
from integration.api import Api, eventually  # noqa: E402
from integration.monitoring import prometheus  # noqa: E402

from tools import debian_programs  # noqa: E402
from tools.peers import kubernetes_core  # noqa: E402
from tools.tree import git  # noqa: E402

FULL = os.environ.get("GPUCTL_BENCH_FULL") == "1"
ROUNDS = int(os.environ.get("GPUCTL_BENCH_ROUNDS", "3"))
KUBECONFIG = os.environ.get("GPUCTL_BENCH_KUBECONFIG")
ONLY = os.environ.get("GPUCTL_BENCH_ONLY", "tasks,jobs,folder,nodes,info,growth,clusters,usage").split(",")

JOBS = (1, 10, 100, 500)
NODES = (10, 100, 1_000)
INFO = (100, 1_000, 5_000)
GROWTH = (1, 10, 100, 1_000, 5_000)
CLUSTERS = 20
FOLDER = 200
LONG_ROUNDS = ROUNDS if FULL else 1  # of the folder, whose loop takes two minutes, and of the largest sizes


def main() -> None:
    if not shutil.which("kubectl"):
        sys.exit("kubectl is one of those that are compared; put it into PATH")
    groups: list[Group] = []
    with tempfile.TemporaryDirectory(prefix="gpuctl-bench-") as name:
        for group in _measured(Path(name)):
            groups.append(group)
            print(f"\n{figures.as_markdown([group])}", flush=True)
    (ROOT / "build").mkdir(exist_ok=True)
    conditions = _conditions()
    report = {"conditions": conditions, "results": figures.as_data(groups)}
    (ROOT / "build" / "bench.json").write_text(json.dumps(report, indent=1))
    print(f"\n{conditions}\nEvery round is in build/bench.json.")
    if not KUBECONFIG and os.environ.get("GPUCTL_BENCH_ONLY") is None:
        figures.write_page(ROOT / "docs" / "performance.md", conditions, groups)
        print("The tables and plots of docs/performance.md are these.")


def _measured(directory: Path) -> Iterator[Group]:
    given = named(directory, Path(KUBECONFIG)) if KUBECONFIG else None
    if "tasks" in ONLY:
        with nullcontext(given) if given else simulated(directory, nodes=4, controllers=True) as cluster:
            for tasks in (1, 10):
                yield measure(scenarios.task_group(directory, tasks), cluster, ROUNDS, warm_up=True)
    if "jobs" in ONLY or "folder" in ONLY:
        with nullcontext(given) if given else simulated(directory, nodes=4) as cluster, _namespaces(cluster):
            for jobs in JOBS if "jobs" in ONLY else ():
                yield measure(scenarios.job_group(directory, jobs), cluster, ROUNDS, warm_up=jobs == JOBS[0])
            if "folder" in ONLY:
                yield measure(scenarios.folder_group(directory, FOLDER), cluster, LONG_ROUNDS, warm_up=False)
    if given:
        print("Labels of nodes and information are measured on simulated clusters only: their size is what counts.")
        return
    for nodes in NODES if "nodes" in ONLY else ():
        with simulated(directory, nodes=nodes) as cluster:
            group = scenarios.node_group(directory, nodes, cluster.environment["KUBECONFIG"])
            yield measure(group, cluster, ROUNDS, warm_up=nodes == NODES[0])
    for nodes in INFO if "info" in ONLY else ():
        with simulated(directory, nodes=nodes, pods=10 * nodes) as cluster:
            group = scenarios.info_group(directory, nodes, 10 * nodes)
            yield measure(group, cluster, LONG_ROUNDS if nodes == INFO[-1] else ROUNDS, warm_up=nodes == INFO[0])
    if "growth" in ONLY:
        with simulated(directory, nodes=100, pods=1_000) as cluster, _namespaces(cluster):
            for jobs in GROWTH:
                rounds = LONG_ROUNDS if jobs == GROWTH[-1] else ROUNDS
                yield measure(scenarios.growth_group(directory, jobs), cluster, rounds, warm_up=jobs == GROWTH[0])
    if "clusters" in ONLY:
        yield _clusters(directory)
    if "usage" in ONLY:
        if missing := debian_programs.why_missing(["prometheus", "promtool"]):
            print(f"The accounts of GPUs are not measured: {missing}")
            return
        yield _usage(directory)


def _clusters(directory: Path) -> Group:
    """Requests are not counted: each cluster is a server of its own."""
    folders = [directory / f"cluster-{number}" for number in range(CLUSTERS)]
    with ExitStack() as stack:
        kubeconfigs = []
        for folder in folders:
            folder.mkdir()
            served = stack.enter_context(simulated(folder, nodes=50, pods=400))
            kubeconfigs.append(Path(served.environment["KUBECONFIG"]))
        group = scenarios.clusters_group(directory, kubeconfigs)
        return measure(group, named(directory, kubeconfigs[0]), ROUNDS, warm_up=True)


def _usage(directory: Path) -> Group:
    """The requests that count are those to the API server: Prometheus is another one."""
    with simulated(directory, nodes=10) as cluster:
        params = {name: each.get("default") for name, each in USAGE.arguments()["argument_spec"].items()}
        params["kubeconfig"] = cluster.environment["KUBECONFIG"]
        write_history(Client(resolve_connection(params, {})), "default", usage_samples.history_keys())
        with prometheus(directory / "prometheus", blocks=usage_samples.write_blocks(directory)) as server:
            group = scenarios.usage_group(directory, usage_samples.JOBS, server.url, usage_samples.RANGE)
            return measure(group, cluster, ROUNDS, warm_up=True)


@contextmanager
def _namespaces(cluster: Served) -> Iterator[None]:
    """Namespaces in which no pod runs, one for each contender, so that none sees the others' objects."""
    api = Api(cluster.environment["KUBECONFIG"])
    for name in scenarios.NAMESPACES:
        api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-pods"}}
        api.create("resourcequota", {**quota, "spec": {"hard": {"pods": "0"}}}, name)
    try:
        yield
    finally:
        for name in scenarios.NAMESPACES:
            api.delete("namespace", name)
        if cluster.url is None:
            eventually(lambda: not any(api.get("namespace", name) for name in scenarios.NAMESPACES), 300)


def _conditions() -> str:
    once = f" ({LONG_ROUNDS} of the directory and the largest sizes)" if LONG_ROUNDS != ROUNDS else ""
    where = f"the cluster of {KUBECONFIG}" if KUBECONFIG else "a simulated API server on the same machine"
    command = f"make bench{' GPUCTL_BENCH_FULL=1' if FULL else ''}"
    kubectl = _said("kubectl", "version", "--client").removeprefix("Client Version: ")
    tools = [_said("ansible-playbook", "--version"), f"kubectl {kubectl}"]
    today = datetime.now(timezone.utc).date()
    return (
        f"Measured on {today} with `{command}`, {_measured_version()}, against {where}: {os.cpu_count()} processors, "
        f"Python {platform.python_version()}, {', '.join(tools)}, kubernetes.core {_peer_version()}; "
        f"{ROUNDS} rounds{once}."
    )


def _measured_version() -> str:
    """``runwhere.gpuctl 1.2.0 (commit 1a2b3c4d)``"""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    commit = git(ROOT, "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*")
    return f"runwhere.gpuctl {version}" + (f" (commit {commit.strip()})" if commit else "")


def _said(*command: str) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0].replace("[", "").replace("]", "")


def _peer_version() -> str:
    manifest = kubernetes_core() / "ansible_collections" / "kubernetes" / "core" / "MANIFEST.json"
    return str(json.loads(manifest.read_text())["collection_info"]["version"])


if __name__ == "__main__":
    main()
