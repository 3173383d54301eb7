# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_idle finds what gets nowhere, tells its owner first, and does no more than the policy of the pool says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle import reclaim
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.idle_jobs import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.limits.extend import MODULE as EXTEND
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.idle_report import idle_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.merged_reports import merged_result
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from kubesim import LAB_USER_TOKEN, Cluster, Fault

from . import manifests
from .api import eventually
from .prometheus_double import prometheus_double
from .tasks import perform
from .test_idle import Usage, World, accounts, ago, clock, figures, gone

__all__ = ["clock"]  # a fixture
Row = dict[str, Any]
WARNED = "runwhere.ai/reclaim-warned"
EXEMPT = "runwhere.ai/idle-exempt-until"
DATA = {"workdirs": [{"path": "/data", "claim": "data"}]}
JOBS = (
    manifests.training("gang", resources={"gpu": 6, "node_count": 2}),
    manifests.training("wait", resources={"gpu": 7}),
    manifests.training("kept", storage=DATA),
    manifests.compute("web"),
)


def claim(name: str) -> Row:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl"},
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


@pytest.fixture(scope="module")
def objects() -> list[Row]:
    """Half a gang, a training that waits, one that is paused, and a service, as controllers have made them."""
    with Cluster(nodes=1).running() as cluster:
        cluster.load([claim("data"), claim("forgotten")])
        done = perform(JOB, cluster, definition=list(JOBS[:1]))
        assert not done.get("failed"), done["msg"]
        pods = partial(cluster.registry.list, "Pod", "default")
        eventually(lambda: any(pod["status"].get("phase") == "Running" for pod in cluster.call(pods)))
        done = perform(JOB, cluster, definition=list(JOBS[1:]))
        assert not done.get("failed"), done["msg"]
        assert not perform(JOB, cluster, name="kept", state="paused").get("failed")

        def settled() -> bool:
            phases = [pod["status"].get("phase") for pod in cluster.call(pods)]
            refused = [
                one
                for pod in cluster.call(pods)
                for one in pod["status"].get("conditions") or ()
                if one["type"] == "PodScheduled" and one["status"] == "False"
            ]
            return len(refused) == 2 and sorted(phases) == ["Pending", "Pending", "Running", "Running"]

        eventually(settled)
        kinds = ("Job", "Deployment", "Pod", "PersistentVolumeClaim")
        return [obj for kind in kinds for obj in cluster.call(partial(cluster.registry.list, kind, "default"))]


