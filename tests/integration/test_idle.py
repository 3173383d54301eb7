# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_idle warns of jobs that hold devices in vain, pauses them later, and never does so on missing data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets import count_budgets
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.budgets.count_budgets import MODULE as BUDGET
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.change_jobs import change_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import MODULE as HISTORY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle import idle_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.idle_jobs import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage import usage_info
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import MODULE as USAGE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import pod_keys
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_store import write_history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import CONFIG_MAP
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load_policy
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import policy_config_map, rules_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas import live_quotas
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE as RBAC
from kubesim import LAB_USER_TOKEN, Cluster, Fault

from . import manifests
from .event_watcher import EventWatcher
from .prometheus_double import Asked, Double, Reply, prometheus_double, vector
from .tasks import perform

Row = dict[str, Any]


def ago(**time: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Usage:
    """What Prometheus knows of the last hour: by pod, the peak and the hours. ``elsewhere``: pods of other clusters."""

    peaks: dict[str, float] = field(default_factory=dict)
    hours: dict[str, float] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)

    def answer(self, asked: Asked) -> Reply:
        expression = asked.parameters["query"]
        if expression.startswith("count("):
            return vector()
        values = self.hours if "count_over_time" in expression else self.peaks
        if "by(cluster," in expression:
            values = dict.fromkeys(self.elsewhere, 2)
        return vector(*(({"namespace": "default", "pod": pod}, str(value)) for pod, value in values.items()))


@dataclass
class World:
    """A cluster with two jobs that have held a GPU for hours, and what is known of them."""

    cluster: Cluster
    usage: Usage
    server: Double

    def idle(self, *, check: bool = False, **options: Any) -> Row:
        return perform(MODULE, self.cluster, check=check, prometheus_url=self.server.url, **options)

    def job(self, name: str = "train", **options: Any) -> Row:
        (row,) = [row for row in self.idle(**options)["results"] if row["name"] == name]
        return row

    def of(self, kind: str, name: str) -> Row:
        found: Row = self.cluster.call(lambda: self.cluster.registry.get(kind, "default", name))
        return found

    def pods(self, name: str) -> list[Row]:
        found = self.cluster.call(lambda: self.cluster.registry.list("Pod", "default"))
        return [pod for pod in found if pod["metadata"]["labels"].get("app") == name]

    def warned_at(self, name: str = "train") -> str | None:
        found: str | None = (self.of("Job", name)["metadata"].get("annotations") or {}).get(WARNED)
        return found

    def warn(self, time: str, name: str = "train") -> None:
        self.change("Job", name, lambda job: job["metadata"].setdefault("annotations", {}).update({WARNED: time}))

    def change(self, kind: str, name: str, change: Callable[[Row], object], subresource: str = "") -> None:
        def changed(obj: Row) -> Row:
            change(obj)
            return obj

        self.cluster.call(lambda: self.cluster.registry.modify(kind, "default", name, changed, subresource=subresource))

    def started(self, name: str, time: str) -> None:
        for pod in self.pods(name):
            self.change(
                "Pod",
                pod["metadata"]["name"],
                lambda found: found["status"]["containerStatuses"][0]["state"]["running"].update({"startedAt": time}),
                "status",
            )

    def events(self) -> list[Row]:
        found: list[Row] = self.cluster.call(lambda: self.cluster.registry.list("Event", "default"))
        return [event for event in found if event["reason"].startswith("Idle")]


WARNED = "runwhere.ai/idle-warned-at"
SUBMITTED_BY = "runwhere.ai/submitted-by"


TOKEN = [{"name": "JUPYTER_TOKEN", "value": "notebook-t0ken"}]
JOBS = (
    manifests.training("train"),
    manifests.training("busy"),
    manifests.compute("web"),
    manifests.notebook("lab", environment={"command": ["jupyter", "lab"], "env": TOKEN}),
)


@pytest.fixture(scope="module")
def objects() -> list[Row]:
    """The jobs, running."""
    with Cluster(nodes=1).running() as cluster:
        done = perform(JOB, cluster, definition=list(JOBS), wait=True, wait_timeout=60)
        assert not done.get("failed"), done["msg"]
        kinds = ("Job", "Deployment", "StatefulSet", "Pod")
        return [obj for kind in kinds for obj in cluster.call(partial(cluster.registry.list, kind, "default"))]


@pytest.fixture
def world(objects: list[Row]) -> Iterator[World]:
    """Without controllers, so that what the test writes stays."""
    usage = Usage()
    with Cluster(nodes=1, controllers=False).running() as cluster, prometheus_double(usage.answer) as server:
        cluster.load(deepcopy(objects))
        world = World(cluster, usage, server)
        for name, peak in (("train", 0.01), ("busy", 0.8), ("lab", 0.8)):
            world.started(name, ago(hours=3))
            (pod,) = world.pods(name)
            usage.peaks[pod["metadata"]["name"]] = peak
            usage.hours[pod["metadata"]["name"]] = 1.0
        yield world


