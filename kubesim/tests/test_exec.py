# SPDX-License-Identifier: BSD-2-Clause
"""Commands in containers: kubectl exec's requests, and what is refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from websocket import WebSocket, WebSocketBadStatusException

from kubesim import LAB_USER_TOKEN, Cluster

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
PATH = "/api/v1/namespaces/default/pods/p/exec"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("containers")


@pytest.fixture(scope="module")
def cluster(root: Path) -> Iterator[Cluster]:
    container = {
        "name": "main",
        "image": "i",
        "workingDir": "/work",
        "env": [{"name": "COLOR", "value": "red"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "file", "mountPath": "/etc/a.json"}],
    }
    volumes = [
        {"name": "data", "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}},
        {"name": "file", "hostPath": {"path": "/a.json", "type": "FileOrCreate"}},
    ]
    spec = {"containers": [container], "volumes": volumes}
    with Cluster(nodes=1, exec_root=root).running() as cluster:
        for name in ("p", "stuck"):
            pod = {"metadata": {"name": name, "namespace": "default", "labels": {"app": name}}}
            cluster.call(lambda: cluster.kubelet.behave(name="stuck", stuck=True))
            cluster.call(lambda pod=pod: cluster.registry.create("Pod", {**pod, "spec": spec}))
        wait_until_running(cluster, "p")
        yield cluster


def wait_until_running(cluster: Cluster, name: str) -> None:
    url = f"{cluster.url}/api/v1/namespaces/default/pods/{name}"
    headers = {"Authorization": f"Bearer {cluster.token}"}
    deadline = time.monotonic() + 60
    while requests.get(url, headers=headers, timeout=30).json()["status"].get("phase") != "Running":
        assert time.monotonic() < deadline, f"pod {name} does not run"


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


def test_a_mounted_directory_exists(cluster: Cluster) -> None:
    assert outcome(connect(cluster, "ls", "-d", "/data", "/etc/a.json"))[0].decode().endswith("/main/data\n")


def test_the_files_of_a_claim_stay_when_its_pod_goes(cluster: Cluster) -> None:
    storage_class = {"metadata": {"name": "standard"}, "provisioner": "kubesim.dev/simulated"}
    claim = {
        "storageClassName": "standard",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": "home", "namespace": "default"}
    cluster.call(lambda: cluster.registry.create("StorageClass", storage_class))
    cluster.call(lambda: cluster.registry.create("PersistentVolumeClaim", {"metadata": metadata, "spec": claim}))
    container = {"name": "main", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/home/me"}]}
    spec = {
        "containers": [container],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "home"}}],
    }
    for name in ("before", "after"):
        pod = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        cluster.call(lambda pod=pod: cluster.registry.create("Pod", pod))
        wait_until_running(cluster, name)
        script = 'cat "$1"/notes; echo kept >"$1"/notes'
        out, _err, _status = outcome(connect(cluster, "sh", "-c", script, "sh", "/home/me", pod=name))
    assert out == b"kept\n"


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
        with pytest.raises(WebSocketBadStatusException, match=r"runs no commands\. Start it with kubesim --exec"):
            connect(cluster, "true")


def running_pod(cluster: Cluster, **container: Any) -> None:
    spec = {"containers": [{"name": "main", "image": "i", **container}]}
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    cluster.call(lambda: cluster.registry.create("Pod", pod))
    while cluster.call(lambda: cluster.registry.get("Pod", "default", "p"))["status"].get("phase") != "Running":
        time.sleep(0.01)


def test_a_command_of_a_guarded_cluster_gets_nothing_of_the_pod(tmp_path: Path) -> None:
    env = [{"name": "TAR_OPTIONS", "value": "--checkpoint-action=exec=reboot"}, {"name": "PATH", "value": "/tmp/evil"}]
    with Cluster(nodes=1, exec_root=tmp_path, exec_guarded=True).running() as cluster:
        running_pod(cluster, env=env, workingDir="/../../../x")
        output, _, status = outcome(connect(cluster, "sh", "-c", "env; pwd"))
        assert status["status"] == "Success"
        assert b"TAR_OPTIONS" not in output
        assert b"/tmp/evil" not in output
        directory = Path(output.decode().split()[-1])
        assert tmp_path.resolve() in directory.resolve().parents


def test_a_public_token_authenticates_no_user_in_a_guarded_cluster(tmp_path: Path) -> None:
    with Cluster(nodes=1, exec_root=tmp_path, exec_guarded=True).running() as cluster:
        with pytest.raises(WebSocketBadStatusException) as refused:
            connect(cluster, "true", token=LAB_USER_TOKEN)
        assert refused.value.status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "example.com", "::"])
def test_commands_are_not_for_other_machines(host: str) -> None:
    command = [sys.executable, "-m", "kubesim", "--exec", "--host", host]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert f"--exec: {host} can be reached from other machines. Use --host 127.0.0.1." in done.stderr


def test_kubesim_exec_runs_commands_and_leaves_nothing(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "kubesim", "--exec", "--nodes=1", f"--kubeconfig={kubeconfig}"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert "1 nodes at https://127.0.0.1:" in lines[0]
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        (directory,) = tmp_path.glob("kubesim-*")
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        process.terminate()
    assert not list(tmp_path.glob("kubesim-*"))
