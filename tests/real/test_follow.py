# SPDX-License-Identifier: BSD-2-Clause
"""Logs that are followed: each line once, through broken connections, restarts and the rotation of the kubelet."""

from __future__ import annotations

import re
from typing import Any

import pytest
from integration.ansible import Ansible, Run
from integration.api import Api
from integration.cut_proxy import tcp_proxy
from integration.test_follow import arguments, cutting, numbered, started

from .programs import python, shell

LINES = 20_000
TALKER = f"""
import sys, time

for number in range(1, {LINES} + 1):
    stream = sys.stderr if number % 7 == 0 else sys.stdout
    print(f"line {{number}}", file=stream, flush=True)
    if number % 20 == 0:
        time.sleep(0.012)
"""
# 40 MB within some 30 s: the kubelet starts a new file every 10 s.
FLOOD = """
import sys, time

for number in range(1, 200_001):
    print(f"line {number}", "x" * 190, flush=number % 100 == 0)
    if number % 1000 == 0:
        time.sleep(0.15)
"""
SLOWLY = "for n in $(seq 1 30); do echo line $n; sleep 0.3; done"


def follow(ansible: Ansible, url: str, namespace: str, name: str, **variables: Any) -> Run:
    environment = {"K8S_AUTH_HOST": url, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"}
    plain = Ansible(ansible.directory, {**ansible.environment, **environment})
    return plain.run("ansible-playbook", *arguments(name, namespace=namespace, **variables))


def follow_until(ansible: Ansible, url: str, namespace: str, name: str, number: int) -> str:
    """What was printed when so many lines had come."""
    environment = {"K8S_AUTH_HOST": url, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"}
    plain = Ansible(ansible.directory, {**ansible.environment, **environment})
    with started(plain, arguments(name, namespace=namespace, tail=-1)) as screen:
        return screen.until(lambda text: len(numbered(text)) >= number, 120)


def lines(number: int) -> list[str]:
    return [f"line {each}" for each in range(1, number + 1)]


def test_each_line_once_through_a_proxy_that_cuts(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=python("training", "talk", TALKER), namespace=namespace, wait=True)
    with tcp_proxy(api.server) as proxy, cutting(proxy, 20, 0.7):
        run = follow(ansible, proxy.url.replace("http:", "https:"), namespace, "talk", tail=-1)
    assert proxy.cuts == 20
    # The two streams of a container need not keep their order.
    assert sorted(numbered(run.output)) == sorted(lines(LINES))
    assert "Job talk: Succeeded." in run.output


def test_a_container_that_restarts(ansible: Ansible, api: Api, namespace: str):
    script = f"{SLOWLY}; exit 3"
    ansible.job(definition=shell("compute", "again", script), namespace=namespace, wait=True)
    with tcp_proxy(api.server) as proxy, cutting(proxy, 5, 2.5):
        run = follow_until(ansible, proxy.url.replace("http:", "https:"), namespace, "again", 2 * 30)
    assert numbered(run)[:60] == lines(30) * 2
    assert "ended with exit code 3, is restarted" in run


@pytest.mark.timeout(600)
def test_a_log_that_the_kubelet_rotates(ansible: Ansible, api: Api, namespace: str):
    manifest = python("training", "flood", FLOOD, resources={"cpu": "500m"})
    ansible.job(definition=manifest, namespace=namespace, wait=True)
    run = follow(ansible, api.server, namespace, "flood", tail=-1)
    found = [int(number) for number in re.findall(r"^line (\d+) x", run.output, re.MULTILINE)]
    assert found == sorted(set(found)), "none twice"  # The first ones may be gone before they are asked for.
    assert found[-1] == 200_000
    assert len(found) == 200_001 - found[0] or "may have been rotated away" in run.output
