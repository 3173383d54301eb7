# SPDX-License-Identifier: BSD-2-Clause
"""What is built otherwise for servers that lack a feature of Kubernetes (kube/features.py). Pure.

A workload needs at most one of them. What runs in either form is left in it, whatever the cluster becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...kube.api_objects import Object
from ...kube.features import PRE_STOP_SLEEP, SUCCESS_POLICY, Feature


def needed_feature(workload: Mapping[str, Any]) -> Feature | None:
    """What a workload has that not all servers know."""
    if workload["kind"] == "Job":
        return SUCCESS_POLICY if "successPolicy" in workload["spec"] else None
    sleeps = (_sleep_of(container) for container in workload["spec"]["template"]["spec"]["containers"])
    return PRE_STOP_SLEEP if any(sleeps) else None


def without_feature(objects: Sequence[Object]) -> tuple[Object, ...] | None:
    """The objects of a job, the workload first, in the other way; None if all servers know what it has."""
    workload, *dependents = objects
    feature = needed_feature(workload)
    return (_built_without(feature, workload), *dependents) if feature else None


def _built_without(feature: Feature, workload: Mapping[str, Any]) -> Object:
    spec = {name: value for name, value in workload["spec"].items() if name != feature.path[-1]}
    template = spec["template"]
    pod = template["spec"]
    containers = [_OTHER_WAYS[feature](container) for container in pod["containers"]]
    return {**workload, "spec": {**spec, "template": {**template, "spec": {**pod, "containers": containers}}}}


def _sleep_of(container: Mapping[str, Any]) -> Any:
    return ((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep")


def _sleep_as_program(container: Mapping[str, Any]) -> Object:
    sleep = _sleep_of(container)
    if not sleep:
        return dict(container)
    command = ["sleep", str(sleep["seconds"])]
    return {**container, "lifecycle": {**container["lifecycle"], "preStop": {"exec": {"command": command}}}}


def _ended_by_the_first(container: Mapping[str, Any]) -> Object:
    if "command" not in container:
        return dict(container)
    from .older_launchers import without_success_policy  # Here: services have no launcher.

    return {**container, "command": [without_success_policy(word) for word in container["command"]]}


_OTHER_WAYS: Mapping[Feature, Callable[[Mapping[str, Any]], Object]] = {
    PRE_STOP_SLEEP: _sleep_as_program,
    SUCCESS_POLICY: _ended_by_the_first,
}
