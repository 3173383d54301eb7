# SPDX-License-Identifier: BSD-2-Clause
"""Advice on jobs whose use is known: every waste is found, and no other; and what the playbook shows and writes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    pool_config_map,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.advice_info import MODULE
from kubesim import Cluster

from . import advice_cases
from .advice_cases import TEAM, openmetrics, planted
from .ansible import ROOT, Ansible
from .api import PATHS, Api
from .monitoring import Prometheus, needs_prometheus, prometheus, promtool
from .prometheus_double import Asked, Double, Reply, prometheus_double, utilized, vector
from .tasks import perform

JOBS = planted()
WINDOW = {"start": "2026-08-03T06:00:00Z", "end": "2026-08-03T18:00:00Z"}
FIELDS = ("gpu", "memory", "cpu")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Jobs in which nothing moves by itself."""
    with Cluster(nodes=2, controllers=False).running() as cluster:
        _add_shared_gpus(cluster)
        api = Api(str(cluster.kubeconfig(tmp_path_factory.mktemp("cluster") / "kubeconfig")))
        api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
        for job in JOBS:
            kind = advice_cases.KINDS[job.kind][0]
            api.create(kind, advice_cases.workload(job), TEAM)
            if job.replicas > 1 and not job.autoscaled:
                whole = {**advice_cases.workload(job), "spec": {"replicas": job.replicas}}
                path = f"{PATHS[kind].format(TEAM)}/{job.name}?fieldManager=runwhere.gpuctl&force=true"
                status, answer = api.call("PATCH", path, whole, "application/apply-patch+yaml")
                assert status == 200, answer
            for own in {each.name: each for each in reversed(job.pods) if not each.gone}.values():
                api.create("pod", advice_cases.pod_object(job, own), TEAM)
                path = f"{PATHS['pod'].format(TEAM)}/{own.name}/status"
                given = {"status": advice_cases.pod_status(own)}
                status, answer = api.call("PATCH", path, given, "application/merge-patch+json")
                assert status == 200, answer
        yield cluster


def _add_shared_gpus(cluster: Cluster) -> None:
    size, gpus = {"nvidia.com/gpu.memory": "81920"}, {"nvidia.com/gpu": "8"}
    listed = {**gpus, "aliyun.com/gpu-mem": "640"}
    marked = {"hami.io/node-nvidia-register": "x"}
    for pool, name in advice_cases.NODES.items():
        labels = {"runwhere.ai/pool": pool, **(size if pool != "unlabelled" else {})}
        how = {"annotations": marked, "resources": gpus} if pool == "vgpu" else {"resources": listed}
        cluster.call(lambda name=name, labels=labels, how=how: cluster.add_nodes([name], labels=labels, **how))
    cluster.load([pool_config_map(Declaration("vgpu", hardware=PoolHardware(share_backend="hami")))])


@pytest.fixture(scope="module")
def server(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    directory = tmp_path_factory.mktemp("prometheus")
    samples, blocks = directory / "samples", directory / "blocks"
    uids = {
        pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.call(lambda: cluster.registry.list("Pod"))
    }
    with samples.open("w") as file:
        file.writelines(openmetrics(JOBS, uids))
    promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(samples), str(blocks))
    with prometheus(directory / "run", blocks=blocks) as running:
        yield running


@pytest.fixture(scope="module")
def advice(cluster: Cluster, server: Prometheus) -> dict[str, Any]:
    given = {"prices": {"default": 2}, "prometheus_timeout": 300, **WINDOW}  # Tests may share this machine.
    result = perform(MODULE, cluster, namespaces=[TEAM], prometheus_url=server.url, **given)
    assert not result.get("failed"), result["msg"]
    return result


@needs_prometheus
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_the_advice_is_what_was_planted(advice: dict[str, Any], job: advice_cases.Planted) -> None:
    own = [row for row in advice["results"] if row["name"] == job.name]
    assert {row["what"].removeprefix("resources."): row["advised"] for row in own} == job.advice
    reasons = {what: row["reason"] for row in advice["unknown"] if row["name"] == job.name for what in row["what"]}
    assert {what.removeprefix("resources.") for what in reasons} == set(job.unknown)
    for what, text in job.unknown.items():
        assert text in reasons[f"resources.{what}"]
    assert (f"{TEAM}/{job.name}" in advice["unmeasured"]) is job.unmeasured


def test_there_are_cases_of_each_kind() -> None:
    assert len({job.name for job in JOBS}) == len(JOBS) > 30
    assert {what for job in JOBS for what in job.advice} == {*FIELDS, "gpu-share", "service.replicas"}
    assert {what for job in JOBS for what in job.unknown} == set(FIELDS)


# -- what the playbook shows and writes --------------------------------------------------------------------------------

PLAYBOOK = str(ROOT / "playbooks" / "advise.yml")


