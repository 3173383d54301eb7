# SPDX-License-Identifier: BSD-2-Clause
"""Our reader and the kubernetes library give the same connection; what ours cannot read is left to the library."""

from __future__ import annotations

import base64
import copy
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.kubeconfig import read_kubeconfig
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.library import KubeconfigError, load_kubeconfig

Config = dict[str, Any]


def data(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(cluster: Config | None = None, user: Config | None = None, name: str = "a", **top: Any) -> Config:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": {"token": f"t-{name}"} if user is None else user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        **top,
    }


# Name -> (files: directory/name -> content, context). The PEM and token files next to them contain their own path.
READ: dict[str, tuple[dict[str, Config], str | None]] = {
    "a token": ({"x/config": config()}, None),
    "a token file": ({"x/config": config(user={"tokenFile": "token"})}, None),
    "a token and a token file": ({"x/config": config(user={"tokenFile": "token", "token": "here"})}, None),
    "a password": ({"x/config": config(user={"username": "u", "password": "p:q"})}, None),
    "a token before a password": ({"x/config": config(user={"username": "u", "password": "p", "token": "t"})}, None),
    "a token before an exec plugin": ({"x/config": config(user={"token": "t", "exec": {"command": "no"}})}, None),
    "no credentials": ({"x/config": config(user={})}, None),
    "a missing user": ({"x/config": config(users=[])}, None),
    "a context without a user": ({"x/config": config(contexts=[{"name": "a", "context": {"cluster": "a"}}])}, None),
    "certificates in files": (
        {
            "x/config": config(
                {"certificate-authority": "ca.pem"}, {"client-certificate": "./c.pem", "client-key": "../y/k.pem"}
            )
        },
        None,
    ),
    "certificates as data": (
        {
            "x/config": config(
                {"certificate-authority-data": data("CA")},
                {"client-certificate-data": data("C"), "client-key-data": data("K")},
            )
        },
        None,
    ),
    "data before files": (
        {"x/config": config({"certificate-authority-data": data("CA"), "certificate-authority": "ca.pem"})},
        None,
    ),
    "empty data": ({"x/config": config({"certificate-authority-data": ""})}, None),
    "no certificates without TLS": (
        {"x/config": config({"server": "http://a:8080", "certificate-authority": "not-there.pem"})},
        None,
    ),
    "no verification": ({"x/config": config({"insecure-skip-tls-verify": True})}, None),
    "explicit verification": ({"x/config": config({"insecure-skip-tls-verify": False})}, None),
    "tls-server-name": ({"x/config": config({"tls-server-name": "kubernetes"})}, None),
    "a slash at the end": ({"x/config": config({"server": "https://a:6443/k8s/"})}, None),
    "no server": ({"x/config": config({"server": ""})}, None),
    "a context that is not the current one": (
        {
            "x/config": config()
            | {
                "contexts": [
                    {"name": "a", "context": {"cluster": "a", "user": "a"}},
                    {"name": "other", "context": {"cluster": "a"}},
                ]
            }
        },
        "other",
    ),
    "two files": ({"x/config": config(), "y/config": config(name="b")}, None),
    "two files, the context of the first": ({"x/config": config(), "y/config": config(name="b")}, "a"),
    "two files with one name": (
        {"x/config": config({"server": "https://first"}), "y/config": config({"server": "https://second"})},
        None,
    ),
    "relative to the file that names it": (
        {"x/config": config(name="b"), "y/config": config({"certificate-authority": "ca.pem"}, {"tokenFile": "token"})},
        "a",
    ),
    "a user of one file, a cluster of another": (
        {
            "x/config": config({"certificate-authority": "ca.pem"}, users=[]),
            "y/config": config(user={"tokenFile": "token", "client-certificate": "c.pem", "client-key": "k.pem"})
            | {"clusters": []},
        },
        None,
    ),
    "a file without contexts": ({"x/config": {"kind": "Config"}, "y/config": config()}, None),
    "null where a list could be": ({"x/config": config(name="b") | {"users": None}, "y/config": config()}, "a"),
}