def test_a_report_names_idle_jobs_and_changes_nothing(world: World) -> None:
    found = world.idle()
    assert [(row["name"], row["idle"], row["devices"]) for row in found["results"]] == [
        ("train", True, 1),
        ("busy", False, 1),
        ("lab", False, 1),
    ]
    assert found["changed"] is False
    assert found["results"][0]["reason"] == "at most 1 % utilization in the last 60 min"
    assert found["results"][1]["reason"] == "utilization of up to 80 % in the last 60 min"
    assert world.warned_at() is None


def test_it_says_where_there_is_nothing_to_judge(world: World) -> None:
    assert world.idle(namespaces=["kube-system"])["msg"] == "no job holds accelerators"


def test_an_account_of_one_namespace_has_to_name_it(world: World) -> None:
    found = world.idle(api_key=LAB_USER_TOKEN, all_namespaces=True)
    assert found["failed"]
    assert found["msg"].endswith("Or set namespaces to those that you may read.")


def test_the_first_run_warns_and_the_next_one_changes_nothing(world: World) -> None:
    predicted = world.idle(action="pause", check=True)
    assert predicted["changed"]
    assert world.warned_at() is None
    assert world.events() == []
    found = world.idle(action="pause")
    assert [row["action"] for row in found["results"]] == ["warn", "none", "none"]
    warned = world.warned_at()
    assert warned is not None
    (event,) = world.events()
    assert event["involvedObject"]["name"] == "train"
    assert "It may be paused in 60 min" in event["message"]
    assert world.idle(action="pause")["changed"] is False
    assert world.warned_at() == warned
    assert not world.of("Job", "train")["spec"].get("suspend")


def test_a_job_is_paused_after_the_grace(world: World) -> None:
    world.warn(ago(hours=2))
    assert world.job(action="annotate")["action"] == "none"
    assert world.idle(action="pause", check=True)["changed"]
    assert not world.of("Job", "train")["spec"].get("suspend")
    found = world.idle(action="pause")
    assert found["msg"] == "1 idle job with 1 accelerator, 1 paused"
    assert world.of("Job", "train")["spec"]["suspend"] is True
    assert not world.of("Job", "busy")["spec"].get("suspend")
    assert [event["reason"] for event in world.events()] == ["IdlePaused"]
    again = world.idle(action="pause")
    assert again["changed"] is False
    assert [row["name"] for row in again["results"]] == ["busy", "lab"]


def submitted_again(world: World) -> None:
    job = deepcopy(world.of("Job", "train"))
    job["metadata"]["uid"] = "another-run"
    world.cluster.load([job])


def exempted(world: World) -> None:
    notes = {"runwhere.ai/idle-exempt-until": ago(days=-2)}
    world.change("Job", "train", lambda job: job["metadata"]["annotations"].update(notes))


def restarted(world: World) -> None:
    world.change("Job", "train", lambda job: job["spec"].update(suspend=True))
    world.change("Job", "train", lambda job: job["spec"].update(suspend=False))


@pytest.mark.parametrize("change", [submitted_again, exempted, restarted])
def test_what_is_another_run_or_is_exempt_meanwhile_is_not_paused(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[World], None]
) -> None:
    """Between the judgment, for which Prometheus and notebooks are asked, and the write."""
    world.warn(ago(hours=2))

    def change_later(task: Any, state: Any, jobs: Any) -> Any:
        if jobs:
            change(world)
        return change_jobs(task, state, jobs)

    monkeypatch.setattr(idle_jobs, "change_jobs", change_later)
    found = world.idle(action="pause")
    (row,) = [row for row in found["results"] if row["name"] == "train"]
    assert (found["changed"], row["action"], row["error"]) == (False, "none", None)
    assert row["reason"].endswith(", and was changed meanwhile")
    assert not world.of("Job", "train")["spec"].get("suspend")
    assert world.events() == []


def test_a_warning_from_before_a_job_was_resumed_does_not_count(world: World) -> None:
    """Neither a pause nor a resumption removes it, and it was of another time."""
    world.warn(ago(hours=4))  # The job has run for three.
    assert world.job(action="pause")["action"] == "warn"
    assert not world.of("Job", "train")["spec"].get("suspend")
    assert (world.warned_at() or "") > ago(hours=1)
    assert world.idle(action="pause")["changed"] is False


def test_jobs_of_others_are_warned_of_and_paused_too_and_stay_theirs(world: World) -> None:
    """Whoever runs it decides by the use of devices, and has submitted none of the jobs."""
    theirs = json.dumps({"user": "carol", "host": "desk", "kubernetes_user": "carol@example.com"})
    world.change("Job", "train", lambda job: job["metadata"]["annotations"].update({SUBMITTED_BY: theirs}))
    found = world.idle(action="annotate")
    assert not found.get("failed"), found["msg"]
    assert [row["action"] for row in found["results"]] == ["warn", "none", "none"]
    world.warn(ago(hours=2))
    assert world.idle(action="pause")["msg"] == "1 idle job with 1 accelerator, 1 paused"
    assert world.of("Job", "train")["spec"]["suspend"] is True
    assert world.of("Job", "train")["metadata"]["annotations"][SUBMITTED_BY] == theirs


