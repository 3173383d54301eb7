# SPDX-License-Identifier: BSD-2-Clause
"""Logs that a kubelet rotates: it starts a new file at 10 MiB (containerLogMaxSize), and serves only the newest."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.ansible import Ansible, TaskResult
from integration.api import PATHS, Api, eventually

from .jobs import pods
from .programs import python

LINES = 120_000  # of 100 bytes, and what the runtime adds to each: more than 10 MiB
TALKER = f"""
import os, signal, sys, time

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
print("the beginning", flush=True)
while not os.path.exists("/tmp/go"):
    time.sleep(0.2)
sys.stdout.write("".join(f"line {{number:06}} " + "x" * 87 + "\\n" for number in range({LINES})))
while True:
    print("still here", flush=True)
    time.sleep(1)
"""


def read(ansible: Ansible, namespace: str, dest: Path) -> TaskResult:
    result = ansible.module("gpuctl_job_log", name="talk", namespace=namespace, tail=-1, dest=str(dest))
    assert not result.failed, result.message
    return result


def served(api: Api, namespace: str) -> bytes:
    """The first bytes of what the kubelet serves."""
    (pod,) = pods(api, namespace, "talk")
    path = f"{PATHS['pod'].format(namespace)}/{pod['metadata']['name']}/log?limitBytes=13"
    return bytes(api.pool.request("GET", api.server + path, headers=api.headers).data)


@pytest.mark.timeout(600)
def test_a_file_keeps_the_lines_that_rotation_removes(
    ansible: Ansible, cluster_admin: Ansible, api: Api, namespace: str, tmp_path: Path
):
    manifest = python("compute", "talk", TALKER, resources={"cpu": "500m"})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True)
    assert not result.failed, result.message
    dest = tmp_path / "talk.log"
    eventually(lambda: served(api, namespace))
    read(ansible, namespace, dest)
    assert dest.read_text() == "the beginning\n"

    go = tmp_path / "go"
    go.touch()
    copied = cluster_admin.module(
        "gpuctl_copy", name="talk", namespace=namespace, local_path=str(go), remote_path="/tmp/go", state="to_pod"
    )
    assert not copied.failed, copied.message
    eventually(lambda: served(api, namespace) not in (b"", b"the beginning"), 150)  # The kubelet looks every 10 s.
    result = read(ansible, namespace, dest)
    text = dest.read_text()
    assert text.startswith("the beginning\n")
    assert text.endswith("still here\n")
    assert "rotated away" in " ".join(result.screen.split())
