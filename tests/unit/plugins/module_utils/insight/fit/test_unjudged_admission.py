# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.fit.unjudged_admission import Admitting, unjudged

Object = dict[str, Any]
TEMPLATE = {"metadata": {"labels": {"app": "t"}}, "spec": {}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "t", "namespace": "team-a", "labels": {"app": "t"}},
    "spec": {"template": TEMPLATE},
}
NAMESPACES = {"team-a": {"kubernetes.io/metadata.name": "team-a", "team": "a"}}
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
JOBS = {"apiGroups": ["batch"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}


def policy(*rules: Object, **match: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": list(rules), **match}}}


def binding(*actions: str, **spec: Any) -> Object:
    return {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": list(actions), **spec}}


def webhook(*rules: Object, **fields: Any) -> Object:
    return {"metadata": {"name": "w"}, "webhooks": [{"name": "w.example.com", "rules": list(rules), **fields}]}


def other(labels: Object) -> Object:
    return {"namespaceSelector": {"matchLabels": labels}}


@pytest.mark.parametrize(
    ("policies", "bindings", "named"),
    [
        pytest.param([policy(PODS)], [binding("Deny")], True, id="of pods"),
        pytest.param([policy(JOBS)], [binding("Audit", "Deny")], True, id="of workloads"),
        pytest.param([policy(PODS)], [], False, id="without a binding"),
        pytest.param([policy(PODS)], [binding("Warn")], False, id="that only warns"),
        pytest.param([policy({**PODS, "operations": ["DELETE"]})], [binding("Deny")], False, id="of deletions"),
        pytest.param([policy({**JOBS, "apiGroups": ["apps"]})], [binding("Deny")], False, id="of another group"),
        pytest.param([policy({**PODS, "resources": ["pods/exec"]})], [binding("Deny")], False, id="of a subresource"),
        pytest.param([policy(PODS, excludeResourceRules=[PODS])], [binding("Deny")], False, id="with an exception"),
        pytest.param([policy(PODS, **other({"team": "a"}))], [binding("Deny")], True, id="of its namespace"),
        pytest.param([policy(PODS, **other({"team": "b"}))], [binding("Deny")], False, id="of another namespace"),
        pytest.param(
            [policy(PODS)],
            [binding("Deny", matchResources=other({"team": "b"}))],
            False,
            id="bound elsewhere",
        ),
        pytest.param(
            [policy(PODS, objectSelector={"matchLabels": {"app": "x"}})], [binding("Deny")], False, id="by other labels"
        ),
    ],
)
def test_policies_that_may_refuse_are_named(policies: list[Object], bindings: list[Object], named: bool) -> None:
    found = unjudged(Admitting(policies, bindings, namespaces=NAMESPACES), [[JOB]])
    assert found == (["ValidatingAdmissionPolicy p"] if named else [])


@pytest.mark.parametrize(
    ("hook", "named"),
    [
        pytest.param(webhook(PODS), True, id="of pods"),
        pytest.param(webhook(JOBS, PODS), True, id="of both, once"),
        pytest.param(webhook({**PODS, "scope": "Cluster"}), False, id="of what is in no namespace"),
        pytest.param(webhook(PODS, **other({"team": "b"})), False, id="of another namespace"),
    ],
)
def test_webhooks_that_may_refuse_are_named(hook: Object, named: bool) -> None:
    for kind in ("validating", "mutating"):
        found = unjudged(Admitting(namespaces=NAMESPACES, **{kind: [hook]}), [[JOB]])
        assert found == ([f"{kind} webhook w.example.com (w)"] if named else [])


def test_what_the_account_may_not_list_may_refuse_too() -> None:
    hidden = ["admission policies and webhooks that the account may not list"]
    assert unjudged(Admitting(validating=None), [[JOB]]) == hidden
    assert unjudged(Admitting(validating=None), []) == []
    # Whatever a selector of namespaces says where their labels are not known.
    assert unjudged(Admitting(validating=[webhook(PODS, **other({"team": "b"}))]), [[JOB]]) != []
