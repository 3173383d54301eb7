# SPDX-License-Identifier: BSD-2-Clause
"""Services that answer: updates under load, and a real notebook server."""

from __future__ import annotations

import random
import secrets
from pathlib import Path
from typing import Any

import pytest
from integration.ansible import Ansible, TaskResult
from integration.api import Api, eventually

from .jobs import has_gpus, info, logged
from .programs import OBEDIENT, jupyter, python, shell

SERVER = """
import http.server, os, signal, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["VERSION"].encode())

    def log_message(self, *arguments):
        pass

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""
# Asks until the new version alone has answered for a while; a request that fails ends it.
LOAD = """
import sys, time, urllib.request

answers, last, deadline = {}, [], time.monotonic() + 240
while time.monotonic() < deadline and last[-100:] != ["2"] * 100:
    try:
        with urllib.request.urlopen("http://svc-serve:8000/", timeout=10) as answer:
            last.append(answer.read().decode())
    except OSError as error:
        last.append(f"failed: {error}")
    answers[last[-1]] = answers.get(last[-1], 0) + 1
    time.sleep(0.05)
print(sorted(answers.items()))
sys.exit(set(answers) != {"1", "2"})
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("gpu", [0, 1])
def test_no_request_fails_during_an_update(ansible: Ansible, api: Api, namespace: str, gpu: int):
    """With GPUs, an old pod ends before a new one starts; without, a new one starts first."""
    if gpu and not has_gpus(api):
        pytest.skip("no node of the cluster has GPUs")

    def serve(version: str) -> None:
        manifest = python(
            "inference",
            "serve",
            SERVER,
            environment={"env": {"VERSION": version}},
            service={"port": 8000, "health_check": "/", "replicas": 2},
            resources={"gpu": gpu},
        )
        result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=240)
        assert not result.failed, result.message

    serve("1")
    result = ansible.job(definition=python("training", "load", LOAD), namespace=namespace, wait=True)
    assert not result.failed, result.message
    serve("2")
    eventually(lambda: info(ansible, namespace, "load")["status"] in ("Succeeded", "Failed"), 120)
    said = logged(ansible, namespace, "load")
    assert info(ansible, namespace, "load")["status"] == "Succeeded", said


def test_a_service_whose_health_check_fails(ansible: Ansible, namespace: str):
    """It is running and not ready, and the reason is the answer of the program."""
    manifest = python(
        "inference",
        "ill",
        SERVER.replace("200", "503"),
        environment={"env": {"VERSION": "1"}},
        service={"health_check": "/"},
    )
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=25)
    assert result.failed
    assert "is running but not ready" in result.message
    assert "statuscode: 503" in result.message
    assert info(ansible, namespace, "ill")["status"] == "Pending"


# -- notebooks --------------------------------------------------------------------------------------------------------


def proxied(api: Api, namespace: str, service: str, path: str) -> tuple[int, Any]:
    """The answer of a Service, through the API server's proxy."""
    return api.call("GET", f"/api/v1/namespaces/{namespace}/services/{service}/proxy{path}")


def test_a_notebook_is_ready_when_its_server_listens(ansible: Ansible, api: Api, namespace: str):
    token = secrets.token_hex(16)
    result = ansible.job(definition=jupyter(token), namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message
    assert token not in result.screen
    status, answer = proxied(api, namespace, "svc-lab:http", f"/api/status?token={token}")
    assert (status, answer["kernels"]) == (200, 0), "it answers at once"
    assert proxied(api, namespace, "svc-lab:http", "/api/status?token=wrong")[0] == 403

    path = f"/api/v1/namespaces/{namespace}/services/svc-lab:http/proxy/api/kernels?token={token}"
    status, kernel = api.call("POST", path, {"name": "python3"})
    assert status == 201, kernel


def test_a_notebook_whose_server_never_listens(ansible: Ansible, namespace: str):
    manifest = shell("notebook", "deaf", OBEDIENT)
    result = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=25)
    assert result.failed
    assert "is running but not ready" in result.message
    assert "8888" in result.message


def test_files_go_into_a_notebook_and_back(cluster_admin: Ansible, namespace: str, tmp_path: Path):
    """A directory with a large file, names that are not plain, and an empty file; the second time nothing is copied."""
    source, back = tmp_path / "data set", tmp_path / "back"
    (source / "sub").mkdir(parents=True)
    (source / "large.bin").write_bytes(random.Random(1).randbytes(50_000_000))
    (source / "sub" / "größe 1.txt").write_text("text\n")
    (source / "sub" / "empty").touch()
    (source / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (source / "sub" / "run.sh").chmod(0o755)
    manifest = python("notebook", "lab", SERVER.replace("8000", "8888"), environment={"env": {"VERSION": "1"}})
    result = cluster_admin.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message

    def copy(state: str, local: Path) -> TaskResult:
        options = {"name": "lab", "namespace": namespace, "remote_path": "/tmp/work/data", "local_path": str(local)}
        result = cluster_admin.module("gpuctl_copy", state=state, **options)
        assert not result.failed, result.message
        return result

    assert copy("to_pod", source).changed
    assert not copy("to_pod", source).changed
    assert copy("from_pod", back).changed
    assert not copy("from_pod", back).changed
    for path in source.rglob("*"):
        twin = back / path.relative_to(source)
        assert path.is_dir() or twin.read_bytes() == path.read_bytes(), path
        assert path.is_dir() or twin.stat().st_mode == path.stat().st_mode, path


def test_a_copy_that_does_not_fit_leaves_what_was_there(cluster_admin: Ansible, namespace: str, tmp_path: Path):
    """More than the memory of the container, into its memory: the destination stays as it was."""
    (tmp_path / "small.bin").write_bytes(b"small")
    (tmp_path / "large.bin").write_bytes(bytes(40_000_000))
    storage = {"shm": "16Mi"}
    manifest = python("compute", "lab", SERVER, environment={"env": {"VERSION": "1"}}, storage=storage)
    result = cluster_admin.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message
    options = {"name": "lab", "namespace": namespace, "remote_path": "/dev/shm/data.bin"}
    assert cluster_admin.module("gpuctl_copy", local_path=str(tmp_path / "small.bin"), **options).changed
    refused = cluster_admin.module("gpuctl_copy", local_path=str(tmp_path / "large.bin"), **options)
    assert refused.failed
    assert "not enough space in /dev/shm" in refused.message
    again = cluster_admin.module("gpuctl_copy", local_path=str(tmp_path / "small.bin"), **options)
    assert not again.failed, again.message
    assert not again.changed
