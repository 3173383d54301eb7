# SPDX-License-Identifier: BSD-2-Clause
"""Logs that a kubelet rotates: it starts a new file at 10 MiB (containerLogMaxSize), and serves only the newest."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.ansible import Ansible, TaskResult
from integration.api import eventually

from .programs import python

LINES = 120_000  # of 100 bytes, and what the runtime adds to each: more than 10 MiB
TALKER = f"""
import signal, sys, time

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
sys.stdout.write("".join(f"line {{number:06}} " + "x" * 87 + "\\n" for number in range({LINES})))
while True:
    print("still here", flush=True)
    time.sleep(1)
"""


def read(ansible: Ansible, namespace: str, dest: Path) -> TaskResult:
    result = ansible.module("gpuctl_job_log", name="talk", namespace=namespace, tail=-1, dest=str(dest))
    assert not result.failed, result.message
    return result


@pytest.mark.timeout(600)
def test_lines_that_rotation_has_removed_are_told(ansible: Ansible, namespace: str, tmp_path: Path):
    manifest = python("compute", "talk", TALKER, resources={"cpu": "500m"})
    result = ansible.job(definition=manifest, namespace=namespace, wait=True)
    assert not result.failed, result.message
    dest = tmp_path / "talk.log"

    def rotated() -> bool:
        """The kubelet looks every ten seconds."""
        read(ansible, namespace, dest)
        text = dest.read_text()
        return text.endswith("still here\n") and not text.startswith("line 000000")

    eventually(rotated, 120)
    result = read(ansible, namespace, dest)
    assert "rotat" in result.screen, result.screen
