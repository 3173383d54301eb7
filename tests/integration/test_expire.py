# SPDX-License-Identifier: BSD-2-Clause
"""Time limits of notebooks and services: gpuctl_expire warns and pauses, gpuctl_extend gives more time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.change_jobs import change_jobs
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.fit_info import MODULE as FIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_info import MODULE as JOB_INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits import expire
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.expire import MODULE as EXPIRE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.extend import MODULE as EXTEND
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.pool import MODULE as POOL
from kubesim import LAB_USER_TOKEN, Cluster, Fault

from .manifests import compute, inference, notebook, training
from .tasks import perform

Row = dict[str, Any]
LIMIT, EXTENDED = "runwhere.ai/time-limit", "runwhere.ai/time-limit-extended"
RESUMED, WARNED, EXPIRED = "runwhere.ai/resumed-at", "runwhere.ai/end-warned-at", "runwhere.ai/expired-at"
POOLED: Row = {"kind": "pool", "pool": {"name": "a"}, "nodes": ["node-1"]}
IN_POOL = {"pool": "a", "gpu": 1, "cpu": 1, "memory": "1Gi"}


def ago(**time: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def limited(make: Callable[..., Row], name: str, limit: str | None = None, **blocks: Row) -> Row:
    return make(name, job={"name": name, **({"time_limit": limit} if limit else {})}, **blocks)


JOBS = [
    limited(notebook, "lab", "8h", resources=IN_POOL),
    limited(inference, "serve", "1d", resources=IN_POOL),
    limited(compute, "web", resources={**IN_POOL, "gpu": 0}),
    limited(training, "train", "12h", resources=IN_POOL),
]
KIND = {"lab": "StatefulSet", "serve": "Deployment", "web": "Deployment", "train": "Job"}


@dataclass
class World:
    """A cluster with a job of each kind, of which the notebook and the service have a time limit."""

    cluster: Cluster

    def expire(self, **options: Any) -> Row:
        return perform(EXPIRE, self.cluster, **options)

    def extend(self, name: str, **options: Any) -> Row:
        return perform(EXTEND, self.cluster, name=name, **options)

    def job(self, **options: Any) -> Row:
        return perform(JOB, self.cluster, **options)

    def row(self, name: str = "lab", **options: Any) -> Row:
        (row,) = [row for row in self.expire(**options)["results"] if row["name"] == name]
        return row

    def shown(self, name: str = "lab") -> Row:
        (row,) = perform(JOB_INFO, self.cluster, name=name, details=True)["results"]
        return row

    def of(self, name: str) -> Row:
        found: Row = self.cluster.call(lambda: self.cluster.registry.get(KIND[name], "default", name))
        return found

    def notes(self, name: str = "lab") -> dict[str, str]:
        return self.of(name)["metadata"].get("annotations") or {}

    def change(self, name: str, change: Callable[[Row], object]) -> None:
        def changed(obj: Row) -> Row:
            change(obj)
            return obj

        self.cluster.call(lambda: self.cluster.registry.modify(KIND[name], "default", name, changed))

    def note(self, key: str, value: str | None, name: str = "lab") -> None:
        def change(obj: Row) -> None:
            notes = obj["metadata"].setdefault("annotations", {})
            notes.pop(key, None)
            notes.update({} if value is None else {key: value})

        self.change(name, change)

    def created(self, time: str, name: str = "lab") -> None:
        """The creation is immutable, so the object is loaded as it would be."""
        obj = deepcopy(self.of(name))
        obj["metadata"]["creationTimestamp"] = time
        self.cluster.load([obj])

    def pod_of(self, name: str) -> str:
        found = self.cluster.call(lambda: self.cluster.registry.list("Pod", "default"))
        return next(pod["metadata"]["name"] for pod in found if pod["metadata"]["labels"].get("app") == name)

    def events(self) -> list[Row]:
        found: list[Row] = self.cluster.call(lambda: self.cluster.registry.list("Event", "default"))
        return [event for event in found if event["reason"].startswith("TimeLimit")]


@pytest.fixture(scope="module")
def objects() -> list[Row]:
    """The jobs, running."""
    with Cluster(nodes=1).running() as cluster:
        assert perform(POOL, cluster, definition=POOLED)["changed"]
        done = perform(JOB, cluster, definition=JOBS, wait=True, wait_timeout=60)
        assert not done.get("failed"), done["msg"]
        kinds = "Node PriorityClass Namespace ConfigMap Job Deployment StatefulSet Service Pod"
        return [obj for kind in kinds.split() for obj in cluster.call(partial(cluster.registry.list, kind))]


@pytest.fixture
def world(objects: list[Row]) -> Iterator[World]:
    """Without controllers, so that what the test writes stays."""
    with Cluster(nodes=1, controllers=False).running() as cluster:
        cluster.load(deepcopy(objects))
        yield World(cluster)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_what_has_time_left_stays_as_it_is(world: World) -> None:
    world.created(ago(hours=7))
    found = world.expire()
    assert [(row["name"], row["limit"], row["action"]) for row in found["results"]] == [
        ("lab", "8h", "none"),
        ("serve", "1d", "none"),
    ]
    assert found["msg"] == "2 jobs with a time limit"
    assert not found["changed"]
    (end,) = [row["ends_at"] for row in found["results"] if row["name"] == "lab"]
    assert found["results"][0]["reason"] == f"ends at {end}, at its time limit of 8h"
    assert world.shown()["ends_at"] == end
    assert world.shown()["time_left"] in ("59m", "60m")
    assert world.shown("web")["ends_at"] is None


def test_a_job_is_warned_of_and_paused_at_its_end(world: World) -> None:
    world.created(ago(hours=7, minutes=45))
    predicted = world.expire(check=True)
    assert predicted["changed"]
    assert (WARNED in world.notes(), world.events()) == (False, [])
    first = world.expire()
    assert first["msg"] == "2 jobs with a time limit, 1 warned of"
    warned = world.notes()[WARNED]
    (event,) = world.events()
    assert event["reason"] == "TimeLimitNear"
    assert "at its time limit of 8h. It is paused then. For more time: ansible-playbook" in event["message"]
    assert not world.expire()["changed"]
    assert world.notes()[WARNED] == warned

    world.created(ago(hours=8, minutes=1))
    world.note(WARNED, ago(minutes=31))
    assert world.row(check=True)["action"] == "pause"
    assert world.of("lab")["spec"]["replicas"] == 1
    ended = world.expire()
    assert ended["msg"] == "2 jobs with a time limit, 1 paused"
    assert ended["results"][0]["reason"].startswith("reached its time limit of 8h at 20")
    assert world.of("lab")["spec"]["replicas"] == 0
    assert {event["reason"] for event in world.events()} == {"TimeLimitNear", "TimeLimitReached"}
    shown = world.shown()
    assert (shown["status"], shown["ends_at"]) == ("Paused", None)
    assert shown["reason"].startswith("the job reached its time limit and was paused at 20")
    assert shown["reason"].endswith("To let it run for as long again, resume it with state=resumed.")
    assert world.expire()["msg"] == "1 job with a time limit"

    resumed = world.job(name="lab", state="resumed")
    assert resumed["changed"]
    assert world.of("lab")["spec"]["replicas"] == 1
    assert not {WARNED, EXPIRED} & world.notes().keys()
    assert world.row()["action"] == "none"  # All of its time again.
    assert world.shown()["time_left"] in ("7h", "8h")


def test_no_job_is_paused_without_a_warning_that_came_in_time(world: World) -> None:
    """Whatever the schedule: not where it was interrupted, and not where a pool has a limit since today."""
    world.created(ago(days=3))
    assert world.row()["action"] == "warn"
    row = world.row()
    assert (row["action"], row["warned_at"] is None) == ("none", False)
    left = datetime.fromisoformat(row["ends_at"].replace("Z", "+00:00")) - datetime.now(timezone.utc)
    assert timedelta(minutes=29) < left <= timedelta(minutes=30)
    assert world.row(warn_before="0")["action"] == "pause"
    assert world.of("lab")["spec"]["replicas"] == 0


def test_restarts_and_other_submits_do_not_start_the_time_again(world: World) -> None:
    world.created(ago(hours=5))
    end = world.row()["ends_at"]
    assert not world.job(definition=JOBS[0])["changed"]
    assert world.job(name="lab", state="restarted")["changed"]
    changed = {**JOBS[0], "environment": {**JOBS[0]["environment"], "command": ["jupyter", "lab"]}}
    assert world.job(definition=changed)["changed"]
    assert world.row()["ends_at"] == end
    assert world.job(name="lab", state="resumed")["changed"] is False  # It runs.
    assert world.row()["ends_at"] == end


def test_a_limit_that_has_passed_already_is_refused(world: World) -> None:
    world.created(ago(hours=5))
    shorter = {**JOBS[0], "job": {"name": "lab", "time_limit": "4h"}}
    refused = world.job(definition=shorter)
    assert f"job.time_limit: the notebook has run since {world.row()['since']}, and a limit of 4h" in refused["msg"]
    assert "To give it a new start, pause and resume it first." in refused["msg"]
    longer = {**JOBS[0], "job": {"name": "lab", "time_limit": "6h"}}
    assert [each["action"] for each in world.job(definition=longer)["results"]] == ["update"]
    assert world.row()["limit"] == "6h"
    assert not world.job(definition=longer)["changed"]


# -- pools -------------------------------------------------------------------------------------------------------------


def test_a_pool_limits_notebooks_and_services_only_if_it_says_so(world: World) -> None:
    world.created(ago(hours=5))
    world.created(ago(days=4), "web")
    perform(POOL, world.cluster, definition={**POOLED, "time_limit": {"default": "1h", "max": "2h"}})
    assert [row["name"] for row in world.expire()["results"]] == ["lab", "serve"]
    limits = {"notebook_max": "6h", "service_default": "3d"}
    perform(POOL, world.cluster, definition={**POOLED, "time_limit": limits})
    rows = {row["name"]: row for row in world.expire(check=True)["results"]}
    assert rows["lab"]["limit"] == "6h (pool a)"
    assert rows["serve"]["limit"] == "1d"
    assert (rows["web"]["limit"], rows["web"]["action"]) == ("3d (pool a)", "warn")
    refused = world.job(definition=JOBS[0])
    assert "job.time_limit: pool a allows at most 6h: 8h. Use a shorter one, and resume the job" in refused["msg"]
    assert world.job(definition=JOBS[2])["results"][0]["action"] == "update"  # The default of the pool is recorded.
    assert world.notes("web")[LIMIT] == "3d"
    assert not world.job(definition=JOBS[2])["changed"]


def test_a_default_beyond_the_maximum_is_refused(world: World) -> None:
    limits = {"notebook_default": "2d", "notebook_max": "1d"}
    refused = perform(POOL, world.cluster, definition={**POOLED, "time_limit": limits})
    assert "time_limit.notebook_default: notebook_default is longer than notebook_max: 2d > 1d" in refused["msg"]


# -- what tenants write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "forever", "9" * 40, "-1h", "0", "400d", "8h\x1b[2J", "8 h"])
def test_a_limit_that_is_none_does_not_count_and_the_pools_does(world: World, text: str) -> None:
    world.created(ago(days=2))
    world.note(LIMIT, text)
    row = world.row()
    assert (row["limit"], row["ends_at"], row["action"]) == (None, None, "none")
    assert "is no time limit" in row["reason"]
    perform(POOL, world.cluster, definition={**POOLED, "time_limit": {"notebook_max": "1d"}})
    assert (world.row()["limit"], world.shown()["ends_at"]) == ("1d (pool a)", None)


@pytest.mark.parametrize("text", ["soon", "", "in two hours", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
@pytest.mark.parametrize("note", [RESUMED, WARNED])
def test_a_time_that_is_none_or_in_the_future_does_not_count(world: World, note: str, text: str) -> None:
    world.created(ago(hours=9))
    world.note(WARNED, ago(hours=1))
    world.note(note, ago(hours=-2) if text == "in two hours" else text)
    found = world.row()
    assert found["since"] == world.of("lab")["metadata"]["creationTimestamp"]
    assert found["action"] == ("warn" if note == WARNED else "pause")


def test_the_clock_of_who_resumes_a_job_may_be_fast_by_minutes(world: World) -> None:
    world.created(ago(hours=9))
    world.note(RESUMED, ago(minutes=-4))
    assert world.row()["action"] == "none"


def test_jobs_of_others_are_left_alone(world: World) -> None:
    for change in (
        lambda obj: obj["metadata"]["labels"].pop("app.kubernetes.io/managed-by"),
        lambda obj: obj["metadata"]["labels"].update({"app": "other"}),
        lambda obj: obj["metadata"]["labels"].update({"runwhere.ai/job-type": "training"}),
    ):
        former = deepcopy(world.of("lab"))
        world.created(ago(days=9))
        world.change("lab", change)
        assert [row["name"] for row in world.expire(warn_before="0")["results"]] == ["serve"]
        assert world.of("lab")["spec"]["replicas"] == 1
        world.cluster.load([former])


def test_what_has_our_labels_in_a_namespace_of_the_system_is_not_ours(world: World) -> None:
    lab = deepcopy(world.of("lab"))
    lab["metadata"] |= {"namespace": "kube-system", "uid": "other", "creationTimestamp": ago(days=9)}
    world.cluster.load([lab])
    found = world.expire(all_namespaces=True, warn_before="0")["results"]
    assert {row["namespace"] for row in found} == {"default"}


# -- other writers, and what fails -------------------------------------------------------------------------------------


def test_a_job_that_cannot_be_written_keeps_no_other_from_its_end(world: World) -> None:
    for name in ("lab", "serve"):
        world.created(ago(days=9), name)
        world.note(WARNED, ago(hours=1), name)
    fault = Fault("error", verb="patch", path="*/statefulsets/lab", count=None)
    world.cluster.call(lambda: world.cluster.faults.add(fault))
    failed = world.expire()
    assert failed["failed"]
    assert failed["msg"].startswith("notebook lab in namespace default: Internal error occurred")
    errors = {row["name"]: row["error"] for row in failed["results"]}
    assert errors["serve"] is None
    assert "Internal error occurred" in errors["lab"]
    assert failed["changed"]
    assert world.of("serve")["spec"]["replicas"] == 0
    assert world.of("lab")["spec"]["replicas"] == 1
    world.cluster.call(lambda: world.cluster.faults.active.clear())
    assert world.expire()["msg"] == "1 job with a time limit, 1 paused"


def test_a_label_takes_no_job_out_of_its_pool(world: World) -> None:
    """The maximum is that of the pool whose nodes its pods run on."""
    perform(POOL, world.cluster, definition={**POOLED, "time_limit": {"notebook_max": "6h"}})
    assert world.row()["limit"] == "6h (pool a)"
    world.change("lab", lambda obj: obj["metadata"]["labels"].update({"runwhere.ai/pool": "elsewhere"}))
    assert world.row()["limit"] == "6h (pool a)"


def test_what_is_extended_meanwhile_is_not_paused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the list and the write, which names the version of what is read again."""
    world.created(ago(hours=9))
    world.note(WARNED, ago(hours=1))

    def change_later(*arguments: Any, **options: Any) -> Any:
        world.note(EXTENDED, str(12 * 3600))
        return change_jobs(*arguments, **options)

    monkeypatch.setattr(expire, "change_jobs", change_later)
    found = world.expire()
    row = found["results"][0]
    assert (found["changed"], row["action"], row["error"]) == (False, "none", None)
    assert row["reason"].endswith(", and was changed meanwhile")
    assert world.of("lab")["spec"]["replicas"] == 1
    assert EXPIRED not in world.notes()