@pytest.fixture
def world(objects: list[Row]) -> Iterator[World]:
    """Without controllers, so that what the test writes stays. The service crashes; all of that since yesterday."""
    usage, found = Usage(), deepcopy(objects)
    for obj in found:
        if obj["kind"] == "Pod" and obj["metadata"]["labels"]["app"] == "web":
            (container,) = obj["status"]["containerStatuses"]
            container |= {"restartCount": 9, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
            obj["status"]["conditions"] = []
        elif obj["kind"] == "Deployment":
            obj["status"] = {"replicas": 1, "updatedReplicas": 1}
        for one in (obj.get("status") or {}).get("conditions") or ():
            one["lastTransitionTime"] = ago(days=1)
    with Cluster(nodes=1, controllers=False).running() as cluster, prometheus_double(usage.answer) as server:
        cluster.load(found)
        yield World(cluster, usage, server)


def policies(action: str = "pause", after: str = "4h", *kinds: str) -> Row:
    named = kinds or ("half_gang", "waiting", "crash_loop")
    return {"policies": {"all": {kind: {"after": after, "action": action} for kind in named}}}


def findings(result: Row) -> dict[str, Row]:
    assert not result.get("failed"), result["msg"]
    return {row["name"]: row for row in result["findings"]}


def actions(result: Row) -> dict[str, str]:
    return {name: row["action"] for name, row in findings(result).items() if row["action"] != "none"}


def note(world: World, kind: str, name: str, annotation: str = WARNED) -> str | None:
    found: str | None = (world.of(kind, name)["metadata"].get("annotations") or {}).get(annotation)
    return found


def set_note(world: World, kind: str, name: str, text: str, annotation: str = WARNED) -> None:
    world.change(kind, name, lambda obj: obj["metadata"].setdefault("annotations", {}).update({annotation: text}))


def events(world: World, name: str) -> list[str]:
    found = world.cluster.call(lambda: world.cluster.registry.list("Event", "default"))
    return [
        f"{event['reason']}: {event['message']}"
        for event in found
        if event["involvedObject"]["name"] == name and event["reason"] in ("DoesNothing", "Reclaimed")
    ]


def writes(world: World) -> list[Any]:
    return [entry for entry in world.cluster.requests.writes() if entry.resource != "events"]


def test_a_report_names_what_does_nothing_and_why(world: World) -> None:
    world.cluster.requests.reset()
    found = findings(world.idle())
    assert {name: row["finding"] for name, row in found.items()} == {
        "gang": "half_gang",
        "wait": "waiting",
        "kept": "paused",
        "web": "crash_loop",
        "forgotten": "unused_claim",
    }
    assert found["gang"]["reason"].startswith(
        "holds 6 accelerators with 1 of its 2 pods, and there is no node for the others: 0/1"
    )
    assert (found["gang"]["gpus"], found["gang"]["since"][:10]) == (6, ago(days=1)[:10])
    assert found["kept"]["claims"] == ["data"]
    assert found["web"]["reason"] == "crashes again and again, 9 times so far"
    assert {row["action"] for row in found.values()} == {"none"}
    assert world.cluster.requests.writes() == []


def test_the_owner_is_told_first_and_the_second_run_writes_nothing(world: World) -> None:
    predicted = world.idle(check=True, **policies())
    expected = {"gang": "warn", "wait": "warn", "web": "warn"}
    assert actions(predicted) == expected
    assert predicted["changed"]
    assert note(world, "Job", "gang") is None
    assert events(world, "gang") == []

    done = world.idle(**policies())
    assert actions(done) == expected
    assert done["msg"] == "no idle jobs; 5 other findings, 3 warned of"
    assert (note(world, "Job", "gang") or "").startswith("half_gang 2")
    (event,) = events(world, "gang")
    assert "It may be paused in 60 min, by the policy of its pool. To keep it: ansible-playbook" in event
    assert "may be paused in 4 h" in events(world, "web")[0]

    world.cluster.requests.reset()
    again = world.idle(**policies())
    assert (again["changed"], actions(again)) == (False, {})
    assert world.cluster.requests.writes() == []
    assert not world.of("Job", "gang")["spec"].get("suspend")


def test_what_is_still_so_after_the_grace_is_paused_and_not_warned_of_any_more(world: World) -> None:
    for kind, name, finding in (
        ("Job", "gang", "half_gang"),
        ("Job", "wait", "waiting"),
        ("Deployment", "web", "crash_loop"),
    ):
        set_note(world, kind, name, f"{finding} {ago(hours=2)}")
    assert actions(world.idle(check=True, **policies())) == {"gang": "pause", "wait": "pause"}
    assert not world.of("Job", "gang")["spec"].get("suspend")
    done = world.idle(**policies())
    assert actions(done) == {"gang": "pause", "wait": "pause"}
    assert done["msg"].endswith("5 other findings, 2 paused, which frees 6 accelerators")
    for name in ("gang", "wait"):
        assert world.of("Job", name)["spec"]["suspend"] is True
        assert note(world, "Job", name) is None
    assert world.of("Deployment", "web")["spec"]["replicas"] == 1
    assert "It was paused, and its volumes are kept." in events(world, "gang")[0]

    set_note(world, "Deployment", "web", f"crash_loop {ago(hours=5)}")
    assert actions(world.idle(**policies())) == {"web": "pause"}
    assert world.of("Deployment", "web")["spec"]["replicas"] == 0
    world.cluster.requests.reset()
    assert world.idle(**policies())["changed"] is False
    assert world.cluster.requests.writes() == []


def test_stop_deletes_the_job_and_no_claim(world: World) -> None:
    set_note(world, "Job", "wait", f"waiting {ago(hours=2)}")
    stop = policies("stop", "4h", "waiting")
    assert actions(world.idle(check=True, **stop)) == {"wait": "stop"}
    assert world.of("Job", "wait") is not None
    done = world.idle(**stop)
    assert actions(done) == {"wait": "stop"}
    assert world.of("Job", "wait") is None
    claims = world.cluster.call(lambda: world.cluster.registry.list("PersistentVolumeClaim", "default"))
    assert {each["metadata"]["name"] for each in claims} == {"data", "forgotten"}
    assert "Submit it again" in events(world, "wait")[0]
    assert "wait" not in findings(world.idle(**stop))


def test_notify_only_tells(world: World) -> None:
    told = policies("notify", "4h", "half_gang", "paused")
    assert actions(world.idle(**told)) == {"gang": "warn", "kept": "warn"}
    set_note(world, "Job", "gang", f"half_gang {ago(hours=23)}")
    assert actions(world.idle(**told)) == {}
    assert not world.of("Job", "gang")["spec"].get("suspend")


def test_the_policy_of_its_pool_counts(world: World) -> None:
    """These jobs are on nodes without a pool."""
    rule = {"half_gang": {"after": "4h", "action": "pause"}}
    assert actions(world.idle(policies={"training-pool": rule})) == {}
    assert actions(world.idle(policies={"default": rule})) == {"gang": "warn"}


@pytest.mark.parametrize(
    "text",
    ["half_gang", "half_gang yesterday", f"half_gang {ago(days=-1)}", f"waiting {ago(days=9)}", "\x1b[31m", "x" * 9000],
    ids=["no time", "a word", "to come", "another finding", "control characters", "long"],
)
def test_what_others_write_into_the_warning_stops_nothing(world: World, text: str) -> None:
    set_note(world, "Job", "gang", text)
    assert actions(world.idle(**policies("stop", "4h", "half_gang"))) == {"gang": "warn"}
    assert not world.of("Job", "gang")["spec"].get("suspend")


def test_a_job_that_is_well_again_is_left_alone_and_its_warning_withdrawn(world: World) -> None:
    set_note(world, "Deployment", "web", f"crash_loop {ago(days=9)}")
    (pod,) = [pod["metadata"]["name"] for pod in world.pods("web")]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    world.change("Pod", pod, lambda found: found["status"].update(ready), "status")
    done = world.idle(**policies())
    assert actions(done)["web"] == "clear"
    assert note(world, "Deployment", "web") is None
    assert world.of("Deployment", "web")["spec"]["replicas"] == 1


@pytest.mark.parametrize("action", ["pause", "stop"])
def test_what_changes_before_it_is_written_is_judged_again(
    world: World, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """Its owner exempts it, or it is well again, after the lists were read."""
    for name, finding in (("gang", "half_gang"), ("wait", "waiting")):
        set_note(world, "Job", name, f"{finding} {ago(hours=2)}")
    written = reclaim.change_jobs

    def meanwhile(*arguments: Any) -> Any:
        set_note(world, "Job", "gang", ago(days=-1), EXEMPT)
        for pod in world.pods("wait"):
            name = pod["metadata"]["name"]
            world.change("Pod", name, lambda found: found["status"].update({"conditions": []}), "status")
        return written(*arguments)

    monkeypatch.setattr(reclaim, "change_jobs", meanwhile)
    done = world.idle(**policies(action, "4h", "half_gang", "waiting"))
    assert (done["changed"], actions(done)) == (False, {})
    assert not world.of("Job", "gang")["spec"].get("suspend")
    assert not world.of("Job", "wait")["spec"].get("suspend")


def test_an_exemption_is_set_by_one_command_and_expires(world: World) -> None:
    until = ago(days=-3)
    assert perform(EXTEND, world.cluster, name="gang", exempt_until=until, check=True)["changed"]
    assert note(world, "Job", "gang", EXEMPT) is None
    done = perform(EXTEND, world.cluster, name="gang", exempt_until=until)
    assert done["changed"]
    assert done["results"][0]["reason"] == (
        f"gpuctl_idle leaves it alone until {until}, except while that is further away than its longest_exemption, "
        "by default 14d."
    )
    assert note(world, "Job", "gang", EXEMPT) == until
    world.cluster.requests.reset()
    assert not perform(EXTEND, world.cluster, name="gang", exempt_until=until)["changed"]
    assert writes(world) == []
    row = findings(world.idle(**policies()))["gang"]
    assert (row["action"], row["reason"].endswith(f"; it is exempt until {until}")) == ("none", True)
    assert findings(world.idle(longest_exemption="1d", **policies()))["gang"]["action"] == "warn"
    set_note(world, "Job", "gang", ago(minutes=1), EXEMPT)
    assert "exempt" not in findings(world.idle(**policies()))["gang"]["reason"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exempt_until": ago(days=1)}, "is past. Give a time in the future"),
        ({"exempt_until": "soon"}, "exempt_until: not a time: soon"),
    ],
    ids=["past", "no time"],
)
def test_exemptions_that_cannot_be(options: Row, text: str) -> None:
    assert text in perform(EXTEND, None, name="gang", **options)["msg"]


@pytest.mark.parametrize("exempt", [{"exempt_names": ["g*"]}, {"exempt_kinds": ["training"]}])
def test_the_exemptions_of_the_administrator_count_too(world: World, exempt: Row) -> None:
    set_note(world, "Job", "gang", f"half_gang {ago(hours=2)}")
    assert actions(world.idle(**exempt, **policies()))["gang"] == "clear"
    assert not world.of("Job", "gang")["spec"].get("suspend")


def test_jobs_of_others_are_left_alone(world: World) -> None:
    world.change("Job", "gang", lambda job: job["metadata"]["labels"].pop("app.kubernetes.io/managed-by"))
    assert "gang" not in findings(world.idle(**policies()))


def test_one_that_cannot_be_paused_keeps_no_other_from_it(world: World) -> None:
    for name, finding in (("gang", "half_gang"), ("wait", "waiting")):
        set_note(world, "Job", name, f"{finding} {ago(hours=2)}")
    world.cluster.faults.add(Fault("error", verb="patch", path="*/jobs/gang", count=None))
    done = world.idle(**policies())
    assert done["failed"]
    assert "training gang in namespace default" in done["msg"]
    assert not world.of("Job", "gang")["spec"].get("suspend")
    assert world.of("Job", "wait")["spec"]["suspend"] is True


def test_claims_that_may_not_be_listed_are_not_found_and_nothing_fails(world: World) -> None:
    world.cluster.load(reader(resources=["jobs", "deployments", "statefulsets", "pods"]))
    token = world.cluster.service_account_token("default", "reader")
    found = findings(world.idle(api_key=token))
    assert set(found) == {"gang", "wait", "kept", "web"}


def test_an_account_that_may_only_read_stops_nothing(world: World) -> None:
    world.cluster.load(reader(resources=["*"]))
    token = world.cluster.service_account_token("default", "reader")
    set_note(world, "Job", "gang", f"half_gang {ago(hours=2)}")
    done = world.idle(api_key=token, **policies())
    assert done["failed"]
    assert not world.of("Job", "gang")["spec"].get("suspend")
    assert note(world, "Job", "wait") is None


def test_an_account_of_one_namespace_has_to_name_it(world: World) -> None:
    done = world.idle(api_key=LAB_USER_TOKEN, all_namespaces=True, **policies())
    assert done["msg"].endswith("Or set namespaces to those that you may read.")


def reader(resources: list[str]) -> list[Row]:
    """A service account that may read these."""
    rbac, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
    rule = {"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list", "watch"]}
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


