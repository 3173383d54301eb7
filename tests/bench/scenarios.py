# SPDX-License-Identifier: BSD-2-Clause
"""What is compared with what: the commands of each contender, and the files that they read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from bench.measure import Contender, Group, Step

BIN = Path(sys.executable).parent
IMAGE = "registry.example.com/ml:v1"
AS_MODULE = {"GPUCTL_FAST_PATH": "0"}
MODULE = "kubernetes.core.k8s"
LOOPED = 50  # nodes that kubernetes.core labels one by one; the time of all is extrapolated
LOOPED_MANIFESTS = 20
MANIFESTS_PER_TASK = 2_000  # A task takes no more; more of them are several tasks.
NAMESPACES = ("bench-ours", "bench-module", "bench-core", "bench-kubectl")

Task = dict[str, Any]


# ---- one task


def task_group(directory: Path, tasks: int) -> Group:
    """One job that is unchanged: the price of a task."""
    _write_objects(directory / "peer.yaml", [_job(1)], "default")
    ours = {"runwhere.gpuctl.gpuctl_job": {"definition": _job(1)}}
    core = {MODULE: {"src": str(directory / "peer.yaml")}}
    contenders = [
        Contender(
            "ansible.builtin.ping", _playbook(directory, f"ping-{tasks}", [{"ansible.builtin.ping": {}}] * tasks)
        ),
        Contender("gpuctl_job", _playbook(directory, f"ours-{tasks}", [ours] * tasks)),
        Contender("gpuctl_job as a module", _playbook(directory, f"ours-{tasks}", [ours] * tasks), AS_MODULE),
        Contender(MODULE, _playbook(directory, f"core-{tasks}", [core] * tasks)),
    ]
    for contender in contenders:
        contender.times = tasks
    return Group(
        "tasks",
        f"{tasks} unchanged {'task' if tasks == 1 else 'tasks'}, seconds per task beyond an empty playbook",
        tasks,
        [Step("unchanged", contenders, MODULE)],
        Contender("empty playbook", _playbook(directory, "empty", [])),
    )


# ---- many jobs in one task


def job_group(directory: Path, jobs: int) -> Group:
    """The life of so many jobs, half trainings and half services, each time in one task."""
    manifests = [_job(number) for number in range(jobs)]
    changed = [*manifests[:-1], {**manifests[-1], "job": {**manifests[-1]["job"], "description": "changed"}}]
    for name, content in (("v1", manifests), ("v2", changed)):
        _write_manifests(directory / f"jobs-{jobs}-{name}", content)
        for namespace in NAMESPACES[2:]:
            _write_objects(directory / f"{namespace}-{jobs}-{name}.yaml", content, namespace)

    def step(name: str, version: str, **state: str) -> Step:
        ours = {"runwhere.gpuctl.gpuctl_job": {"src": str(directory / f"jobs-{jobs}-{version}"), **state}}
        module = {"runwhere.gpuctl.gpuctl_job": {**ours["runwhere.gpuctl.gpuctl_job"], "namespace": "bench-module"}}
        ours["runwhere.gpuctl.gpuctl_job"]["namespace"] = "bench-ours"
        core = {MODULE: {"src": str(directory / f"bench-core-{jobs}-{version}.yaml"), **state}}
        objects = str(directory / f"bench-kubectl-{jobs}-{version}.yaml")
        kubectl = ["kubectl", "delete", "--wait=false", "-f"] if state else ["kubectl", "apply", "--server-side", "-f"]
        label = f"{jobs}-{name}"
        return Step(
            name,
            [
                Contender("gpuctl_job", _playbook(directory, f"jobs-ours-{label}", [ours])),
                Contender("gpuctl_job as a module", _playbook(directory, f"jobs-module-{label}", [module]), AS_MODULE),
                Contender(f"{MODULE}, one list", _playbook(directory, f"jobs-core-{label}", [core])),
                Contender("kubectl", [*kubectl, objects]),
            ],
            f"{MODULE}, one list",
        )

    return Group(
        "jobs",
        f"{jobs} {'job' if jobs == 1 else 'jobs'} in one task, seconds beyond an empty playbook",
        jobs,
        [
            step("create", "v1"),
            step("unchanged", "v1"),
            step("one changed", "v2"),
            step("delete", "v2", state="absent"),
        ],
        Contender("empty playbook", _playbook(directory, "empty", [])),
    )


def folder_group(directory: Path, manifests: int) -> Group:
    """A directory of experiments: one task, one task of kubernetes.core, and a task for each file."""
    jobs = [_job(number) for number in range(manifests)]
    _write_manifests(directory / "folder", jobs)
    _write_objects(directory / "folder.yaml", jobs, "bench-core")
    for number, job in enumerate(jobs[:LOOPED_MANIFESTS]):
        _write_objects(directory / f"single-{number}.yaml", [job], "bench-core")
    ours = {"src": str(directory / "folder"), "namespace": "bench-ours"}
    loop = {
        MODULE: {"src": str(directory / "single-{{ item }}.yaml")},
        "loop": list(range(LOOPED_MANIFESTS)),
    }
    one = f"{MODULE}, one list"
    core = {"src": str(directory / "folder.yaml")}
    return Group(
        "folder",
        f"A directory of {manifests} new manifests, seconds beyond an empty playbook",
        manifests,
        [
            Step(
                "create",
                [
                    Contender(
                        "gpuctl_job",
                        _playbook(directory, "folder-ours", [{"runwhere.gpuctl.gpuctl_job": ours}]),
                        after=_playbook(
                            directory, "folder-ours-gone", [{"runwhere.gpuctl.gpuctl_job": {**ours, "state": "absent"}}]
                        ),
                    ),
                    Contender(
                        f"{MODULE}, a loop (extrapolated from {LOOPED_MANIFESTS})",
                        _playbook(directory, "folder-loop", [loop]),
                        times=LOOPED_MANIFESTS,
                        out_of=manifests,
                        after=["kubectl", "delete", "--wait=false", "--ignore-not-found", "-f", core["src"]],
                    ),
                    Contender(
                        one,
                        _playbook(directory, "folder-core", [{MODULE: core}]),
                        after=["kubectl", "delete", "--wait=false", "-f", core["src"]],
                    ),
                ],
                one,
            )
        ],
        Contender("empty playbook", _playbook(directory, "empty", [])),
    )


# ---- nodes


def node_group(directory: Path, nodes: int, kubeconfig: str) -> Group:
    """A label on every node: by a pool, by itself, and without Ansible."""
    names = [f"node-{number}" for number in range(1, nodes + 1)]
    pool = {"name": "bench", "nodes": names}
    label = {"nodes": names, "labels": {"bench": "a"}}
    gone = {"nodes": names, "state": "absent", "keys": ["bench"]}
    looped = min(nodes, LOOPED)
    patch = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "{{ item }}", "labels": {"runwhere.ai/bench": "a"}},
    }
    core = {MODULE: {"state": "patched", "definition": patch}, "loop": names[:looped]}
    part = f" (extrapolated from {looped})" if looped < nodes else ""
    bare = [sys.executable, str(Path(__file__).with_name("bare.py")), kubeconfig, "10"]
    loop = f"{MODULE}, a loop{part}"
    gone_pool = [{"runwhere.gpuctl.gpuctl_pool": {"name": "bench", "state": "absent"}}]
    return Group(
        "nodes",
        f"A label on {nodes:,} nodes, seconds beyond an empty playbook",
        nodes,
        [
            Step(
                "label",
                [
                    Contender(
                        "gpuctl_pool",
                        _playbook(directory, f"pool-{nodes}", [{"runwhere.gpuctl.gpuctl_pool": pool}]),
                        after=_playbook(directory, "pool-gone", gone_pool),
                    ),
                    # What a task costs before it writes anything.
                    Contender("gpuctl_pool, nothing to do", _playbook(directory, "pool-gone", gone_pool)),
                    Contender(
                        "gpuctl_node_label",
                        _playbook(directory, f"label-{nodes}", [{"runwhere.gpuctl.gpuctl_node_label": label}]),
                        after=_playbook(
                            directory, f"label-gone-{nodes}", [{"runwhere.gpuctl.gpuctl_node_label": gone}]
                        ),
                    ),
                    Contender(loop, _playbook(directory, f"loop-{nodes}", [core]), times=looped, out_of=nodes),
                    Contender(
                        "kubectl label",
                        ["kubectl", "label", "nodes", "--all", "runwhere.ai/bench=b", "--overwrite"],
                        after=["kubectl", "label", "nodes", "--all", "runwhere.ai/bench-"],
                    ),
                    Contender("the PATCH requests alone", [*bare, "bench"], after=bare, says=_last_line),
                ],
                loop,
            )
        ],
        Contender("empty playbook", _playbook(directory, "empty", [])),
    )


def _last_line(output: str) -> float:
    return float(output.split()[-1])


# ---- information


def info_group(directory: Path, nodes: int, pods: int) -> Group:
    """Everything about a cluster; seconds of the whole command."""

    def ours(module: str, **options: Any) -> Contender:
        task = {f"runwhere.gpuctl.{module}": options, "no_log": True}  # so that printing is not what is measured
        return Contender(module, _playbook(directory, f"{module}-{nodes}", [task]))

    def core(kind: str) -> Contender:
        task = {"kubernetes.core.k8s_info": {"kind": kind, "api_version": "v1"}, "no_log": True}
        return Contender(f"kubernetes.core.k8s_info, {kind}", _playbook(directory, f"{kind}-{nodes}", [task]))

    alone = [sys.executable, str(Path(__file__).with_name("fit_alone.py"))]
    reference = core("Pod")
    return Group(
        "info",
        f"{nodes:,} nodes and {pods:,} pods, seconds and peak memory of the whole command",
        nodes,
        [
            Step(
                "read",
                [
                    ours("gpuctl_node_info"),
                    ours("gpuctl_pool_info"),
                    ours("gpuctl_job_info", pods=True, all_namespaces=True),
                    ours("gpuctl_fit_info", definition=[_training(number) for number in range(10)]),
                    Contender("gpuctl_fit_info, the answers alone", [*alone, str(nodes)], says=_last_line),
                    Contender("…, 200 unlike jobs, full nodes", [*alone, str(nodes), "200"], says=_last_line),
                    Contender("…, 200 unlike jobs that mostly fit", [*alone, str(nodes), "200", "40"], says=_last_line),
                    core("Node"),
                    reference,
                    Contender("kubectl get nodes -o json", ["kubectl", "get", "nodes", "-o", "json"]),
                    Contender("kubectl get pods -A -o json", ["kubectl", "get", "pods", "-A", "-o", "json"]),
                ],
                reference.name,
            )
        ],
    )


# ---- growth


def growth_group(directory: Path, jobs: int) -> Group:
    """What it takes to look at so many jobs that are as declared; seconds of the whole command."""
    namespace, sources = NAMESPACES[0], []
    for first in range(0, jobs, MANIFESTS_PER_TASK):
        sources.append(directory / f"growth-{jobs}-{first}")
        _write_manifests(sources[-1], [_job(number) for number in range(first, min(first + MANIFESTS_PER_TASK, jobs))])

    def ours(name: str, module: str, *tasks: dict[str, Any]) -> Contender:
        listed = [{f"runwhere.gpuctl.{module}": options, "no_log": True} for options in tasks]
        return Contender(name, _playbook(directory, f"growth-{name}-{jobs}", listed))

    def of_manifests(name: str, module: str, **options: Any) -> Contender:
        return ours(name, module, *({"src": str(src), "namespace": namespace, **options} for src in sources))

    return Group(
        "growth",
        f"{jobs:,} {'job' if jobs == 1 else 'jobs'}, seconds and peak memory of the whole command",
        jobs,
        [
            Step("create", [of_manifests("submit", "gpuctl_job")]),
            Step(
                "look",
                [
                    of_manifests("submit, unchanged", "gpuctl_job"),
                    ours("status", "gpuctl_status", {"all_namespaces": True}),
                    of_manifests("plan", "gpuctl_plan_info"),
                    of_manifests("drift", "gpuctl_drift_info"),
                    of_manifests("fit", "gpuctl_fit_info"),
                    ours("usage", "gpuctl_usage_info", {"all_namespaces": True}),
                ],
            ),
            Step("delete", [of_manifests("delete", "gpuctl_job", state="absent")]),
        ],
    )


# ---- several clusters


def clusters_group(directory: Path, kubeconfigs: Sequence[Path]) -> Group:
    """What it takes to look at all of them instead of one; seconds of the whole command, on ten forks."""
    manifest = directory / "where.yaml"
    manifest.write_text(yaml.safe_dump(_training(1)))

    def look(name: str, clusters: Sequence[Path], *arguments: str) -> Contender:
        title = "one cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"
        folder = directory / f"{len(clusters)}-clusters"  # Each file in it is a host.
        folder.mkdir(exist_ok=True)
        for number, path in enumerate(clusters):
            (folder / f"cluster-{number}").write_text(path.read_text())
        inventory = directory / f"{folder.name}.clusters.yml"
        inventory.write_text(yaml.safe_dump({"plugin": "runwhere.gpuctl.clusters", "kubeconfig": [str(folder)]}))
        command = (str(BIN / "ansible-playbook"), f"runwhere.gpuctl.{name}", "--forks=10", "-i", str(inventory))
        strict = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true"}
        return Contender(title, [*command, *arguments], strict)

    def step(name: str, *arguments: str) -> Step:
        one = look(name, kubeconfigs[:1], *arguments)
        return Step(name, [one, look(name, kubeconfigs, *arguments)], one.name)

    everywhere = ("-e", "gpuctl_all_namespaces=true")
    return Group(
        "clusters",
        f"{len(kubeconfigs)} clusters of 50 nodes and 100 jobs each, seconds of the whole command",
        len(kubeconfigs),
        [step("status", *everywhere), step("usage", *everywhere), step("fit", "-e", f"gpuctl_src={manifest}")],
    )


# ---- accounts


def usage_group(directory: Path, jobs: int, prometheus_url: str, range_of_time: dict[str, str]) -> Group:
    """The GPU-hours of a day; seconds of the whole command."""

    def ours(name: str, **options: str) -> Contender:
        task = {
            "runwhere.gpuctl.gpuctl_usage_info": {"all_namespaces": True, **range_of_time, **options},
            "no_log": True,
        }
        return Contender(name, _playbook(directory, name.replace(" ", "-"), [task]))

    return Group(
        "usage",
        f"{jobs:,} jobs over 24 hours, a sample a minute, seconds and peak memory of the whole command",
        jobs,
        [
            Step(
                "read",
                [
                    ours("gpuctl_usage_info"),
                    ours("gpuctl_usage_info with Prometheus", prometheus_url=prometheus_url),
                ],
            )
        ],
    )


def _training(number: int) -> dict[str, Any]:
    """Of which some run, some preempt others, and some wait."""
    resources = {
        "pool": "training-pool",  # of server.py
        "gpu": (1, 8, 4, 16, 2)[number % 5],
        "cpu": 4,
        "memory": "16Gi",
        "node_count": (1, 2, 4, 1, 8)[number % 5],
    }
    environment = {"image": "registry.example.com/ml:v1", "command": ["run"]}
    priority = ("high", "low")[number % 2]
    job = {"name": f"new-{number}", "priority": priority}
    return {"kind": "training", "job": job, "environment": environment, "resources": resources}


# ---- files


def _job(number: int) -> dict[str, Any]:
    """Every other one a training (one object), the rest services without copies (two): nothing of it runs."""
    kind = "training" if number % 2 else "compute"
    manifest: dict[str, Any] = {
        "kind": kind,
        "job": {"name": f"bench-{number}"},
        "environment": {"image": IMAGE, "command": ["run", "--seed", str(number)], "env": {"MODE": "bench"}},
        "resources": {"cpu": 1, "memory": "1Gi"},
    }
    if kind == "compute":
        manifest["service"] = {"replicas": 0, "type": "ClusterIP"}
    return manifest


def _write_objects(path: Path, jobs: Iterable[dict[str, Any]], namespace: str) -> None:
    """What gpuctl_job makes of the jobs, for the others."""
    documents = load((), list(jobs), namespace)
    objects = [obj for document in documents for obj in build(document.model, namespace).objects]
    path.write_text(yaml.dump_all(objects, Dumper=yaml.CSafeDumper))


def _write_manifests(directory: Path, jobs: Iterable[dict[str, Any]]) -> None:
    directory.mkdir(exist_ok=True)
    for job in jobs:
        (directory / f"{job['job']['name']}.yaml").write_text(yaml.safe_dump(job))


def _playbook(directory: Path, name: str, tasks: list[Task]) -> list[str]:
    path = directory / f"{name}.yml"
    path.write_text(yaml.dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}], Dumper=yaml.CSafeDumper))
    return [str(BIN / "ansible-playbook"), str(path)]