@needs_prometheus
def test_the_playbook_prints_a_table_and_writes_files(cluster: Cluster, server: Prometheus, tmp_path: Path) -> None:
    environment = {"K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig"))}
    ansible = Ansible(tmp_path, {**environment, "GPUCTL_PROMETHEUS_TIMEOUT": "300", "COLUMNS": "100"})
    given = {
        "gpuctl_start": WINDOW["start"],
        "gpuctl_end": WINDOW["end"],
        "gpuctl_namespace": TEAM,
        "gpuctl_prices": "{default: 2}",
        "gpuctl_currency": "EUR",
        "gpuctl_prometheus_url": server.url,
    }
    for name in ("advice.json", "advice.html"):
        variables = json.dumps({**given, "gpuctl_output": str(tmp_path / name)})
        done = ansible.run("ansible-playbook", PLAYBOOK, "-e", variables)
        assert done.status == 0, done.output
        (line,) = (line for line in done.output.splitlines() if line.strip().startswith("two-idle"))
        assert line.split()[1:4] == [TEAM, "gpu", "8"]
        assert line.split()[-5:] == ["6", "6", "24", "GPU·h", "48.00"]
        assert "2 of its 8 GPUs were never used in 12 h" in " ".join(done.output.split())
        assert "2 jobs of which Prometheus knows no pod: team-a/dark, team-a/waits." in " ".join(done.output.split())
    written = json.loads((tmp_path / "advice.json").read_text())
    assert {row["name"] for row in written["results"]} == {job.name for job in JOBS if job.advice}
    assert "<title>What jobs ask for and do not use</title>" in (tmp_path / "advice.html").read_text()


# -- what is wrong with a Prometheus -----------------------------------------------------------------------------------


def with_double(cluster: Cluster, answer: Callable[[Asked], Reply], **options: Any) -> tuple[dict[str, Any], Double]:
    with prometheus_double(answer) as double:
        result = perform(MODULE, cluster, namespaces=[TEAM], prometheus_url=double.url, **{**WINDOW, **options})
    return result, double


def idle_everywhere(
    asked: Asked, names: Sequence[str] = ("two-idle-0-aaaaa",), *, minutes: int = 720, **more: str
) -> Reply:
    """Eight devices that do nothing for 12 hours, and a container that uses little."""
    query = asked.parameters["query"]
    if "by(cluster)" in query or "OOMKilled" in query:
        return vector()
    value = str(minutes) if "count_over_time" in query else "0.01"
    labels = [{"namespace": TEAM, "pod": name, **more} for name in names]
    if "UUID" in query:
        labels = [{**each, "UUID": str(number), "GPU_I_ID": ""} for each in labels for number in range(8)]
    return vector(*((each, value) for each in labels))


def test_describe_has_the_advice_on_the_job(cluster: Cluster, tmp_path: Path) -> None:
    """Of the last two days, if Prometheus knows the job."""

    def answer(asked: Asked) -> Reply:
        return utilized(asked) if asked.path.endswith("query_range") else idle_everywhere(asked, minutes=2_880)

    ansible = Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(tmp_path / "kubeconfig"))})
    with prometheus_double(answer) as double:
        for name, is_advised in (("two-idle", True), ("all-used", False)):
            given = {"gpuctl_name": name, "gpuctl_namespace": TEAM, "gpuctl_prometheus_url": double.url}
            done = ansible.run("ansible-playbook", "runwhere.gpuctl.describe", "-e", json.dumps(given))
            assert done.status == 0, done.output
            said = " ".join(done.output.split())
            assert ("None of its 8 GPUs was ever used in 2 days" in said) == is_advised, done.output
            assert ("FIELD   ASKED" in done.output) == is_advised, done.output
            assert "Utilization" in done.output


def advised(result: dict[str, Any]) -> set[str]:
    assert not result.get("failed"), result["msg"]
    return {row["what"] for row in result["results"]}


def test_series_without_the_uid_of_a_pod_count_by_its_name(cluster: Cluster) -> None:
    """Some relabelling removes the path of the cgroup. All that follows would be advice otherwise."""
    result, _double = with_double(cluster, idle_everywhere)
    assert advised(result) == {"resources.gpu", "resources.memory", "resources.cpu"}


def test_names_of_pods_say_nothing_where_several_clusters_are_in_one_prometheus(cluster: Cluster) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.parameters["query"].startswith("count by(cluster)"):
            return vector(({"cluster": "east"}, "3"), ({"cluster": "west"}, "3"))
        return idle_everywhere(asked)

    result, _double = with_double(cluster, answer)
    assert advised(result) == set()
    (row,) = [row for row in result["unknown"] if row["name"] == "two-idle" and "resources.gpu" in row["what"]]
    assert "series of several clusters" in row["reason"]


@pytest.mark.parametrize(("held", "is_recorded"), [(4_031, True), (4_030, False), (None, False)])
def test_the_history_is_asked_only_if_all_of_a_range_is_in_it(
    cluster: Cluster, held: int | None, is_recorded: bool
) -> None:
    """Fourteen days, of which a step may be missing."""

    def answer(asked: Asked) -> Reply:
        query = asked.parameters["query"]
        if not query.startswith("min("):
            return idle_everywhere(asked)
        end = advice_cases.ZERO + advice_cases.RANGE
        return vector(({}, str(held if "count_over_time" in query else end - 60))) if held else vector()

    result, double = with_double(cluster, answer, start="2026-07-20T18:00:00Z")
    assert advised(result) == {"resources.gpu", "resources.memory", "resources.cpu"}
    queries = [asked.parameters["query"] for asked in double.asked]
    assert any(":max30m" in query for query in queries) is is_recorded
    assert any('container_memory_working_set_bytes{container="main"}[61s]' in query for query in queries) is (
        is_recorded
    )