def test_many_jobs_take_no_more_requests(world: World) -> None:
    def lists() -> int:
        world.cluster.requests.reset()
        world.idle(**policies("notify"))
        return len([entry for entry in world.cluster.requests if entry.verb in ("list", "get")])

    world.idle(**policies("notify"))
    before = lists()
    copies = []
    for number in range(150):
        name = f"wait-{number}"
        job, (pod,) = deepcopy(world.of("Job", "wait")), deepcopy(world.pods("wait"))
        for obj, own in ((job, name), (pod, f"{name}-pod")):
            obj["metadata"] |= {"name": own, "uid": f"uid-{own}", "labels": {**obj["metadata"]["labels"], "app": name}}
            obj["metadata"].pop("resourceVersion", None)
            copies.append(obj)
    world.cluster.load(copies)
    found = findings(world.idle(**policies("notify")))
    assert sum(row["finding"] == "waiting" for row in found.values()) == 151
    assert lists() == before


def test_the_screen_has_both(world: World) -> None:
    result = world.idle(**policies())
    screens = [
        "\n".join(screen_lines(idle_report(each), View(100)))
        for each in (result, merged_result({"one": {**result, "report": "idle_jobs"}}))
    ]
    for screen in screens:
        assert "half a gang" in screen
        assert "pause after 4 h" in screen
        assert "unused claim" in screen
        assert "there is no node for the others" in " ".join(screen.split())