def test_a_job_that_is_used_again_is_not_paused_and_its_warning_is_removed(world: World) -> None:
    world.warn(ago(hours=2), "busy")
    assert world.job("busy", action="pause")["action"] == "clear"
    assert world.warned_at("busy") is None
    assert not world.of("Job", "busy")["spec"].get("suspend")


def test_what_is_not_known_counts_as_use(world: World) -> None:
    world.warn(ago(hours=2))
    (pod,) = [pod["metadata"]["name"] for pod in world.pods("train")]
    for hours, peak in ((0.85, 0.0), (0.0, None)):
        world.usage.hours[pod] = hours
        world.usage.peaks = {} if peak is None else {pod: peak}
        row = world.job(action="report")
        assert row["idle"] is False
        assert "what is not known counts as use" in row["reason"]
    world.usage.peaks = {pod: 0.0}
    world.usage.hours[pod] = 0.95
    assert world.job(action="report")["idle"] is True


def test_what_a_pod_of_the_same_name_in_another_cluster_uses_says_nothing(world: World) -> None:
    (pod,) = [pod["metadata"]["name"] for pod in world.pods("train")]
    world.usage.elsewhere = {pod, "web-0"}
    report = world.idle(action="report")
    (row,) = [row for row in report["results"] if row["name"] == "train"]
    assert (row["idle"], row["coverage"]) == (False, 0.0)
    assert [warning for warning in report["warnings"] if "several clusters" in warning] == [
        "Prometheus has series of several clusters (label cluster), and pods of each may have the same names. Name one "
        f"of this cluster alone, or its prometheus_tenant. What these pods use counts as not known: default/{pod}"
    ]


def test_a_job_that_runs_for_a_short_time_is_not_idle(world: World) -> None:
    world.started("train", ago(minutes=40))
    row = world.job()
    assert row["idle"] is False
    assert row["reason"] == "runs for 40 min only, less than 60 min"
    (pod,) = [pod["metadata"]["name"] for pod in world.pods("train")]
    world.usage.hours[pod] = 0.5
    assert world.job(idle_for="30m")["idle"] is True


@pytest.mark.parametrize(
    "exempt",
    [
        {"exempt_names": ["tr*n"]},
        {"exempt_kinds": ["training"]},
        {"exempt_selectors": ["app=other", "app in (train)"]},
    ],
)
def test_exempt_jobs_are_left_alone(world: World, exempt: Row) -> None:
    world.warn(ago(hours=2))
    row = world.job(action="pause", **exempt)
    assert row["idle"] is False
    assert "exempt" in row["reason"]
    assert not world.of("Job", "train")["spec"].get("suspend")


def test_jobs_of_others_are_left_alone(world: World) -> None:
    world.change("Job", "train", lambda job: job["metadata"]["labels"].pop("app.kubernetes.io/managed-by"))
    assert [row["name"] for row in world.idle(action="pause")["results"]] == ["busy", "lab"]


def test_a_time_written_by_another_user_is_no_reason_to_pause(world: World) -> None:
    for text in ("yesterday", ago(hours=-5)):
        world.warn(text)
        assert world.job(action="pause")["action"] == "warn"
        assert not world.of("Job", "train")["spec"].get("suspend")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"idle_for": "1m"}, "too short"),
        ({"idle_for": "long"}, "not a duration"),
        ({"below": 5}, "is no ratio"),
        ({"grace": "x"}, "not a duration"),
        ({"exempt_names": ["A B"]}, "is no name of jobs"),
    ],
)
def test_options_that_cannot_be(options: Row, text: str) -> None:
    assert text in perform(MODULE, None, **options)["msg"]


# -- notebooks ---------------------------------------------------------------------------------------------------------


@dataclass
class Jupyter:
    """What the notebook server says."""

    last_activity: str = field(default_factory=lambda: ago(hours=5))
    connections: int = 0
    kernels: list[Row] = field(default_factory=lambda: [{"id": "a", "execution_state": "idle"}])
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if asked.parameters.get("token") != "notebook-t0ken":
            return Reply("Forbidden", 403)
        if asked.path != "/api/status" and "no_track_activity" not in asked.parameters:
            self.last_activity = ago()  # jupyter_server/base/handlers.py, update_api_activity
        if asked.path == "/api/kernels":
            return Reply(self.kernels)
        return Reply({"last_activity": self.last_activity, "connections": self.connections, "kernels": 1})