EXEC = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}
LEFT_TO_THE_LIBRARY: dict[str, tuple[dict[str, Any], str | None]] = {
    "an exec plugin": ({"x/config": config(user=EXEC)}, None),
    "an auth provider": ({"x/config": config(user={"auth-provider": {"name": "oidc"}, "token": "t"})}, None),
    "no file": ({}, None),
    "an empty file": ({"x/config": None}, None),
    "not a mapping": ({"x/config": ["a"]}, None),
    "a missing context": ({"x/config": config()}, "b"),
    "a missing cluster": ({"x/config": config(clusters=[])}, None),
    "an entry without a name": ({"x/config": config(clusters=[{"cluster": {}}])}, None),
    "a missing certificate": ({"x/config": config({"certificate-authority": "not-there.pem"})}, None),
    "data that is not base64": ({"x/config": config({"certificate-authority-data": "a"})}, None),
    "null for a name": ({"x/config": config({"certificate-authority": None})}, None),
}


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two directories, each with certificates and a token; the working directory is neither."""
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        for file in ("ca.pem", "c.pem", "k.pem", "token"):
            (tmp_path / name / file).write_text(f"{name}/{file}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(directory: Path, files: dict[str, Any]) -> str:
    for name, content in files.items():
        (directory / name).write_text("" if content is None else yaml.safe_dump(content))
    return os.pathsep.join(files) or "not/there"


def comparable(connection: Connection | None) -> dict[str, Any]:
    assert connection is not None
    return {**vars(connection), "authorization": connection.authorization()}


@pytest.mark.parametrize(("files", "context"), READ.values(), ids=READ)
def test_files_give_the_same_connection_as_the_library(
    directory: Path, files: dict[str, Config], context: str | None
) -> None:
    paths = write(directory, files)
    assert comparable(read_kubeconfig(paths, context)) == comparable(load_kubeconfig(paths, context, persist=False))


@pytest.mark.parametrize(("files", "context"), READ.values(), ids=READ)
def test_a_dictionary_gives_the_same_connection_as_the_library(
    directory: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, Config], context: str | None
) -> None:
    """Its paths are relative to the working directory."""
    monkeypatch.chdir(directory / "x")
    given = list(files.values())[-1]
    if context:
        given = {**given, "current-context": context}
    try:
        expected = comparable(load_kubeconfig(copy.deepcopy(given), None, persist=False))
    except KubeconfigError:
        assert read_kubeconfig(given, None) is None
    else:
        assert comparable(read_kubeconfig(given, None)) == expected


@pytest.mark.parametrize(("files", "context"), LEFT_TO_THE_LIBRARY.values(), ids=LEFT_TO_THE_LIBRARY)
def test_everything_else_is_left_to_the_library(directory: Path, files: dict[str, Any], context: str | None) -> None:
    assert read_kubeconfig(write(directory, files), context) is None


def test_two_entries_of_one_name_in_a_dictionary_are_left_to_the_library() -> None:
    twice = config()
    twice["clusters"] *= 2
    assert read_kubeconfig(twice, None) is None
    with pytest.raises(KubeconfigError, match="only one object with name a"):
        load_kubeconfig(twice, None, persist=False)


def test_a_token_file_is_read_for_each_request(directory: Path) -> None:
    connection = read_kubeconfig(write(directory, {"x/config": config(user={"tokenFile": "token"})}), None)
    assert connection is not None
    (directory / "x" / "token").write_text("renewed\n")
    assert connection.authorization() == {"Authorization": "Bearer renewed"}


def test_proxy_url_is_read_as_by_kubectl() -> None:
    """The oldest supported versions of the library ignore it."""
    connection = read_kubeconfig(config({"proxy-url": "http://proxy:3128"}), None)
    assert connection is not None
    assert connection.proxy == "http://proxy:3128"


def test_a_tilde_is_the_home_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(directory, {"x/config": config()})
    monkeypatch.setenv("HOME", str(directory))
    assert comparable(read_kubeconfig("~/x/config", None))["server"] == "https://a:6443"


def test_concurrent_requests_renew_an_expired_token_once(directory: Path) -> None:
    plugin = directory / "plugin"
    plugin.write_text(
        """#!/bin/sh
        echo run >> runs
        sleep 0.2
        [ "$(wc -l < runs)" -eq 1 ] && year=2001 || year=9001
        echo '{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
               "status": {"token": "t", "expirationTimestamp": "'$year'-01-01T00:00:00Z"}}'
        """
    )
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    connection = load_kubeconfig(config(user=user), None, persist=False)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(connection.authorization) for _request in range(8)]
    assert [each.result() for each in asked] == [{"Authorization": "Bearer t"}] * 8
    assert len((directory / "runs").read_text().split()) == 2  # on loading, and once that token has expired


def test_no_temporary_key_stays_on_disk(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library removes its files when the interpreter exits, which a worker process never does."""
    (directory / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory / "tmp"))
    secret = config({"certificate-authority-data": data("CA")}, {"client-key-data": data("K-temporary")})
    for _twice in range(2):
        assert load_kubeconfig(secret, None, persist=False).client_key == "K-temporary"
    assert list((directory / "tmp").iterdir()) == []


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY"])
def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "http://proxy:3128")
    assert load_kubeconfig(config(), None, persist=False).proxy is None
