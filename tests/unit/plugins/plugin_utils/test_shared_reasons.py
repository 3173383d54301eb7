# SPDX-License-Identifier: BSD-2-Clause
"""Two jobs that share a reason are shown with one sentence, whatever the reason is: without their pods' names, and with
every other word. The sentences are kept in screens/shared-reasons.txt; GPUCTL_UPDATE_SCREENS=1 writes them again."""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster import native_gangs, pending_reason, prediction
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster import queue_reasons as queues
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pending_reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.reason import ClusterView, pending_reasons
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import Shortages
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import (
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE_ACCOUNT,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.shapes import MalformedObject
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wait.feasibility import stopped
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import reasons_block, shared_reasons

from ..module_utils.cluster import test_devices as devices
from ..module_utils.cluster import test_reason as reasons
from ..module_utils.cluster.live_objects import POOL, accounted, node, pod, unscheduled, workload

KEPT = Path(__file__).with_name("screens") / "shared-reasons.txt"
MODULE_UTILS = Path(inspect.getfile(pending_reason)).parents[1]
JOBS = ("alpha", "beta-2")
OWN = re.compile(r"^x$|(?<![-.\w])x(?:-[a-z0-9]+)+")


def of_job(data: Any, job: str) -> Any:
    """The objects, or a sentence, of job x as those of another job."""
    if isinstance(data, dict):
        return {key: of_job(value, job) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [of_job(value, job) for value in data]
    if not isinstance(data, str):
        return data
    return OWN.sub(lambda found: job + found[0][1:], data)


def of_gone_pods() -> Iterator[tuple[str, Any]]:
    """The reasons that are no cases of the tests of reasons: of pods before they exist, and of queues."""
    kueue = {"metadata": {"name": "w", "labels": {"kueue.x-k8s.io/job-uid": "uid-of-x"}, "creationTimestamp": "T"}}
    group = {"metadata": {"name": "g", "creationTimestamp": "T"}, "spec": {"queue": "q", "minMember": 2}}
    job = workload()
    job["spec"]["template"]["spec"] |= {
        "serviceAccountName": "trainer",
        "imagePullSecrets": [{"name": "hub"}],
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "secret": {"secretName": "keys"}},
        ],
        "nodeSelector": {POOL: "none"},
    }
    of_secret = {"name": "main", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "A"}}}]}
    with_secret = {**job, "spec": {"template": {"spec": {"containers": [of_secret]}}}}
    yield (
        "a queue of Kueue",
        lambda: [queues.Admissions([{**kueue, "spec": {"queueName": "q"}}]).reason(job, "q")],
    )
    yield (
        "paused in a queue of Kueue",
        lambda: [queues.Admissions([{**kueue, "spec": {"active": False}}]).reason(job, "q")],
    )
    yield "a queue of Volcano", lambda: [queues.PodGroups([group], []).reason("g")]
    gang = {**job, "metadata": {**job["metadata"], "annotations": {"runwhere.ai/gang": "2"}}}
    grouped = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    of_gang = {"metadata": {"name": "g"}, "status": {"conditions": [{"type": "PodGroupScheduled", "status": "False"}]}}
    unplaced = {"conditions": [{**of_gang["status"]["conditions"][0], "reason": "Unschedulable"}]}
    yield "a gang without a group", lambda: [native_gangs.waiting_for_gang(gang, [{"spec": {}}], {})]
    yield "a gang that fails", lambda: [native_gangs.waiting_for_gang(gang, [grouped], {"g": of_gang})]
    yield (
        "a gang without room",
        lambda: [native_gangs.waiting_for_gang(gang, [grouped], {"g": {**of_gang, "status": unplaced}})],
    )
    yield "no node, before it is submitted", lambda: prediction.unschedulable(job, Shortages(accounted([node()])))
    for kind in (SERVICE_ACCOUNT, SECRET, PERSISTENT_VOLUME_CLAIM):
        yield f"{kind.kind} missing", lambda kind=kind: prediction.missing(job, kind, ())
    yield "Secret of a variable missing", lambda: prediction.missing(with_secret, SECRET, ())
    yield "malformed", lambda: [stopped(job, MalformedObject("Job", "ml", "x", "spec is a list"))]
    yield "deleted", lambda: [stopped(None)]
    yield "paused", lambda: [stopped(workload("Deployment", replicas=0))]
    expired = workload("StatefulSet", replicas=0)
    expired["metadata"]["annotations"] = {"runwhere.ai/expired-at": "2026-01-01T16:00:00Z"}
    yield "paused at its time limit", lambda: [stopped(expired)]


