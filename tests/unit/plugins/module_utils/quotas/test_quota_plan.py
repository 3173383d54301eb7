# SPDX-License-Identifier: BSD-2-Clause
"""The plans of quotas, and their blockers."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import FIELD_MANAGER
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.models import Quota
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


def quota(name: str, **users: dict[str, Any]) -> Quota:
    (document,) = load((), {"kind": "quota", "quota": {"name": name}, "users": users})
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
    names = {name for each in quotas for name in each.namespaces}
    spaces = {name: live(namespace(name, managed=managed), terminating=terminating) for name in names}
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


def test_unenforced_keys_are_removed_whoever_set_them() -> None:
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
    """A filter that matches nobody leaves an empty list."""
    before = applied(quota("q", team={"cpu": 1}))
    assert plan_quota_removal([], "q", [], before, delete_namespaces=True).plans == []
    assert plan_quota_removal([], None, [], before, delete_namespaces=True).plans == []
