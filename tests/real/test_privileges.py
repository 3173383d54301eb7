# SPDX-License-Identifier: BSD-2-Clause
"""What the processes of a job may do on a real node: privileges, system calls, tokens, users."""

from __future__ import annotations

from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually

from .jobs import info, logged, reason
from .programs import OBEDIENT, python, shell

LEVEL = "pod-security.kubernetes.io/enforce"
# What the kernel says of the process, and whether there is a token.
REPORT = """
import os
status = dict(line.rstrip().split(":", 1) for line in open("/proc/self/status"))
wanted = ("NoNewPrivs", "Seccomp", "CapEff", "Uid", "Gid", "Groups")
print(*(f"{name}={'/'.join(status[name].split())}" for name in wanted), sep="\\n")
print("token", os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"))
"""
# A copy of a program that belongs to root and has the setuid bit, run by another user.
SETUID = """
import os, shutil, sys
shutil.copy(os.path.realpath("/bin/busybox") if os.path.exists("/bin/busybox") else sys.executable, "/tmp/id")
os.chmod("/tmp/id", 0o4755)
os.setgid(1000); os.setuid(1000)
applet = ["id", "-u"] if os.path.exists("/bin/busybox") else ["-c", "import os; print(os.geteuid())"]
os.execv("/tmp/id", ["busybox" if applet[0] == "id" else "/tmp/id", *applet])
"""


def report(ansible: Ansible, namespace: str, **environment: Any) -> dict[str, str]:
    manifest = python("training", "report", REPORT, environment=environment)
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete")
    assert not result.failed, result.message
    return dict(line.replace(" ", "=").split("=", 1) for line in logged(ansible, namespace, "report"))


def test_a_job_gains_no_privileges_and_has_no_token(ansible: Ansible, namespace: str) -> None:
    found = report(ansible, namespace)
    assert (found["NoNewPrivs"], found["Seccomp"], found["token"]) == ("1", "2", "False")


def test_a_job_runs_as_another_user(ansible: Ansible, namespace: str) -> None:
    found = report(ansible, namespace, run_as={"user": 1234, "group": 2345, "fs_group": 3456})
    assert found["Uid"] == "1234/1234/1234/1234"
    assert found["Gid"] == "2345/2345/2345/2345"
    assert "3456" in found["Groups"].split("/")


def test_a_job_with_a_service_account_has_its_token(ansible: Ansible, api: Api, namespace: str) -> None:
    api.create("serviceaccount", {"metadata": {"name": "robot"}}, namespace)
    assert report(ansible, namespace, service_account="robot")["token"] == "True"


def test_a_job_in_a_restricted_namespace_has_no_capabilities(ansible: Ansible, api: Api, namespace: str) -> None:
    api.patch("namespace", namespace, {"metadata": {"labels": {LEVEL: "restricted"}}})
    found = report(ansible, namespace, run_as=1000)
    assert int(found["CapEff"], 16) == 0
    assert (found["NoNewPrivs"], found["Seccomp"], found["token"]) == ("1", "2", "False")


@pytest.mark.parametrize(("allowed", "user"), [(True, "0"), (False, "1000")], ids=["allowed", "default"])
def test_a_setuid_program_works_only_where_sudo_is_allowed(
    ansible: Ansible, namespace: str, allowed: bool, user: str
) -> None:
    manifest = python("training", "sudo", SETUID, environment={"allow_sudo": allowed})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_for="complete")
    assert not result.failed, result.message
    assert logged(ansible, namespace, "sudo") == [user]


def test_an_image_that_runs_as_root_is_explained_and_mended(ansible: Ansible, api: Api, namespace: str) -> None:
    api.patch("namespace", namespace, {"metadata": {"labels": {LEVEL: "restricted"}}})
    ansible.job(definition=shell("compute", "web", OBEDIENT), namespace=namespace)
    text = reason(ansible, namespace, "web", "runs as root, and the namespace does not allow root")
    assert "Set environment.run_as" in text
    manifest = shell("compute", "web", OBEDIENT, environment={"run_as": 1000})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True)
    assert not result.failed, result.message
    eventually(lambda: info(ansible, namespace, "web")["status"] == "Running")


def test_a_missing_service_account_is_explained(ansible: Ansible, api: Api, namespace: str) -> None:
    manifest = shell("compute", "web", OBEDIENT, environment={"service_account": "robot"})
    ansible.job(definition=manifest, namespace=namespace)
    assert "ask an administrator to create it" in reason(ansible, namespace, "web", "robot")
    api.create("serviceaccount", {"metadata": {"name": "robot"}}, namespace)
    eventually(lambda: info(ansible, namespace, "web")["status"] == "Running", 120)
