# SPDX-License-Identifier: BSD-2-Clause
"""What gpuctl_fit_info says of jobs: sentences with numbers, when others end, and the cheapest change."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import Declared
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.devices import inventory_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import placed_pod, roomy_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import Declaration
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_snapshot import FitSnapshot
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.job_fit import rows_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.verdicts import fit_summary
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_ends import (
    JobEnd,
    expected_ends,
    run_lengths,
    slim_job,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.ledger import Entry
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_blocks import Placement, Storage
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import (
    Distributed,
    Inference,
    Training,
)

Object = dict[str, Any]
NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
CLASSES = {
    "gpuctl-high": {"value": 1_000_000},
    "gpuctl-medium": {"value": 500_000},
    "gpuctl-low": {"value": 100, "preemptionPolicy": "Never"},
}


def node(name: str, gpus: int = 8, pool: str = "a100", **labels: str) -> Object:
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"runwhere.ai/pool": pool, **labels},
        },
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(job: str, on: str, gpus: int, kind: str = "training", priority: int = 500_000) -> Object:
    main = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "metadata": {
            "name": f"{job}-{on}",
            "namespace": "team-b",
            "uid": f"{job}-{on}",
            "labels": {"app": job, "runwhere.ai/job-type": kind},
            "creationTimestamp": "2026-03-01T10:00:00Z",
        },
        "spec": {"nodeName": on, "priority": priority, "containers": [main]},
        "status": {"startTime": "2026-03-01T10:00:00Z"},
    }


def training(name: str = "sft", *, priority: str = "low", **resources: Any) -> SelectedJob:
    manifest = {
        "kind": "training",
        "job": {"name": name, "priority": priority},
        "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
        "resources": {"pool": "a100", "gpu": 8, "cpu": "4", "memory": "16Gi", **resources},
    }
    model = Training.model_validate(manifest)
    return SelectedJob("team-a", name, "training", model=model).built(Declared())


def judged(nodes: list[Object], pods: list[Object], *jobs: SelectedJob, **lists: Any) -> list[Object]:
    ends = lists.pop("ends", {})
    snapshot = FitSnapshot(
        [roomy_node(one) for one in nodes], [placed_pod(one) for one in pods], priority_classes=CLASSES, **lists
    )
    return rows_of(snapshot, jobs, Declared(), ends, NOW)


def said(nodes: list[Object], pods: list[Object], one: SelectedJob, **lists: Any) -> tuple[str, str, str | None]:
    row = judged(nodes, pods, one, **lists)[0]
    return row["verdict"], row["reason"], row["hint"]


def test_it_runs_now() -> None:
    assert said([node("n1")], [], training()) == ("now", "It runs now: on n1.", None)
    assert said([node("n1"), node("n2")], [], training())[1] == "It runs now: on one of 2 nodes, such as n1."
    assert said([node("n1"), node("n2")], [], training(node_count=2))[1] == "It runs now: its 2 pods on n1, n2."


def test_it_preempts() -> None:
    verdict, reason, hint = said([node("n1")], [pod("old", "n1", 8, priority=100)], training(priority="high"))
    assert (verdict, reason) == ("after_preemption", "It runs once it has preempted job team-b/old: on n1.")
    assert hint is None


def test_it_waits_for_a_job() -> None:
    nodes, pods = [node("n1"), node("n2")], [pod("old", "n1", 8), pod("other", "n2", 4)]
    end = JobEnd(NOW + timedelta(hours=3), "deadline")
    row = judged(nodes, pods, training(), ends={("team-b", "other"): end})[0]
    assert row["verdict"] == "after_jobs"
    assert row["reason"] == (
        "It needs 8 GPUs on one node, but the most free on one of the 2 nodes of pool a100 is 4 GPUs (on n2), 4 GPUs "
        "short. It runs after job team-b/other (in 3 h at the latest) ends."
    )
    assert row["after"] == [
        {"namespace": "team-b", "name": "other", "ends_at": "2026-03-01T15:00:00Z", "basis": "deadline"}
    ]
    assert row["runs_at"] == "2026-03-01T15:00:00Z"
    assert row["hint"] == "With resources.gpu 4 instead of 8, it runs now."


@pytest.mark.parametrize(
    ("minutes", "basis", "text"),
    [
        (119.4, "time_limit", "in about 119 min, at its time limit"),
        (479, "time_limit", "in about 8 h, at its time limit"),
        (7 * 60 + 29, "time_limit", "in about 7 h, at its time limit"),
        (47 * 60 + 59, "time_limit", "in about 48 h, at its time limit"),
        (71 * 60, "time_limit", "in about 3 d, at its time limit"),
        (130, "deadline", "in 3 h at the latest"),
        (480.3, "deadline", "in 8 h at the latest"),
        (49 * 60, "deadline", "in 3 d at the latest"),
    ],
)
def test_hours_and_days_are_the_nearest_or_enough(minutes: float, basis: str, text: str) -> None:
    end = JobEnd(NOW + timedelta(minutes=minutes), basis)
    row = judged([node("n1")], [pod("old", "n1", 8)], training(), ends={("team-b", "old"): end})[0]
    assert row["reason"].endswith(f"It runs after job team-b/old ({text}) ends.")


def test_a_service_does_not_end_by_itself() -> None:
    reason = said([node("n1")], [pod("web", "n1", 8, "inference")], training())[1]
    assert reason.endswith("It runs after job team-b/web (which only ends when it is deleted) ends.")


@pytest.mark.parametrize(
    ("nodes", "pods", "wanted", "changes"),
    [
        (
            [node("n1", 4), node("n2", 4)],
            [],
            {"gpu": 8},
            ["resources.node_count 2, resources.gpu 4", "resources.gpu 4"],
        ),
        ([node("n1"), node("h1", 8, "h100")], [pod("old", "n1", 8)], {"gpu": 8}, ["resources.pool h100"]),
        ([node("n1")], [], {"cpu": "100"}, ["resources.cpu 64"]),
        ([node("n1")], [], {"memory": "400Gi"}, ["resources.memory 256Gi"]),
        ([node("n1"), node("n2")], [], {"node_count": 3}, ["resources.node_count 2"]),
        ([node("n1")], [pod("old", "n1", 8, priority=500)], {}, ["job.priority medium"]),
        ([node("n1")], [], {"gpu_type": "H100"}, ["resources.gpu-type None"]),
    ],
)
def test_the_cheapest_changes(nodes: list[Object], pods: list[Object], wanted: Object, changes: list[str]) -> None:
    row = judged(nodes, pods, training(**wanted))[0]
    found = [", ".join(f"{one['field']} {one['after']}" for one in change["fields"]) for change in row["changes"]]
    assert found[: len(changes)] == changes
    assert row["hint"]


def test_each_change_holds() -> None:
    """What is promised is what is found when it is tried."""
    nodes, pods = [node("n1"), node("h1", 8, "h100")], [pod("old", "n1", 5, priority=500)]
    for change in judged(nodes, pods, training())[0]["changes"]:
        fields = {one["field"]: one["after"] for one in change["fields"]}
        priority = fields.pop("job.priority", "low")
        resources = {name.removeprefix("resources."): value for name, value in fields.items()}
        for name in ("gpu", "node_count"):
            if name in resources:
                resources[name] = int(resources[name])
        assert judged(nodes, pods, training(priority=priority, **resources))[0]["verdict"] == change["verdict"]


def test_a_quota_is_too_low() -> None:
    hard, used = {"requests.nvidia.com/gpu": "16"}, {"requests.nvidia.com/gpu": "12"}
    one = {
        "metadata": {"name": "team-a", "namespace": "team-a"},
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }
    verdict, reason, hint = said([node("n1")], [], training(), quotas={"team-a": [one]})
    assert verdict == "after_quota"
    assert reason == "Quota team-a has too little nvidia.com/gpu: it needs 8, 12 of 16 are used, 4 short."
    assert hint == "With resources.gpu 4 instead of 8, it runs now."


def test_what_a_quota_lacks_of_requests_and_limits_is_said_once() -> None:
    hard = {
        f"{half}.{name}": text for half in ("limits", "requests") for name, text in (("cpu", "1"), ("memory", "1Gi"))
    }
    of_both = {"metadata": {"name": "q", "namespace": "team-a"}, "spec": {"hard": hard}, "status": {"hard": hard}}
    job = training(cpu="2", memory="1Gi", gpu=0)
    verdict, reason, hint = said([node("n1")], [], job, quotas={"team-a": [of_both]})
    assert (verdict, reason) == ("never", "Quota q has too little cpu: it needs 2, 0 of 1 are used, 1 short.")
    assert hint == "With resources.cpu 1 instead of 2, it runs now."
    hard["limits.cpu"] = "1500m"
    reason = said([node("n1")], [], job, quotas={"team-a": [of_both]})[1]
    assert (
        "cpu: it needs 2, 0 of 1 are used, 1 short. Quota q has too little limits.cpu: it needs 2, 0 of 1500m" in reason
    )


def test_some_pods_find_room() -> None:
    verdict, reason, _hint = said([node("n1"), node("n2")], [pod("old", "n1", 8)], training(node_count=2))
    assert verdict == "after_jobs"
    assert reason.startswith(
        "1 of its 2 pods finds room. No node takes the next pod: 2 nodes have too little nvidia.com/gpu."
    )


def test_jobs_of_the_task_take_what_is_free() -> None:
    first, second = training("first", priority="high"), training("second")
    reason = judged([node("n1")], [], first, second)[1]["reason"]
    assert reason == (
        "No node takes its pod, once the other jobs of the task have theirs: 1 node has too little nvidia.com/gpu. It "
        "runs after job team-a/first (end not known) ends."
    )


def test_a_claim_that_does_not_exist() -> None:
    manifest = training()
    model = manifest.model.model_copy(update={"storage": Storage(workdirs=[{"path": "/data", "claim": "models"}])})
    one = SelectedJob("team-a", "sft", "training", model=model).built(Declared())
    verdict, reason, _hint = said([node("n1")], [], one, claims={"team-a": []})
    assert (verdict, reason) == ("never", "No node takes its pod: PersistentVolumeClaim models does not exist.")


def test_pods_that_have_to_share_a_place() -> None:
    nodes = [node("n1", rack="r1"), node("n2", rack="r1"), node("n3", rack="r2"), node("n4", rack="r2")]
    declared = Declared({"a100": Declaration("a100", hardware=PoolHardware(topology={"rack": "rack"}))})
    model = training(node_count=2).model
    distributed = Distributed(placement=Placement(within="rack", required=True))
    one = SelectedJob("team-a", "sft", "training", model=model.model_copy(update={"distributed": distributed}))
    reason = said(nodes, [pod("old", "n1", 8), pod("other", "n3", 8)], one.built(declared))[1]
    assert reason == (
        "Its 2 pods have to share rack, but r1 has room for 1 of them, r2 for 1. It runs after jobs team-b/old (end "
        "not known) and team-b/other (end not known) end."
    )


def test_a_service_starts_with_the_least_number_of_its_autoscaler_and_may_have_no_pods() -> None:
    def service(**more: Any) -> SelectedJob:
        model = Inference.model_validate(
            {
                "kind": "inference",
                "job": {"name": "web"},
                "environment": {"image": "registry.example.com/ml:v1", "command": ["run"]},
                "resources": {"pool": "a100", "gpu": 8, "cpu": "4", "memory": "16Gi"},
                **more,
            }
        )
        return SelectedJob("team-a", "web", "inference", model=model).built(Declared())

    scaled = judged([node("n1")], [], service(autoscaling={"min_replicas": 2, "max_replicas": 3}))[0]
    assert (scaled["pods_wanted"], scaled["verdict"]) == (2, "never")
    assert said([], [], service(service={"replicas": 0})) == (
        "now",
        "It starts no pods: its number of replicas is 0.",
        None,
    )


def test_a_pool_whose_devices_are_claimed_helps_only_if_they_are_free() -> None:
    classes = [{"metadata": {"name": "gpu"}, "spec": {"selectors": []}}]
    hardware = PoolHardware(device_class="gpu")
    pool = {"a100": Declaration("a100"), "dra": Declaration("dra", hardware=hardware)}
    nodes = [roomy_node(node("n1", 4)), roomy_node(node("n2", 0, "dra"))]

    def changes(devices: Any) -> list[str]:
        snapshot = FitSnapshot(nodes, [], priority_classes=CLASSES, devices=devices)
        row = rows_of(snapshot, [training()], Declared(pool), {}, NOW)[0]
        return [
            one["after"] for change in row["changes"] for one in change["fields"] if one["field"] == "resources.pool"
        ]

    assert changes(None) == []  # What drivers offer is not known.
    assert changes(inventory_of([], [], classes)) == []
    offered = [{"name": f"d{index}", "attributes": {"type": {"string": "gpu"}}} for index in range(8)]
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n2", "devices": offered}
    spec["pool"] = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    assert changes(inventory_of([{"metadata": {"name": "s"}, "spec": spec}], [], classes)) == ["dra"]


def test_what_is_not_known() -> None:
    snapshot = FitSnapshot([roomy_node(node("n1"))], None, priority_classes=CLASSES)
    row = rows_of(snapshot, [training()], Declared(), {}, NOW)[0]
    assert row["verdict"] == "unknown"
    assert row["unknown"] == ["the account may not list the pods of all namespaces, which use the nodes"]
    assert row["reason"] == f"Not known: {row['unknown'][0]}. Apart from that, it would run now."
    assert row["hint"] == "An administrator grants this permission: level read of gpuctl_rbac, with append=true."


def test_nodes_that_may_not_be_listed_are_not_missing() -> None:
    snapshot = FitSnapshot(None, None, priority_classes=CLASSES)
    rows = rows_of(snapshot, [training(), training(name="other", gpu=16)], Declared(), {}, NOW)
    assert [row["verdict"] for row in rows] == ["unknown", "unknown"]
    assert rows[0]["unknown"][0] == "the account may not list nodes"
    assert rows[0]["reason"] == f"Not known: {'; '.join(rows[0]['unknown'])}."


def test_no_change_is_suggested_without_knowing_what_is_free() -> None:
    snapshot = FitSnapshot([roomy_node(node("n1"))], None, priority_classes=CLASSES)
    row = rows_of(snapshot, [training(gpu=16)], Declared(), {}, NOW)[0]
    hint = "Lower resources.gpu, or spread the training with resources.node_count."
    assert (row["verdict"], row["changes"], row["hint"]) == ("never", [], hint)


def test_the_summary() -> None:
    rows = judged([node("n1")], [], training(), training("big", gpu=16))
    assert fit_summary(rows) == "2 jobs: 1 now, 1 never"


class TestEnds:
    def ends(self, *jobs: Object, ledgers: list[Object] | None = None, history: Object | None = None) -> Any:
        lengths = [run_lengths(history)] if history else []
        return expected_ends([slim_job(one) for one in jobs], ledgers or [], {}, lengths)

    def job(self, name: str, start: str = "12:00", end: str | None = None, **spec: Any) -> Object:
        sweep = {"runwhere.ai/sweep": "lr"} if spec.pop("sweep", False) else {}
        status = {"startTime": f"2026-03-01T{start}:00Z"}
        if end:
            status["completionTime"] = f"2026-03-01T{end}:00Z"
        metadata = {"namespace": "t", "name": name, "uid": name, "labels": sweep}
        template = {"spec": {"terminationGracePeriodSeconds": 300}}
        return {"metadata": metadata, "spec": {"template": template, **spec}, "status": status}

    def test_by_its_deadline_and_the_grace_period_of_its_pods(self) -> None:
        found = self.ends(self.job("a", activeDeadlineSeconds=3300))
        assert found == {("t", "a"): JobEnd(NOW + timedelta(hours=1), "deadline")}

    def test_by_its_sweep(self) -> None:
        done = [self.job("a", "08:00", "09:00", sweep=True), self.job("b", "08:00", "11:00", sweep=True)]
        found = self.ends(*done, self.job("c", sweep=True), self.job("d"))
        assert found == {("t", "c"): JobEnd(NOW + timedelta(hours=2), "sweep")}

    def test_by_its_last_run(self) -> None:
        entry = Entry("m", "before", "2026-02-01T00:00:00Z", None, "Succeeded", "2026-02-01T00:30:00Z")
        ledger = {"metadata": {"name": "gpuctl-ledger", "namespace": "t"}, "data": {"a": str(entry)}}
        found = self.ends(self.job("a"), ledgers=[ledger])
        assert found == {("t", "a"): JobEnd(NOW + timedelta(minutes=30), "last_runs")}

    def test_by_its_earlier_runs_that_succeeded(self) -> None:
        """The median of those in the history; the entry of the ledger counts the time that a run has waited."""
        data = {}
        for number, minutes in enumerate((10, 20, 40)):
            started = f"2026-02-0{number + 1}T00:00:00Z"
            data[f"u{number}.job"] = json.dumps({"name": "a", "kind": "training", "submitted_at": started})
            end = {
                "result": "Succeeded",
                "started_at": started,
                "finished_at": started.replace("00:00Z", f"{minutes}:00Z"),
            }
            data[f"u{number}.end"] = json.dumps(end)
        data["u9.job"] = json.dumps({"name": "a", "kind": "training"})
        end = {"result": "Failed", "started_at": "2026-02-05T00:00:00Z", "finished_at": "2026-02-05T00:01:00Z"}
        data["u9.end"] = json.dumps(end)
        history = {"metadata": {"name": "gpuctl-history", "namespace": "t"}, "data": data}
        found = self.ends(self.job("a"), history=history)
        assert found == {("t", "a"): JobEnd(NOW + timedelta(minutes=20), "last_runs")}

    @pytest.mark.parametrize(
        ("since", "until"),
        [
            ("0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z"),
            ("2026-02-02T00:00:00Z", "2026-02-01T00:00:00Z"),
            ("2020-01-01T00:00:00Z", "2026-02-01T00:00:00Z"),
        ],
    )
    def test_what_no_run_takes_tells_nothing(self, since: str, until: str) -> None:
        """Accounts of a namespace can write its records."""
        run = {"u.job": json.dumps({"name": "a", "kind": "training", "submitted_at": since})}
        run["u.end"] = json.dumps({"result": "Succeeded", "started_at": since, "finished_at": until})
        history = {"metadata": {"name": "gpuctl-history", "namespace": "t"}, "data": run}
        entry = Entry("m", "before", since, None, "Succeeded", until)
        ledger = {"metadata": {"name": "gpuctl-ledger", "namespace": "t"}, "data": {"a": str(entry)}}
        jobs = [self.job("a"), self.job("b", activeDeadlineSeconds=3300)]
        found = self.ends(*jobs, history=history, ledgers=[ledger])
        assert found == {("t", "b"): JobEnd(NOW + timedelta(hours=1), "deadline")}

    def test_one_that_takes_longer_than_before(self) -> None:
        nodes, pods = [node("n1")], [pod("old", "n1", 8)]
        late = {("team-b", "old"): JobEnd(NOW - timedelta(minutes=1), "last_runs")}
        row = judged(nodes, pods, training(), ends=late)[0]
        assert row["reason"].endswith("It runs after job team-b/old (overdue, going by its earlier runs) ends.")
        assert row["runs_at"] is None

    def test_not_by_the_entry_of_this_run(self) -> None:
        entry = Entry("m", "a", "2026-02-01T00:00:00Z", None, "Succeeded", "2026-02-01T00:30:00Z")
        ledger = {"metadata": {"name": "gpuctl-ledger", "namespace": "t"}, "data": {"a": str(entry)}}
        assert self.ends(self.job("a"), ledgers=[ledger]) == {}


def test_a_job_that_never_runs_gets_the_change_with_which_it_runs_later() -> None:
    row = judged([node("n1")], [pod("old", "n1", 8)], training(gpu=16))[0]
    hint = "With resources.gpu 8 instead of 16, it runs after others have ended."
    assert (row["verdict"], row["hint"]) == ("never", hint)
