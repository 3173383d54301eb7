# SPDX-License-Identifier: BSD-2-Clause
"""Pods of one template are worked out once, and those that differ in anything that counts are not taken for them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster import pod_facts
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.alike_pods import AlikePods
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_facts import placed_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import CLAIMED_DEVICES

Object = dict[str, Any]
GRANTED = {"name": "main", "allocatedResources": {"cpu": "7"}, "resources": {"requests": {"cpu": "6"}}}
PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


def pod(spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    main = {"name": "main", "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}}
    named = {"name": "p", "namespace": "team", "uid": "u", **metadata}
    return {"metadata": named, "spec": {"containers": [main], **(spec or {})}, "status": status or {}}


def first(**more: Any) -> Object:
    return {"initContainers": [{"name": "first", "resources": {"requests": {"cpu": "9"}}, **more}]}


UNLIKE = {
    "requests": pod({"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}),
    "limits": pod({"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}}]}),
    "another container": pod({"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "2"}}}]}),
    "an init container": pod(first()),
    "a sidecar": pod(first(restartPolicy="Always")),
    "the pod as a whole": pod({"resources": {"requests": {"cpu": "5"}}}),
    "overhead": pod({"overhead": {"cpu": "250m"}}),
    "granted": pod(status={"containerStatuses": [GRANTED]}),
    "never granted": pod(status={"containerStatuses": [GRANTED], "conditions": [PENDING]}),
    "claimed": pod(annotations={CLAIMED_DEVICES: "nvidia.com/gpu=4"}),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_pods_are_not_taken_for_each_other(name: str) -> None:
    known: pod_facts.Known = {}
    for other in (pod(), *UNLIKE.values()):
        placed_pod(other, known)
    alone = placed_pod(UNLIKE[name])
    assert alone == placed_pod(UNLIKE[name], known)
    assert (alone.requests, alone.limits, alone.use.requests) != (
        (plain := placed_pod(pod())).requests,
        plain.limits,
        plain.use.requests,
    )


def test_pods_of_a_template_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = pod_facts.requests_of_pod
    monkeypatch.setattr(pod_facts, "requests_of_pod", lambda pod: asked.append(pod) or real(pod))
    alike = AlikePods(pod_facts.amounts_of_pod)
    found = [placed_pod(copy.deepcopy(pod(name=f"p{index}", uid=f"u{index}")), alike) for index in range(50)]
    assert len(asked) == 1
    assert len({one.uid for one in found}) == 50
    assert len({id(one.requests) for one in found}) == 1  # nor kept more than once
