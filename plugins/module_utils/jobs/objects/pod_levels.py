# SPDX-License-Identifier: BSD-2-Clause
"""What the Pod Security levels of namespaces want of a workload. Pure.

The levels: Kubernetes documentation, Pod Security Standards, and pod-security-admission/policy/check_*.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...kube.api_objects import Object
from ...labels import MAIN_CONTAINER

BASELINE, RESTRICTED = "baseline", "restricted"


def as_restricted(workload: Mapping[str, Any]) -> Object:
    """The workload with what else the level restricted wants of its pods."""
    spec = workload["spec"]
    template = spec["template"]
    pod = template["spec"]
    context = {**pod["securityContext"], "runAsNonRoot": True}
    containers = [_without_capabilities(container) for container in pod["containers"]]
    hardened = {**template, "spec": {**pod, "securityContext": context, "containers": containers}}
    return {**workload, "spec": {**spec, "template": hardened}}


def _without_capabilities(container: Mapping[str, Any]) -> Object:
    return {**container, "securityContext": {**container["securityContext"], "capabilities": {"drop": ["ALL"]}}}


def violations(workload: Mapping[str, Any], level: str) -> Iterator[tuple[str, str, str]]:
    """What a level forbids in the pods that we built: the place in the manifest, what is wrong, and what to do."""
    if level not in (BASELINE, RESTRICTED):
        return
    pod = workload["spec"]["template"]["spec"]
    for volume in pod.get("volumes") or ():
        if "hostPath" in volume:
            place = f"storage.workdirs[{volume['name'].rpartition('-')[2]}]"
            yield place, f"paths of nodes: {volume['hostPath']['path']}", "Mount a PersistentVolumeClaim (claim)"
    (main,) = [container for container in pod["containers"] if container["name"] == MAIN_CONTAINER]
    for capability in main["securityContext"].get("capabilities", {}).get("add", ()):
        yield "resources.interconnect", f"the capability {capability}, which RDMA needs", "Use another namespace"
    if level != RESTRICTED:
        return
    if pod["securityContext"].get("runAsUser") == 0:
        yield "environment.run_as", "the user root: 0", "Use the number of another user of the image"
    if main["securityContext"]["allowPrivilegeEscalation"]:
        yield "environment.allow_sudo", "programs that gain privileges: true", "Remove it"
