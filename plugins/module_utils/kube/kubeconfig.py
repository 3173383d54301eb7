# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Kubeconfigs whose user is a token, a password or a certificate, read without the ``kubernetes`` library.

Importing the library takes longer than a whole task otherwise does, and all that most kubeconfigs need of it is to be
read. Which file, entry and field counts is the same as there (kubernetes/config/kube_config.py), which the tests hold
this to. What is not plain, or not right, is left to the library: exec plug-ins, auth providers, and all mistakes.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .credentials import Credentials, basic, bearer, read_pem


def kubeconfig_credentials_plain(kubeconfig: str | Mapping[str, Any], context: str | None) -> Credentials | None:
    """What the context (by default the current one) of kubeconfig files, joined by ``:``, or of a dictionary says.

    None: it takes the library to say that, or to say what is wrong.
    """
    import yaml

    try:
        files = _Files.read(kubeconfig) if isinstance(kubeconfig, str) else _Files.of(kubeconfig)
        return _access(files, context)
    except (_NotPlain, yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


class _NotPlain(Exception):
    pass


@dataclass(frozen=True)
class _Entry:
    """A cluster, user or context, and the directory that its relative paths start from."""

    value: Mapping[str, Any]
    directory: str


@dataclass
class _Files:
    """All entries of all files: (section, name) -> entry. Of two with one name the first counts."""

    entries: dict[tuple[str, str], _Entry]
    current_context: str | None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> _Files:
        """A dictionary has no directory: its relative paths start from the working directory."""
        files = cls({}, None)
        files._add(config, "", merging=False)
        return files

    @classmethod
    def read(cls, paths: str) -> _Files:
        import yaml

        files = cls({}, None)
        for path in (os.path.expanduser(path) for path in paths.split(os.pathsep) if path):
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    config = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
                files._add(config, os.path.abspath(os.path.dirname(path)), merging=True)
        return files

    def _add(self, config: Mapping[str, Any], directory: str, *, merging: bool) -> None:
        for section in ("clusters", "users", "contexts"):
            for item in config.get(section) or ():
                key = (section, item["name"])
                if key not in self.entries:
                    self.entries[key] = _Entry(item[section[:-1]], directory)
                elif not merging:
                    raise _NotPlain
        # The library's rule; kubectl takes the first file's.
        self.current_context = config.get("current-context", self.current_context)


def _access(files: _Files, name: str | None) -> Credentials:
    context = files.entries["contexts", name or files.current_context or ""].value
    cluster = files.entries["clusters", context["cluster"]]
    user = files.entries.get(("users", context.get("user") or ""), _Entry({}, ""))
    access = Credentials(
        server=cluster.value.get("server", "").rstrip("/"),
        authorization=_authorization(user),
        validate_certs=not cluster.value.get("insecure-skip-tls-verify", False),
        tls_server_name=cluster.value.get("tls-server-name"),
        proxy=cluster.value.get("proxy-url"),
    )
    if not access.server.startswith("https"):
        return access
    return replace(
        access,
        ca_cert=_pem(cluster.value, "certificate-authority", cluster.directory),
        # From the cluster's directory too: the library's rule.
        client_cert=_pem(user.value, "client-certificate", cluster.directory),
        client_key=_pem(user.value, "client-key", cluster.directory),
    )


def _authorization(user: _Entry) -> Callable[[], dict[str, str]]:
    given = user.value
    if "auth-provider" in given:
        raise _NotPlain
    if given.get("token"):
        return partial(bearer, given["token"])
    if "token" not in given and given.get("tokenFile"):
        path = os.path.normpath(os.path.join(user.directory, given["tokenFile"]))
        _bearer_from(path)
        return partial(_bearer_from, path)
    if "exec" in given:
        raise _NotPlain
    if "username" in given and "password" in given:
        return partial(basic, given["username"], given["password"])
    return dict


def _bearer_from(path: str) -> dict[str, str]:
    """Read for each request: what renews the token writes it to this file."""
    with open(path, encoding="utf-8") as file:
        return bearer(file.read().strip())


def _pem(entry: Mapping[str, Any], field: str, directory: str) -> str | None:
    if f"{field}-data" in entry:
        return base64.standard_b64decode(entry[f"{field}-data"]).decode("ascii", "ignore") or None
    if field in entry:
        return read_pem(os.path.normpath(os.path.join(directory, entry[field])))
    return None
