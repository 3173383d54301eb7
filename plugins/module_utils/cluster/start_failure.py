# SPDX-License-Identifier: BSD-2-Clause
"""What a kubelet and a container runtime say about pods that do not start, and what helps. Pure.

The messages are those of runc (libcontainer/init_linux.go, rootfs_linux.go) below containerd, and of the kubelet
(pkg/kubelet/kuberuntime, pkg/volume/util/operationexecutor, pkg/volume/hostpath).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import NamedTuple

from ..kube.resources import Object
from ..labels import APP, PULL_SECRET, TOKEN_SECRET


class Hint(NamedTuple):
    """What to do about a failure. ``needs_user``: it does not pass by itself."""

    text: str = ""
    needs_user: bool = False


# What containerd and runc put before the cause: who called whom.
_CALLERS = re.compile(
    r"^(?:(?:Error|rpc error): |code = \S+ desc = |failed to (?:create containerd|create shim|start containerd) task: |"
    r"failed to start sandbox \"\w*\": |OCI runtime create failed: |runc create failed: |"
    r"container_linux\.go:\d+: |starting container process caused:? |process_linux\.go:\d+: |container init caused:? |"
    r"unable to start container process: |error during container init: |Failed to create pod sandbox: )+"
)


def runtime_cause(message: str) -> str:
    """The runtime's message from where it says what failed."""
    message = message.strip()
    return message[message.find("exec: ") :] if "exec: " in message else _CALLERS.sub("", message)


_DRIVER = re.compile(r"nvidia-container|nvidia-ctk|libnvidia|unresolvable CDI devices|error running \S+ hook")
_CHDIR = re.compile(r"\bchdir\b|Cwd must be an absolute path")
_MKDIR = re.compile(r"^mkdir (/[^:]*): ")  # runc creates a working directory that is missing
_MOUNT = re.compile(r'error mounting "[^"]*" to rootfs at ')
_COMMAND = re.compile(r"\bexec: |\bexec /|executable file not found|no command specified")


def start_hint(message: str, container: Object, node: str | None) -> Hint:
    """What helps where the runtime could not start a container (its spec) of a pod."""
    cause = runtime_cause(message)
    made = _MKDIR.match(cause)
    workdir = str(container.get("workingDir") or "")
    if _CHDIR.search(cause) or (made and f"{workdir}/".startswith(f"{made[1].rstrip('/')}/")):
        return Hint(f"Check environment.workdir ({workdir})" if workdir else "Check environment.workdir")
    if _DRIVER.search(cause):
        return Hint(f"The GPU driver or the container runtime of node {node} fails. Have it checked")
    if _MOUNT.search(cause):
        return Hint("Check the paths in storage.workdirs: the image has something else there")
    return Hint("Check environment.command") if _COMMAND.search(cause) else Hint()


# pkg/kubelet/kuberuntime, verifyRunAsNonRoot; with what follows it, which only repeats the pod.
_RUNS_AS_ROOT = re.compile(r"^container has runAsNonRoot and image (will run as root|has non-numeric user \(([^)]*)\))")


def root_cause(message: str, image: str) -> str:
    """Why a container with runAsNonRoot did not start; "" where the kubelet says something else."""
    found = _RUNS_AS_ROOT.match(message)
    if not found:
        return ""
    # The kubelet knows the user of an image, not its /etc/passwd: a name may stand for UID 0.
    user = f"user {found[2]} (cannot be verified as non-root)" if found[2] else "root"
    return f"image {image} runs as {user}, and the namespace does not allow root"


# Only what can be a name and a key: they become part of a command for a shell, and the messages are not trusted.
_MISSING = re.compile(r'\b(secret|configmap) "([-.A-Za-z0-9]+)" not found', re.IGNORECASE)
_MISSING_KEY = re.compile(r"couldn't find key ([-._A-Za-z0-9]+) in (Secret|ConfigMap) [^/\s]+/([-.a-z0-9]+)(?!\S)")


def config_hint(message: str, pod: Object) -> Hint:
    """What helps where a Secret or ConfigMap is missing, or one of its keys, that environment.env refers to, and where
    the image runs as root.
    """
    if _RUNS_AS_ROOT.match(message):
        return Hint("Set environment.run_as to the number of another user, such as 1000", needs_user=True)
    namespace = pod["metadata"]["namespace"]
    if key := _MISSING_KEY.search(message):
        return _value_hint(key[2].lower(), key[3], key[1], namespace)
    found = _MISSING.search(message)
    if not found:
        return Hint("Create what is missing in the namespace, or correct environment.env")
    kind, name = found[1].lower(), found[2]
    return _value_hint(kind, name, min(_keys_of(pod, kind, name), default="NAME"), namespace)


def _value_hint(kind: str, name: str, key: str, namespace: str) -> Hint:
    if kind != "secret":
        text = "Write the value into environment.env in place of valueFrom, or correct the reference"
        return Hint(text, needs_user=True)
    keep = f"Keep the value in Secret {TOKEN_SECRET} with M(gpuctl_workspace namespace={namespace} tokens={key})"
    refer = "correct environment.env" if name == TOKEN_SECRET else "refer to that Secret in environment.env"
    return Hint(f"{keep}, {'or' if name == TOKEN_SECRET else 'and'} {refer}", needs_user=True)


