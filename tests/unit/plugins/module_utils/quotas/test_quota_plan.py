# SPDX-License-Identifier: BSD-2-Clause
"""The plans of quotas, and their blockers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.paths import ABSENT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.quota_model import Quota
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.live_quotas import LiveQuotas
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import (
    limit_range,
    namespace,
    resource_quota,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_plan import (
    QuotaPlans,
    plan_quota_removal,
    plan_quotas,
)


def quota(name: str, pod_security: str | None = None, **users: dict[str, Any]) -> Quota:
    level = {"pod_security": pod_security} if pod_security else {}
    (document,) = load((), {"kind": "quota", "quota": {"name": name}, **level, "users": users})
    assert isinstance(document.model, Quota)
    return document.model


def live(obj: dict[str, Any], *, terminating: bool = False, **hard: str) -> dict[str, Any]:
    """The object as if we had applied it, with more limits that someone else has set."""
    fields = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in obj["metadata"]["labels"]}}}
    managed = [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]
    metadata = {**obj["metadata"], "uid": "u", "managedFields": managed}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = obj.get("spec", {})
    return {**obj, "metadata": metadata, "spec": {**spec, "hard": {**spec["hard"], **hard}} if hard else spec}


def applied(*quotas: Quota, managed: bool = True, terminating: bool = False) -> LiveQuotas:
    """The cluster after the quotas were applied."""
    names = {name: each.pod_security for each in quotas for name in each.namespaces}
    spaces = {
        name: live(namespace(name, managed=managed, pod_security=level), terminating=terminating)
        for name, level in names.items()
    }
    objects: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for each in quotas:
        for name in each.namespaces:
            made = (resource_quota(each, name), limit_range(each, name))
            objects[name] += [live(obj) for obj in made if obj]
    return LiveQuotas(spaces, objects)


def steps(planned: QuotaPlans) -> list[str]:
    return [
        f"{step.action} {step.kind} {plan.namespace}"
        for plan in planned.plans
        for step in (*plan.prerequisites, *plan.steps)
    ]


def test_defaults_come_before_the_limits_that_need_them() -> None:
    planned = plan_quotas([quota("q", team={"cpu": 1})], LiveQuotas({}, {}))
    assert steps(planned) == ["create Namespace team", "create LimitRange team", "create ResourceQuota team"]


def test_limits_are_deleted_before_their_defaults() -> None:
    declared = quota("q", team={"cpu": 1})
    planned = plan_quota_removal([declared], None, None, applied(declared), delete_namespaces=False)
    assert steps(planned) == ["delete ResourceQuota team", "delete LimitRange team"]


def test_a_quota_that_is_as_declared_is_unchanged() -> None:
    declared = quota("q", team={"cpu": 1, "memory": "1Gi"})
    for managed in (True, False):
        planned = plan_quotas([declared], applied(declared, managed=managed))
        assert [plan.changed for plan in planned.plans] == [False]


def test_removals_come_last() -> None:
    before = applied(quota("a", one={"pods": 1}, two={"pods": 1}))
    planned = plan_quotas([quota("a", one={"pods": 1}), quota("b", two={"pods": 2})], before)
    assert planned.blockers == []
    assert [(plan.name, plan.namespace, str(plan.action)) for plan in planned.plans] == [
        ("a", "one", "unchanged"),
        ("b", "two", "create"),
        ("a", "two", "delete"),
    ]


def test_a_namespace_of_another_quota_is_a_blocker() -> None:
    planned = plan_quotas([quota("b", team={"pods": 2})], applied(quota("a", team={"pods": 1})))
    (blocker,) = planned.blockers
    assert blocker.startswith("quota b: the namespace team already belongs to the quota a.")


def test_in_a_terminating_namespace_everything_is_created() -> None:
    declared = quota("q", team={"pods": 1})
    planned = plan_quotas([declared], applied(quota("other", team={"pods": 1}), terminating=True))
    assert planned.blockers == []
    assert steps(planned) == ["create Namespace team", "create ResourceQuota team"]
    assert planned.plans[0].prerequisites[0].live, "it has to be deleted first"


def test_unenforced_keys_are_removed_whichever_manager_set_them() -> None:
    declared = quota("q", team={"gpu": 4})
    before = applied(declared)
    before.objects["team"] = [live(resource_quota(declared, "team"), **{"nvidia.com/gpu": "4"})]
    planned = plan_quotas([declared], before)
    (step,) = planned.plans[0].steps
    assert [str(change) for change in step.changes] == ["spec.hard[nvidia.com/gpu]"]
    (warning,) = planned.warnings
    assert "Kubernetes does not enforce nvidia.com/gpu" in warning
    assert "The enforced key is requests.nvidia.com/gpu" in warning


def test_limits_set_by_others_stay() -> None:
    declared = quota("q", team={"gpu": 4})
    before = applied(declared)
    before.objects["team"] = [live(resource_quota(declared, "team"), **{"count/jobs.batch": "5"})]
    assert not plan_quotas([declared], before).plans[0].changed


def test_a_namespace_of_two_quotas_is_kept() -> None:
    a, b = quota("a", team={"pods": 1}), quota("b", team={"pods": 1})
    planned = plan_quota_removal([a], None, None, applied(a, b), delete_namespaces=True)
    assert steps(planned) == ["delete ResourceQuota team"]
    assert planned.notes == {"team": "also used by the quota b"}
    assert (
        steps(plan_quota_removal([a, b], None, None, applied(a, b), delete_namespaces=True))
        == ["delete Namespace team"] * 2
    )


def test_a_quota_is_deleted_with_its_namespace() -> None:
    declared = quota("q", team={"cpu": 1})
    planned = plan_quota_removal([], "q", None, applied(declared), delete_namespaces=True)
    assert steps(planned) == ["delete Namespace team"]


def test_an_empty_list_of_namespaces_is_not_all_of_them() -> None:
    """A filter without a match leaves an empty list."""
    before = applied(quota("q", team={"cpu": 1}))
    assert plan_quota_removal([], "q", [], before, delete_namespaces=True).plans == []
    assert plan_quota_removal([], None, [], before, delete_namespaces=True).plans == []


def changed_labels(planned: QuotaPlans) -> dict[str, str]:
    """What happens to the level that namespaces enforce: its new value, or "removed"."""
    path = ("metadata", "labels", "pod-security.kubernetes.io/enforce")
    every = [step for plan in planned.plans for step in (*plan.prerequisites, *plan.steps)]
    found = [(step.name, change) for step in every for change in step.changes if change.path == path]
    return {name: "removed" if change.after is ABSENT else change.after for name, change in found}


TEAM = {"team": {"pods": 1}}


@pytest.mark.parametrize("managed", [True, False])
@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (None, "baseline", {"team": "baseline"}),
        ("baseline", "baseline", {}),
        ("baseline", "restricted", {"team": "restricted"}),
        ("restricted", "privileged", {"team": "privileged"}),
        ("restricted", None, {"team": "removed"}),
        (None, None, {}),
    ],
)
def test_pod_security_is_a_label_of_every_namespace(
    before: str | None, after: str | None, changes: dict[str, str], managed: bool
) -> None:
    planned = plan_quotas([quota("q", after, **TEAM)], applied(quota("q", before, **TEAM), managed=managed))
    assert changed_labels(planned) == changes


def test_pod_security_ends_with_the_quota() -> None:
    declared = quota("q", "baseline", **TEAM)
    planned = plan_quota_removal([declared], None, None, applied(declared), delete_namespaces=False)
    assert steps(planned) == ["delete ResourceQuota team", "update Namespace team"]
    assert changed_labels(planned) == {"team": "removed"}
    kept = applied(declared).namespaces["team"]["metadata"]["labels"].items()
    assert planned.plans[0].steps[-1].desired["metadata"]["labels"].items() <= kept


def test_pod_security_ends_in_a_namespace_that_leaves_the_quota() -> None:
    before = quota("q", "baseline", one={}, two={})
    assert changed_labels(plan_quotas([quota("q", "baseline", one={})], applied(before))) == {"two": "removed"}
    moved = [quota("q", "baseline", one={}), quota("other", "restricted", two={})]
    assert changed_labels(plan_quotas(moved, applied(before))) == {"two": "restricted"}


def test_pod_security_stays_while_another_quota_has_the_namespace() -> None:
    a, b = quota("a", "baseline", **TEAM), quota("b", "baseline", **TEAM)
    assert changed_labels(plan_quota_removal([a], None, None, applied(a, b), delete_namespaces=False)) == {}


def test_pod_security_of_others_is_left_alone() -> None:
    before = applied(quota("q", **TEAM))
    before.namespaces["team"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "restricted"
    declared = quota("q", **TEAM)
    assert changed_labels(plan_quotas([declared], before)) == {}
    removed = plan_quota_removal([declared], None, None, before, delete_namespaces=False)
    assert changed_labels(removed) == {}


def test_pod_security_of_a_policy_stays() -> None:
    before, declared = replace(applied(quota("q", "baseline", **TEAM)), levels={"team": "baseline"}), quota("q", **TEAM)
    assert changed_labels(plan_quotas([declared], before)) == {}
    assert changed_labels(plan_quota_removal([declared], None, None, before, delete_namespaces=False)) == {}
    stricter = quota("q", "restricted", **TEAM)
    assert changed_labels(plan_quotas([stricter], before)) == {"team": "restricted"}
    planned = plan_quota_removal([stricter], None, None, applied(stricter), delete_namespaces=False)
    assert changed_labels(planned) == {"team": "removed"}


@pytest.mark.parametrize(
    ("level", "words"), [("baseline", ["host paths"]), ("restricted", ["host paths", "root"]), ("privileged", [])]
)
def test_what_pod_security_forbids_is_said_once(level: str, words: list[str]) -> None:
    declared = quota("q", level, **TEAM)
    for before in (LiveQuotas({}, {}), applied(quota("q", **TEAM))):
        said = " ".join(plan_quotas([declared], before).warnings)
        assert [word for word in ("host paths", "root") if word in said] == words
    assert plan_quotas([declared], applied(declared)).warnings == []


@pytest.mark.parametrize(
    ("limited", "problem"),
    [
        ({"acme": 4}, "accelerators.acme: unknown accelerator: acme. Known are amd, ascend, "),
        ({"nvidia/huge": 4}, "accelerators.nvidia/huge: GPUs have no such part: huge. Correct it."),
    ],
)
def test_an_accelerator_that_there_is_not_cannot_be_limited(limited: dict[str, int], problem: str) -> None:
    (blocker,) = plan_quotas([quota("q", team={"accelerators": limited})], LiveQuotas({}, {})).blockers
    assert blocker.startswith(f"quota q: users.team.{problem}")