@pytest.fixture
def jupyter(world: World) -> Iterator[Jupyter]:
    world.usage.peaks["lab-0"] = 0.0
    found = Jupyter()
    with prometheus_double(found.answer) as server:
        world.cluster.programs["pods", "default", "lab-0", "8888"] = server.url
        yield found


def test_an_unused_notebook_is_idle(world: World, jupyter: Jupyter) -> None:
    row = world.job("lab")
    assert row["idle"] is True
    assert row["reason"].endswith("and the notebook has not been used for 5 h")
    assert {asked.path for asked in jupyter.asked} == {"/api/status", "/api/kernels"}
    assert world.job("lab")["idle"] is True, "asking it is no use of it"
    assert not any("Authorization" in asked.headers for asked in jupyter.asked)
    assert "notebook-t0ken" not in json.dumps(row)


def test_a_warning_from_before_a_notebook_was_used_does_not_count(world: World, jupyter: Jupyter) -> None:
    """It was used five hours ago, while no task looked."""
    world.started("lab", ago(hours=30))
    for warned, action in ((8, "warn"), (4, "pause")):
        note = {WARNED: ago(hours=warned)}
        world.change("StatefulSet", "lab", lambda lab, note=note: lab["metadata"]["annotations"].update(note))
        assert world.job("lab", action="pause", check=True)["action"] == action


def test_a_notebook_in_use_is_not_idle(world: World, jupyter: Jupyter) -> None:
    for change, reason in (
        ({"last_activity": ago(minutes=10)}, "the notebook was used 10 min ago"),
        ({"connections": 1}, "the notebook is open in a browser"),
        ({"kernels": [{"execution_state": "idle"}, {"execution_state": "busy"}]}, "a kernel of the notebook is busy"),
        ({"last_activity": "soon"}, "its notebook server cannot be asked: its answer is not that of Jupyter"),
        ({"kernels": {}}, "its notebook server cannot be asked: its answer is not that of Jupyter"),
    ):
        for name, value in {**vars(Jupyter()), **change}.items():
            setattr(jupyter, name, value)
        row = world.job("lab", action="pause")
        assert (row["idle"], row["reason"]) == (False, reason)


def test_a_notebook_that_does_not_answer_is_not_idle(world: World, jupyter: Jupyter) -> None:
    world.cluster.programs.clear()
    row = world.job("lab")
    assert row["idle"] is False
    assert row["reason"] == "its notebook server cannot be asked: the API server does not reach it (HTTP 503)"


def limit_notebooks(world: World, idle_for: str = "4h", below: str = "0.2") -> None:
    """By a policy of the cluster."""
    team = {"namespaces": ["default"], "notebooks": {"idle_for": idle_for, "below": below}}
    manifest = {"kind": "policy", "policy": {"name": "company", "contact": "admins"}, "teams": {"vision": team}}
    config_map = policy_config_map(rules_of(load_policy(definition=manifest)))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": config_map["metadata"]["namespace"]}}
    world.cluster.load([namespace, config_map])


def test_a_policy_says_when_notebooks_are_idle(world: World, jupyter: Jupyter) -> None:
    limit_notebooks(world)
    row = world.job("lab")
    assert (row["idle"], row["reason"]) == (False, "runs for 3 h only, less than 4 h")
    assert (row["idle_for"], row["below"], row["set_by"]) == ("4 h", 0.2, "policy company (admins)")
    assert world.job("train")["set_by"] is None
    assert world.job("train")["idle"] is True

    world.started("lab", ago(hours=5))
    world.usage.hours["lab-0"], world.usage.peaks["lab-0"] = 4.0, 0.1
    assert world.job("lab", action="annotate")["idle"] is True
    (message,) = [event["message"] for event in world.events() if event["involvedObject"]["name"] == "lab"]
    assert "The limit of policy company (admins) is 4 h." in message


def test_options_come_before_policies(world: World, jupyter: Jupyter) -> None:
    limit_notebooks(world)
    row = world.job("lab", idle_for="1h", below=0.05)
    assert (row["idle"], row["idle_for"], row["below"], row["set_by"]) == (True, "60 min", 0.05, None)
    partly = world.job("lab", idle_for="1h")
    assert (partly["idle_for"], partly["below"], partly["set_by"]) == ("60 min", 0.2, "policy company (admins)")


def test_the_event_source_reports_what_is_idle_once(world: World) -> None:
    """And again after it was busy."""
    with EventWatcher(
        host=world.cluster.url,
        api_key=world.cluster.token,
        prometheus_url=world.server.url,
        types=["gpu.idle"],
    ) as watcher:
        found = watcher.one("gpu.idle")
    assert {name: found[name] for name in ("job", "namespace", "utilization", "idle_for", "devices", "status")} == {
        "job": "train",
        "namespace": "default",
        "utilization": 0.01,
        "idle_for": 3600,
        "devices": 1,
        "status": "Running",
    }
    assert found["reason"] == "at most 1 % utilization in the last 60 min"
    assert watcher.seen() == ["gpu.idle"]


