# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Clients by connection, so that the items of a loop do not each load the kubeconfig, run exec plug-ins and connect."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .client import Client
from .connection_options import resolve_connection, resolve_options

_CLIENTS: dict[str, Client] = {}


def cached_client(params: Mapping[str, Any], environ: Mapping[str, str]) -> Client:
    """The client for the connection that options and environment describe. Raises ConnectionProblem.

    Another option, variable or version of a file gives another client. So does another process: an inventory plugin
    opens one in ansible-playbook itself, and the workers forked from it must not share its sockets.
    """
    options = resolve_options(params, environ)
    key = json.dumps([os.getpid(), options, _file_versions(options, environ)], sort_keys=True, default=str)
    if key not in _CLIENTS:
        _CLIENTS[key] = Client(resolve_connection(params, environ))
    return _CLIENTS[key]


def discard_client(client: Client) -> None:
    """Abort a client and drop it from the cache."""
    client.abort()
    for key in [key for key, cached in _CLIENTS.items() if cached is client]:
        del _CLIENTS[key]


def _file_versions(options: Mapping[str, Any], environ: Mapping[str, str]) -> list[tuple[str, int, int] | None]:
    """Path, time of modification and size of each file that the connection is read from; None for a missing one."""
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG") or "~/.kube/config"
    kubeconfigs = [] if isinstance(kubeconfig, Mapping) else str(kubeconfig).split(os.pathsep)
    paths = (*kubeconfigs, *(options[name] for name in ("ca_cert", "client_cert", "client_key")))
    versions: list[tuple[str, int, int] | None] = []
    for path in (os.path.abspath(os.path.expanduser(path)) for path in paths if path):
        try:
            status = os.stat(path)
            versions.append((path, status.st_mtime_ns, status.st_size))
        except OSError:
            versions.append(None)
    return versions
