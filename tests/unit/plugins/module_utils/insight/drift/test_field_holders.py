# SPDX-License-Identifier: BSD-2-Clause
"""Who is to blame for a field, by managedFields as API servers write them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import Path
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.drift.field_holders import (
    FieldHolder,
    additions,
    blame,
    last_of_others,
    last_run,
)

MAIN = (("name", "main"),)
B = (("name", "B"),)
CONTAINERS: Path = ("spec", "template", "spec", "containers")


def entry(manager: str, fields: Any, minute: int | None, operation: str = "Update", **more: str) -> dict[str, Any]:
    time = {} if minute is None else {"time": f"2026-11-22T20:{minute:02}:00Z"}
    return {"manager": manager, "operation": operation, "fieldsV1": fields, **time, **more}


def in_main(fields: Any) -> Any:
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': fields}}}}}


# As Kubernetes 1.36 recorded it after an apply of ours, and what people did with kubectl.
DEPLOYMENT: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {
        "name": "d",
        "annotations": {"note": "hi", "deployment.kubernetes.io/revision": "3"},
        "labels": {"a": "c", "x": "y"},
        "managedFields": [
            entry("runwhere.gpuctl", in_main({".": {}, "f:args": {}, "f:name": {}}), 24, "Apply"),
            entry("kubectl", {"f:spec": {"f:replicas": {}}}, None, subresource="scale"),
            entry("kubectl-annotate", {"f:metadata": {"f:annotations": {"f:note": {}}}}, 25),
            entry("kubectl-label", {"f:metadata": {"f:labels": {"f:a": {}, "f:x": {}}}}, 26),
            entry(
                "kubectl-rollout",
                {
                    "f:spec": {
                        "f:paused": {},
                        "f:template": {
                            "f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}
                        },
                    }
                },
                27,
            ),
            entry(
                "kubectl-set",
                in_main(
                    {
                        "f:env": {'k:{"name":"B"}': {".": {}, "f:name": {}, "f:value": {}}},
                        "f:image": {},
                        "f:resources": {"f:limits": {".": {}, "f:cpu": {}}},
                    }
                ),
                28,
            ),
            entry(
                "kube-controller-manager",
                {
                    "f:metadata": {"f:annotations": {".": {}, "f:deployment.kubernetes.io/revision": {}}},
                    "f:status": {"f:replicas": {}},
                },
                29,
                subresource="status",
            ),
        ],
    },
    "spec": {
        "replicas": 2,
        "paused": True,
        "template": {
            "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "nginx",
                        "args": ["a"],
                        "env": [{"name": "B", "value": "3"}],
                        "resources": {"limits": {"cpu": "1"}},
                    }
                ]
            },
        },
    },
}


@pytest.mark.parametrize(
    ("path", "cause", "manager", "time"),
    [
        (("spec", "replicas"), "others", "kubectl", None),
        ((*CONTAINERS, MAIN, "image"), "others", "kubectl-set", "2026-11-22T20:28:00Z"),
        ((*CONTAINERS, MAIN, "resources"), "others", "kubectl-set", "2026-11-22T20:28:00Z"),
        ((*CONTAINERS, MAIN, "env", B, "value"), "others", "kubectl-set", "2026-11-22T20:28:00Z"),
        ((*CONTAINERS, MAIN, "args"), "gpuctl", "runwhere.gpuctl", "2026-11-22T20:24:00Z"),
        ((*CONTAINERS, MAIN, "args", "deeper"), "gpuctl", "runwhere.gpuctl", "2026-11-22T20:24:00Z"),
        ((*CONTAINERS, MAIN, "tty"), "unknown", None, None),
        (("metadata", "labels", "a"), "others", "kubectl-label", "2026-11-22T20:26:00Z"),
        (
            ("metadata", "annotations", "deployment.kubernetes.io/revision"),
            "controller",
            "kube-controller-manager",
            "2026-11-22T20:29:00Z",
        ),
        (("metadata", "labels", "gone"), "unknown", None, None),
    ],
)
def test_a_field_is_its_holders(path: Path, cause: str, manager: str | None, time: str | None):
    found = blame(DEPLOYMENT, path)
    holder = found.holder
    assert (found.cause, holder and holder.manager, holder and holder.time) == (cause, manager, time)


def test_what_others_have_added():
    declared = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}}
    ignored: list[Path] = [(*CONTAINERS, MAIN, "image")]
    found = {each.path: each.value for each in additions(DEPLOYMENT, declared, ignored)}
    assert found == {
        ("metadata", "annotations", "note"): "hi",
        ("metadata", "labels", "x"): "y",
        ("spec", "paused"): True,
        (*CONTAINERS, MAIN, "env", B): {"name": "B", "value": "3"},
        (*CONTAINERS, MAIN, "resources", "limits", "cpu"): "1",
    }


def test_a_field_that_we_hold_as_well_was_not_changed_by_others():
    fields = {"f:data": {"f:a": {}}}
    obj = {"metadata": {"managedFields": [entry("runwhere.gpuctl", fields, 1, "Apply"), entry("argocd", fields, 2)]}}
    assert blame(obj, ("data", "a")).cause == "gpuctl"


def test_who_was_there_last():
    assert last_run(DEPLOYMENT) == "2026-11-22T20:24:00Z"
    assert getattr(last_of_others(DEPLOYMENT), "manager", None) == "kubectl-set"
    assert (last_run({"metadata": {}}), last_of_others({"metadata": {}})) == (None, None)


def test_a_status_is_nobodys_change():
    written = {"metadata": {"managedFields": [entry("me", {"f:status": {"f:a": {}}}, 1, subresource="status")]}}
    assert last_of_others(written) is None


@pytest.mark.parametrize(
    ("manager", "cause"),
    [
        ("kubectl-edit", "others"),
        ("kubectl", "others"),
        ("k9s", "others"),
        ("Lens", "others"),
        ("node-fetch", "others"),
        ("helm", "others"),
        ("argocd-application-controller", "others"),
        ("kustomize-controller", "others"),
        ("Terraform", "others"),
        ("my-manager-script", "others"),
        ("kube-controller-manager", "controller"),
        ("kube-scheduler", "controller"),
        ("kubelet", "controller"),
        ("k3s", "controller"),
        ("kueue", "controller"),
        ("vc-controller-manager", "controller"),
        ("cluster-autoscaler", "controller"),
        ("nfd-master", "controller"),
        ("gpu-operator", "controller"),
        ("runwhere.gpuctl", "gpuctl"),
        ("runwhere.gpuctl-handover", "gpuctl"),
    ],
)
def test_managers_are_people_or_controllers(manager: str, cause: str):
    assert FieldHolder(manager, "Update", None, None, {}).cause == cause