# -- budgets of GPU-hours ----------------------------------------------------------------------------------------------


def month_end(now: datetime) -> datetime:
    return (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=31)).replace(day=1)


def budget(world: World, then: str = "stop_idle", *, limit: int = 1, namespace: str = "default") -> None:
    """A quota with a budget of this month, as gpuctl_quota declares and gpuctl_budget counts it."""
    users = {namespace: {"gpu": 4, "gpu_hours": {"limit": limit, "then": then}}}
    quota = {"kind": "quota", "quota": {"name": "team"}, "users": users}
    assert "failed" not in perform(QUOTA, world.cluster, definition=quota)
    assert "failed" not in perform(BUDGET, world.cluster, all_namespaces=True)


@pytest.fixture
def used(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """In the namespaces default and other, a million GPUs have run since the month began."""
    monkeypatch.setattr(live_quotas, "_COUNTING", 0.0)  # There is no controller that counts.
    now = count_budgets.datetime.now(timezone.utc)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()
    hold = Hold("gone", "gone", start, start, now.timestamp(), {"nvidia.com/gpu": 1_000_000})
    params = {"host": world.cluster.url, "validate_certs": False, "api_key": world.cluster.token}
    client = Client(resolve_connection(params, {}))
    world.cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}])
    for namespace in ("default", "other"):
        write_history(client, namespace, {"run-gone.job": json.dumps({"name": "gone", "kind": "training"})})
        write_history(client, namespace, pod_keys("run-gone", hold))
    return world