def test_a_policy_on_use_needs_a_prometheus_that_is_named(world: World) -> None:
    done = perform(MODULE, world.cluster, **policies("pause", "4h", "stuck"))
    assert done["msg"].startswith("policies: no Prometheus is named")


class Logs:
    """Kubelets that serve the last line of every log; None for those that do not answer."""

    last: str | None = None

    def logs(self, _pod: Row, _container: str, *, tail: int, timestamps: bool, **_more: Any) -> str:
        assert (tail, timestamps) == (1, True)
        if self.last is None:
            raise RuntimeError("no logs")
        return self.last


def idle_training(world: World) -> Logs:
    """What is left of the gang, whose accelerators have been idle for hours."""
    (pod,) = [pod for pod in world.pods("gang") if pod["spec"].get("nodeName")]
    (other,) = [pod for pod in world.pods("gang") if not pod["spec"].get("nodeName")]
    name = pod["metadata"]["name"]
    world.change("Pod", other["metadata"]["name"], lambda found: found["status"].update({"phase": "Failed"}), "status")
    running = {"startedAt": ago(hours=9)}
    world.change(
        "Pod",
        name,
        lambda found: found["status"]["containerStatuses"][0]["state"]["running"].update(running),
        "status",
    )
    world.usage.peaks[name], world.usage.hours[name] = 0.0, 6.0
    logs = Logs()
    world.cluster.kubelet = logs
    return logs


