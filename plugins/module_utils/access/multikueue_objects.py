# SPDX-License-Identifier: BSD-2-Clause
"""The objects of MultiKueue: in each worker cluster an account for the manager, and in the manager what Kueue connects
by. Pure.

Source: kubernetes-sigs/kueue, site/content/en/docs/tasks/manage/setup_multikueue.md and apis/kueue/v1beta2.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

from ..kube.resources import (
    ADMISSION_CHECK,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    KUEUE_VERSION,
    MULTIKUEUE_CLUSTER,
    MULTIKUEUE_CONFIG,
    SECRET,
    SERVICE_ACCOUNT,
    Object,
)
from ..labels import SYSTEM_NAMESPACE
from ..permissions import Permissions
from ..printable import one_line
from ..queues.kueue_objects import MULTIKUEUE_NAME
from ..rbac.levels import account, managed_object, role_rules

MULTIKUEUE_KINDS = (ADMISSION_CHECK, MULTIKUEUE_CONFIG, MULTIKUEUE_CLUSTER)  # each before what it names
SECRET_PREFIX = f"{MULTIKUEUE_NAME}-"
_KEY = "kubeconfig"  # MultiKueueConfigSecretKey

# Less than Kueue's page has: only Jobs are written. But Kueue connects only if it may watch all kinds that its
# configuration in the manager has as integrations (multikueuecluster.go, updateConfigAndRefreshWatchers).
_PERMISSIONS: Permissions = (
    ("create delete get list watch", "jobs.batch"),
    ("get", "jobs/status.batch"),
    ("create delete get list patch update watch", "workloads.kueue.x-k8s.io"),
    ("get patch update", "workloads/status.kueue.x-k8s.io"),
    ("get list watch", "clusterqueues.kueue.x-k8s.io localqueues.kueue.x-k8s.io pods statefulsets.apps"),
    ("get list watch", "jobsets.jobset.x-k8s.io leaderworkersets.leaderworkerset.x-k8s.io"),
    ("get list watch", "appwrappers.workload.codeflare.dev trainjobs.trainer.kubeflow.org"),
    ("get list watch", "rayclusters.ray.io rayjobs.ray.io rayservices.ray.io"),
    ("get list watch", "jaxjobs.kubeflow.org mpijobs.kubeflow.org paddlejobs.kubeflow.org pytorchjobs.kubeflow.org"),
    ("get list watch", "tfjobs.kubeflow.org xgboostjobs.kubeflow.org"),
)


def worker_objects() -> list[dict[str, Any]]:
    """The account of the manager in a worker cluster, and what it may do there."""
    group = "rbac.authorization.k8s.io"
    subject = {"kind": SERVICE_ACCOUNT.kind, "name": MULTIKUEUE_NAME, "namespace": SYSTEM_NAMESPACE}
    return [
        account(MULTIKUEUE_NAME, SYSTEM_NAMESPACE),
        {**managed_object(CLUSTER_ROLE, MULTIKUEUE_NAME), "rules": role_rules(_PERMISSIONS)},
        {
            **managed_object(CLUSTER_ROLE_BINDING, MULTIKUEUE_NAME),
            "roleRef": {"apiGroup": group, "kind": CLUSTER_ROLE.kind, "name": MULTIKUEUE_NAME},
            "subjects": [subject],
        },
    ]


def manager_objects(kubeconfigs: Mapping[str, str], namespace: str) -> list[dict[str, Any]]:
    """What the manager has of workers by their kubeconfigs, in the order of preference; each after what it names."""
    found = [
        {
            **managed_object(SECRET, f"{SECRET_PREFIX}{name}", namespace),
            "data": {_KEY: base64.b64encode(text.encode()).decode()},
        }
        for name, text in kubeconfigs.items()
    ]
    for name in kubeconfigs:
        source = {"kubeConfig": {"location": f"{SECRET_PREFIX}{name}", "locationType": "Secret"}}
        found.append({**managed_object(MULTIKUEUE_CLUSTER, name), "spec": {"clusterSource": source}})
    if not kubeconfigs:
        return []
    config = {"apiGroup": KUEUE_VERSION.partition("/")[0], "kind": MULTIKUEUE_CONFIG.kind, "name": MULTIKUEUE_NAME}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": config}
    return [
        *found,
        {**managed_object(MULTIKUEUE_CONFIG, MULTIKUEUE_NAME), "spec": {"clusters": list(kubeconfigs)}},
        {**managed_object(ADMISSION_CHECK, MULTIKUEUE_NAME), "spec": check},
    ]


def kubeconfig_in(secret: Object | None) -> str:
    """What a Secret has for Kueue; "" if that cannot be read."""
    try:
        return base64.b64decode(((secret or {}).get("data") or {}).get(_KEY) or "").decode()
    except ValueError:
        return ""


def dispatching_queues(live: Collection[Object]) -> set[tuple[str, str]]:
    """Namespace and name of the LocalQueues of a manager that workers must have, too."""

    def checks(queue: Object) -> list[str]:
        strategy = (queue.get("spec") or {}).get("admissionChecksStrategy") or {}
        return [each["name"] for each in strategy.get("admissionChecks") or ()]

    names = {
        obj["metadata"]["name"] for obj in live if obj["kind"] == "ClusterQueue" and MULTIKUEUE_NAME in checks(obj)
    }
    found = (obj for obj in live if obj["kind"] == "LocalQueue")
    return {identity(obj) for obj in found if (obj.get("spec") or {}).get("clusterQueue") in names}


def identity(queue: Object) -> tuple[str, str]:
    """Namespace and name."""
    return queue["metadata"]["namespace"], queue["metadata"]["name"]


def activity(obj: Object | None) -> tuple[bool | None, str]:
    """Whether Kueue says of an object that it is active, None if it has said nothing, and why not."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    found = next((each for each in conditions if each.get("type") == "Active"), None)
    if found is None:
        return None, "Kueue has not said yet whether it is connected"
    if found.get("status") == "True":
        return True, ""
    return False, one_line(f"{found.get('reason')}: {found.get('message')}")