def account_without_quotas() -> list[Row]:
    """A service account that may do what gpuctl_idle does, and not list ResourceQuotas."""
    group, core = "rbac.authorization.k8s.io", ["configmaps", "events", "namespaces", "pods", "services"]
    rules = [{"apiGroups": [""], "resources": core, "verbs": ["*"]}]
    rules += [{"apiGroups": [each], "resources": ["*"], "verbs": ["*"]} for each in ("batch", "apps", "autoscaling")]
    subject = {"kind": "ServiceAccount", "name": "idle", "namespace": "default"}
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "idle"}}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "idle"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "idle", "namespace": "default"}},
        {**role, "rules": rules},
        {**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


def quota_lists(world: World) -> int:
    return sum(entry.resource == "resourcequotas" for entry in world.cluster.requests)


def test_idle_jobs_are_paused_once_the_budget_is_used_up(used: World, jupyter: Jupyter) -> None:
    """By action=annotate, which warns only elsewhere: the first run warns, a later one pauses after the grace."""
    until = month_end(datetime.now(timezone.utc))
    budget(used)
    text = f"and the GPU-hours of the namespace are used up until {until:%Y-%m-%d} 00:00 UTC"
    report = {row["name"]: row for row in used.idle()["results"]}
    assert {name: row["used_up_until"] for name, row in report.items()} == {
        "train": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        "lab": f"{until:%Y-%m-%dT%H:%M:%SZ}",
        "busy": None,
    }
    assert report["train"]["reason"] == f"at most 1 % utilization in the last 60 min, {text}"
    assert used.warned_at() is None

    assert used.idle(action="annotate", check=True)["changed"]
    assert used.warned_at() is None
    assert used.idle(action="annotate")["msg"] == "2 idle jobs with 2 accelerators, 2 warned of"
    for event in used.events():
        assert text in event["message"]
        assert "It may be paused in 60 min." in event["message"]
    warned = used.warned_at() or ""
    assert used.job(action="annotate")["warned_at"] == warned.split()[0]
    used.cluster.requests.reset()
    assert used.idle(action="annotate")["changed"] is False
    assert used.cluster.requests.writes() == []

    earlier = f"{ago(hours=2)} {warned.split()[1]}"
    used.warn(earlier)
    used.change("StatefulSet", "lab", lambda lab: lab["metadata"]["annotations"].update({WARNED: earlier}))
    assert used.idle(check=True, action="annotate")["msg"] == "2 idle jobs with 2 accelerators, 2 paused"
    assert not used.of("Job", "train")["spec"].get("suspend")
    assert used.idle(action="report")["changed"] is False
    assert used.idle(action="annotate")["msg"] == "2 idle jobs with 2 accelerators, 2 paused"
    assert used.of("Job", "train")["spec"]["suspend"] is True
    assert used.of("StatefulSet", "lab")["spec"]["replicas"] == 0
    assert not used.of("Job", "busy")["spec"].get("suspend")
    paused = [event["message"] for event in used.events() if event["reason"] == "IdlePaused"]
    assert [text in message for message in paused] == [True, True]
    assert used.idle(action="annotate")["changed"] is False


def test_who_was_only_told_of_being_idle_is_warned_before_a_pause(used: World) -> None:
    """The warning was of days before the budget was used up. So is one of another period."""
    budget(used)
    for warning in (ago(hours=2), f"{ago(hours=2)} 2020-01-01T00:00:00Z", f"{ago(hours=2)} x y", "x"):
        used.warn(warning)
        assert used.job(action="annotate")["action"] == "warn"
        assert (used.warned_at() or "") > ago(hours=1)
        assert not used.of("Job", "train")["spec"].get("suspend")
    used.warn(ago(hours=2))  # With action=pause, it said that the job may be paused.
    assert used.job(action="pause", check=True)["action"] == "pause"


@pytest.mark.parametrize("then", ["refuse", "low_priority"])
def test_other_budgets_stop_nothing(used: World, then: str) -> None:
    budget(used, then)
    used.warn(ago(hours=2))
    row = used.job(action="annotate")
    assert (row["action"], row["used_up_until"], row["idle"]) == ("none", None, True)


def test_a_budget_that_is_not_used_up_stops_nothing(used: World) -> None:
    budget(used)
    budget(used, limit=2**31 - 1)  # It was raised.
    used.warn(f"{ago(hours=2)} {month_end(datetime.now(timezone.utc)):%Y-%m-%dT%H:%M:%SZ}")
    assert used.job(action="annotate")["action"] == "none"


def test_the_next_period_stops_nothing(used: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether gpuctl_budget has run since or not."""

    class Earlier(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(days=32)

    budget(used)
    live = used.cluster.call(lambda: used.cluster.registry.list("ResourceQuota", "default"))
    (own,) = [obj for obj in live if obj["metadata"]["name"].startswith("gpuctl-")]
    first = month_end(Earlier.now(timezone.utc))
    used.cluster.call(lambda: used.cluster.registry.delete("ResourceQuota", "default", own["metadata"]["name"]))
    name = f"gpuctl-gpu-hours-until-{first:%Y-%m-%d}"
    used.cluster.load([{**own, "metadata": {**own["metadata"], "name": name, "resourceVersion": None, "uid": None}}])
    assert used.job()["used_up_until"] is None
    monkeypatch.setattr(count_budgets, "datetime", Earlier)
    budget(used)
    assert used.job()["used_up_until"] is None


def test_the_budget_of_another_namespace_stops_nothing(used: World) -> None:
    budget(used, namespace="other")
    row = used.job(action="annotate")
    assert (row["action"], row["used_up_until"]) == ("warn", None)
    assert "Delete or pause it" in used.events()[0]["message"]


MALFORMED = (
    "",
    "[]",
    "[" * 900,
    '{"limit": 1, "per": "month", "then": ["stop_idle"], "warn_at": "80%"}',
    '{"limit": -1, "per": "month", "then": "stop_idle", "warn_at": "80%"}',
    '{"used": NaN, "at": "2026-01-01T00:00:00Z"}',
    '{"used": -1, "at": "2026-01-01T00:00:00Z"}',
    '{"used": "9999", "at": "2026-01-01T00:00:00Z"}',
)


@pytest.mark.parametrize("prefix", ["team-", "gpuctl-"], ids=["declared", "counted"])
def test_a_malformed_budget_stops_nothing(used: World, prefix: str) -> None:
    budget(used)
    names = [obj["metadata"]["name"] for obj in used.cluster.call(lambda: used.cluster.registry.list("ResourceQuota"))]
    (name,) = [name for name in names if name.startswith(prefix)]
    assert used.job()["used_up_until"]
    for text in MALFORMED:
        annotations = {"runwhere.ai/gpu-hours": text}
        used.change("ResourceQuota", name, lambda obj, new=annotations: obj["metadata"].update(annotations=new))
        assert used.job()["used_up_until"] is None, text


@pytest.mark.parametrize("exempt", [{"exempt_names": ["tr*n"]}, {"exempt_selectors": ["app in (train)"]}])
def test_exempt_jobs_go_on_whatever_is_used_up(used: World, exempt: Row) -> None:
    budget(used)
    used.warn(ago(hours=2))
    row = used.job(action="annotate", **exempt)
    assert (row["idle"], row["used_up_until"]) == (False, None)


def test_what_is_not_known_counts_as_use_whatever_is_used_up(used: World) -> None:
    budget(used)
    used.usage.hours.clear()
    assert used.job(action="annotate").items() >= {"idle": False, "action": "none", "used_up_until": None}.items()


def test_a_policy_on_stuck_trainings_comes_before_a_budget(used: World) -> None:
    budget(used)
    used.warn(ago(hours=2))
    policies = {"all": {"stuck": {"after": "1h", "action": "notify"}}}
    row = used.job(action="annotate", policies=policies)
    assert (row["idle"], row["action"], row["used_up_until"]) == (True, "none", None)


def test_a_prometheus_that_is_not_named_decides_nothing(used: World) -> None:
    """What is found in the cluster may be anybody's."""
    budget(used)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "prometheus-operated", "namespace": "monitoring"},
        "spec": {"ports": [{"name": "web", "port": 9090}]},
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}
    used.cluster.load([namespace, service])
    used.cluster.programs["services", "monitoring", "prometheus-operated", "9090"] = used.server.url
    until = f"{month_end(datetime.now(timezone.utc)):%Y-%m-%dT%H:%M:%SZ}"
    used.warn(f"{ago(hours=2)} {until}")
    found = perform(MODULE, used.cluster, action="annotate")
    assert "failed" not in found, found["msg"]
    (row,) = [row for row in found["results"] if row["name"] == "train"]
    assert (row["idle"], row["action"], row["used_up_until"]) == (True, "none", None)
    assert any("no Prometheus is named" in warning for warning in found["warnings"])
    assert perform(MODULE, used.cluster)["results"][0]["used_up_until"] == until