def cases() -> Iterator[tuple[str, Any]]:
    """By name, what returns all reasons of job x there."""
    away = accounted([node("n1", ready="Unknown"), node("n2", ready="Unknown"), node("n3")])
    nodes = [away[0], *accounted([node("a1", labels={POOL: "a"})])]

    def found(view: ClusterView, *objects: Any) -> Any:
        return lambda job: pending_reasons(*(of_job(each, job) for each in objects), view)

    for name, (obj, pods, events, _sentence) in reasons.CASES.items():
        yield name, found(ClusterView(Shortages(nodes)), obj, pods, events)
    for name, (obj, pods, _sentence) in reasons.LOSSES.items():
        yield f"lost: {name}", found(ClusterView(None, away), obj, pods, [])
    for name, (waits, events, _sentence) in devices.REASONS.items():
        yield f"devices: {name}", found(ClusterView(Shortages([])), devices.JOB, [waits], events)
    preempted = ClusterView(preemption="the job was preempted by job big of namespace ml on node n1")
    yield "preempted", found(preempted, workload(), [pod(status=unscheduled("no"))], [])
    yield "preempted, and gone", found(preempted, workload(), [], [])
    forbidden = ClusterView(forbidden="policy company: 4 GPUs in a job, more than team ml may use. Use at most 2.")
    yield "no further pods by a policy", found(forbidden, workload("Deployment", replicas=4), [], [])
    for name, reason in of_gone_pods():
        yield name, lambda job, reason=reason: reason()


CASES = dict(cases())


def written(case: str, job: str) -> list[str]:
    return [reason.sentence for reason in CASES[case](job) if reason]


def rows(first: str, second: str) -> list[dict[str, Any]]:
    both = zip(JOBS, (first, second), strict=True)
    return [{"namespace": "ml", "name": job, "status": "Pending", "reason": reason} for job, reason in both]


def test_every_reason_in_the_code_has_a_case(monkeypatch: pytest.MonkeyPatch):
    """A reason is made by a call of PendingReason: each of them is reached."""
    reached: set[tuple[str, int]] = set()
    make = PendingReason.__init__

    def noted(self: PendingReason, *args: Any, **fields: Any) -> None:
        caller = sys._getframe(1)
        reached.add((caller.f_code.co_filename, caller.f_lineno))
        make(self, *args, **fields)

    monkeypatch.setattr(PendingReason, "__init__", noted)
    for case in CASES:
        written(case, "x")
    missed = []
    for path in sorted(MODULE_UTILS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)) if "PendingReason(" in text else ():
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "PendingReason":
                lines = range(call.lineno, (call.end_lineno or call.lineno) + 1)
                if not any((str(path), line) in reached for line in lines):
                    missed.append(f"{path.name}:{call.lineno}")
    assert missed == []


@pytest.mark.parametrize("case", CASES)
def test_no_word_but_the_names_of_pods_is_left_out(case: str):
    for first, second in zip(*(written(case, job) for job in JOBS), strict=True):
        shown = shared_reasons(rows(first, second))
        if len(shown) == 2:  # It names something else of its own, which must not be left out.
            assert "ResourceClaimTemplate alpha-" in first
            continue
        (text,) = shown
        assert "alpha-" not in text
        assert "beta-2-" not in text
        said = text.partition(": ")[2]
        assert said[0] not in " .,:;"
        kept = re.sub(r"\b(a pod|pods?)\b|…", " ", said)
        named = re.sub(r"\b(pods?)\b|(?<![-\w])alpha(-[a-z0-9]+)+|(?<=pod) (a|and) |, (?=alpha-)", " ", first)
        assert kept.replace(" and ", " ").split() == named.replace(" and ", " ").split()


def test_the_sentences_read_well():
    """By a person, who reads the difference of the file."""
    lines: list[str] = []
    for case in CASES:
        for first, second in zip(*(written(case, job) for job in JOBS), strict=True):
            lines += [f"# {case}", *reasons_block(rows(first, second), 120, None)]
    if os.environ.get("GPUCTL_UPDATE_SCREENS"):
        KEPT.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == KEPT.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "reason",
    [
        "Kubernetes starts no other pod until the node is back or deleted.",
        "pod web-1-abcde of another job is running.",
        "pod has unbound immediate PersistentVolumeClaims.",
        "pods alpha-1 and web-1 are on node n1.",
        'pods "web-1" is forbidden.',
    ],
)
def test_other_pods_keep_their_names(reason: str):
    (text,) = shared_reasons(rows(reason, reason))
    assert text.endswith(f": {reason}")


def test_the_names_of_pods_are_shorter_than_those_of_jobs_with_long_names():
    """generateName keeps 58 characters, and a Deployment's ReplicaSet has a hash before that."""
    start = "a-training-with-a-name-of-more-characters-than"
    jobs = [{"name": f"{start}-pods-have-{one}", "reason": f"pod {start[:44]}-{one} is not ready."} for one in "ab"]
    assert len(shared_reasons(jobs)) == 1


def test_one_job_keeps_the_name_of_its_pod():
    reason = "the container of pod alpha-1 failed with exit code 1."
    assert shared_reasons(rows(reason, "another")[:1])[0].endswith(reason)
