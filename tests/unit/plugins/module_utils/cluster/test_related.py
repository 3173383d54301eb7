# SPDX-License-Identifier: BSD-2-Clause
"""Which pods belong to a workload, and to its current template."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.related import own_pods, pods_of_template

BORN = "2026-01-01T00:01:00Z"
CONTAINER = {
    "name": "main",
    "image": "reg/ml:v2",
    "command": ["run", "--fast"],
    "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"cpu": "1"}},
}
TEMPLATE = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}},
    "spec": {"containers": [CONTAINER]},
}
WORKLOAD = {"metadata": {"creationTimestamp": BORN}, "spec": {"template": TEMPLATE}}


def pod(born: str = BORN, **container: Any) -> dict[str, Any]:
    """A pod of the template with what the cluster adds to it, but with other fields of its container."""
    made = deepcopy(TEMPLATE)
    made["metadata"]["labels"] |= {"pod-template-hash": "6d4b"}
    made["metadata"]["creationTimestamp"] = born  # type: ignore[assignment]
    made["spec"]["containers"][0] |= container
    made["spec"]["containers"].insert(0, {"name": "sidecar", "image": "mesh:v1"})
    return made


def without(section: str, name: str) -> dict[str, Any]:
    made = pod()
    del made["metadata"][section][name]
    return made


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "a pod of the template": (pod(), True),
    "with what admission added": (
        pod(
            env=[{"name": "INJECTED", "value": "x"}, {"name": "A", "value": "1"}],
            resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
        ),
        True,
    ),
    "another image": (pod(image="reg/ml:v1"), False),
    "another argument": (pod(command=["run"]), False),
    "another value": (pod(env=[{"name": "A", "value": "2"}]), False),
    "a variable less": (pod(env=[]), False),
    "less memory": (pod(resources={}), False),
    "before the restart": (without("annotations", "kubectl.kubernetes.io/restartedAt"), False),
    "another label": (without("labels", "app"), False),
    "of a workload that was deleted": (pod("2026-01-01T00:00:00Z"), False),
}


@pytest.mark.parametrize(("made", "is_current"), CASES.values(), ids=CASES)
def test_which_pods_match_the_current_template(made: dict[str, Any], is_current: bool) -> None:
    assert bool(pods_of_template(WORKLOAD, [made])) == is_current


def test_pods_older_than_the_workload_are_not_its_own() -> None:
    mine = pod("2026-01-01T00:01:01Z", image="reg/ml:v1")
    assert own_pods(WORKLOAD, [pod("2026-01-01T00:00:59Z"), mine]) == [mine]
