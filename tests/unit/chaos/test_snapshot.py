# SPDX-License-Identifier: BSD-2-Clause
"""States are compared without what differs from run to run, and with all that matters."""

from __future__ import annotations

import json
from typing import Any

from chaos.snapshot import Snapshot, differences


def job(uid: str = "u1", namespace: str = "ns-1", **metadata: Any) -> dict[str, Any]:
    own = {"name": "train", "namespace": namespace, "uid": uid, "resourceVersion": uid, "generation": 1, **metadata}
    template = {"metadata": {"labels": {"controller-uid": uid, "app": "train"}}, "spec": {"containers": []}}
    spec = {"parallelism": 2, "selector": {"matchLabels": {"controller-uid": uid}}, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": spec, "status": {"active": 1}}


def owned(uid: str, kind: str = "Service") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
    metadata = {"name": "svc-train", "namespace": "ns-1", "uid": "s", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {"clusterIP": "10.0.0.7"}}


def ledger(uid: str, manifest: str = "m") -> dict[str, Any]:
    entry = {"manifest": manifest, "uid": uid, "submitted_at": "2026-01-01T00:00:00Z"}
    metadata = {"name": "gpuctl-ledger", "namespace": "ns-1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"train": json.dumps(entry)}}


def test_the_same_job_in_another_namespace_of_another_uid_is_the_same():
    one = Snapshot.of([job("u1", "ns-1")], {"ns-1": "@ns"})
    other = Snapshot.of([job("u2", "ns-2")], {"ns-2": "@ns"})
    assert one.contents == other.contents
    assert list(one.contents) == ["Job @ns/train"]
    assert one.versions != other.versions


def test_a_field_that_is_declared_is_a_difference():
    other = job()
    other["spec"]["parallelism"] = 1
    assert differences(Snapshot.of([job()]).contents, Snapshot.of([other]).contents) == [
        "~ Job ns-1/train: .spec.parallelism: 2 -> 1"
    ]


def test_what_is_on_its_way_out_is_not_what_stays():
    leaving = job(deletionTimestamp="2026-01-01T00:00:00Z")
    assert Snapshot.of([leaving]).contents != Snapshot.of([job()]).contents


def test_an_owner_that_is_dead_is_a_difference():
    alive, dead = Snapshot.of([job("u1"), owned("u1")]), Snapshot.of([job("u1"), owned("u0")])
    (line,) = differences(alive.contents, dead.contents)
    assert "which is dead" in line


def test_a_ledger_that_speaks_of_a_former_job_is_a_difference():
    present, past = Snapshot.of([job("u1"), ledger("u1")]), Snapshot.of([job("u1"), ledger("u0")])
    (line,) = differences(present.contents, past.contents)
    assert "a former Job" in line


def test_what_has_come_and_gone():
    lines = differences(Snapshot.of([job()]).contents, Snapshot.of([ledger("u1")]).contents)
    assert lines == ["- Job ns-1/train", "+ ConfigMap ns-1/gpuctl-ledger"]


def test_pods_and_what_every_namespace_has_do_not_count():
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}}
    furniture = {"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "n"}}
    assert Snapshot.of([pod, furniture]).contents == {}


def test_replicas_belong_to_the_autoscaler_where_there_is_one():
    deployment = {"kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": 3}}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "d", "namespace": "n"}, "spec": {}}
    alone, scaled = Snapshot.of([deployment]), Snapshot.of([deployment, scaler])
    assert "replicas" in alone.contents["Deployment n/d"]
    assert "replicas" not in scaled.contents["Deployment n/d"]