def test_a_part_of_the_stores_is_not_enough(cluster: Cluster) -> None:
    def answer(asked: Asked) -> Reply:
        reply = idle_everywhere(asked)
        return Reply({**reply.body, "isPartial": True})

    result, _double = with_double(cluster, answer)
    assert advised(result) == set()
    assert len(result["unmeasured"]) == len(JOBS)
    assert "lacks the data of some of its stores" in result["notes"][0]


@pytest.mark.parametrize("value", ["NaN", "-5", "+Inf", "1e29"])
def test_impossible_values_are_no_use(cluster: Cluster, value: str) -> None:
    """Of peaks alone: a container or a device without one is not known."""

    def answer(asked: Asked) -> Reply:
        query = asked.parameters["query"]
        reply = idle_everywhere(asked)
        if "max_over_time" in query and "quantile" not in query and "count_over_time" not in query:
            for each in reply.body["data"]["result"]:
                each["value"][1] = value
        return reply

    result, _double = with_double(cluster, answer)
    assert advised(result) == set()


def test_a_pod_that_labels_itself_as_of_another_job_only_raises_peaks(cluster: Cluster) -> None:
    """Its namespace is the same, so it is of the same team."""

    def answer(asked: Asked) -> Reply:
        query = asked.parameters["query"]
        if "count by(namespace,pod,job_name)" in query:
            return vector(({"namespace": TEAM, "pod": "stranger", "job_name": "two-idle"}, "1"))
        reply = idle_everywhere(asked)
        if "container_memory" in query and "count_over_time" not in query:
            reply.body["data"]["result"].append(
                {"metric": {"namespace": TEAM, "pod": "stranger"}, "value": [0, "9e10"]}
            )
        return reply

    result, _double = with_double(cluster, answer)
    assert advised(result) == {"resources.gpu", "resources.cpu"}


def test_what_happened_to_memory_is_also_known_from_prometheus(cluster: Cluster) -> None:
    """The pod that was killed may be gone, or killed again since."""

    def answer(asked: Asked) -> Reply:
        if "OOMKilled" in asked.parameters["query"]:
            return vector(({"namespace": TEAM, "pod": "two-idle-0-aaaaa"}, "1"))
        return idle_everywhere(asked)

    result, _double = with_double(cluster, answer)
    assert advised(result) == {"resources.gpu", "resources.cpu"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": "2026-06-01"}, "the range is too long: 64 days. Use 31 days or less."),
        ({"min_runtime": "soon"}, "min_runtime: not a duration: soon"),
        ({"idle_below": 5.0}, "idle_below: 5 is not a part"),
        ({"prices": {"default": "free"}}, "prices: not a price of default: free"),
    ],
)
def test_mistakes_in_options_are_found_before_any_request(cluster: Cluster, options: dict[str, Any], text: str) -> None:
    cluster.requests.reset()
    result, double = with_double(cluster, idle_everywhere, **options)
    assert result["failed"]
    assert text in result["msg"]
    assert (double.asked, list(cluster.requests)) == ([], [])


def test_the_number_of_requests_does_not_depend_on_the_number_of_jobs(tmp_path: Path) -> None:
    counts = []
    for number in (1, 1_000):
        names = [f"job-{each}-0-aaaaa" for each in range(number)]
        jobs = [advice_cases.Planted(f"job-{each}", [], advice_cases.asks()) for each in range(number)]
        with Cluster(nodes=1, controllers=False).running() as cluster:
            api = Api(str(cluster.kubeconfig(tmp_path / "kubeconfig")))
            api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
            cluster.load(make(job, name) for job, name in zip(jobs, names, strict=True) for make in (_job, _pod))
            cluster.requests.reset()
            began = time.process_time()
            result, double = with_double(cluster, lambda asked, names=names: idle_everywhere(asked, names))
            seconds = time.process_time() - began
            requests = [each for each in cluster.requests if "continue" not in str(each)]
        assert len({row["name"] for row in result["results"]}) == number, result
        assert {each.verb for each in requests} == {"list"}
        counts.append((len(requests), len(double.asked)))
    assert counts[0] == counts[1]
    assert counts[1][1] <= 20
    assert seconds < 10  # of this process, with the servers in it


def _stored(obj: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = {"namespace": TEAM, "uid": f"uid-{name}", "creationTimestamp": "2026-08-03T05:00:00Z"}
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def _job(job: advice_cases.Planted, _name: str) -> dict[str, Any]:
    return {**_stored(advice_cases.workload(job), job.name), "status": {"active": 1}}


def _pod(job: advice_cases.Planted, name: str) -> dict[str, Any]:
    own = advice_cases.pod(job.name)
    return {**_stored(advice_cases.pod_object(job, own), name), "status": advice_cases.pod_status(own)}
