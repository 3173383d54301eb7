# SPDX-License-Identifier: BSD-2-Clause
"""Budgets of GPU-hours: gpuctl_budget counts them, and Kubernetes refuses what a used-up one no longer has."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import advised
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets import count_budgets
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets.count_budgets import MODULE as BUDGET
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit import job_fit
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history_info import MODULE as RUNS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import MODULE as STATUS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import MODULE as USAGE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import Keys, pod_keys
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_store import write_history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import RESOURCE_QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import GPU_TYPE, HISTORY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import quota_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE as QUOTA_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE as RBAC
from kubesim import Cluster, Fault

from .api import eventually
from .manifests import training
from .pools import SYSTEM
from .tasks import perform
from .test_accelerators import ACME, CONFIG_MAP

Row = dict[str, Any]
TEAM, OBJECT = "team-a", "gpuctl-gpu-hours-until-2031-06-01"
# A month long after the pods of the cluster have started, so that they hold from its first moment.
MAY = datetime(2031, 5, 1, tzinfo=timezone.utc)
GPU = "requests.nvidia.com/gpu"
SUBMIT = advised(JOB)


class Clock:
    """The time of the tasks."""

    now = MAY

    def at(self, **time: float) -> None:
        Clock.now = MAY + timedelta(**time)


class Frozen(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return Clock.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    for module in (count_budgets, quota_info, job_fit):
        monkeypatch.setattr(module, "datetime", Frozen)
    Clock.now = MAY
    return Clock()


@dataclass
class World:
    cluster: Cluster

    def quota(self, hours: Row | None, team: str = TEAM, **limits: Any) -> Row:
        limits = {"gpu": 16, **limits, **({"gpu_hours": hours} if hours else {})}
        return perform(
            QUOTA, self.cluster, definition={"kind": "quota", "quota": {"name": team}, "users": {team: limits}}
        )

    def count(self, **options: Any) -> Row:
        return perform(BUDGET, self.cluster, **{"all_namespaces": True, **options})

    def row(self, team: str = TEAM, **options: Any) -> Row:
        (row,) = [row for row in self.count(**options)["results"] if row["namespace"] == team]
        return row

    def submit(self, name: str = "t", *, check: bool = False, **blocks: Row) -> Row:
        return perform(
            SUBMIT, self.cluster, check=check, definition=training(name, **blocks), namespace=TEAM, strict=True
        )

    def objects(self, team: str = TEAM) -> dict[str, Row]:
        found = self.cluster.call(lambda: self.cluster.registry.list("ResourceQuota", team))
        return {obj["metadata"]["name"]: obj for obj in found if obj["metadata"]["name"].startswith("gpuctl-")}

    def hard(self, team: str = TEAM, name: str = OBJECT) -> Row:
        return dict(self.objects(team)[name]["spec"].get("hard") or {})

    def pods(self, team: str = TEAM) -> list[str]:
        found = self.cluster.call(lambda: self.cluster.registry.list("Pod", team))
        return sorted(obj["metadata"]["name"] for obj in found)

    def record(self, *holds: Hold, team: str = TEAM) -> None:
        keys: Keys = {}
        for hold in holds:
            keys[f"run-{hold.uid}.job"] = json.dumps({"name": hold.name, "kind": "training"})
            keys |= pod_keys(f"run-{hold.uid}", hold)
        write_history(self.client(), team, keys)

    def client(self) -> Client:
        params = {"host": self.cluster.url, "validate_certs": False, "api_key": self.cluster.token}
        return Client(resolve_connection(params, {}))

    def writes(self, task: Callable[[], Row]) -> list[str]:
        self.cluster.requests.reset()
        assert "failed" not in (done := task()), done.get("msg")
        return [f"{entry.verb} {entry.resource}/{entry.name}" for entry in self.cluster.requests.writes()]


@pytest.fixture
def world() -> Iterator[World]:
    with Cluster(nodes=4).running() as cluster:
        yield World(cluster)


def gone(uid: str, begin: float, hours: float, gpus: int = 1, **amounts: int) -> Hold:
    """A pod that is gone: ``begin`` in hours since the period began."""
    start = MAY.timestamp() + begin * 3600
    held = {name.replace("__", "/").replace("_", "-"): amount for name, amount in amounts.items()}
    return Hold(uid, uid, start, start, start + hours * 3600, {**({"nvidia.com/gpu": gpus} if gpus else {}), **held})


def message(result: Row) -> str:
    return str(result.get("msg"))


def test_the_life_of_a_month(world: World, clock: Clock) -> None:
    world.quota({"limit": 400})
    assert world.submit(resources={"gpu": 4}, job={"time_limit": "10h"})["changed"]
    running = world.pods()

    clock.at(hours=10)
    assert world.row().items() >= {"used": 40.0, "left": 360.0, "state": "ok", "action": "count"}.items()
    assert world.hard() == {}

    clock.at(hours=81)
    counted = world.count()
    assert counted["warnings"] == [f"the GPU-hours of {TEAM} (81 %) are nearly used up."]
    assert counted["results"][0]["state"] == "near"
    assert world.hard() == {}

    clock.at(hours=100)
    assert world.row().items() >= {"used": 400.0, "left": 0.0, "state": "used_up", "action": "limit"}.items()
    assert world.hard()[GPU] == "0"
    refused = world.submit("next")
    assert refused["failed"]
    until = "the GPU-hours of the namespace are used up until 2031-06-01 00:00 UTC"
    assert until in message(refused)
    assert "Submit it again then, or have the budget raised" in message(refused)
    assert world.submit("cpu", resources={"gpu": 0})["changed"]
    assert set(running) <= set(world.pods())  # What runs goes on.

    clock.at(days=31, hours=1)
    row = world.row()
    assert row.items() >= {"used": 4.0, "action": "lift", "until": "2031-07-01T00:00:00Z"}.items()
    assert list(world.objects()) == ["gpuctl-gpu-hours-until-2031-07-01"]
    assert world.submit("next")["changed"]


def test_a_second_run_writes_nothing_and_check_mode_predicts(world: World, clock: Clock) -> None:
    world.quota({"limit": 100})
    world.submit(resources={"gpu": 4})
    for hours, action in ((1, "count"), (30, "limit")):
        clock.at(hours=hours)
        assert world.writes(lambda: world.count(check=True)) == []
        predicted = world.count(check=True)
        done = world.count()
        assert predicted == done
        assert (done["changed"], done["results"][0]["action"]) == (True, action)
        assert world.writes(world.count) == []
        assert not world.count()["changed"]
    clock.at(hours=30.1)  # Less than one percent more.
    assert world.writes(world.count) == []


def test_quotas_and_budgets_leave_each_other_alone(world: World, clock: Clock) -> None:
    hours = {"limit": 10}
    world.quota(None)
    before = world.cluster.call(lambda: world.cluster.registry.get("ResourceQuota", TEAM, f"{TEAM}-{TEAM}"))
    world.quota(hours)
    after = world.cluster.call(lambda: world.cluster.registry.get("ResourceQuota", TEAM, f"{TEAM}-{TEAM}"))
    assert before["spec"] == after["spec"]
    world.record(gone("a", 0, 10))
    clock.at(hours=11)
    assert world.row()["action"] == "limit"
    assert world.writes(lambda: world.quota(hours)) == []
    assert world.writes(world.count) == []
    (row,) = perform(QUOTA_INFO, world.cluster, all_namespaces=True)["results"]
    assert row["gpu_hours"].items() >= {"used": 10.0, "left": 0.0, "limit": 10, "percent": 100.0}.items()
    assert row["over_quota"] == []


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda world: world.quota({"limit": 20}), [OBJECT]),
        (lambda world: world.quota(None), []),
        (lambda world: perform(QUOTA, world.cluster, name=TEAM, state="absent"), []),
    ],
    ids=["raised", "no budget", "no quota"],
)
def test_the_limit_is_lifted(world: World, clock: Clock, change: Callable[[World], Row], left: list[str]) -> None:
    world.quota({"limit": 10})
    world.record(gone("a", 0, 10))
    clock.at(hours=11)
    assert world.row()["action"] == "limit"
    assert "failed" not in change(world)
    assert world.row()["action"] == "lift"
    assert list(world.objects()) == left
    assert world.writes(world.count) == []
    assert world.submit()["changed"]
    assert world.pods()


def test_only_jobs_with_priority_low_go_on(world: World, clock: Clock) -> None:
    world.quota({"limit": 10, "then": "low_priority"})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    assert world.row().items() >= {"state": "used_up", "action": "limit", "then": "low_priority"}.items()
    refused = world.submit("urgent", job={"priority": "high"})
    assert "except for jobs with priority low or opportunistic. Submit it with priority low" in message(refused)
    assert world.submit("background", job={"priority": "low"})["changed"]
    assert world.submit("filler", job={"priority": "opportunistic"})["changed"]
    eventually(lambda: any(name.startswith("background") for name in world.pods()))
    perform(JOB, world.cluster, name="background", namespace=TEAM, state="absent")
    world.quota({"limit": 10})  # For all jobs, from now on. What was counted stays.
    row = world.row()
    assert (row["used"] >= 12, row["state"], list(world.objects())) == (True, "used_up", [OBJECT])
    assert world.submit("again", job={"priority": "low"})["failed"]


def test_stop_idle_refuses_as_refuse_does(world: World, clock: Clock) -> None:
    """It stops nothing by itself: gpuctl_idle does, see test_idle.py."""
    world.quota({"limit": 10, "then": "stop_idle"})
    world.submit("running")
    eventually(world.pods)
    running = world.pods()
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    assert world.row().items() >= {"state": "used_up", "action": "limit", "then": "stop_idle"}.items()
    assert list(world.objects()) == [OBJECT]
    assert "are used up until 2031-06-01 00:00 UTC. Submit it again then" in message(world.submit("next"))
    assert world.pods() == running
    (row,) = perform(QUOTA_INFO, world.cluster, all_namespaces=True)["results"]
    assert row["gpu_hours"].items() >= {"then": "stop_idle", "left": 0.0}.items()
    world.quota({"limit": 10, "then": "low_priority"})
    assert world.row()["state"] == "used_up"
    assert world.submit("background", job={"priority": "low"})["changed"]


def test_the_hours_are_true(world: World, clock: Clock) -> None:
    """Each pod once, and of each only its part of the period: as gpuctl_usage_info has it."""
    world.quota({"limit": 1000})
    world.submit("now", resources={"gpu": 2})
    (pod,) = world.cluster.call(lambda: world.cluster.registry.list("Pod", TEAM))
    live = Hold(pod["metadata"]["uid"], pod["metadata"]["name"], 0.0, 0.0, None, {"nvidia.com/gpu": 2})
    world.record(
        live,  # is there, and in the record
        gone("crossing", -5, 8, gpus=4),  # 3 h of it are in May
        gone("inside", 1, 2, gpus=1),
        gone("before", -9, 4, gpus=8),
        gone("again", 1, 2, gpus=1),
        gone("partition", 0, 10, gpus=0, **{"nvidia.com/mig-1g.10gb": 1}),
    )
    clock.at(hours=10)
    row = world.row()
    assert row["used"] == 10 * 2 + 3 * 4 + 2 + 2
    assert (row["running_hours"], row["ended_hours"]) == (20.0, 16.0)
    assert row["notes"] == ["10.0 h of partitions and shares do not count, because they have no price"]
    weighted = world.row(prices={"default": 2.0, "1g.10gb": 0.5})
    assert weighted["used"] == 36.0 + 10 * 0.25


def test_accelerators_that_only_the_cluster_knows_count(world: World, clock: Clock) -> None:
    """Whether or not anything that runs asks for them: what is gone held them, too."""
    world.cluster.load(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": CONFIG_MAP, "namespace": SYSTEM},
                "data": {"acme.yml": ACME},
            },
        ]
    )
    world.quota({"limit": 1000})
    world.record(gone("a", 0, 3, gpus=0, **{"acme.example/npu": 4}))
    clock.at(hours=5)
    assert world.row()["used"] == 12.0
    began = datetime.now(timezone.utc).timestamp() - 4 * 3600
    world.record(Hold("b", "b", began, began, began + 3 * 3600, {"acme.example/npu": 4}))
    used = perform(USAGE, world.cluster, all_namespaces=True, range="5h")
    assert [row["gpu_hours"] for row in used["results"]] == [12.0]
    found = perform(RUNS, world.cluster, all_namespaces=True)["results"]
    assert {row["name"]: row["gpu_hours"] for row in found}["b"] == 12.0


def bare_pod(name: str, **spec: Any) -> Row:
    resources = {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    status = {"phase": "Running", "startTime": "2031-05-01T00:00:00Z"}
    started = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2031-05-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": TEAM, "creationTimestamp": "2031-05-01T00:00:00Z"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "i", "resources": resources}], **spec},
        "status": {**status, "conditions": [started]},
    }


@pytest.mark.parametrize(
    "options", [{"all_namespaces": True}, {"all_namespaces": False, "namespaces": [TEAM]}], ids=str
)
def test_pods_of_other_tools_count(world: World, clock: Clock, options: Row) -> None:
    world.quota({"limit": 1000})
    world.cluster.load([bare_pod("bare")])
    clock.at(hours=5)
    row = world.row(**options)
    assert row["used"] == 10.0
    assert row["notes"][-1] == "10.0 h are of pods of other tools, which count while they are there"


@pytest.mark.parametrize("notes", [{}, {"runwhere.ai/claimed-devices": "nvidia.com/gpu=0"}], ids=str)
def test_devices_that_are_claimed_without_a_number_are_said_not_to_count(
    world: World, clock: Clock, notes: dict[str, str]
) -> None:
    world.quota({"limit": 1000})
    claims = [{"name": "gpus", "resourceClaimTemplateName": "mine"}]
    pod = bare_pod("bare", containers=[{"name": "main", "image": "i"}], resourceClaims=claims)
    pod["metadata"]["annotations"] = notes
    world.cluster.load([pod])
    clock.at(hours=5)
    assert world.count()["notes"] == [
        "Devices that pods claim are not counted where the annotation runwhere.ai/claimed-devices does not say how "
        "many: 1 pod in team-a"
    ]


def test_usage_and_budget_say_the_same(world: World) -> None:
    """Of the real time, which gpuctl_usage_info has."""
    Clock.now = datetime.now(timezone.utc)
    start = Clock.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()
    world.quota({"limit": 1000})
    moments = [(start - 7200, start + (Clock.now.timestamp() - start) / 2), (start + 10, start + 11)]
    world.record(*(Hold(f"p{n}", f"p{n}", a, a, b, {"nvidia.com/gpu": 3}) for n, (a, b) in enumerate(moments)))
    (usage,) = perform(USAGE, world.cluster, all_namespaces=True, range="this-month")["results"]
    assert world.row()["used"] == pytest.approx(usage["gpu_hours"], abs=0.11)


def test_what_is_not_known_is_said(world: World, clock: Clock) -> None:
    world.quota({"limit": 1000})
    world.submit("now", resources={"gpu": 1})
    world.cluster.call(
        lambda: [
            world.cluster.registry.delete("ConfigMap", TEAM, obj["metadata"]["name"])
            for obj in world.cluster.registry.list("ConfigMap", TEAM)
        ]
    )
    clock.at(hours=5)
    assert world.row()["notes"] == [
        "no run is recorded: what is gone is not counted. Schedule the playbook record_history"
    ]
    world.record(gone("a", 0, 1))
    Clock.now = datetime.now(timezone.utc)
    if Clock.now.day == 1:  # else the record begins in the middle of the month
        return
    assert any("the record of runs begins at" in note for note in world.row()["notes"])


def test_a_record_that_was_deleted_lifts_nothing(world: World, clock: Clock) -> None:
    world.quota({"limit": 10})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    assert world.row()["action"] == "limit"
    world.cluster.call(lambda: world.cluster.registry.delete("ConfigMap", TEAM, "gpuctl-history"))
    clock.at(hours=13)
    row = world.row()
    assert row.items() >= {"used": 12.0, "ended_hours": 0.0, "state": "used_up", "action": "none"}.items()
    assert "12.0 h were counted before, of which the record has only 0.0 h now" in row["notes"]


def test_a_record_of_any_number_of_gpus_is_a_number(world: World, clock: Clock) -> None:
    """Of its own namespace alone: an account may write there what it likes."""
    for team in (TEAM, "team-b"):
        world.quota({"limit": 10}, team)
    world.record(*(gone(f"a{n}", 0, 700, gpus=2**31 - 1) for n in range(3)))
    clock.at(days=30)
    assert world.row()["used"] == 10**12
    assert world.writes(world.count) == []
    assert world.row("team-b")["used"] == 0.0


def test_a_tenant_reads_its_budget_and_cannot_change_it(world: World, clock: Clock) -> None:
    world.quota({"limit": 10})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    world.count()
    account = perform(RBAC, world.cluster, name="alice", level="submit", namespaces=[TEAM])
    assert "failed" not in account, account
    token = world.cluster.service_account_token("gpuctl-system", "alice")
    (row,) = perform(QUOTA_INFO, world.cluster, namespaces=[TEAM], api_key=token)["results"]
    assert row["gpu_hours"]["left"] == 0.0
    found = perform(SUBMIT, world.cluster, check=True, definition=training(), namespace=TEAM, api_key=token)
    assert found["results"][0]["fit"]["gpu_hours"]["left"] == 0.0
    assert "are used up until 2031-06-01" in found["results"][0]["fit"]["reason"]
    Clock.now = MAY + timedelta(days=32)  # Also what a schedule would do by now.
    refused = world.count(namespaces=[TEAM], all_namespaces=False, api_key=token)
    assert "is forbidden" in message(refused)
    assert list(world.objects()) == [OBJECT]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        '{"limit": 1e400}',
        '{"limit": -1, "per": "month", "then": "refuse", "warn_at": "80%"}',
        "[" * 900,
    ],
    ids=["empty", "nothing", "list", "null", "infinite", "negative", "deep"],
)
def test_an_annotation_that_is_no_budget_is_none(world: World, text: str) -> None:
    world.quota({"limit": 10})

    def deface(obj: Row) -> None:
        obj["metadata"]["annotations"]["runwhere.ai/gpu-hours"] = text

    world.cluster.call(lambda: world.cluster.registry.modify("ResourceQuota", TEAM, f"{TEAM}-{TEAM}", deface))
    assert world.count()["results"] == []
    (row,) = perform(QUOTA_INFO, world.cluster, all_namespaces=True)["results"]
    assert row["gpu_hours"] is None


def test_a_refused_pod_says_why(world: World, clock: Clock) -> None:
    """Of a job that was submitted before the budget was used up."""
    world.quota({"limit": 10})
    world.submit("later", resources={"gpu": 1}, job={"priority": "medium"})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    world.count()
    perform(JOB, world.cluster, name="later", namespace=TEAM, state="paused")
    result = perform(JOB, world.cluster, name="later", namespace=TEAM, state="resumed", wait=True, wait_timeout=20)
    assert "the GPU-hours of the namespace are used up until 2031-06-01 00:00 UTC" in message(result)


def test_predictions_and_status_say_what_is_left(world: World, clock: Clock) -> None:
    world.quota({"limit": 1000})
    world.record(gone("a", 0, 210))
    clock.at(hours=300)
    world.count()
    found = perform(
        SUBMIT,
        world.cluster,
        check=True,
        namespace=TEAM,
        definition=[training("one", resources={"gpu": 4}, job={"time_limit": "24h"}), training("two")],
    )
    hours = {row["name"]: row["fit"]["gpu_hours"] for row in found["results"]}
    assert hours["one"]["left"] == hours["two"]["left"] == 790.0
    assert (hours["one"]["cost"], hours["one"]["cost_per_day"]) == (pytest.approx(96, abs=0.2), 96)
    assert (hours["two"]["cost"], hours["two"]["cost_per_day"]) == (None, 24)
    (quota,) = perform(STATUS, world.cluster, all_namespaces=True)["quotas"]
    assert quota["gpu_hours"]["left"] == 790.0


def test_a_thousand_jobs_of_forty_teams_take_the_same_requests(world: World, clock: Clock) -> None:
    def requests_of(teams: Sequence[str], jobs: int) -> int:
        for team in teams:
            world.quota({"limit": 100}, team)
            world.record(*(gone(f"{team}-{jobs}-{n}", n / 2, 6) for n in range(jobs)), team=team)
        world.count()
        world.cluster.requests.reset()
        assert len(world.count()["results"]) == len(teams)
        return len(list(world.cluster.requests))

    clock.at(days=30)
    few = requests_of(["t0"], 1)
    assert requests_of([f"t{n}" for n in range(40)], 25) == few <= 6
    assert world.hard("t7", OBJECT)[GPU] == "0"


def test_one_namespace_that_cannot_be_written_keeps_no_other_from_it(world: World, clock: Clock) -> None:
    for team in ("t1", "t2"):
        world.quota({"limit": 10}, team)
        world.record(gone(team, 0, 12), team=team)
    clock.at(hours=12)
    fault = Fault("error", verb="patch", path="*/t1/resourcequotas/*", count=None)
    world.cluster.call(lambda: world.cluster.faults.add(fault))
    failed = world.count()
    assert message(failed).startswith("namespace t1: ")
    assert {row["namespace"]: row["error"] is None for row in failed["results"]} == {"t1": False, "t2": True}
    assert world.hard("t2")[GPU] == "0"
    world.cluster.call(lambda: world.cluster.faults.active.clear())
    assert world.writes(world.count) == [f"patch resourcequotas/{OBJECT}"]
    assert world.hard("t1")[GPU] == "0"


def test_a_task_that_was_killed_between_two_periods_is_completed(world: World, clock: Clock) -> None:
    """The object of the new period comes before the old one goes."""
    world.quota({"limit": 10})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    world.count()
    clock.at(days=31, hours=1)
    fault = Fault("error", verb="delete", path="*/resourcequotas/*", count=None)
    world.cluster.call(lambda: world.cluster.faults.add(fault))
    assert world.count()["failed"]
    assert len(world.objects()) == 2
    world.cluster.call(lambda: world.cluster.faults.active.clear())
    assert world.row()["action"] == "lift"
    assert list(world.objects()) == ["gpuctl-gpu-hours-until-2031-07-01"]


def test_two_tasks_at_the_same_time_do_no_harm(world: World, clock: Clock) -> None:
    world.quota({"limit": 10})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    with ThreadPoolExecutor(6) as pool:
        tasks = [world.count, world.count, lambda: world.quota({"limit": 10}), world.count]
        done = [future.result() for future in [pool.submit(task) for task in tasks]]
    assert not any("failed" in result for result in done), done
    assert list(world.objects()) == [OBJECT]
    assert world.writes(world.count) == []
    assert world.hard()[GPU] == "0"


def test_the_example(world: World) -> None:
    path = Path(__file__).parents[2] / "examples" / "quota-budget.yaml"
    assert perform(QUOTA, world.cluster, src=[str(path)])["changed"]
    assert world.row("vision").items() >= {"limit": 5000, "left": 5000.0, "then": "low_priority"}.items()


def test_a_price_list_needs_a_default(world: World) -> None:
    assert "no price named default" in message(world.count(prices={"H100": 2}))


def test_nothing_is_read_where_there_is_no_budget(world: World) -> None:
    world.quota(None)
    world.cluster.requests.reset()
    assert world.count()["msg"] == "0 budgets"
    assert len(list(world.cluster.requests)) <= 2


# -- by accelerator ----------------------------------------------------------------------------------------------------

BOTH = {"limit": 100, "accelerators": {"amd": 40, "nvidia": 80}}
AMD, OF_AMD, OF_NVIDIA = "requests.amd.com/gpu", f"{OBJECT}-of-amd", f"{OBJECT}-of-nvidia"


def of_amd(uid: str, hours: float, gpus: int = 1) -> Hold:
    return gone(uid, 0, hours, gpus=0, **{"amd.com/gpu": gpus})


def refusal_of(world: World, name: str, *resources: str) -> str:
    """What the API server says of a pod of any tool; empty if it admits it."""
    devices = dict.fromkeys(resources, "1")
    container = {"name": "main", "image": "x", "resources": {"limits": devices, "requests": devices}}
    metadata = {"name": name, "namespace": TEAM}
    spec = {"containers": [container]}
    try:
        world.client().apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dry_run=True)
    except ApiError as error:
        return error.message
    return ""


def test_one_accelerator_is_used_up_and_the_others_go_on(world: World, clock: Clock) -> None:
    world.quota(BOTH, gpu=None)
    world.record(of_amd("a", 10, gpus=3), gone("n", 0, 20))
    clock.at(hours=20)
    row = world.row()
    assert row.items() >= {"used": 50.0, "left": 50.0, "state": "ok", "action": "count"}.items()
    parts = {name: (part["used"], part["left"], part["state"]) for name, part in row["accelerators"].items()}
    assert parts == {"amd": (30.0, 10.0, "ok"), "nvidia": (20.0, 60.0, "ok")}

    world.record(of_amd("b", 2, gpus=2))
    counted = world.count()
    assert counted["warnings"] == [f"the GPU-hours of {TEAM} (amd, 85 %) are nearly used up."]

    world.record(of_amd("c", 4, gpus=2))
    counted = world.count()
    assert counted["warnings"] == [f"the GPU-hours of {TEAM} (amd, 105 %) are used up."]
    assert counted["msg"] == "1 budget, 1 partly used up, 1 limited now"
    assert counted["results"][0].items() >= {"used": 62.0, "state": "ok", "action": "limit"}.items()
    assert (world.hard(), world.hard(name=OF_AMD)) == ({}, {AMD: "0"})
    assert "annotations" not in world.objects()[OF_AMD]["metadata"]
    assert f"exceeded quota: {OF_AMD}" in refusal_of(world, "amd", "amd.com/gpu")
    assert f"exceeded quota: {OF_AMD}" in refusal_of(world, "two", "nvidia.com/gpu", "amd.com/gpu")
    assert refusal_of(world, "nvidia", "nvidia.com/gpu") == ""
    refused = world.submit("next", resources={"gpu": 1, "accelerator": "amd"})
    assert "the GPU-hours of the namespace for amd are used up until 2031-06-01 00:00 UTC" in message(refused)
    assert "use another accelerator" in message(refused)
    assert world.submit("other", check=True)["results"][0]["fit"]["verdict"] == "now"
    assert world.writes(world.count) == []

    world.record(gone("m", 0, 20, gpus=2))
    row = world.row()
    assert row.items() >= {"state": "used_up", "action": "limit"}.items()
    assert list(world.objects()) == [OBJECT]
    assert world.hard().items() >= {AMD: "0", GPU: "0"}.items()
    assert f"exceeded quota: {OBJECT}," in refusal_of(world, "late", "amd.com/gpu")
    assert world.writes(world.count) == []

    clock.at(days=31, hours=1)
    assert world.row()["action"] == "lift"
    assert list(world.objects()) == ["gpuctl-gpu-hours-until-2031-07-01"]


def test_what_is_limited_follows_the_manifest(world: World, clock: Clock) -> None:
    """From all to one, to another, with another ``then``, and to none."""
    world.quota(None)
    world.record(of_amd("a", 30), gone("n", 0, 30))
    clock.at(hours=30)
    for budget, action, limited in (
        ({"limit": 60, "accelerators": {"amd": 30}}, "limit", {"": {AMD, GPU}}),
        ({"limit": 90, "accelerators": {"amd": 30}}, "lift", {"-of-amd": {AMD}}),
        ({"limit": 90, "accelerators": {"amd": 30, "nvidia": 30}}, "limit", {"-of-amd": {AMD}, "-of-nvidia": {GPU}}),
        ({"limit": 90, "then": "low_priority", "accelerators": {"nvidia": 30}}, "lift", {"-low-of-nvidia": {GPU}}),
        ({"limit": 90, "then": "low_priority"}, "lift", {}),
    ):
        world.quota(budget, gpu=None)
        assert world.writes(lambda: world.count(check=True)) == []
        predicted = world.count(check=True)
        assert predicted == world.count()
        assert predicted["results"][0]["action"] == action, budget
        found = {
            name.removeprefix(OBJECT): {*world.hard(name=name)} for name in world.objects() if world.hard(name=name)
        }
        assert {key: keys & {AMD, GPU} for key, keys in found.items() if key != f"{TEAM}-{TEAM}"} == limited, budget
        assert world.writes(world.count) == []
    assert list(world.objects()) == [f"{OBJECT}-low"]


def test_only_jobs_with_priority_low_go_on_with_an_accelerator(world: World, clock: Clock) -> None:
    world.quota({"limit": 100, "then": "low_priority", "accelerators": {"nvidia": 10}})
    world.record(gone("a", 0, 12))
    clock.at(hours=12)
    assert world.row()["action"] == "limit"
    refused = world.submit("urgent", job={"priority": "high"})
    assert "for nvidia are used up until 2031-06-01 00:00 UTC, except for jobs with priority low" in message(refused)
    assert world.submit("background", job={"priority": "low"})["changed"]


def test_a_budget_without_accelerators_is_written_as_it_was(world: World, clock: Clock) -> None:
    """Else the next run would write in every namespace of an existing cluster."""
    world.quota({"limit": 100})
    clock.at(hours=2)
    world.record(gone("a", 0, 2))
    world.count()
    declared = world.cluster.call(lambda: world.cluster.registry.get("ResourceQuota", TEAM, f"{TEAM}-{TEAM}"))
    note = "runwhere.ai/gpu-hours"
    assert declared["metadata"]["annotations"][note] == (
        '{"limit": 100, "per": "month", "then": "refuse", "warn_at": "80%"}'
    )
    recorded = world.objects()[OBJECT]["metadata"]["annotations"][note]
    assert recorded == '{"used": 2.0, "at": "2031-05-01T02:00:00Z", "per": "month"}'
    assert world.writes(lambda: world.quota({"limit": 100})) == []
    assert world.writes(world.count) == []
    earlier = world.objects()[OBJECT]
    earlier["metadata"]["annotations"][note] = '{"used": 2.0, "at": "2031-05-01T02:00:00Z"}'
    world.cluster.load([earlier])
    assert world.writes(world.count) == []


def test_a_record_of_an_accelerator_that_was_deleted_lifts_nothing(world: World, clock: Clock) -> None:
    """A tenant may write the history of its namespace, also so that less of another accelerator was used."""
    world.quota(BOTH)
    world.record(of_amd("a", 41))
    clock.at(hours=41)
    assert world.row()["action"] == "limit"
    world.cluster.call(lambda: world.cluster.registry.delete("ConfigMap", TEAM, "gpuctl-history"))
    world.record(gone("a", 0, 41))  # as if it had been of nvidia
    row = world.row()
    assert (row["accelerators"]["amd"]["used"], row["accelerators"]["nvidia"]["used"]) == (41.0, 41.0)
    assert (row["action"], world.hard(name=OF_AMD)) == ("count", {AMD: "0"})


@pytest.mark.parametrize("own", ['{"amd": -5}', '{"amd": 1e999}', '["amd"]', '{"amd": {"amd": 1}}', '"amd"', "null"])
def test_a_record_that_was_defaced_is_counted_again(world: World, clock: Clock, own: str) -> None:
    world.quota(BOTH)
    world.record(of_amd("a", 41))
    clock.at(hours=41)
    world.count()

    found = world.objects()[OBJECT]
    text = f'{{"used": 41.0, "at": "2031-05-02T17:00:00Z", "accelerators": {own}}}'
    metadata = {name: found["metadata"][name] for name in ("name", "namespace", "labels")}
    annotated = {**metadata, "annotations": {"runwhere.ai/gpu-hours": text}}
    world.client().apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": annotated, "spec": {}})
    assert world.row()["accelerators"]["amd"]["used"] == 41.0
    assert world.hard(name=OF_AMD) == {AMD: "0"}
    assert world.writes(world.count) == []


def test_prices_and_partitions_count_for_their_accelerator(world: World, clock: Clock) -> None:
    world.quota({"limit": 100, "accelerators": {"nvidia": 20, "amd": 20}})
    world.record(
        Hold("two", "two", MAY.timestamp(), MAY.timestamp(), None, {"nvidia.com/gpu": 1, "amd.com/gpu": 2})._replace(
            end=MAY.timestamp() + 4 * 3600
        ),
        gone("part", 0, 10, gpus=0, **{"nvidia.com/mig-1g.10gb": 1}),
    )
    clock.at(hours=10)
    row = world.row(prices={"default": 2.0, "1g.10gb": 0.5, "amd.com/gpu": 1.0})
    assert row["used"] == 4 + 2 * 4 * 0.5 + 10 * 0.25
    assert {name: part["used"] for name, part in row["accelerators"].items()} == {"nvidia": 6.5, "amd": 4.0}


def test_a_price_of_a_type_counts_for_the_job_that_asks_for_it(world: World, clock: Clock) -> None:
    """Where neither the node nor the record says of which type the device is."""
    world.quota({"limit": 100})
    world.submit(resources={"gpu": 1})
    job = world.cluster.call(lambda: copy.deepcopy(world.cluster.registry.get("Job", TEAM, "t")))
    job["spec"]["template"]["spec"]["nodeSelector"] = {GPU_TYPE: "H100"}
    world.cluster.load([job])
    world.cluster.unload("ConfigMap", TEAM, HISTORY)
    clock.at(hours=10)
    assert world.row()["used"] == 10.0
    assert world.row(prices={"default": 1.0, "H100": 3.0})["used"] == 30.0


def test_an_accelerator_that_is_not_known_is_refused(world: World) -> None:
    refused = world.quota({"limit": 100, "accelerators": {"nvdia": 40}})
    assert "gpu_hours.accelerators.nvdia: no accelerator with a resource of its own: nvdia. Known are amd," in message(
        refused
    )
    assert world.objects() == {}


def test_a_tenant_sees_its_hours_by_accelerator(world: World, clock: Clock) -> None:
    world.quota(BOTH)
    world.record(of_amd("a", 41), gone("n", 0, 10))
    clock.at(hours=41)
    world.count()
    assert "failed" not in perform(RBAC, world.cluster, name="alice", level="submit", namespaces=[TEAM])
    token = world.cluster.service_account_token("gpuctl-system", "alice")
    (quota,) = perform(QUOTA_INFO, world.cluster, namespaces=[TEAM], api_key=token)["results"]
    assert {name: part["left"] for name, part in quota["gpu_hours"]["accelerators"].items()} == {
        "amd": 0.0,
        "nvidia": 70.0,
    }
    definition = training("amd", resources={"gpu": 2, "accelerator": "amd"}, job={"time_limit": "3h"})
    found = perform(SUBMIT, world.cluster, check=True, definition=definition, namespace=TEAM, api_key=token)
    fit = found["results"][0]["fit"]
    assert "for amd are used up until 2031-06-01" in fit["reason"]
    costs = {name: part["cost_per_day"] for name, part in fit["gpu_hours"]["accelerators"].items()}
    assert costs == {"amd": 48, "nvidia": 0}
    params = {"host": world.cluster.url, "validate_certs": False, "api_key": token}
    client = Client(resolve_connection(params, {}))
    with pytest.raises(ApiError, match="forbidden"):
        client.delete(RESOURCE_QUOTA, world.objects()[OF_AMD]["metadata"], propagation="Background")


def test_two_accelerators_of_many_teams_take_the_same_requests(world: World, clock: Clock) -> None:
    def requests_of(teams: Sequence[str], jobs: int) -> int:
        for team in teams:
            world.quota(BOTH, team)
            world.record(*(of_amd(f"a{team}{n}", 42 / jobs) for n in range(jobs)), team=team)
            world.record(*(gone(f"n{team}{n}", 0, 1) for n in range(jobs)), team=team)
        world.count()
        world.cluster.requests.reset()
        assert len(world.count()["results"]) == len(teams)
        return len(list(world.cluster.requests))

    clock.at(days=30)
    few = requests_of(["t0"], 1)
    assert requests_of([f"t{n}" for n in range(20)], 10) == few <= 6
    assert world.hard("t7", OF_AMD)[AMD] == "0"


def test_a_task_that_was_killed_between_an_accelerator_and_all_is_completed(world: World, clock: Clock) -> None:
    """All are limited before the limit of one goes, and one is limited before that of all goes."""
    world.quota(BOTH)
    world.record(of_amd("a", 50))
    clock.at(hours=50)
    world.count()
    world.record(gone("n", 0, 50))
    for verb, prepare in (("delete", lambda: None), ("patch", lambda: world.quota({**BOTH, "limit": 200}))):
        prepare()
        path = "*/resourcequotas/*" if verb == "delete" else f"*/resourcequotas/{OBJECT}"
        fault = Fault("error", verb=verb, path=path, count=None)
        world.cluster.call(lambda fault=fault: world.cluster.faults.add(fault))
        assert world.count()["failed"]
        limits = [world.hard(name=name) for name in world.objects() if name.startswith(OBJECT)]
        assert [AMD in hard for hard in limits] == [True, True]
        world.cluster.call(lambda: world.cluster.faults.active.clear())
        assert "failed" not in world.count()
        assert world.writes(world.count) == []
    assert (world.hard(), world.hard(name=OF_AMD)) == ({}, {AMD: "0"})