def test_without_permission_to_read_budgets_nothing_is_stopped(used: World) -> None:
    budget(used)
    used.cluster.load(account_without_quotas())
    token = used.cluster.service_account_token("default", "idle")
    used.warn(f"{ago(hours=2)} {month_end(datetime.now(timezone.utc)):%Y-%m-%dT%H:%M:%SZ}")
    found = used.idle(action="annotate", api_key=token)
    assert not any(row["used_up_until"] or row["action"] != "none" for row in found["results"])
    warning = "the account has no permission to list ResourceQuotas"
    assert any(warning in each for each in found["warnings"])
    found = used.idle(action="pause", check=True, api_key=token)  # pauses whatever budgets say
    assert "failed" not in found, found["msg"]
    assert found["results"][0]["action"] == "pause"
    assert not any(warning in each for each in found["warnings"])


def test_budgets_are_read_once_and_only_where_a_job_is_idle(used: World) -> None:
    budget(used)

    def requests_of(**options: Any) -> tuple[int, int]:
        used.cluster.requests.reset()
        assert "failed" not in used.idle(all_namespaces=True, **options)
        return quota_lists(used), len(list(used.cluster.requests))

    few = requests_of()
    assert few[0] == 1
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "9"}}}
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/quota": "many"}
    for n in range(60):
        metadata = {"name": "many", "namespace": f"team-{n}"}
        used.cluster.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"team-{n}"}}])
        used.cluster.load([{**quota, "metadata": {**metadata, "labels": labels}}])
    assert requests_of() == few
    used.usage.peaks = dict.fromkeys(used.usage.peaks, 0.9)
    assert requests_of()[0] == 0


@pytest.mark.parametrize("level", ["read", "submit"])
def test_a_tenant_writes_no_budget(used: World, level: str) -> None:
    budget(used, namespace="other")
    account = perform(RBAC, used.cluster, name="mallory", level=level, namespaces=["default"])
    assert "failed" not in account, account
    token = used.cluster.service_account_token("gpuctl-system", "mallory")
    quota = {"kind": "quota", "quota": {"name": "team"}, "users": {"default": {"gpu_hours": {"limit": 1}}}}
    forged = perform(QUOTA, used.cluster, definition=quota, api_key=token)
    assert "forbidden" in forged["msg"]
    params = {"host": used.cluster.url, "validate_certs": False, "api_key": token}
    client = Client(resolve_connection(params, {}))
    name = "gpuctl-gpu-hours-until-2099-01-01"
    own = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name, "namespace": "default"}}
    with pytest.raises(ApiError, match="forbidden"):
        client.create(own)


# -- what it gave back, in the accounts of gpuctl_usage_info -----------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[datetime]:
    """The time of the accounts, ``ahead`` of that of the cluster."""

    class Later(datetime):
        ahead = timedelta()

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + cls.ahead

    monkeypatch.setattr(usage_info, "datetime", Later)
    return Later


def accounts(world: World, clock: Any, hours: float, **options: Any) -> Row:
    clock.ahead = timedelta(hours=hours)
    options = {"range": "7d", **options}
    found = perform(USAGE, world.cluster, all_namespaces=True, **options)
    assert not found.get("failed"), found["msg"]
    return found


def figures(row: Row) -> tuple[int, float]:
    return row["gpus_reclaimed"], round(row["reclaimed_hours"], 1)


def gone(world: World, name: str) -> None:
    """The kubelet has ended the pods, and the controller of Jobs has seen that."""
    for pod in world.pods(name):
        world.change("Pod", pod["metadata"]["name"], lambda found: found["metadata"].pop("finalizers", None))
        remove = partial(world.cluster.registry.delete, "Pod", "default", pod["metadata"]["name"], grace_seconds=0)
        world.cluster.call(remove)


def pause_idle_notebook(world: World) -> None:
    note = {WARNED: ago(hours=2)}
    world.change("StatefulSet", "lab", lambda lab: lab["metadata"]["annotations"].update(note))
    found = world.idle(action="pause")
    assert {row["name"]: row["action"] for row in found["results"]}["lab"] == "pause", found
    assert world.of("StatefulSet", "lab")["spec"]["replicas"] == 0