def test_two_runs_at_once_pause_once(world: World) -> None:
    for name in ("lab", "serve"):
        world.created(ago(days=9), name)
        world.note(WARNED, ago(hours=1), name)
    world.cluster.requests.reset()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _number: world.expire(), range(2)))
    assert not any(each.get("failed") for each in found), found
    assert [row["error"] for each in found for row in each["results"]] == [None] * sum(
        len(each["results"]) for each in found
    )
    assert {world.of(name)["spec"]["replicas"] for name in ("lab", "serve")} == {0}
    assert {world.notes(name)["runwhere.ai/paused-replicas"] for name in ("lab", "serve")} == {"1"}


def test_an_account_that_may_only_read_is_told_once_what_it_lacks(world: World) -> None:
    for number in range(5):
        lab = deepcopy(world.of("lab"))
        lab["metadata"] |= {"name": f"lab-{number}", "uid": f"uid-{number}", "creationTimestamp": ago(days=9)}
        lab["metadata"]["labels"] = {**lab["metadata"]["labels"], "app": f"lab-{number}"}
        world.cluster.load([lab])
    world.cluster.load(reader())
    token = world.cluster.service_account_token("default", "reader")
    failed = world.expire(api_key=token, warn_before="0")
    assert failed["failed"]
    assert "The level submit of gpuctl_rbac has it" in failed["msg"]
    assert failed["msg"].endswith("The same for 4 more.")
    assert len(failed["msg"].splitlines()) == 1
    assert {row["error"] is None for row in failed["results"] if row["action"] == "pause"} == {False}


