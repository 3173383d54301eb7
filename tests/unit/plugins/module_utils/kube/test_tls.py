# SPDX-License-Identifier: BSD-2-Clause
"""Verification of servers and client certificates, against a real TLS server."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import POD
from cryptography.hazmat.primitives import serialization
from integration.certificates import pem_files


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """localhost: the server; client: trusted by it; stranger: not trusted; locked: a key with a password."""
    directory = tmp_path_factory.mktemp("pki")
    for name in ("localhost", "client", "stranger"):
        pem_files(directory, name)
    pem_files(directory, "locked", serialization.BestAvailableEncryption(b"secret"))
    directory.joinpath("text").write_text("not a certificate")
    bundle = "# Autorité de certification\n" + directory.joinpath("localhost.crt").read_text()
    directory.joinpath("bundle.crt").write_text(bundle, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def server(pki: Path) -> Iterator[str]:
    """Answers with the name in the client's certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert isinstance(self.connection, ssl.SSLSocket)
            certificate: Any = self.connection.getpeercert()
            name = certificate["subject"][0][0][1] if certificate else "nobody"
            metadata = {"name": name, "namespace": "ml", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
            pod = {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}}
            body = json.dumps({"kind": "PodList", "items": [pod]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki / "localhost.crt", pki / "localhost.key")
    context.load_verify_locations(pki / "client.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.socket = context.wrap_socket(running.socket, server_side=True)
    threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield f"https://localhost:{running.server_port}"
    running.shutdown()
    running.server_close()


def seen_as(server: str, pki: Path, **options: Any) -> str:
    paths = {option: str(pki / options.pop(option)) for option in list(options) if option in FILES}
    given = {"host": server, "api_key": "t", "retries": 0, **options, **paths}
    found = Client(resolve_connection(given, environ={})).list_objects(POD, "default")
    name: str = found[0]["metadata"]["name"]
    return name


FILES = ("ca_cert", "client_cert", "client_key")
CLIENT = {"client_cert": "client.crt", "client_key": "client.key"}

WORKS: dict[str, tuple[dict[str, Any], str]] = {
    "a certificate that is trusted": ({"ca_cert": "localhost.crt"}, "nobody"),
    "a bundle with a comment in French": ({"ca_cert": "bundle.crt"}, "nobody"),
    "a client certificate": ({"ca_cert": "localhost.crt", **CLIENT}, "client"),
    "no verification": ({"validate_certs": False}, "nobody"),
    "no verification, a client certificate": ({"validate_certs": False, **CLIENT}, "client"),
}
FAILS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown authority": ({}, "cannot verify.*Set ca_cert to the certificate of its"),
    "another authority": ({"ca_cert": "stranger.crt"}, "cannot verify"),
    "not a certificate": ({"ca_cert": "text"}, "ca_cert.*is not a PEM"),
    "a missing file": ({"ca_cert": "absent"}, "cannot read ca_cert .*absent: no such file"),
    "the key of another certificate": ({**CLIENT, "client_key": "stranger.key"}, "do not match"),
    "no key": ({"client_cert": "client.crt"}, "client_cert and client_key"),
    "a key with a password": ({"client_cert": "locked.crt", "client_key": "locked.key"}, "client_key is encrypted"),
}


@pytest.mark.filterwarnings("error")  # Ansible shows what a worker process prints to stderr.
@pytest.mark.parametrize(("options", "name"), WORKS.values(), ids=WORKS)
def test_the_server_accepts_the_connection(server: str, pki: Path, options: dict[str, Any], name: str) -> None:
    assert seen_as(server, pki, **options) == name


@pytest.mark.parametrize(("options", "words"), FAILS.values(), ids=FAILS)
def test_mistakes_are_explained(server: str, pki: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConnectionProblem, match=words):
        seen_as(server, pki, **options)


@pytest.mark.parametrize(("name", "works"), [("localhost", True), ("elsewhere", False), (None, False)])
def test_tls_server_name_replaces_the_host_name(server: str, pki: Path, name: str | None, works: bool) -> None:
    cluster = {
        "server": server.replace("localhost", "127.0.0.1"),
        "certificate-authority": str(pki / "localhost.crt"),
        **({"tls-server-name": name} if name else {}),
    }
    kubeconfig = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": cluster}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
    }
    client = Client(resolve_connection({"kubeconfig": kubeconfig, "retries": 0}, environ={}))
    if works:
        assert client.list_objects(POD, "default")
    else:
        with pytest.raises(ConnectionProblem, match="cannot verify"):
            client.list_objects(POD, "default")


def test_no_key_stays_on_disk(server: str, pki: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert seen_as(server, pki, ca_cert="localhost.crt", **CLIENT) == "client"
    assert list(tmp_path.iterdir()) == []
