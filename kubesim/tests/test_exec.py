# SPDX-License-Identifier: BSD-2-Clause
"""Commands in containers: kubectl exec's requests, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from websocket import WebSocket, WebSocketBadStatusException

from kubesim.cluster import LAB_USER_TOKEN, Cluster

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PATH = "/api/v1/namespaces/default/pods/p/exec"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Cluster]:
    container = {"name": "main", "image": "i", "workingDir": "/work", "env": [{"name": "COLOR", "value": "red"}]}
    with Cluster(nodes=1, exec_root=root).running() as cluster:
        for name in ("p", "stuck"):
            pod = {"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}}
            cluster.call(lambda: cluster.kubelet.behave(name="stuck", stuck=True))
            cluster.call(lambda pod=pod: cluster.registry.create("Pod", {**pod, "spec": {"containers": [container]}}))
        url = f"{cluster.url}/api/v1/namespaces/default/pods/p"
        headers = {"Authorization": f"Bearer {cluster.token}"}
        while requests.get(url, headers=headers, timeout=30).json()["status"].get("phase") != "Running":
            pass
        yield cluster


def connect(
    cluster: Cluster, *command: str, pod: str = "p", protocols: tuple[str, ...] = (V5, V4), token: str = ""
) -> WebSocket:
    query = [("container", "main"), ("stdin", "true"), ("stdout", "true"), *(("command", word) for word in command)]
    path = PATH.replace("/p/", f"/{pod}/")
    websocket = WebSocket()
    websocket.connect(
        f"{cluster.url.replace('http', 'ws')}{path}?{urlencode(query)}",
        subprotocols=list(protocols),
        header=[f"Authorization: Bearer {token or cluster.token}"],
    )
    return websocket


def outcome(websocket: WebSocket) -> tuple[bytes, bytes, dict[str, Any]]:
    """What the command writes to stdout and stderr, and its status."""
    streams = {1: b"", 2: b"", 3: b""}
    while not streams[3]:
        data = websocket.recv()
        assert isinstance(data, bytes)
        streams[data[0]] += data[1:]
    websocket.close()
    return streams[1], streams[2], json.loads(streams[3])


def test_a_command_runs_below_the_root_of_its_container(cluster: Cluster, root: Path) -> None:
    script = 'pwd; echo "$COLOR" > "$1"; echo oops >&2; exit 3'
    out, err, status = outcome(connect(cluster, "sh", "-c", script, "sh", "/file"))
    (container,) = root.glob("*/main")
    assert out.decode().strip() == str(container / "work")
    assert err == b"oops\n"
    assert (container / "file").read_text() == "red\n"
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_a_command_that_succeeds(cluster: Cluster) -> None:
    assert outcome(connect(cluster, "true"))[2]["status"] == "Success"


def test_stdin_until_it_is_closed(cluster: Cluster) -> None:
    websocket = connect(cluster, "cat")
    assert websocket.subprotocol == V5
    for data in (b"\x00one ", b"\x00two", b"\xff\x00"):
        websocket.send_binary(data)
    assert outcome(websocket)[0] == b"one two"


def test_stdin_that_cannot_be_closed(cluster: Cluster) -> None:
    websocket = connect(cluster, "head", "-c", "3", protocols=(V4,))
    assert websocket.subprotocol == V4
    websocket.send_binary(b"\x00one two")
    assert outcome(websocket)[0] == b"one"


def test_a_program_that_does_not_exist(cluster: Cluster) -> None:
    status = outcome(connect(cluster, "no-such-program"))[2]
    assert status["reason"] == "InternalError"
    assert 'exec: "no-such-program": executable file not found in $PATH' in status["message"]


def test_a_container_that_does_not_run(cluster: Cluster) -> None:
    status = outcome(connect(cluster, "true", pod="stuck"))[2]
    assert status["message"] == ('Internal error occurred: unable to upgrade connection: container not found ("main")')


def test_what_is_refused(cluster: Cluster) -> None:
    for pod, token, code in (("none", "", 404), ("p", LAB_USER_TOKEN, 403)):
        with pytest.raises(WebSocketBadStatusException) as error:
            connect(cluster, "true", pod=pod, token=token)
        assert error.value.status_code == code
    headers = {"Authorization": f"Bearer {cluster.token}"}
    answer = requests.get(f"{cluster.url}{PATH}?container=main&command=true", headers=headers, timeout=30)
    assert (answer.status_code, answer.json()["message"]) == (400, "Upgrade request required")
    answer = requests.get(f"{cluster.url}{PATH}?container=none&command=true", headers=headers, timeout=30)
    assert answer.json()["message"] == "container none is not valid for pod p"


def test_nothing_runs_by_default() -> None:
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": "i"}]}
    with Cluster(nodes=1).running() as cluster:
        pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        cluster.call(lambda: cluster.registry.create("Pod", pod))
        with pytest.raises(WebSocketBadStatusException, match="kubesim runs no commands"):
            connect(cluster, "true")
