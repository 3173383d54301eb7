# SPDX-License-Identifier: BSD-2-Clause
"""How containers end, or do not start, and what the modules say about it."""

from __future__ import annotations

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually

from .jobs import EARLY, failed_early, info, pods, reason
from .programs import OBEDIENT, command, python, shell

# -- programs that end ------------------------------------------------------------------------------------------------


def test_a_training_that_succeeds(ansible: Ansible, namespace: str):
    result = ansible.job(
        definition=shell("training", "good", "echo done"), namespace=namespace, wait=True, wait_for="complete"
    )
    assert not result.failed, result.message
    row = info(ansible, namespace, "good")
    assert (row["status"], row["reason"]) == ("Succeeded", None)
    (log,) = ansible.module("gpuctl_job_log", name="good", namespace=namespace).result["results"]
    assert log["lines"] == ["done"]


@pytest.mark.parametrize("code", [1, 137])
def test_a_crash_is_retried_and_reported(ansible: Ansible, api: Api, namespace: str, code: int):
    """137 is SIGKILL. It is out of memory only if the kubelet says so."""
    ansible.job(definition=shell("training", "crash", f"exit {code}"), namespace=namespace)
    text = reason(ansible, namespace, "crash", f"exit code {code}")
    assert "memory" not in text
    eventually(lambda: len(pods(api, namespace, "crash")) > 1)


@pytest.mark.parametrize(("script", "code"), [("exit 2", 2), ("no-such-program", 127)])
def test_a_script_that_cannot_work_is_not_retried(ansible: Ansible, api: Api, namespace: str, script: str, code: int):
    manifest = shell("training", "typo", script)
    result = failed_early(ansible, manifest, namespace, wait_for="complete")
    assert f"exit code {code}" in result.message
    assert len(pods(api, namespace, "typo")) == 1


def test_more_memory_than_the_limit(ansible: Ansible, namespace: str):
    manifest = python("training", "big", "hoard = [bytes([1]) * 10**7 for _ in range(1000)]")
    ansible.job(definition=manifest, namespace=namespace)
    assert "Raise resources.memory" in reason(ansible, namespace, "big", "OOMKilled")


def test_a_service_that_crashes(ansible: Ansible, namespace: str):
    manifest = shell("inference", "loop", "echo last words; exit 3", service={"health_check": "/"})
    result = failed_early(ansible, manifest, namespace)
    assert "exit code 3" in result.message
    assert "last words" in result.message
    assert result.jobs["loop"]["log"] == ["last words"]


# -- programs that do not start ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "cause"),
    [(["no-such-program"], "no-such-program"), (["/etc/passwd"], "permission denied")],
    ids=["missing", "not-executable"],
)
def test_a_command_that_does_not_exist(ansible: Ansible, api: Api, namespace: str, words: list[str], cause: str):
    """StartError: the exit code is that of the runtime, 128."""
    result = failed_early(ansible, command("training", "typo", words), namespace, wait_for="complete")
    assert cause in result.message
    assert "Check environment.command" in result.message
    assert len(pods(api, namespace, "typo")) == 1, "it is not retried"


def test_a_workdir_that_is_a_file(ansible: Ansible, namespace: str):
    manifest = shell("training", "astray", "pwd", environment={"workdir": "/etc/passwd"})
    result = failed_early(ansible, manifest, namespace, wait_for="complete")
    assert "/etc/passwd" in result.message
    assert "environment.workdir" in result.message
    assert "Check environment.command" not in result.message


def test_an_image_that_does_not_exist(ansible: Ansible, namespace: str):
    manifest = shell("inference", "typo", "true", environment={"image": "registry.invalid/no/such-image:1"})
    ansible.job(definition=manifest, namespace=namespace)
    text = reason(ansible, namespace, "typo", "image registry.invalid/no/such-image:1", "cannot be pulled")
    assert "Check environment.image" in text


def test_too_little_memory_for_any_container(ansible: Ansible, namespace: str):
    """The kubelet cannot create the sandbox, and reports that only by events."""
    ansible.job(definition=shell("training", "tiny", "true", resources={"memory": "1Mi"}), namespace=namespace)
    assert "memory" in reason(ansible, namespace, "tiny", "pod tiny-")


# -- volumes and Secrets ----------------------------------------------------------------------------------------------


def test_a_directory_of_the_wrong_type(ansible: Ansible, namespace: str):
    storage = {"workdirs": [{"path": "/tmp", "type": "File"}]}
    manifest = shell("training", "mount", "true", storage=storage)
    result = failed_early(ansible, manifest, namespace)
    assert "is not a file" in result.message
    assert "storage.workdirs" in result.message


def test_a_claim_that_does_not_exist(ansible: Ansible, namespace: str):
    storage = {"workdirs": [{"path": "/data", "claim": "nowhere"}]}
    result = failed_early(ansible, shell("training", "mount", "true", storage=storage), namespace)
    assert "PersistentVolumeClaim nowhere not found" in result.message
    assert "Create it" in result.message


def test_a_secret_that_does_not_exist(ansible: Ansible, namespace: str):
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "nowhere", "key": "token"}}}]
    manifest = shell("training", "secretive", "true", environment={"env": env})
    result = failed_early(ansible, manifest, namespace)
    assert 'secret "nowhere" not found' in result.message
    assert "Keep the value in Secret gpuctl-tokens" in result.message
    assert "Pydantic" not in result.screen


def test_a_secret_that_comes_late(ansible: Ansible, api: Api, namespace: str):
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "late", "key": "token"}}}]
    ansible.job(definition=shell("compute", "patient", OBEDIENT, environment={"env": env}), namespace=namespace)
    reason(ansible, namespace, "patient", 'secret "late" not found')
    api.create("secret", {"metadata": {"name": "late"}, "stringData": {"token": "abc"}}, namespace)
    eventually(lambda: info(ansible, namespace, "patient")["status"] == "Running", EARLY)
