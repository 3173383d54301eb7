# SPDX-License-Identifier: BSD-2-Clause
"""What helps a pod that does not start, by the messages of kubelet 1.36 with containerd 2.1 and runc 1.1."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.start_failure import (
    concerns_template,
    config_hint,
    pull_secret_hint,
    runtime_cause,
    start_hint,
    volume_hint,
)

from .live_objects import pod, workload

RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)
INIT = f"{RUNC}error during container init: "
COMMAND, WORKDIR = "Check environment.command", "Check environment.workdir (/data/run)"
DRIVER = "The GPU driver or the container runtime of node n1 fails. Have it checked"
MOUNT = "Check the paths in storage.workdirs: the image has something else there"

# the message, its cause, the hint
STARTS: dict[str, tuple[str, str, str]] = {
    "a command that is not in the path": (
        f'{RUNC}exec: "trian": executable file not found in $PATH',
        'exec: "trian": executable file not found in $PATH',
        COMMAND,
    ),
    "a command that does not exist": (
        f'{RUNC}exec: "/opt/trian": stat /opt/trian: no such file or directory',
        'exec: "/opt/trian": stat /opt/trian: no such file or directory',
        COMMAND,
    ),
    "a command that is not executable": (
        f'{RUNC}exec: "/etc/passwd": permission denied',
        'exec: "/etc/passwd": permission denied',
        COMMAND,
    ),
    "an image without a command": ("no command specified", "no command specified", COMMAND),
    "a workdir that is a file": (
        f"{INIT}mkdir /data/run: not a directory",
        "mkdir /data/run: not a directory",
        WORKDIR,
    ),
    "a workdir below a file": (f"{INIT}mkdir /data: not a directory", "mkdir /data: not a directory", WORKDIR),
    "a workdir on a volume that is read-only": (
        f"{INIT}mkdir /data/run: read-only file system",
        "mkdir /data/run: read-only file system",
        WORKDIR,
    ),
    "a workdir that the user may not enter": (
        f'{INIT}chdir to cwd ("/data/run") set in config.json failed: permission denied',
        'chdir to cwd ("/data/run") set in config.json failed: permission denied',
        WORKDIR,
    ),
    "a workdir of an older runtime": (
        "OCI runtime create failed: container_linux.go:380: starting container process caused: chdir to cwd "
        '("/data/run") set in config.json failed: no such file or directory: unknown',
        'chdir to cwd ("/data/run") set in config.json failed: no such file or directory: unknown',
        WORKDIR,
    ),
    "a workdir that is relative": (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
        "Cwd must be an absolute path",
        "Cwd must be an absolute path",
        WORKDIR,
    ),
    "another directory": (f"{INIT}mkdir /database: not a directory", "mkdir /database: not a directory", ""),
    "a mount at a file of the image": (
        f'{INIT}error mounting "/var/lib/kubelet/pods/1/volumes/a" to rootfs at "/bin/sh": not a directory',
        'error mounting "/var/lib/kubelet/pods/1/volumes/a" to rootfs at "/bin/sh": not a directory',
        MOUNT,
    ),
    "a driver that is not loaded": (
        f"{INIT}error running prestart hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization "
        "error: nvml error: driver not loaded",
        "error running prestart hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: "
        "nvml error: driver not loaded",
        DRIVER,
    ),
    "a device that the runtime does not know": (
        "failed to generate spec: unresolvable CDI devices nvidia.com/gpu=all",
        "failed to generate spec: unresolvable CDI devices nvidia.com/gpu=all",
        DRIVER,
    ),
    "a busy runtime": ("context deadline exceeded", "context deadline exceeded", ""),
}


@pytest.mark.parametrize(("message", "cause", "hint"), STARTS.values(), ids=STARTS)
def test_what_the_runtime_says(message: str, cause: str, hint: str) -> None:
    assert runtime_cause(message) == cause
    assert start_hint(message, {"workingDir": "/data/run"}, "n1").text == hint


def test_the_workdir_of_an_image() -> None:
    message = f'{INIT}chdir to cwd ("/root") set in config.json failed: permission denied'
    assert start_hint(message, {}, "n1").text == "Check environment.workdir"


def with_env(**variables: tuple[str, str, str]) -> dict[str, Any]:
    """A pod with variables from keys (source, object, key)."""
    made = pod()
    made["spec"]["containers"][0]["env"] = [
        {"name": name, "valueFrom": {source: {"name": obj, "key": key}}}
        for name, (source, obj, key) in variables.items()
    ]
    return made


SECRET = with_env(
    A=("secretKeyRef", "hub", "token"),
    B=("secretKeyRef", "hub", "ca"),
    C=("secretKeyRef", "other", "x"),
    D=("configMapKeyRef", "hub", "y"),
)
# the message, the hint
CONFIGS: dict[str, tuple[str, str]] = {
    "a Secret": (
        'secret "hub" not found',
        "Keep the value in Secret gpuctl-tokens with M(gpuctl_workspace namespace=ml tokens=ca), and refer to that "
        "Secret in environment.env",
    ),
    "a ConfigMap": (
        'configmap "hub" not found',
        "Write the value into environment.env in place of valueFrom, or correct the reference",
    ),
    "a Secret that is used as a whole": (
        'secret "all" not found',
        "Keep the value in Secret gpuctl-tokens with M(gpuctl_workspace namespace=ml tokens=NAME), and refer to that "
        "Secret in environment.env",
    ),
}


@pytest.mark.parametrize(("message", "hint"), CONFIGS.values(), ids=CONFIGS)
def test_what_provides_a_missing_value(message: str, hint: str) -> None:
    assert config_hint(message, SECRET) == (hint, True)


def test_what_adds_a_missing_key() -> None:
    keep = "Keep the value in Secret gpuctl-tokens with M(gpuctl_workspace namespace=ml tokens=token)"
    of_another = config_hint("couldn't find key token in Secret ml/hub", SECRET)
    assert of_another == (f"{keep}, and refer to that Secret in environment.env", True)
    own = config_hint("couldn't find key token in Secret ml/gpuctl-tokens", SECRET)
    assert own == (f"{keep}, or correct environment.env", True)
    assert "environment.env in place of" in config_hint("couldn't find key a in ConfigMap ml/hub", SECRET).text


def test_anything_else_that_is_wrong_with_the_environment_may_pass() -> None:
    assert config_hint("failed to sync secret cache", SECRET) == (
        "Create what is missing in the namespace, or correct environment.env",
        False,
    )


def test_what_creates_the_secret_of_a_registry() -> None:
    said = "Unable to retrieve some image pull secrets (hub, other); attempting to pull the image may not succeed."
    assert pull_secret_hint(["Failed to pull image", said], "ml") == (
        "Secret hub of environment.imagePullSecret not found. Create gpuctl-registry with "
        "M(gpuctl_workspace namespace=ml registry.config_file=~/.docker/config.json), and set "
        "environment.imagePullSecret to gpuctl-registry"
    )
    assert pull_secret_hint(["Failed to pull image"], "ml") == ""


SETUP = "MountVolume.SetUp failed for volume"
# the message, the hint, whether only a person can help
VOLUMES: dict[str, tuple[str, str, bool]] = {
    "a directory with a space": (
        f'{SETUP} "workdir-0" : hostPath type check failed: /data/my set is not a directory',
        "Create it on node n1 with mkdir -p '/data/my set', or correct storage.workdirs",
        True,
    ),
    "a directory": (
        f'{SETUP} "workdir-0" : hostPath type check failed: /data/set is not a directory',
        "Create it on node n1 with mkdir -p /data/set, or correct storage.workdirs",
        True,
    ),
    "a file": (
        f'{SETUP} "workdir-0" : hostPath type check failed: /data/a.csv is not a file',
        "Put it on node n1, or correct path or type in storage.workdirs",
        True,
    ),
    "a ConfigMap of the job": (
        f'{SETUP} "hostfile" : configmap "hostfile-x" not found',
        "A submit that still runs creates it. If none does, apply the manifest of x again",
        True,
    ),
    "a claim that is in use elsewhere": (
        'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) y',
        "Check storage.workdirs",
        False,
    ),
}


@pytest.mark.parametrize(("message", "hint", "needs_user"), VOLUMES.values(), ids=VOLUMES)
def test_what_helps_with_a_volume(message: str, hint: str, needs_user: bool) -> None:
    assert volume_hint(message, pod(nodeName="n1")) == (hint, needs_user)


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        (f'{SETUP} "workdir-0" : no', True),
        (f'{SETUP} "kube-api-access-x7k2p" : failed to fetch token', False),
        ('AttachVolume.Attach failed for volume "pvc-4711" : no', True),
        ("Unable to attach or mount volumes: unmounted volumes=[workdir-0], unattached volumes=[workdir-0 x]", True),
        ("Unable to attach or mount volumes: unmounted volumes=[kube-api-access-x7k2p], unattached volumes=[]", False),
        ("something else", True),
    ],
)
def test_whether_a_message_is_about_a_volume_of_the_job(message: str, ours: bool) -> None:
    job = workload()
    job["spec"]["template"]["spec"] = {**job["spec"]["template"]["spec"], "volumes": [{"name": "workdir-0"}]}
    own = pod(nodeName="n1", volumes=[{"name": "workdir-0"}, {"name": "kube-api-access-x7k2p"}])
    assert concerns_template(message, job, own) is ours


@pytest.mark.parametrize(
    "message",
    [
        'secret "x;reboot;" not found',
        'secret "$(reboot)" not found',
        "couldn't find key '$(reboot)' in Secret default/x",
        "couldn't find key x in Secret default/x;reboot",
        "couldn't find key x in Secret default/$(reboot)",
    ],
)
def test_what_can_be_no_name_is_not_put_into_a_command(message: str) -> None:
    assert config_hint(message, pod()).text == "Create what is missing in the namespace, or correct environment.env"


def test_what_can_be_no_secret_is_not_put_into_a_command() -> None:
    message = "Unable to retrieve some image pull secrets (x;reboot); attempting to pull the image may not succeed."
    assert not pull_secret_hint([message], "default")
