# SPDX-License-Identifier: BSD-2-Clause
"""What counts as getting nowhere, by the objects of a job itself, and what follows by the policy of its pool."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.idle.reclaim_rules import (
    ReclaimRule,
    Stall,
    exemption,
    finding_of,
    next_step,
    reclaim_rules_in,
    rule_for,
    unused_claims,
)

Object = dict[str, Any]
NOW = datetime(2026, 2, 1, 12, tzinfo=timezone.utc)


def ago(**time: float) -> str:
    return (NOW - timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def workload(kind: str = "Job", *, spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    template = {"spec": {"containers": [{"name": "main"}], **(spec or {}).pop("pod", {})}}
    labels = {"runwhere.ai/job-type": "training" if kind == "Job" else "inference", **metadata.pop("labels", {})}
    return {
        "kind": kind,
        "metadata": {"name": "j", "namespace": "team", "labels": labels, **metadata},
        "spec": {"template": template, **(spec or {})},
        "status": status or {},
    }


def pod(name: str, node: str | None = "a", gpus: int = 8, **status: Any) -> Object:
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}}
    spec: Object = {"containers": [{"name": "main", "resources": resources}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": {"phase": "Running", **status}}


def unscheduled(name: str, since: str, message: str = "0/4 nodes are available", **more: Any) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(name, None, phase="Pending", conditions=[{**condition, "lastTransitionTime": since, **more}])


def crashing(name: str, restarts: int = 7, reason: str = "CrashLoopBackOff", **more: Any) -> Object:
    waiting = {"restartCount": restarts, "state": {"waiting": {"reason": reason}}}
    return pod(name, containerStatuses=[waiting], **more)


def loading(since: str, restarts: int = 9, code: int = 1, **more: Any) -> Object:
    """A container that runs again after it has failed."""
    last = {"terminated": {"exitCode": code, "reason": "Error"}}
    status = {"restartCount": restarts, "state": {"running": {"startedAt": since}}, "lastState": last}
    return pod("0", containerStatuses=[status], **more)


GANG = workload(spec={"parallelism": 4, "completionMode": "Indexed"}, status={"active": 4, "ready": 2})
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SERVICE = {"replicas": 2}

FINDINGS: dict[str, tuple[Object, list[Object], str | None, str | None]] = {
    "half a gang": (
        GANG,
        [pod("0"), pod("1"), unscheduled("2", ago(hours=3)), unscheduled("3", ago(hours=5))],
        "half_gang",
        ago(hours=5),
    ),
    "half a gang without accelerators holds none": (
        GANG,
        [pod("0", gpus=0), unscheduled("2", ago(hours=3))],
        None,
        None,
    ),
    "a gang whose last pod the scheduler has not looked at": (
        GANG,
        [pod("0"), pod("1", None, phase="Pending")],
        None,
        None,
    ),
    "a training that runs beside a pod that only looks like its own": (
        workload(spec={"parallelism": 1}, status={"active": 1, "ready": 1}),
        [pod("0"), unscheduled("x", ago(days=9))],
        None,
        None,
    ),
    "a pod that waits for its gates": (
        GANG,
        [pod("0"), unscheduled("1", ago(hours=9), reason="SchedulingGated")],
        None,
        None,
    ),
    "a service with one replica too few serves": (
        workload("Deployment", spec=SERVICE, status={"readyReplicas": 1}),
        [pod("0", **READY), unscheduled("1", ago(days=9))],
        None,
        None,
    ),
    "waits for ever": (GANG, [unscheduled("0", ago(days=3)), unscheduled("1", ago(days=2))], "waiting", ago(days=3)),
    "a service waits": (
        workload("Deployment", spec=SERVICE),
        [unscheduled("0", ago(days=3)), unscheduled("1", ago(days=3))],
        "waiting",
        ago(days=3),
    ),
    "a condition without a time": (GANG, [unscheduled("0", "")], None, None),
    "a job in a queue of Kueue": (
        workload(labels={"kueue.x-k8s.io/queue-name": "q"}, status={"active": 1}),
        [unscheduled("0", ago(days=3))],
        None,
        None,
    ),
    "pods that have ended": (GANG, [pod("0", phase="Succeeded"), pod("1", phase="Failed")], None, None),
    "no pods at all": (GANG, [], None, None),
    "a crash loop": (workload("Deployment", spec=SERVICE), [crashing("0"), crashing("1", 5)], "crash_loop", None),
    "a crash loop that loads at this moment": (
        workload("StatefulSet"),
        [loading(ago(minutes=3))],
        "crash_loop",
        None,
    ),
    "a crash loop without a readiness probe": (
        workload("StatefulSet"),
        [loading(ago(minutes=3), **READY)],
        "crash_loop",
        None,
    ),
    "well again": (workload("StatefulSet"), [loading(ago(minutes=11), **READY)], None, None),
    "was restarted without having failed": (workload("StatefulSet"), [loading(ago(minutes=3), code=0)], None, None),
    "has failed a few times": (workload("StatefulSet"), [loading(ago(minutes=3), restarts=4)], None, None),
    "few restarts": (workload("Deployment", spec=SERVICE), [crashing("0"), crashing("1", 4)], None, None),
    "another reason": (workload("StatefulSet"), [crashing("0", reason="ImagePullBackOff")], None, None),
    "one replica serves": (workload("Deployment", spec=SERVICE), [crashing("0"), pod("1", **READY)], None, None),
    "a training crashes until its retries are over": (workload(status={"active": 1}), [crashing("0")], None, None),
    "paused with claims": (
        workload(
            spec={"suspend": True, "pod": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}},
            status={"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": ago(days=20)}]},
        ),
        [],
        "paused",
        ago(days=20),
    ),
    "paused without claims": (workload(spec={"suspend": True}), [], None, None),
    "a service that is paused since nobody knows when": (
        workload(
            "Deployment",
            spec={"replicas": 0, "pod": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}},
        ),
        [],
        "paused",
        None,
    ),
    "ended": (workload(status={"conditions": [{"type": "Complete", "status": "True"}]}), [], None, None),
}


@pytest.mark.parametrize(("job", "pods", "kind", "since"), FINDINGS.values(), ids=FINDINGS)
def test_findings(job: Object, pods: list[Object], kind: str | None, since: str | None) -> None:
    found = finding_of(job, pods, NOW)
    assert (found and found.kind) == kind
    assert (found and found.since and found.since.strftime("%Y-%m-%dT%H:%M:%SZ")) == since


def test_the_evidence_and_what_is_held() -> None:
    found = finding_of(GANG, [pod("0"), pod("1"), unscheduled("2", ago(hours=3), "0/4 nodes are available: x.")], NOW)
    assert found is not None
    reason = "holds 16 accelerators with 2 of its 3 pods, and there is no node for the others"
    text = f"{reason}: 0/4 nodes are available: x"
    assert (found.reason, found.gpus) == (text, 16)


def finding(hours: float | None) -> Stall:
    return Stall("waiting", "", None if hours is None else NOW - timedelta(hours=hours))


STEPS: dict[str, tuple[float | None, str, str | None, str]] = {
    # what is known of since when, the action, the annotation, and what is done
    "for too short a time": (1, "pause", None, "none"),
    "for too short a time again": (1, "pause", f"waiting {ago(hours=3)}", "clear"),
    "for long enough": (5, "pause", None, "warn"),
    "warned of": (5, "pause", f"waiting {ago(minutes=30)}", "none"),
    "warned of long ago": (5, "pause", f"waiting {ago(hours=1)}", "pause"),
    "warned of long ago, to be deleted": (5, "stop", f"waiting {ago(hours=1)}", "stop"),
    "only told": (5, "notify", None, "warn"),
    "only told, and told": (5, "notify", f"waiting {ago(hours=5)}", "none"),
    "warned of an earlier time": (5, "pause", f"waiting {ago(hours=6)}", "warn"),
    "only told, of an earlier time": (5, "notify", f"waiting {ago(days=9)}", "warn"),
    "warned of something else": (5, "pause", f"crash_loop {ago(days=9)}", "warn"),
    "nobody knows since when": (None, "pause", None, "warn"),
    "nobody knows since when, warned of after less than the time": (None, "pause", f"waiting {ago(hours=3)}", "none"),
    "nobody knows since when, warned of": (None, "pause", f"waiting {ago(hours=4)}", "pause"),
    "a time that is none": (5, "pause", "waiting yesterday", "warn"),
    "a time in the future": (5, "pause", f"waiting {ago(hours=-5)}", "warn"),
    "no words": (5, "pause", "", "warn"),
    "no kind": (5, "pause", ago(days=9), "warn"),
    "a year that is none": (5, "pause", "waiting 0001-01-01T00:00:00Z", "warn"),
    "much text": (5, "pause", "waiting " * 10_000, "warn"),
}


@pytest.mark.parametrize(("hours", "action", "note", "expected"), STEPS.values(), ids=STEPS)
def test_what_follows(hours: float | None, action: str, note: str | None, expected: str) -> None:
    annotations = {} if note is None else {"annotations": {"runwhere.ai/reclaim-warned": note}}
    rule = ReclaimRule(4 * 3600, action, "all")
    assert next_step(workload(**annotations), finding(hours), rule, 3600, NOW) == expected


@pytest.mark.parametrize("rule", [None, ReclaimRule(60, "pause", "all")])
def test_a_warning_is_withdrawn_where_there_is_nothing_to_warn_of(rule: ReclaimRule | None) -> None:
    warned = workload(annotations={"runwhere.ai/reclaim-warned": f"waiting {ago(days=3)}"})
    assert next_step(warned, None, rule, 60, NOW) == "clear"
    assert next_step(warned, finding(9), None, 60, NOW) == "clear"
    assert next_step(workload(), None, rule, 60, NOW) == "none"


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (ago(days=-3), True),
        (ago(days=-14), True),
        (ago(days=-15), False),
        (ago(days=1), False),
        ("9999-12-31T23:59:59Z", False),
        ("for ever", False),
        ("", False),
    ],
)
def test_exemptions_expire_and_are_no_longer_than_the_administrator_allows(text: str, counts: bool) -> None:
    job = workload(annotations={"runwhere.ai/idle-exempt-until": text})
    assert (exemption(job, 14 * 86_400, NOW) is not None) == counts


def test_the_rule_of_a_pool_comes_before_that_of_every_pool() -> None:
    rules = reclaim_rules_in(
        {
            "a": {"stuck": {"after": "2h", "action": "pause"}},
            "default": {"waiting": {"after": "5m", "action": "stop"}},
            "all": {"stuck": {"after": "1d", "action": "notify"}},
        }
    )
    found = [
        rule_for(rules, workload(labels=label, spec={"pod": {"nodeSelector": selector}}), kind)
        for selector, label, kind in (
            ({"runwhere.ai/pool": "a"}, {"runwhere.ai/pool": "a"}, "stuck"),
            ({"runwhere.ai/pool": "b"}, {"runwhere.ai/pool": "b"}, "stuck"),
            ({}, {}, "waiting"),
            # Where the pods run is what counts: a label alone can be changed by whoever has the job.
            ({"runwhere.ai/pool": "a"}, {"runwhere.ai/pool": "default"}, "waiting"),
        )
    ]
    assert found == [
        ReclaimRule(7200, "pause", "a"),
        ReclaimRule(86_400, "notify", "all"),
        ReclaimRule(300, "stop", "default"),
        None,
    ]


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        (
            {"all": "pause"},
            "O(policies): all: not a map. Use stuck, crash_loop, half_gang, waiting,",
        ),
        ({"all": {"idle": {}}}, "O(policies): all.idle: unknown key. Valid keys: stuck, crash_loop"),
        ({"a": {"stuck": {"after": "4h"}}}, "O(policies): a.stuck: needs after and action"),
        ({"a": {"stuck": {"after": "4h", "action": "pause", "x": 1}}}, "a.stuck: needs after and action"),
        (
            {"a": {"stuck": {"after": "1m", "action": "pause"}}},
            "a.stuck.after: invalid: 1m. Use 5m to 31d",
        ),
        ({"a": {"stuck": {"after": "90d", "action": "pause"}}}, "a.stuck.after: invalid: 90d"),
        ({"a": {"stuck": {"after": None, "action": "pause"}}}, "a.stuck.after: invalid: None"),
        ({"a": {"stuck": {"after": "4h", "action": "kill"}}}, "unsupported value: kill. Use notify, pause or stop."),
        ({"a": {"paused": {"after": "4h", "action": "stop"}}}, "a.paused.action: unsupported value: stop. Use notify."),
    ],
)
def test_policies_that_cannot_be(policies: Object, text: str) -> None:
    with pytest.raises(ValueError, match="policies") as raised:
        reclaim_rules_in(policies)
    assert text in str(raised.value)


def test_claims_that_nothing_of_ours_mounts() -> None:
    def mounting(claim: str) -> Object:
        return {"pod": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]}}

    claims = [{"metadata": {"name": name, "namespace": "team"}} for name in ("used", "by-pod", "left", "going")]
    claims[-1]["metadata"]["deletionTimestamp"] = ago(hours=1)
    claims.append({"metadata": {"name": "used", "namespace": "other"}})
    own = pod("p")
    own["spec"]["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": "by-pod"}}]
    assert unused_claims(claims, [workload(spec=mounting("used"))], [own]) == [("other", "used"), ("team", "left")]