def reader() -> list[Row]:
    """A service account that may read everything."""
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "reads"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}},
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": {"name": "reads"}, "rules": [rule]},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "reads"},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def test_an_account_of_one_namespace_has_to_name_it(world: World) -> None:
    found = world.expire(api_key=LAB_USER_TOKEN, all_namespaces=True)
    assert found["failed"]
    assert found["msg"].endswith("Or set namespaces to those that you may read.")


def test_a_thousand_jobs_take_the_requests_of_those_that_end(world: World) -> None:
    lab = world.of("lab")
    for number in range(1000):
        copy = deepcopy(lab)
        ends = number < 10
        copy["metadata"] |= {
            "name": f"n{number}",
            "uid": f"n{number}",
            "creationTimestamp": ago(hours=9 if ends else 1),
        }
        copy["metadata"]["labels"] = {**copy["metadata"]["labels"], "app": f"n{number}"}
        copy["metadata"]["annotations"] = {
            **copy["metadata"]["annotations"],
            **({WARNED: ago(hours=1)} if ends else {}),
        }
        world.cluster.load([copy])
    world.cluster.requests.reset()
    found = world.expire(all_namespaces=True)
    assert found["msg"] == "1002 jobs with a time limit, 10 paused"
    written = [entry for entry in world.cluster.requests.writes() if entry.resource == "statefulsets"]
    assert len(written) == 10
    assert len([entry for entry in world.cluster.requests if entry.verb == "list"]) < 20
    world.cluster.requests.reset()
    assert not world.expire(all_namespaces=True)["changed"]
    assert world.cluster.requests.writes() == []
    assert len(list(world.cluster.requests)) <= 4  # Deployments, StatefulSets in two pages, and pools.


