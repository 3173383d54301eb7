# SPDX-License-Identifier: BSD-2-Clause
"""Placed jobs that move to another cluster: which ones, where to, and never two at work, whatever fails in between."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from chaos.faults import FAULTS, Fault

from .ansible import Run
from .api import Api, eventually
from .manifests import training
from .test_placement import RESET, RESET_AFTER, SFT, NthWrite, Sites, sites, start, words

__all__ = ["sites"]

STORAGE = {"west": "lab", "north": "lab", "east": "other"}


def api_of(sites: Sites, cluster: str) -> Api:
    return Api(str(sites.clusters[cluster].kubeconfig(sites.ansible.directory / f"{cluster}.direct")))


def fill(sites: Sites, cluster: str) -> None:
    """Let a pod use all GPUs of the cluster, which no job preempts."""
    api, amount = api_of(sites, cluster), {"nvidia.com/gpu": "8"}
    if api.get("pod", "full", "default"):
        return
    container = {"name": "main", "image": "full", "resources": {"requests": amount, "limits": amount}}
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    sites.clusters[cluster].load([{**urgent, "value": 1_000_000}])
    spec = {"priorityClassName": "urgent", "containers": [container]}
    api.create("pod", {"metadata": {"name": "full"}, "spec": spec}, "default")
    assert eventually(lambda: api.get("pod", "full", "default")["spec"].get("nodeName"))


def queue(sites: Sites, name: str = "sft") -> None:
    """The job waits in west, which is full; the other clusters are free."""
    fill(sites, "west")
    if name != "sft":
        (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(training(name, resources={"gpu": 8})))
    run = sites.submit(where="west")
    assert run.status == 0, run.output
    assert (sites.copies(name), sites.record(name)["cluster"]) == (["west"], "west")
    sites.begin()


def move(sites: Sites, *arguments: str) -> Run:
    return sites.playbook("move", "-e", "gpuctl_name=sft", *arguments)


def workload(sites: Sites, cluster: str, name: str = "sft") -> dict[str, Any]:
    (found,) = (
        obj for obj in sites.clusters[cluster].objects() if obj["kind"] == "Job" and obj["metadata"]["name"] == name
    )
    return copy.deepcopy(found)


def finish(sites: Sites, cluster: str) -> None:
    """The job succeeds there."""
    job, moment = workload(sites, cluster), "2026-03-01T10:00:00Z"
    job["status"] |= {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": moment}]}
    job["status"] |= {"succeeded": 1, "completionTime": moment, "startTime": moment, "active": 0, "ready": 0}
    sites.clusters[cluster].load([job])
    for obj in sites.clusters[cluster].objects():
        if obj["kind"] == "Pod" and obj["metadata"]["name"].startswith("sft-"):
            sites.clusters[cluster].unload("Pod", "default", obj["metadata"]["name"])


def share_storage(sites: Sites) -> None:
    """West and north see the same storage, says the inventory."""
    path = sites.ansible.directory / "clusters.yml"
    inventory = yaml.safe_load(path.read_text())
    for name, storage in STORAGE.items():
        inventory["tags"][name]["storage"] = storage
    path.write_text(yaml.safe_dump(inventory))


def at_work(sites: Sites) -> list[str]:
    """The clusters in which the job is not paused."""
    return [name for name in sites.copies() if not workload(sites, name)["spec"].get("suspend")]


# -- which jobs move, and where to -------------------------------------------------------------------------------------


def test_a_job_that_waits_moves_to_where_it_runs_now(sites: Sites) -> None:
    queue(sites)
    checked = move(sites, "--check")
    assert checked.status == 0, checked.output
    assert (sites.writes, sites.copies()) == ([], ["west"])
    assert "default/sft: It moves from west to east, where it runs now." in checked.output
    assert "1 job would move." in checked.output
    run = move(sites)
    assert run.status == 0, run.output
    for name, changed in (("west", 2), ("north", 0)):
        assert f"{name}: changed={changed} failed=0" in checked.output
        assert f"{name}: changed={changed} failed=0" in run.output
    assert len(sites.writes) == WRITES, "\n".join(sites.writes)
    assert sites.copies() == ["east"]
    record = sites.record()
    assert (record["cluster"], record["leaving"]) == ("east", "")
    assert record["reason"] == "moves from west to east, where it runs now"
    (moved,) = json.loads(record["moved-from"])
    assert moved == {"cluster": "west", "by": record["claimed-by"], "at": record["claimed-at"]}

    sites.begin()
    again = move(sites)
    assert again.status == 0, again.output
    assert "default/sft: It runs in east." in again.output
    assert sites.writes == []
    assert sites.submit().status == 0  # which finds it where it is
    assert sites.copies() == ["east"]


def test_those_that_wait_for_long_move(sites: Sites) -> None:
    """The first one takes the only place in north; the second one stays, as the plan has said."""
    queue(sites, "one")
    queue(sites, "two")
    late = sites.playbook("move", "-e", "gpuctl_waiting=2h")
    assert late.status == 0, late.output
    assert "0 jobs would move" not in late.output
    assert (sites.writes, sites.copies("one")) == ([], ["west"])
    arguments = ["-e", "gpuctl_waiting=1s", "-e", "gpuctl_clusters=north"]
    checked = sites.playbook("move", *arguments, "--check")
    run = sites.playbook("move", *arguments)
    for done in (checked, run):
        assert done.status == 0, done.output
        assert "default/two: It would run now in no other cluster. north (after other jobs): " in words(done)
    assert "1 job would move, 1 stays." in checked.output
    assert "1 job moved, 1 stays." in run.output
    assert (sites.copies("one"), sites.copies("two")) == (["north"], ["west"])
    wrong = sites.playbook("move", "-e", "gpuctl_waiting=soon")
    assert "gpuctl_waiting: not a duration: soon." in words(wrong)


def test_a_job_that_runs_moves_on_request_to_where_its_storage_is(sites: Sites) -> None:
    assert sites.submit("-e", "gpuctl_wait=true", where="west").status == 0
    sites.begin()
    runs = move(sites, "-e", "gpuctl_clusters=north,east")
    assert runs.status == 2
    assert "It runs. gpuctl_running=true stops it, and starts it elsewhere." in words(runs)
    asked = ["-e", "gpuctl_clusters=north,east", "-e", "gpuctl_running=true"]
    unknown = move(sites, *asked)
    assert unknown.status == 2
    assert "it is not known whether north sees what it has stored in west. If so, give both the same tag" in words(
        unknown
    )
    assert (sites.writes, at_work(sites)) == ([], ["west"])
    share_storage(sites)
    run = move(sites, *asked)
    assert run.status == 0, run.output
    assert sites.copies() == ["north"]
    sites.begin()
    again = move(sites, *asked)
    assert again.status == 0, again.output
    assert sites.writes == []
    assert sites.playbook("pause", "-e", "gpuctl_name=sft").status == 0
    paused = move(sites)
    assert paused.status == 0, paused.output
    assert (sites.copies(), at_work(sites)) == (["west"], ["west"])


def test_a_drained_cluster_is_empty(sites: Sites) -> None:
    """A plan first, then what it says. What was never placed is left alone."""
    for name in ("two", "one"):
        queue(sites, name)
    other = sites.playbook("submit", "-e", "gpuctl_src=sft.yaml", "--limit", "east")
    assert other.status == 0, other.output
    assert sites.playbook("delete", "-e", "gpuctl_name=one", "--limit", "east").status == 0
    sites.begin()
    plan = sites.playbook("drain_cluster", "-e", "gpuctl_from=west")
    assert plan.status == 0, plan.output
    assert sites.writes == []
    assert "2 jobs would move. Nothing was changed. To move them, set gpuctl_confirm=west." in words(plan)
    moved = [
        line.split() for line in plan.output.splitlines() if "would move" in line and line.startswith(("one", "two"))
    ]
    assert sorted(row[4] for row in moved) == ["east", "north"]
    wrong = sites.playbook("drain_cluster", "-e", "gpuctl_from=west", "-e", "gpuctl_confirm=wst")
    assert wrong.status == 2
    assert "gpuctl_confirm: wst. To move the jobs, set it to the name of the cluster: west." in words(wrong)
    run = sites.playbook("drain_cluster", "-e", "gpuctl_from=west", "-e", "gpuctl_confirm=west")
    assert run.status == 0, run.output
    assert sorted(sites.copies("one") + sites.copies("two")) == ["east", "north"]
    sites.begin()
    again = sites.playbook("drain_cluster", "-e", "gpuctl_from=west", "-e", "gpuctl_confirm=west")
    assert again.status == 0, again.output
    assert sites.writes == []


# -- never two at work -------------------------------------------------------------------------------------------------

# The record; the history, the pause, the history and the deletion, the ledger; the PriorityClass, the job, its history
# (patched, and then created) and the ledger; the record.
WRITES = 12


def interrupt(sites: Sites, k: int, fault: Fault) -> list[str]:
    """Kill a move before or after its k-th write reaches a cluster; the writes up to then."""
    seen: list[str] = []
    runs: list[Callable[[int], None]] = []
    started = threading.Event()

    def kill() -> None:
        started.wait(30)
        runs[0](signal.SIGKILL)

    sites.begin(lambda: NthWrite(fault, k, meanwhile=kill, seen=seen))
    process, send = begin_move(sites)
    runs.append(send)
    started.set()
    process.wait(120)
    sites.begin()
    return seen


def begin_move(sites: Sites, *arguments: str) -> tuple[subprocess.Popen[bytes], Callable[[int], None]]:
    return start(sites, "-e", "gpuctl_name=sft", *arguments, playbook="move")


@pytest.mark.parametrize("fault", [RESET, RESET_AFTER], ids=["before", "after"])
@pytest.mark.parametrize(
    "k", [k if k in (1, 5) else pytest.param(k, marks=pytest.mark.nightly) for k in range(1, WRITES + 1)]
)
def test_a_move_that_is_killed_is_continued(sites: Sites, k: int, fault: Fault) -> None:
    """Nothing else places the job meanwhile, and the same command ends the move."""
    queue(sites)
    seen = interrupt(sites, k, fault)
    assert len(seen) == k
    assert len(at_work(sites)) <= 1, seen
    record = sites.record()
    if record["leaving"] and sites.copies() != ["east"]:
        between = sites.submit(where="north")
        assert between.status == 2, between.output
        assert "job sft has been moving from west to east since " in words(between)
        assert "To end the move: ansible-playbook runwhere.gpuctl.move -e gpuctl_name=sft" in words(between)
    run = move(sites, "-e", "gpuctl_clusters=east")
    assert run.status == 0, run.output
    assert (sites.copies(), at_work(sites)) == (["east"], ["east"]), seen
    assert (sites.record()["cluster"], sites.record()["leaving"]) == ("east", "")
    sites.begin()
    again = move(sites)
    assert again.status == 0, again.output
    assert sites.writes == []


@pytest.mark.parametrize("path", ["/configmaps/gpuctl-placement", "/jobs/"])
def test_lost_answers(sites: Sites, path: str) -> None:
    queue(sites)
    seen: list[str] = []
    sites.begin(lambda: NthWrite(RESET_AFTER, 1, seen=seen, path=path))
    run = move(sites)
    assert run.status == 0, run.output
    assert (len(seen), sites.copies(), sites.record()["leaving"]) == (1, ["east"], "")


def test_two_moves_at_once_agree(sites: Sites) -> None:
    """Each would choose another cluster."""
    queue(sites)
    runs = [begin_move(sites, "-e", f"gpuctl_clusters={name}")[0] for name in ("east", "north", "east")]
    statuses = [process.wait(240) for process in runs]
    assert set(statuses) <= {0, 2}
    assert len(at_work(sites)) <= 1
    run = move(sites)
    assert run.status == 0, run.output
    (where,) = sites.copies()
    assert (sites.record()["cluster"], sites.record()["leaving"]) == (where, "")
    assert where != "west"


def test_silent_clusters(sites: Sites) -> None:
    """The one that has the job, the one that it may move to, and the one that it was moving to."""
    queue(sites)
    sites.stop("west")
    run = move(sites)
    assert run.status == 2
    assert "Cluster west could not be asked, and may have it: " in words(run)
    assert (sites.writes, sites.copies()) == ([], ["west"])
    sites.begin()
    sites.stop("north")
    run = move(sites, "-e", "gpuctl_clusters=north")
    assert run.status == 2
    assert "It would run now in no other cluster. north (refused): " in words(run)
    assert (sites.writes, at_work(sites)) == ([], ["west"])
    sites.begin()
    assert len(interrupt(sites, 8, RESET)) == 8  # It has left west, and is not in east yet.
    assert sites.copies() == []
    for silent in ("east", "west"):
        if silent == "east":
            continue  # It has the records.
        sites.stop(silent)
        run = move(sites)
        assert run.status == 2
        assert f"Cluster {silent} could not be asked, and may have it: " in words(run)
        assert (sites.writes, sites.copies()) == ([], [])
        sites.begin()
    assert move(sites).status == 0
    assert sites.copies() == ["east"]


@pytest.mark.parametrize("path", ["/configmaps/gpuctl-placement", "/jobs/sft"], ids=["before", "while it is paused"])
def test_a_job_that_ends_meanwhile_stays_where_it_is(sites: Sites, path: str) -> None:
    queue(sites)
    seen: list[str] = []
    plan = NthWrite(FAULTS["slow"], 1, meanwhile=lambda: finish(sites, "west"), seen=seen, path=path)
    sites.begin(lambda: plan)
    run = move(sites)
    assert run.status == 0, run.output
    assert "It has ended in west before it was moved: Succeeded." in words(run)
    record = sites.record()
    assert (sites.copies(), record["cluster"], record["leaving"]) == (["west"], "west", "")


def test_a_job_that_was_changed_is_not_moved(sites: Sites) -> None:
    """What moves is what is recorded, so it has to be what is there."""
    queue(sites)
    assert api_of(sites, "west").patch(
        "job", "sft", {"metadata": {"labels": {"runwhere.ai/priority": "high"}}}, "default"
    )
    run = move(sites)
    assert run.status == 2
    assert "Its manifest could not be compared with the job in west: " in words(run)
    assert (sites.writes, at_work(sites)) == ([], ["west"])


def test_an_account_that_may_not_write_changes_nothing(sites: Sites) -> None:
    queue(sites)
    for name, cluster in sites.clusters.items():
        path = sites.ansible.directory / "kubeconfigs" / f"{name}.kubeconfig"
        cluster.load(
            [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}}]
        )
        subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "roleRef": role}
        cluster.load([{**binding, "metadata": {"name": "reader"}, "subjects": [subject]}])
        token = cluster.service_account_token("default", "reader")
        url, own = cluster.url, sites.lanes[name].url
        path.write_text(cluster.kubeconfig(path, token).read_text().replace(url, own))
    run = move(sites)
    assert run.status == 2, run.output
    assert at_work(sites) == ["west"]
    assert sites.record()["cluster"] == "west"


def test_what_is_not_placed_is_not_moved(sites: Sites) -> None:
    assert sites.playbook("submit", "-e", "gpuctl_src=sft.yaml", "--limit", "west").status == 0
    sites.begin()
    run = move(sites)
    assert run.status == 2
    assert "It is not placed in a cluster. Submit it with gpuctl_clusters, which records where it is." in words(run)
    assert sites.writes == []
    assert SFT["job"]["name"] == "sft"
