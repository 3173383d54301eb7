# SPDX-License-Identifier: BSD-2-Clause
"""What the API server says when a namespace is to enforce a level: pods that run already may violate it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.policy import MODULE as POLICY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import PRIORITIES, priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER, MANAGED
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import MODULE as INFO
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_info import QuotaInfoOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import namespace, resource_quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_options import QuotaOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from kubesim import Cluster

from ..jobs.sessions import Session
from ..kube.conversation import Exchange, conversation
from .test_quota_plan import quota

# Recorded with Kubernetes 1.36.
VIOLATIONS = (
    r'299 - "existing pods in namespace \"team\" violate the new PodSecurity enforce level \"baseline:latest\"", '
    r'299 - "a (and 1 other pod): hostPath volumes"'
)
TEAM: dict[str, Any] = {"team": {"pods": 1}}
PAGE = {"limit": "500"}
CLASSES = {"kind": "PriorityClassList", "metadata": {}, "items": list(map(priority_class, PRIORITIES))}
DRY_RUN = {"dryRun": "All", "fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": "false"}
NO_POOLS: dict[str, Any] = {"kind": "ConfigMapList", "metadata": {}, "items": []}


def said_in_check_mode(level: str, headers: dict[str, str]) -> str:
    """The warnings of a task that would set the level in a namespace without one."""
    before, after = quota("q", **TEAM), quota("q", level, **TEAM)
    space = namespace("team", managed=True)
    limits = resource_quota(before, "team")
    for obj in (space, limits):
        obj["metadata"] = {**obj["metadata"], "uid": "u", "resourceVersion": "1"}
    expected = namespace("team", managed=True, pod_security=level)
    said: list[str] = []
    lists = {"Namespace": [space], "ResourceQuota": [limits], "LimitRange": []}
    read = [
        Exchange(
            "GET", f"/api/v1/{kind.lower()}s", PAGE, answer={"kind": f"{kind}List", "metadata": {}, "items": items}
        )
        for kind, items in lists.items()
    ]
    with conversation(
        *read,
        Exchange("PATCH", "/api/v1/namespaces/team", DRY_RUN, sent=expected, answer=expected, headers=headers),
        Exchange("GET", "/api/v1/namespaces/gpuctl-system/configmaps", PAGE, answer=NO_POOLS),
        Exchange("GET", "/apis/scheduling.k8s.io/v1/priorityclasses", PAGE, answer=CLASSES),
    ) as url:
        definition = {"kind": "quota", "quota": {"name": "q"}, "pod_security": level, "users": TEAM}
        defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
        params = {**defaults, "host": url, "api_key": "t", "concurrency": 1}
        options = QuotaOptions(definition=definition, concurrency=1)
        MODULE.run(Task(options, params, True, said.append, lambda values: None))
    assert after.pod_security == level
    return "\n".join(said)


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_running_pods_that_violate_a_level_are_named(level: str) -> None:
    said = said_in_check_mode(level, {"Warning": VIOLATIONS})
    assert (
        'quota q in namespace team: existing pods in namespace "team" violate the new PodSecurity enforce level '
        '"baseline:latest"; a (and 1 other pod): hostPath volumes. Running pods continue, but are not created again '
        "like that."
    ) in said


def test_nothing_is_said_where_no_pod_violates_it() -> None:
    assert "Running pods" not in said_in_check_mode("baseline", {})


def test_levels_are_read_of_the_allowed_namespaces_only() -> None:
    space, limits = namespace("team", managed=True, pod_security="baseline"), resource_quota(quota("q", **TEAM), "team")
    listed = {"kind": "ResourceQuotaList", "metadata": {}, "items": [limits]}
    selected = {**PAGE, "labelSelector": MANAGED}
    for obj in (space, limits):
        obj["metadata"] = {**obj["metadata"], "uid": "u", "resourceVersion": "1"}
    with conversation(
        Exchange("GET", "/api/v1/namespaces/team/resourcequotas", selected, answer=listed),
        Exchange("GET", "/api/v1/namespaces/team", answer=space),
    ) as url:
        defaults = {name: option.get("default") for name, option in INFO.arguments()["argument_spec"].items()}
        params = {**defaults, "host": url, "api_key": "t", "concurrency": 1}
        options = QuotaInfoOptions(allowed_namespaces=["team"])
        (row,) = INFO.run(Task(options, params, False, print, lambda values: None))["results"]
    assert row["pod_security"] == "baseline"


def test_a_quota_keeps_the_level_of_a_policy() -> None:
    with Cluster(nodes=0, controllers=False).running() as cluster:
        session = Session(cluster)
        declared = {"kind": "quota", "quota": {"name": "q"}, "users": TEAM}

        def enforce(level: str | None) -> bool:
            teams = {"team": {"pod_security": level} if level else {}}
            policy = {"kind": "policy", "policy": {"name": "company"}, "teams": teams}
            return bool(session.run(POLICY, definition=policy)["changed"])

        def level() -> str | None:
            (row,) = session.run(INFO, namespaces=["team"])["results"]
            return str(row["pod_security"]) if row["pod_security"] else None

        session.run(MODULE, definition=declared)
        assert enforce("baseline")
        assert not session.run(MODULE, definition=declared)["changed"]
        assert level() == "baseline"
        assert not enforce("baseline")
        enforce(None)
        assert session.run(MODULE, definition=declared)["changed"]
        assert level() is None