@pytest.mark.parametrize("text", ["soon", "-5m", "", "90d"])
def test_options_that_cannot_be(text: str) -> None:
    assert "warn_before: invalid" in perform(EXPIRE, None, warn_before=text)["msg"]


# -- more time ---------------------------------------------------------------------------------------------------------


def test_a_notebook_is_extended_once_however_often_it_is_asked_for(world: World) -> None:
    world.created(ago(hours=7, minutes=45))
    assert world.row()["action"] == "warn"
    predicted = world.extend("lab", by="4h", check=True)
    assert (predicted["changed"], EXTENDED in world.notes()) == (True, False)
    first = world.extend("lab", by="4h")
    assert first["results"][0]["action"] == "update"
    assert first["results"][0]["reason"] == f"It ends at {first['results'][0]['ends_at']} at the latest."
    world.cluster.requests.reset()
    again = world.extend("lab", by="4h")
    assert not again["changed"]
    assert again["results"][0]["ends_at"] == first["results"][0]["ends_at"]
    assert again["results"][0]["reason"].endswith("For more, use a time after that, or by of more than 4h.")
    assert world.cluster.requests.writes() == []
    assert (world.row()["limit"], world.row()["action"]) == ("12h (extended)", "none")
    assert world.shown()["ends_at"] == first["results"][0]["ends_at"]
    assert not world.job(definition=JOBS[0])["changed"]  # The same manifest does not take it back.
    assert world.row()["limit"] == "12h (extended)"
    later = (datetime.now(timezone.utc) + timedelta(hours=9)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert world.extend("lab", until=later)["results"][0]["ends_at"] == later
    assert not world.extend("lab", until=later)["changed"]
    assert not world.extend("lab", by="1h")["changed"]  # No limit is made shorter.
    world.job(name="lab", state="paused")
    assert "it is paused. Resume it with state=resumed" in world.extend("lab", by="9h")["msg"]
    world.job(name="lab", state="resumed")
    assert world.row()["limit"] == "8h"


def test_a_training_gets_a_later_deadline_that_another_submit_keeps(world: World) -> None:
    def deadline() -> Any:
        return world.of("train")["spec"]["activeDeadlineSeconds"]

    assert deadline() == 12 * 3600 - 300
    assert world.extend("train", by="4h", check=True)["changed"]
    assert deadline() == 12 * 3600 - 300
    found = world.extend("train", by="4h")
    assert found["changed"], found
    assert deadline() == 16 * 3600 - 300
    assert found["results"][0]["ends_at"] == world.shown("train")["ends_at"]
    world.cluster.requests.reset()
    for unchanged in (world.extend("train", by="4h"), world.job(definition=JOBS[3])):
        assert not unchanged["changed"], unchanged
    assert world.cluster.requests.writes() == []
    described = {**JOBS[3], "job": {**JOBS[3]["job"], "description": "another"}}
    assert world.job(definition=described)["changed"]
    assert deadline() == 16 * 3600 - 300
    longer = {**JOBS[3], "job": {"name": "train", "time_limit": "1d"}}
    assert world.job(definition=longer)["results"][0]["action"] == "update"
    assert (deadline(), EXTENDED in world.notes("train")) == (24 * 3600 - 300, False)
    assert not world.job(definition=longer)["changed"]


def test_a_deadline_that_others_have_set_is_extended_once(world: World) -> None:
    """What it was before is recorded: the same command has nothing to do."""
    world.note(LIMIT, None, "train")
    first = world.extend("train", by="1h")
    assert first["changed"], first
    assert world.notes("train")[LIMIT] == str(12 * 3600)
    assert not world.extend("train", by="1h")["changed"]
    assert world.of("train")["spec"]["activeDeadlineSeconds"] == 13 * 3600 - 300


def test_a_pool_allows_no_more_than_its_maximum(world: World) -> None:
    perform(POOL, world.cluster, definition={**POOLED, "time_limit": {"max": "14h", "notebook_max": "10h"}})
    refused = world.extend("train", by="3h")
    assert "pool a allows each training at most 14h, which is until 20" in refused["msg"]
    assert world.extend("train", by="2h")["changed"]
    refused = world.extend("lab", by="3h")
    assert "pool a allows each notebook at most 10h, which is until 20" in refused["msg"]
    assert EXTENDED not in world.notes()
    assert world.extend("lab", by="2h")["changed"]
    world.note(EXTENDED, "360000")  # by a tenant
    assert world.row()["limit"] == "10h (pool a)"


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("lab", {"by": "soon"}, "by: not a duration: soon"),
        ("lab", {"until": "2020-01-01"}, "until: 2020-01-01 is past. Give a time in the future"),
        ("lab", {"until": "whenever"}, "until: not a time: whenever"),
        ("lab", {"by": "999999h"}, "366d are the longest limit"),
        ("lab", {"until": "9999-12-31T23:59:59Z"}, "366d are the longest limit"),
        ("nosuch", {"by": "1h"}, "job nosuch in namespace default: job not found."),
        ("lab", {"by": "9" * 400}, "by: not a duration"),
    ],
)
def test_extensions_that_cannot_be(world: World, name: str, options: Row, text: str) -> None:
    refused = world.extend(name, **options)
    assert refused["failed"]
    assert text in refused["msg"]


def test_a_job_without_a_limit_needs_no_extension(world: World) -> None:
    found = world.extend("web", by="1h")
    assert (found["changed"], found["results"][0]["ends_at"]) == (False, None)
    assert found["results"][0]["reason"] == "It has no time limit, so there is nothing to extend."


def test_fit_knows_when_a_notebook_ends(world: World) -> None:
    perform(JOB, world.cluster, name="train", state="absent", force=True)
    world.cluster.unload("Pod", "default", world.pod_of("train"))
    wanted = training("next", resources={**IN_POOL, "gpu": 7})
    (fit,) = perform(FIT, world.cluster, definition=[wanted])["results"]
    assert fit["verdict"] == "after_jobs", fit
    assert "default/lab (in about 8 h, at its time limit)" in fit["reason"]
    assert fit["runs_at"] == world.shown()["ends_at"]