def _keys_of(pod: Object, kind: str, name: str) -> set[str]:
    """The keys of a Secret or ConfigMap that the environment of a pod's containers refers to."""
    source = "secretKeyRef" if kind == "secret" else "configMapKeyRef"
    spec = pod["spec"]
    return {
        reference["key"]
        for container in (*(spec.get("initContainers") or ()), *spec["containers"])
        for variable in container.get("env") or ()
        if (reference := (variable.get("valueFrom") or {}).get(source)) and reference.get("name") == name
    }


_NO_ACCOUNT = re.compile(r'serviceaccount "([-.a-z0-9]+)" not found')
_LEVEL = re.compile(r'violates PodSecurity "(?:baseline|restricted):')


def refusal_hint(message: str, namespace: str) -> Hint:
    """What helps where the server refuses to create a pod."""
    account = _NO_ACCOUNT.search(message)
    if account and account[1] != "default":  # which a namespace that is seconds old may lack
        text = "Correct environment.service_account, or ask an administrator to create it"
        return Hint(text, needs_user=True)
    if not _LEVEL.search(message):
        return Hint()
    if "hostPath volumes" in message or '"hostPath"' in message:
        return Hint("Mount PersistentVolumeClaims (claim) instead of paths of nodes in storage.workdirs")
    return Hint("Delete the job and submit it again: it is built for the level that its namespace has then")


_UNRETRIEVED = re.compile(r"Unable to retrieve some image pull secrets \(([-.a-z0-9]+)[,)]")


def pull_secret_hint(messages: Iterable[str], namespace: str) -> str:
    """The hint where the kubelet did not find the Secret for a private registry; "" where it did not mention it."""
    found = next((found for message in messages if (found := _UNRETRIEVED.search(message))), None)
    if not found:
        return ""
    create = f"M(gpuctl_workspace namespace={namespace} registry.config_file=~/.docker/config.json)"
    refer = "" if found[1] == PULL_SECRET else f", and set environment.imagePullSecret to {PULL_SECRET}"
    return f"Secret {found[1]} of environment.imagePullSecret not found. Create {PULL_SECRET} with {create}{refer}"


_VOLUME = re.compile(r'for volume "([^"]+)"')
_UNMOUNTED = re.compile(r"unmounted volumes=\[([^\]]*)\]")
_HOST_PATH = re.compile(r"hostPath type check failed: (.+) is not (?:a |an )?(.+)")


def concerns_template(message: str, workload: Object, pod: Object) -> bool:
    """Whether a message is about a volume of the workload's template, as opposed to one that was added to the pod.

    Admission adds a volume with the service account's token. The volume of a claim may be named as its
    PersistentVolume, which no pod names.
    """
    listed = _UNMOUNTED.search(message)
    named = set(listed[1].split()) if listed else set(_VOLUME.findall(message))
    in_template = {volume["name"] for volume in workload["spec"]["template"]["spec"].get("volumes") or ()}
    added = {volume["name"] for volume in pod["spec"].get("volumes") or ()} - in_template
    return not named or not named <= added


def volume_hint(message: str, pod: Object) -> Hint:
    """What helps where a volume of a job cannot be mounted."""
    path = _HOST_PATH.search(message)
    node = pod["spec"].get("nodeName")
    if path and path[2].startswith("directory"):
        command = f"mkdir -p {shlex.quote(path[1])}"
        return Hint(f"Create it on node {node} with {command}, or correct storage.workdirs", needs_user=True)
    if path:
        return Hint(f"Put it on node {node}, or correct path or type in storage.workdirs", needs_user=True)
    found = _MISSING.search(message)
    if found and found[1].lower() == "configmap":  # those of a hostfile and of DeepSpeed: manifests name none
        job = (pod["metadata"].get("labels") or {}).get(APP) or "the job"
        text = f"A submit that still runs creates it. If none does, apply the manifest of {job} again"
        return Hint(text, needs_user=True)
    return Hint("Check storage.workdirs")


# Kubelet events about a pod whose sandbox, network or cgroup the node cannot create (pkg/kubelet/events/event.go).
_NODE_FAULTS = ("FailedCreatePodSandBox", "NetworkNotReady", "FailedCreatePodContainer", "FailedPodSandBoxStatus")
_VOLUME_FAULTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")


def start_faults(pod: Object, events: Iterable[Object]) -> list[Object]:
    """The events (those of the pod, oldest first) about what comes before its containers, while that lasts."""
    status = pod.get("status", {})
    if (status.get("phase") or "Pending") != "Pending" or not pod["spec"].get("nodeName"):
        return []
    conditions = status.get("conditions") or ()
    # Since 1.29: its volumes are mounted, and its sandbox has a network.
    if any((one["type"], one["status"]) == ("PodReadyToStartContainers", "True") for one in conditions):
        return []
    return [event for event in events if event.get("reason") in (*_NODE_FAULTS, *_VOLUME_FAULTS)]


def is_node_fault(event: Object) -> bool:
    return event.get("reason") in _NODE_FAULTS
