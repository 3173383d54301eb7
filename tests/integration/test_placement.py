# SPDX-License-Identifier: BSD-2-Clause
"""A job in one of several clusters: where it goes, and that no second cluster gets it, whatever fails in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from chaos.faults import FAULTS, Fault
from chaos.placements import Marked
from chaos.proxy import Lane, Plan, Proxy, Request
from kubesim import Cluster

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .recorder import Recorder

NAMES = ("east", "west", "north")
HOME = "east"
PRICES = {"east": 3.5, "west": 2.0, "north": 1.0}
SFT = training("sft", resources={"gpu": 8})
RESET, RESET_AFTER, SLOW = FAULTS["reset"], FAULTS["reset-after"], FAULTS["slow"]


@dataclass
class Sites:
    """Clusters of one node with eight GPUs, each behind a proxy, and Ansible with an inventory of them."""

    clusters: dict[str, Cluster]
    lanes: dict[str, Lane]
    ansible: Ansible

    def submit(self, *arguments: str, where: str = "all") -> Run:
        return self.playbook("submit", "-e", "gpuctl_src=sft.yaml", "-e", f"gpuctl_clusters={where}", *arguments)

    def playbook(self, name: str, *arguments: str) -> Run:
        return self.ansible.run("ansible-playbook", f"runwhere.gpuctl.{name}", *arguments)

    def copies(self, name: str = "sft") -> list[str]:
        """The clusters that have the job."""
        return [
            site
            for site, cluster in self.clusters.items()
            if any(obj["kind"] == "Job" and obj["metadata"]["name"] == name for obj in cluster.objects())
        ]

    def record(self, name: str = "sft") -> dict[str, str]:
        """What is recorded of the placement of the job; no other cluster than the home has a record."""
        found = {
            site: obj["data"]
            for site, cluster in self.clusters.items()
            for obj in cluster.objects()
            if obj["kind"] == "ConfigMap" and obj["metadata"]["name"] == f"gpuctl-placement-{name}"
        }
        assert found.keys() <= {HOME}
        return found.get(HOME, {})

    def fill(self, *names: str) -> None:
        """Let a job use all GPUs of these clusters."""
        for name in names:
            (self.ansible.directory / "full.yaml").write_text(yaml.safe_dump(training("full", resources={"gpu": 8})))
            run = self.playbook("submit", "-e", "gpuctl_src=full.yaml", "-e", "gpuctl_wait=true", "--limit", name)
            assert run.status == 0, run.output

    def begin(self, make_plan: Callable[[], Plan] = Plan) -> None:
        for lane in self.lanes.values():
            lane.begin(make_plan())

    def stop(self, name: str) -> None:
        """Nothing is answered until the next ``begin``."""
        self.lanes[name].begin(Plan(FAULTS["down"], 1))

    @property
    def writes(self) -> list[str]:
        sent = ((name, request) for name, lane in self.lanes.items() for request in lane.requests)
        return [f"{name}: {request}" for name, request in sent if counts(request)]


def counts(request: Request) -> bool:
    """Whether it writes: asking who one is, and what one may do, does not."""
    return request.writes and not request.path.endswith(("/selfsubjectreviews", "/selfsubjectaccessreviews"))


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    with (
        Cluster(nodes=1).running() as east,
        Cluster(nodes=1).running() as west,
        Cluster(nodes=1).running() as north,
    ):
        clusters = dict(zip(NAMES, (east, west, north), strict=True))
        proxies = {name: Proxy(cluster.url) for name, cluster in clusters.items()}
        lanes = {name: proxy.lane() for name, proxy in proxies.items()}
        (tmp_path / "kubeconfigs").mkdir()
        for name, cluster in clusters.items():
            path = tmp_path / "kubeconfigs" / f"{name}.kubeconfig"
            text = cluster.kubeconfig(path).read_text().replace(cluster.url, lanes[name].url)
            path.write_text(text)
        inventory: dict[str, Any] = {
            "plugin": "runwhere.gpuctl.clusters",
            "kubeconfig": ["kubeconfigs"],
            "home": HOME,
            "tags": {name: {"price": price, "side": name[0]} for name, price in PRICES.items()},
        }
        (tmp_path / "clusters.yml").write_text(yaml.safe_dump(inventory))
        (tmp_path / "sft.yaml").write_text(yaml.safe_dump(SFT))
        plain = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "COLUMNS": "100"}
        ansible = Ansible(tmp_path, {"ANSIBLE_INVENTORY": str(tmp_path / "clusters.yml"), **plain})
        yield Sites(clusters, lanes, ansible)
        for proxy in proxies.values():
            proxy.close()


def words(run: Run) -> str:
    return " ".join(run.output.split())


# -- where it goes -----------------------------------------------------------------------------------------------------


def test_a_job_goes_where_it_runs_now_and_stays_there(sites: Sites) -> None:
    """The case in which SkyPilot waits ten minutes: the first cluster is full, another one is free."""
    sites.fill("east")
    run = sites.submit("-e", "gpuctl_wait=true")
    assert run.status == 0, run.output
    assert sites.copies() == ["north"]  # the next one by its name
    assert "Job sft goes to north, where it runs now." in run.output
    rows = [line.split() for line in run.output.splitlines() if line.startswith(NAMES)]
    assert [row[0] for row in rows[:3]] == ["north", "west", "east"]
    assert "east (after other jobs): " in run.output
    assert "west (now): It runs there as soon, and north comes first." in run.output
    assert "==== north ====" in run.output
    assert "north: changed=2 failed=0" in run.output
    assert "east: changed=0 failed=0" in run.output
    record = sites.record()
    assert record["cluster"] == "north"
    assert record["reason"] == "goes to north, where it runs now"
    assert " on " in record["claimed-by"]

    sites.begin()
    again = sites.submit(where="west")
    assert again.status == 0, again.output
    assert "Job sft stays in north, where it is placed since " in words(again)
    assert "north: changed=0 failed=0" in again.output
    assert sites.writes == []
    assert sites.copies() == ["north"]

    deleted = sites.playbook("delete", "-e", "gpuctl_name=sft")
    assert deleted.status == 0, deleted.output
    assert (sites.copies(), sites.record()) == ([], {})
    assert "job sft not found in east, north and west." in sites.playbook("delete", "-e", "gpuctl_name=sft").output


def test_a_changed_manifest_changes_the_job_where_it_is(sites: Sites) -> None:
    assert sites.submit(where="west").status == 0
    changed = training("sft", resources={"gpu": 8}, job={"description": "another one"})
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(changed))
    run = sites.submit()
    assert run.status == 0, run.output
    assert sites.copies() == ["west"]
    assert "west: changed=1 failed=0" in run.output


def test_the_price_and_the_list_choose_among_free_clusters(sites: Sites) -> None:
    for arguments, where in (
        (["-e", "gpuctl_order=cheapest"], "north"),
        (["-e", "gpuctl_order=listed", "-e", "gpuctl_clusters=west,east"], "west"),
        (["-e", "gpuctl_clusters=side_e"], "east"),
    ):
        run = sites.submit(*arguments, "--check")
        assert run.status == 0, run.output
        assert f"Job sft goes to {where}, where it runs now." in run.output
    assert "north, west (now): It is not in gpuctl_clusters." in run.output
    assert (sites.copies(), sites.record(), sites.writes) == ([], {}, [])  # check mode


def test_a_job_that_waits_everywhere_goes_where_it_runs_first(sites: Sites) -> None:
    sites.fill(*NAMES)
    run = sites.submit()
    assert run.status == 0, run.output
    assert "Job sft goes to east, where it runs first, after other jobs." in run.output
    assert sites.copies() == ["east"]


def test_a_job_that_runs_nowhere_is_not_placed(sites: Sites) -> None:
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(training("sft", resources={"gpu": 64})))
    run = sites.submit()
    assert run.status == 2
    said = "job sft would run in none of the clusters as it is: east, north and west. Nothing was submitted."
    assert said in words(run)
    assert "east, north, west (never): " in words(run)
    assert (sites.copies(), sites.record(), sites.writes) == ([], {}, [])


def test_a_cluster_that_would_refuse_the_job_is_passed_over(sites: Sites) -> None:
    """It has no such pool; and a manifest that no cluster can read is refused once."""
    (sites.ansible.directory / "pool.yaml").write_text(
        yaml.safe_dump({"kind": "pool", "pool": {"name": "ours"}, "nodes": ["node-1"]})
    )
    pools = sites.playbook("provision", "-e", "gpuctl_dir=pool.yaml", "--limit", "west")
    assert pools.status == 0, pools.output
    pooled = training("sft", resources={"gpu": 8, "pool": "ours"})
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(pooled))
    run = sites.submit()
    assert run.status == 0, run.output
    assert sites.copies() == ["west"]
    assert "(refused): " in run.output
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump({**SFT, "kind": "trainin"}))
    broken = sites.submit()
    assert broken.status == 2
    assert words(broken).count("kind: unknown") == 1, broken.output


def test_what_is_asked_for_is_checked_before_any_request(sites: Sites) -> None:
    sites.begin()
    for arguments, said in (
        (["-e", "gpuctl_clusters=wset"], "gpuctl_clusters: no cluster or group of clusters: wset. Did you mean west?"),
        (["--limit", "west,north"], "this play leaves out east. Leave out the limit"),
        (["-e", "gpuctl_home="], "gpuctl_home: not set."),
        (["-e", "gpuctl_order=first"], "gpuctl_order: unknown value: first. Use one of: free, cheapest, listed."),
        (["-e", "gpuctl_state=absent"], "gpuctl_clusters is for jobs that are submitted. Leave out gpuctl_state."),
    ):
        run = sites.submit(*arguments)
        assert run.status == 2, run.output
        assert said in words(run)
    assert sum(len(lane.requests) for lane in sites.lanes.values()) == 0


def test_the_manifest_says_where_a_job_may_go(sites: Sites) -> None:
    """Variables count more. What it says is recorded, and a change of that alone restarts nothing."""

    def write(**said: Any) -> None:
        (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump({**SFT, "placement": said} if said else SFT))

    def submit(*arguments: str) -> Run:
        sites.begin()
        return sites.playbook("submit", "-e", "gpuctl_src=sft.yaml", *arguments)

    def uid() -> str:
        (found,) = [obj for obj in sites.clusters["north"].objects() if obj["kind"] == "Job"]
        return str(found["metadata"]["uid"])

    write(clusters=["west"], groups=["side_n"], order="cheapest")
    chosen = submit("-e", "gpuctl_clusters=east", "--check")
    assert "Job sft goes to east, where it runs now." in words(chosen)
    run = submit()
    assert run.status == 0, run.output
    assert "Job sft goes to north, where it runs now." in words(run)
    assert "east (now): It is not in placement in the manifest." in words(run)
    assert "west (now): It runs there as soon, and costs more than in north." in words(run)
    said = {"clusters": ["west"], "groups": ["side_n"], "order": "cheapest"}
    assert json.loads(sites.record()["placement"]) == said
    first = uid()
    again = submit()
    assert (again.status, sites.writes) == (0, []), again.output

    write(clusters=["west"])
    changed = submit()
    assert changed.status == 0, changed.output
    assert "Job sft stays in north, where it is placed since " in words(changed)
    assert "which is not in placement in the manifest any more." in words(changed)
    assert sites.writes == ["east: PATCH /api/v1/namespaces/default/configmaps/gpuctl-placement-sft"]
    assert (uid(), json.loads(sites.record()["placement"])["clusters"]) == (first, ["west"])
    assert (submit().status, sites.writes) == (0, [])

    write()
    without = submit()
    assert without.status == 2
    assert "runwhere.gpuctl.submit is for one cluster, and these are 3: east, north, west." in words(without)
    assert sites.writes == []
    assert submit("-e", "gpuctl_clusters=all").status == 0
    assert (uid(), sites.record()["placement"]) == (first, "")


def test_a_job_goes_where_its_image_can_be_had(sites: Sites) -> None:
    path = sites.ansible.directory / "clusters.yml"
    inventory = yaml.safe_load(path.read_text())
    inventory["tags"]["east"]["registries"] = "registry.example.com/team/"
    inventory["tags"]["north"]["registries"] = ["docker.io", "quay.io"]
    path.write_text(yaml.safe_dump(inventory))
    manifest = {**SFT, "environment": {**SFT["environment"], "image": "registry.example.com/other:v1"}}
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(manifest))
    run = sites.submit(where="all")
    assert run.status == 0, run.output
    assert "Job sft goes to west, where it runs now." in words(run)
    said = "The image is registry.example.com/other:v1, and the tag registries of this cluster has"
    assert f"east (refused): {said} registry.example.com/team." in words(run)
    moved = sites.playbook(
        "move", "-e", "gpuctl_name=sft", "-e", "gpuctl_clusters=east,north", "-e", "gpuctl_running=true"
    )
    assert moved.status == 2, moved.output
    assert f"north (refused): {said} docker.io, quay.io." in words(moved)
    assert sites.copies() == ["west"]


def test_a_manifest_for_other_clusters_is_refused(sites: Sites) -> None:
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump({**SFT, "placement": {"clusters": ["west"]}}))
    source = ["-e", "gpuctl_src=sft.yaml"]
    python = f"ansible_python_interpreter={sys.executable}"  # Modules would run with the newest Python on PATH.
    alone = ["-i", "localhost,", "-c", "local", "-e", f"gpuctl_namespace=default {python}"]
    for arguments in (["--limit", "north"], alone):
        run = sites.playbook("submit", *source, *arguments)
        assert run.status == 2, run.output
        here = arguments[1].rstrip(",")
        assert f"sft.yaml, document 1, placement: the job is for west, and this cluster is {here}." in words(run)
    assert (sites.copies(), sites.writes) == ([], [])
    assert sites.playbook("submit", *source, "--limit", "west").status == 0
    assert (sites.copies(), sites.record()) == (["west"], {})
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump({**SFT, "placement": {"clusters": ["wset"]}}))
    misspelt = sites.playbook("submit", *source)
    said = "placement in the manifest: no cluster or group of clusters: wset. Did you mean west?"
    assert (misspelt.status, said in words(misspelt)) == (2, True), misspelt.output


def test_a_directory_leaves_jobs_that_may_run_in_several_clusters_to_submit(sites: Sites) -> None:
    directory = sites.ansible.directory / "cluster"
    directory.mkdir()
    placements = {"every": None, "own": {"clusters": ["west"]}, "sft": {"clusters": ["west", "north"]}}
    for name, placement in placements.items():
        manifest = training(name, resources={"gpu": 1}) | ({"placement": placement} if placement else {})
        (directory / f"{name}.yaml").write_text(yaml.safe_dump(manifest))
    where = ("-e", "gpuctl_dir=cluster", "-e", "gpuctl_source=ours")
    said = "placement of job sft: left out, because the playbook submit chooses its cluster."
    planned = sites.playbook("plan", *where)
    assert planned.status == 0, planned.output
    assert "sft" not in words(planned).replace(said, "")
    run = sites.playbook("provision", *where)
    assert run.status == 0, run.output
    assert said in words(run)
    assert {name: sites.copies(name) for name in placements} == {"every": [*NAMES], "own": ["west"], "sft": []}
    submitted = sites.playbook("submit", "-e", "gpuctl_src=cluster/sft.yaml")
    assert submitted.status == 0, submitted.output
    sites.begin()
    again = sites.playbook("provision", *where)
    assert (again.status, sites.writes) == (0, []), again.output
    drift = sites.playbook("drift", *where)
    assert drift.status == 0, drift.output
    assert "sft" not in words(drift).replace(said, "")


def test_a_misspelt_home_is_named(sites: Sites) -> None:
    path = sites.ansible.directory / "clusters.yml"
    path.write_text(path.read_text().replace(f"home: {HOME}", "home: esat"))
    strict = {**sites.ansible.environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}
    run = replace(sites.ansible, environment=strict).run("ansible-inventory", "--list")
    assert "home: no cluster is called esat. Found: east, north, west." in words(run)


# -- several jobs ------------------------------------------------------------------------------------------------------


def write_jobs(sites: Sites, *manifests: dict[str, Any]) -> None:
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump_all(manifests))


def test_several_jobs_go_where_each_runs_now_given_those_before_it(sites: Sites) -> None:
    """The more important one first. Whatever runs goes on where it is."""
    late = training("late", resources={"gpu": 8}, job={"priority": "low"})
    own = {**training("own", resources={"gpu": 6}), "placement": {"clusters": ["west"]}}
    write_jobs(sites, late, own, training("first", resources={"gpu": 8}), training("small", resources={"gpu": 2}))
    without = sites.playbook("submit", "-e", "gpuctl_src=sft.yaml")
    assert "runwhere.gpuctl.submit is for one cluster" in words(without)
    checked = sites.submit("--check")
    assert checked.status == 0, checked.output
    run = sites.submit("-e", "gpuctl_wait=true", where="east,west,north")
    assert run.status == 0, run.output
    for each in (checked, run):
        rows = [line.split() for line in each.output.splitlines()]
        first = rows.index(["NAME", "NAMESPACE", "CLUSTER", "RUNS"]) + 1
        assert rows[first : first + 4] == [
            ["own", "default", "east", "now"],
            ["first", "default", "north", "now"],
            ["small", "default", "east", "now"],
            ["late", "default", "west", "now"],
        ], each.output
        assert "4 jobs: 2 in east, 1 in north, 1 in west." in words(each)
        why = "It goes to north, where it runs now. west (now): It runs there as soon, and north comes first."
        assert f"default/first: {why} east (after other jobs): " in words(each)
    places = {"own": "east", "first": "north", "small": "east", "late": "west"}
    assert {name: sites.copies(name) for name in places} == {name: [where] for name, where in places.items()}
    assert {name: sites.record(name)["cluster"] for name in places} == places
    sites.begin()
    again = sites.submit(where="north")
    assert again.status == 0, again.output
    assert sites.writes == []
    assert "default/small: It stays in east, where it is placed since " in words(again)


def test_the_trainings_of_a_sweep_are_spread(sites: Sites) -> None:
    """Over the clusters in which they run now, and each stays there."""
    sweep = {**training("sweep", resources={"gpu": 2}), "matrix": {"seed": [1, 2, 3, 4, 5]}}
    command = ["python", "train.py", "--seed", "$(matrix.seed)"]
    sweep = {**sweep, "environment": {**sweep["environment"], "command": command}, "placement": {"spread": True}}
    write_jobs(sites, sweep)
    sites.fill("west")
    run = sites.playbook("submit", "-e", "gpuctl_src=sft.yaml")
    assert run.status == 0, run.output
    assert "5 jobs: 3 in east, 2 in north." in words(run)
    places = {f"sweep-{seed}": [HOME if seed % 2 else "north"] for seed in range(1, 6)}
    assert {name: sites.copies(name) for name in places} == places
    sites.begin()
    again = sites.playbook("submit", "-e", "gpuctl_src=sft.yaml")
    assert (again.status, sites.writes) == (0, []), again.output


def test_one_job_that_runs_nowhere_keeps_the_others(sites: Sites) -> None:
    write_jobs(sites, SFT, training("huge", resources={"gpu": 64}))
    run = sites.submit()
    assert run.status == 2
    assert "job huge would run in none of the clusters as it is: east, north and west. Nothing was sub" in words(run)
    assert "default/sft: It goes to east, where it runs now." in words(run)
    assert (sites.copies(), sites.record(), sites.writes) == ([], {}, [])


def test_clusters_are_read_as_often_for_many_jobs_as_for_two(sites: Sites) -> None:
    """Of each job, there is only what is written, or would be, which is a dry run in each cluster, and its claim."""
    reads = []
    for number in (2, 7):
        write_jobs(sites, *(training(f"job-{number}-{index}") for index in range(number)))
        sites.begin()
        run = sites.submit("--check")
        assert run.status == 0, run.output
        assert f"{number} jobs: {number} in east." in words(run)
        sent = {name: [each for each in lane.requests if each.method == "GET"] for name, lane in sites.lanes.items()}
        reads.append(
            {n: len([each for each in own if "/gpuctl-placement-" not in each.path]) for n, own in sent.items()}
        )
    assert reads[0] == reads[1]


@pytest.mark.parametrize("k", [2, *(pytest.param(k, marks=pytest.mark.nightly) for k in range(3, 12))])
def test_a_run_that_is_killed_between_two_jobs_is_continued(sites: Sites, k: int) -> None:
    write_jobs(sites, SFT, training("other", resources={"gpu": 8}))
    seen = interrupt(sites, k, RESET_AFTER, where="west,north")
    assert len(seen) == k
    before = {name: (sites.copies(name), sites.record(name).get("cluster")) for name in ("sft", "other")}
    run = sites.submit()
    assert run.status == 0, run.output
    for name, (copies, claimed) in before.items():
        assert len(copies) <= 1
        (where,) = sites.copies(name)
        assert sites.record(name)["cluster"] == where
        assert where == (claimed or where)
        assert copies in ([], [where])
    sites.begin()
    assert (sites.submit().status, sites.writes) == (0, [])


# -- never twice -------------------------------------------------------------------------------------------------------


def test_a_job_of_another_cluster_is_found(sites: Sites) -> None:
    """It was submitted without a placement; two copies are named, and neither is changed."""
    sites.playbook("submit", "-e", "gpuctl_src=sft.yaml", "--limit", "west")
    run = sites.submit(where="east")
    assert run.status == 0, run.output
    assert "Job sft stays in west, where it was submitted before." in run.output
    assert (sites.copies(), sites.record()["cluster"]) == (["west"], "west")
    sites.playbook("submit", "-e", "gpuctl_src=sft.yaml", "--limit", "north")
    sites.begin()
    twice = sites.submit()
    assert twice.status == 2
    assert "job sft exists in north, and is placed in west since " in words(twice)
    command = "ansible-playbook runwhere.gpuctl.delete -e gpuctl_name=sft --limit north"
    assert f"Delete it in north: {command}" in words(twice)
    assert sites.writes == []
    assert sites.playbook("delete", "-e", "gpuctl_name=sft", "--limit", "north").status == 0
    assert (sites.copies(), sites.record()["cluster"]) == (["west"], "west")
    assert sites.submit().status == 0


def test_a_silent_cluster_may_have_the_job(sites: Sites) -> None:
    assert sites.submit(where="west").status == 0
    sites.begin()
    sites.stop("west")
    run = sites.submit()
    assert run.status == 2
    assert "job sft is placed in west since " in words(run)
    assert "and may run there. Nothing was submitted. west could not be asked: " in words(run)
    assert "If west is lost with all that ran there, add -e gpuctl_assume_lost=west." in words(run)
    assert sites.writes == []

    lost = sites.submit("-e", "gpuctl_assume_lost=west")
    assert lost.status == 0, lost.output
    assert "west (not asked): It is assumed to be lost." in words(lost)
    record = sites.record()
    assert record["cluster"] == "east"
    (row,) = json.loads(record["assumed-lost"])
    assert row["cluster"] == "west"
    assert " on " in row["by"]
    assert row["at"] == record["claimed-at"]
    sites.begin()
    back = sites.submit()
    assert back.status == 2
    assert "job sft exists in west, and is placed in east since " in words(back)
    answered = sites.submit("-e", "gpuctl_assume_lost=west")
    assert "gpuctl_assume_lost: west answers, so it is not lost. Leave it out." in words(answered)
    assert sites.playbook("delete", "-e", "gpuctl_name=sft", "--limit", "west").status == 0
    again = sites.submit()
    assert again.status == 0, again.output
    assert (sites.copies(), sites.record()) == (["east"], record)


@pytest.mark.parametrize(
    ("silent", "said"), [("north", "job sft may be in north"), (HOME, "where job sft is placed is")]
)
def test_a_new_job_is_not_placed_while_a_cluster_is_silent(sites: Sites, silent: str, said: str) -> None:
    sites.stop(silent)
    run = sites.submit(where="west")
    assert run.status == 2
    assert said in words(run)
    assert (sites.copies(), sites.record(), sites.writes) == ([], {}, [])


@dataclass
class NthWrite(Plan):
    """Strikes the k-th write to all clusters together, of those to ``path``, and calls ``meanwhile`` before that."""

    seen: list[str] = field(default_factory=list)
    path: str = ""

    def strikes(self, request: Request) -> bool:
        if len(self.seen) >= self.k or not counts(request) or self.path not in request.path:
            return False
        self.seen.append(str(request))
        if len(self.seen) < self.k:
            return False
        self.struck = (request.method, request.path)
        self.meanwhile()
        return True


def start(
    sites: Sites, *arguments: str, playbook: str = "submit"
) -> tuple[subprocess.Popen[str], Callable[[int], None]]:
    """A run in processes of its own, and what sends all of them a signal."""
    run = Marked(sites.ansible, f"runwhere.gpuctl.{playbook}", *arguments, output=subprocess.DEVNULL)
    return run.process, run.send


def interrupt(sites: Sites, k: int, fault: Fault, where: str = "west") -> list[str]:
    """Kill a run before or after its k-th write reaches a cluster; the writes up to then."""
    seen: list[str] = []
    runs: list[Callable[[int], None]] = []
    started = threading.Event()

    def kill() -> None:
        started.wait(30)
        runs[0](signal.SIGKILL)

    sites.begin(lambda: NthWrite(fault, k, meanwhile=kill, seen=seen))
    process, send = start(sites, "-e", "gpuctl_src=sft.yaml", "-e", f"gpuctl_clusters={where}")
    runs.append(send)
    started.set()
    process.wait(120)
    sites.begin()
    return seen


def check_interrupted(sites: Sites, k: int, fault: Fault) -> None:
    """The next run, which would prefer another cluster, ends with one job."""
    seen = interrupt(sites, k, fault)
    assert len(seen) == k
    before = sites.copies()
    claimed = sites.record().get("cluster")
    assert before in ([], ["west"]), seen
    assert claimed == "west" or not before, seen
    run = sites.submit(where="north")
    assert run.status == 0, run.output
    assert sites.copies() == ["west" if claimed else "north"], seen
    assert sites.record()["cluster"] == sites.copies()[0]
    again = sites.submit()
    assert again.status == 0, again.output
    assert sites.copies() == ["west" if claimed else "north"]
    deleted = sites.playbook("delete", "-e", "gpuctl_name=sft", "-e", "gpuctl_wait=true")
    assert deleted.status == 0, deleted.output
    assert (sites.copies(), sites.record()) == ([], {})


WRITES = 6  # the claim, the PriorityClass, the job, its history (patched, and then created), and the ledger


@pytest.mark.parametrize("fault", [RESET, RESET_AFTER], ids=["before", "after"])
@pytest.mark.parametrize("k", [1, *(pytest.param(k, marks=pytest.mark.nightly) for k in range(2, WRITES + 1))])
def test_a_run_that_is_killed_is_continued(sites: Sites, k: int, fault: Fault) -> None:
    """Before and after each of its writes: what is between two reads is the same for a cluster."""
    check_interrupted(sites, k, fault)


def test_the_writes_of_a_run_are_those(sites: Sites) -> None:
    sites.begin()
    assert sites.submit().status == 0
    assert len(sites.writes) == WRITES, sites.writes


def test_the_claim_of_a_killed_run_can_be_released(sites: Sites) -> None:
    interrupt(sites, 1, RESET_AFTER)
    assert (sites.copies(), sites.record()["cluster"]) == ([], "west")
    kept = sites.playbook("delete", "-e", "gpuctl_name=sft", "--check")
    assert kept.status == 0, kept.output
    assert sites.record()["cluster"] == "west"
    run = sites.playbook("delete", "-e", "gpuctl_name=sft")
    assert run.status == 0, run.output
    assert "Job sft was not found in any of the clusters, and is no longer placed in west." in words(run)
    assert sites.record() == {}


def test_a_lost_answer_to_the_claim(sites: Sites) -> None:
    seen: list[str] = []
    sites.begin(lambda: NthWrite(RESET_AFTER, 1, seen=seen, path="/configmaps"))
    run = sites.submit(where="west")
    assert run.status == 0, run.output
    assert seen == ["POST /api/v1/namespaces/default/configmaps"]
    assert (sites.copies(), sites.record()["cluster"]) == (["west"], "west")
    assert "west: changed=2 failed=0" in run.output


def test_two_runs_at_once_agree(sites: Sites) -> None:
    """Each would choose another cluster."""
    source = ["-e", "gpuctl_src=sft.yaml"]
    runs = [start(sites, *source, "-e", f"gpuctl_clusters={name}")[0] for name in ("west", "north", "west", "north")]
    assert [process.wait(120) for process in runs] == [0] * len(runs)
    (where,) = sites.copies()
    assert sites.record()["cluster"] == where


def test_a_run_that_comes_too_late_takes_its_job_back(sites: Sites) -> None:
    """It was suspended after its claim. Meanwhile it was released, and another run has claimed another cluster."""
    runs: list[Callable[[int], None]] = []
    seen: list[str] = []
    sites.begin(lambda: NthWrite(SLOW, 1, meanwhile=lambda: runs[0](signal.SIGSTOP), seen=seen, path="/configmaps"))
    process, send = start(sites, "-e", "gpuctl_src=sft.yaml", "-e", "gpuctl_clusters=west")
    runs.append(send)
    assert eventually(sites.record, 60)["cluster"] == "west"
    deleted, placed = sites.playbook("delete", "-e", "gpuctl_name=sft"), sites.submit(where="north")
    assert (deleted.status, placed.status) == (0, 0), (deleted.output, placed.output)
    send(signal.SIGCONT)
    assert process.wait(120) == 2
    assert (sites.copies(), sites.record()["cluster"]) == (["north"], "north")


# -- the module --------------------------------------------------------------------------------------------------------


def placement(ansible: Ansible, namespace: str, **options: Any) -> Any:
    return ansible.module("gpuctl_placement", namespace=namespace, **options)


def test_a_placement_is_claimed_once(ansible: Ansible, recorder: Recorder, submitter: Api, namespace: str) -> None:
    """By an account that may submit jobs in the namespace, and with one write."""
    assert placement(ansible, namespace, name="sft").result["cluster"] is None
    checked = placement(ansible, namespace, name="sft", cluster="west", check=True)
    assert (checked.changed, recorder.writes) == (True, [])
    first = placement(ansible, namespace, name="sft", cluster="west", reason="by hand")
    assert (first.changed, first.result["cluster"]) == (True, "west")
    assert len(recorder.writes) == 1
    recorder.clear()
    second = placement(ansible, namespace, definition=SFT, cluster="north")
    assert (second.changed, second.result["cluster"], second.result["reason"]) == (False, "west", "by hand")
    elsewhere = placement(ansible, namespace, name="sft", state="absent", clusters=["north"])
    assert (elsewhere.changed, elsewhere.result["cluster"], recorder.writes) == (False, "west", [])
    assert placement(ansible, namespace, name="sft", state="absent").message == "job sft is no longer placed in west"
    gone = placement(ansible, namespace, name="sft", state="absent")
    assert (gone.changed, gone.message) == (False, "job sft is not placed")


def test_a_placement_moves(ansible: Ansible, recorder: Recorder, submitter: Api, namespace: str) -> None:
    """The record names both clusters until the second one is claimed. Each step is one write, and no write again."""
    missing = placement(ansible, namespace, name="sft", cluster="north", move_from="west")
    assert (missing.changed, missing.message) == (False, "job sft is not placed")
    placement(ansible, namespace, name="sft", cluster="west")
    steps = (
        ({"cluster": "north", "move_from": "east"}, False, ("west", None)),
        ({"cluster": "north", "move_from": "west"}, True, ("north", "west")),
        ({"cluster": "east", "move_from": "west"}, False, ("north", "west")),
        ({"cluster": "east"}, False, ("north", "west")),
        ({"cluster": "west", "move_from": "north"}, True, ("west", None)),
        ({"cluster": "north", "move_from": "west"}, True, ("north", "west")),
        ({"cluster": "north"}, True, ("north", None)),
        ({"cluster": "north"}, False, ("north", None)),
        ({"cluster": "east", "move_from": "north"}, True, ("east", "north")),
        ({"cluster": "west", "assume_lost": ["north"]}, True, ("west", None)),
    )
    for options, changes, expected in steps:
        recorder.clear()
        checked = placement(ansible, namespace, name="sft", check=True, **options)
        assert (checked.changed, recorder.writes) == (changes, [])
        done = placement(ansible, namespace, name="sft", **options)
        assert (done.changed, len(recorder.writes)) == (changes, int(changes)), options
        assert (done.result["cluster"], done.result["leaving"]) == expected, options
    (row,) = placement(ansible, namespace).result["placements"]
    assert (row["name"], row["namespace"], row["cluster"]) == ("sft", namespace, "west")
    assert [each["cluster"] for each in row["moved_from"]] == ["west"]
    assert [each["cluster"] for each in row["assumed_lost"]] == ["north"]
    same = placement(ansible, namespace, name="sft", cluster="west", move_from="west")
    assert "move_from: west is cluster as well. Name the cluster that the job leaves." in same.message
    assert "no job given. Set one of name, src and definition" in placement(ansible, namespace, state="absent").message


def test_a_task_that_does_not_know_its_cluster_says_so(ansible: Ansible, namespace: str) -> None:
    """Also of a manifest that names its cluster, which may be another one. A rollback applies what is recorded."""
    said = {**compute("web"), "placement": {"clusters": ["west"], "order": "listed"}}
    for names, warns in ((None, True), ([], False), (["west", "eu"], False)):
        given = {} if names is None else {"cluster_names": names}
        found = ansible.job(definition=said, namespace=namespace, **given)
        assert not found.failed, found.message
        text = "placement of job web: not compared, because it is not known which cluster this is."
        assert (text in " ".join(found.screen.split())) is warns
    other = ansible.job(definition=said, namespace=namespace, cluster_names=["east"])
    assert "placement: the job is for west, and this cluster is east." in other.message
    assert not ansible.job(definition=said, namespace=namespace, wait=True, wait_timeout=60).failed
    newer = {**said, "environment": {**said["environment"], "command": ["other"]}}
    assert ansible.job(definition=newer, namespace=namespace, cluster_names=[]).changed
    back = ansible.job(name="web", namespace=namespace, state="rolled_back")
    assert (back.changed, "not compared" in back.screen) == (True, False)
    history = ansible.module("gpuctl_job_history_info", namespaces=[namespace], manifests=True).result["results"]
    assert history[0]["manifest"]["placement"] == said["placement"]


def test_what_is_no_record_is_left_alone(ansible: Ansible, api: Api, namespace: str) -> None:
    name = "gpuctl-placement-sft"
    api.create("configmap", {"metadata": {"name": name}, "data": {"cluster": "mine"}}, namespace)
    for state in ("present", "absent"):
        own = placement(ansible, namespace, name="sft", cluster="west", state=state)
        assert own.failed
        assert f"ConfigMap {name} in namespace {namespace} is not managed by gpuctl; it was not changed." in own.message
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    api.patch("configmap", name, {"metadata": {"labels": labels}, "data": {"cluster": ""}}, namespace)
    empty = placement(ansible, namespace, name="sft", cluster="west")
    assert "does not say in which cluster job sft is placed. Correct or delete it." in empty.message


@pytest.mark.parametrize("check", [False, True])
def test_a_namespace_that_the_home_cluster_lacks_is_named(ansible: Ansible, check: bool) -> None:
    missing = placement(ansible, "not-there", name="sft", cluster="west", check=check)
    assert missing.failed
    assert "namespace not-there not found in the home cluster" in missing.message
