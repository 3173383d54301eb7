# SPDX-License-Identifier: BSD-2-Clause
"""Which fields differ, and what we applied before."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.engine.fields import applied_by, changes

CASES = yaml.safe_load(Path(__file__).with_name("fields.yaml").read_text())


def live_object(case):
    managers = [
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {"f:others": {}}}},
        {"manager": "us", "operation": "Update", "fieldsV1": {"f:spec": {"f:others": {}}}},
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": case.get("theirs", {})},
        {"manager": "us", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:spec": {"f:others": {}}}},
        {"manager": "us", "operation": "Apply", "fieldsV1": case.get("owned", {})},
    ]
    live = case["live"]
    return {**live, "metadata": {**live.get("metadata", {}), "managedFields": managers}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_changes(case):
    found = changes(case["desired"], live_object(case), "us")
    assert [str(change) for change in found] == case["changes"]
    if "before" in case:
        assert [change.before for change in found] == case["before"]
    if "after" in case:
        assert [change.after for change in found] == case["after"]


def test_what_was_applied_is_extracted_from_the_live_object():
    container = {"name": "main", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "THEIRS", "value": "2"}]}
    live = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "uid": "u-1",
            "resourceVersion": "7",
            "labels": {"app": "train", "theirs": "x"},
            "managedFields": [
                {
                    "manager": "us",
                    "operation": "Apply",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:app": {}}},
                        "f:spec": {
                            "f:backoffLimit": {},
                            "f:template": {
                                "f:spec": {
                                    "f:containers": {
                                        'k:{"name":"main"}': {
                                            ".": {},
                                            "f:name": {},
                                            "f:image": {},
                                            "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                                        }
                                    }
                                }
                            },
                        },
                    },
                }
            ],
        },
        "spec": {
            "backoffLimit": 3,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}},
            "template": {"spec": {"containers": [container], "dnsPolicy": "ClusterFirst"}},
        },
        "status": {"active": 1},
    }
    applied = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "labels": {"app": "train"}},
        "spec": {
            "backoffLimit": 3,
            "template": {
                "spec": {"containers": [{"name": "main", "image": "a", "env": [{"name": "A", "value": "1"}]}]}
            },
        },
    }
    assert applied_by("us", live) == applied
    assert changes(applied, live, "us") == ()


def test_what_was_applied_keeps_the_order_of_its_lists():
    """The server sorts the keys in managedFields; but a variable may only refer to those before it."""
    keys = {'k:{"name":"A"}': {"f:name": {}, "f:value": {}}, 'k:{"name":"B"}': {"f:name": {}, "f:value": {}}}
    env = [{"name": "B", "value": "1"}, {"name": "theirs", "value": "2"}, {"name": "A", "value": "$(B)"}]
    live = {
        "apiVersion": "v1",
        "kind": "X",
        "metadata": {
            "name": "x",
            "managedFields": [{"manager": "us", "operation": "Apply", "fieldsV1": {"f:env": keys}}],
        },
        "env": env,
    }
    assert applied_by("us", live)["env"] == [env[0], env[2]]