@pytest.mark.parametrize(
    ("last", "hours"),
    [
        (lambda: f"{ago(hours=5)[:-1]}.123456789Z step 7\n", 5),
        (lambda: "", 9),
        (lambda: f"{ago(minutes=20)[:-1]}.123456789Z step 8\n", 1 / 3),
        (lambda: "not a time\n", None),
        (lambda: None, None),
    ],
    ids=["silent for hours", "no line at all", "logs", "no time", "cannot be read"],
)
def test_a_training_is_stuck_if_it_neither_computes_nor_logs(
    world: World, last: Callable[[], str | None], hours: float | None
) -> None:
    idle_training(world).last = last()
    row = findings(world.idle(**policies("pause", "1h", "stuck"))).get("gang")
    if hours is None:
        assert row is None
        return
    assert row is not None
    assert (row["finding"], row["gpus"]) == ("stuck", 6)
    since = datetime.fromisoformat(row["since"].replace("Z", "+00:00"))
    assert (datetime.now(timezone.utc) - since).total_seconds() == pytest.approx(hours * 3600, abs=120)
    is_stuck = hours > 1
    assert row["action"] == ("warn" if is_stuck else "none")
    set_note(world, "Job", "gang", f"stuck {ago(hours=2)}")
    world.idle(**policies("pause", "1h", "stuck"))
    assert bool(world.of("Job", "gang")["spec"].get("suspend")) == is_stuck


def test_without_a_policy_no_log_is_read(world: World) -> None:
    idle_training(world).last = ""
    world.cluster.requests.reset()
    assert "gang" not in findings(world.idle())
    assert not [entry for entry in world.cluster.requests if entry.subresource == "log"]


@pytest.mark.parametrize(("action", "expected"), [("pause", (6, 360.0)), ("stop", (6, 0.0))], ids=["pause", "stop"])
def test_what_was_given_back_is_in_the_accounts(
    world: World, clock: Any, action: str, expected: tuple[int, float]
) -> None:
    """Nobody knows how long a deleted job would have held its GPUs. One that waits held none."""
    for name, finding in (("gang", "half_gang"), ("wait", "waiting")):
        set_note(world, "Job", name, f"{finding} {ago(hours=2)}")
    done = world.idle(**policies(action, "4h", "half_gang", "waiting"))
    assert actions(done) == {"gang": action, "wait": action}
    for name in ("gang", "wait"):
        gone(world, name)
    assert figures(accounts(world, clock, 60)["totals"]) == expected