def resumed(world: World, pod: Row, name: str) -> None:
    done = perform(JOB, world.cluster, name=name, namespace="default", state="resumed")
    assert done["changed"], done
    pod = deepcopy(pod)
    now = ago(seconds=-2)
    pod["metadata"] = {**pod["metadata"], "uid": "pod-again", "creationTimestamp": now}
    for condition in pod["status"]["conditions"]:
        condition["lastTransitionTime"] = now
    world.cluster.load([pod])


def test_an_idle_notebook_gives_back_its_gpu_until_it_is_resumed(
    world: World,
    jupyter: Jupyter,
    clock: Any,
) -> None:
    (pod,) = world.pods("lab")
    assert figures(accounts(world, clock, 0.1)["totals"]) == (0, 0.0)
    pause_idle_notebook(world)
    assert figures(accounts(world, clock, 10)["totals"]) == (1, 0.0)  # Its pod is still there.
    gone(world, "lab")
    for group in ("team", "user", "job"):
        found = accounts(world, clock, 60, group_by=[group])
        assert figures(found["totals"]) == (1, 60.0)
        rows = [row for row in found["results"] if row["gpus_reclaimed"]]
        assert [figures(row) for row in rows] == [(1, 60.0)]
    assert rows[0]["job"] == "default/lab"
    assert rows[0]["held_hours"] < 0.1

    # A part of the range, and after it has been recorded again.
    assert not perform(HISTORY, world.cluster, all_namespaces=True).get("failed")
    assert figures(accounts(world, clock, 60, range="10h")["totals"]) == (0, 10.0)
    assert figures(accounts(world, clock, 60, range="10h", namespaces=["default"])["totals"]) == (0, 10.0)

    resumed(world, pod, "lab")
    gpus, hours = figures(accounts(world, clock, 60)["totals"])
    assert (gpus, hours) == (1, 0.0)
    assert not perform(HISTORY, world.cluster, all_namespaces=True).get("failed")
    gone(world, "lab")
    assert figures(accounts(world, clock, 60)["totals"]) == (1, 0.0)


def test_one_that_is_deleted_while_it_is_paused_gives_back_no_more(
    world: World,
    jupyter: Jupyter,
    clock: Any,
) -> None:
    pause_idle_notebook(world)
    gone(world, "lab")
    assert figures(accounts(world, clock, 5)["totals"]) == (1, 5.0)
    assert perform(JOB, world.cluster, name="lab", namespace="default", state="absent")["changed"]
    assert figures(accounts(world, clock, 60)["totals"]) == (1, 0.0)


def test_what_a_person_pauses_is_not_counted(world: World, clock: Any) -> None:
    world.warn(ago(hours=2))
    assert perform(JOB, world.cluster, name="train", namespace="default", state="paused")["changed"]
    gone(world, "train")
    assert world.idle(action="pause")["changed"] is False
    assert figures(accounts(world, clock, 60)["totals"]) == (0, 0.0)


def test_a_prediction_records_nothing_and_a_record_that_fails_is_a_warning(
    world: World,
    clock: Any,
) -> None:
    world.warn(ago(hours=2))
    world.cluster.requests.reset()
    assert world.idle(action="pause", check=True)["changed"]
    assert world.cluster.requests.writes() == []
    world.cluster.faults.add(Fault("error", verb="patch", path="*/configmaps/*", count=None))
    world.cluster.faults.add(Fault("error", verb="create", path="*/configmaps*", count=None))
    found = world.idle(action="pause")
    assert not found.get("failed")
    assert any("does not have what was given back" in warning for warning in found["warnings"]), found["warnings"]
    assert world.of("Job", "train")["spec"]["suspend"] is True
    assert figures(accounts(world, clock, 60)["totals"]) == (0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"created": "x"}',
        '{"created": 1e999, "holds": {}}',
        '{"created": -1, "holds": {"nvidia.com/gpu": 1}}',
    ],
    ids=["empty", "list", "text", "infinite", "negative"],
)
def test_what_a_tenant_writes_into_its_history_is_read_or_left_out(world: World, clock: Any, text: str) -> None:
    world.warn(ago(hours=2))
    world.idle(action="pause")
    gone(world, "train")
    uid = world.of("Job", "train")["metadata"]["uid"]
    params = {"host": world.cluster.url, "validate_certs": False, "api_key": world.cluster.token}
    client = Client(resolve_connection(params, {}))
    path = {"name": "gpuctl-history", "namespace": "default"}
    later = int((datetime.now(timezone.utc) + timedelta(hours=20)).timestamp())
    again = json.dumps({"name": "train", "created": later, "start": later, "holds": {"nvidia.com/gpu": 1}})
    data = {f"{uid}.back.bad": text, f"{uid}.back.{later}": again}
    client.merge_patch(CONFIG_MAP, path, {"data": data})
    assert figures(accounts(world, clock, 60)["totals"]) == (2, 60.0)  # No hour twice.
