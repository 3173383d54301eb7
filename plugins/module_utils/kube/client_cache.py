# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Clients that are open already. One process does the items of a loop one after the other, mostly for one cluster:
connecting anew for each would load the kubeconfig, run its exec plug-in and shake hands again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .client import Client
from .connection import connect, resolved

_OPENED: dict[str, Client] = {}


def cached_client(params: Mapping[str, Any], environ: Mapping[str, str]) -> Client:
    """A client for the connection that options and environment describe. Raises ConnectionProblem.

    Another option, variable or version of a file makes another client. So does another process: an inventory plugin
    opens one in ansible-playbook itself, and workers that were forked from it must not talk over the same socket.
    """
    options = resolved(params, environ)
    versions = [_version(path) for path in _files(options, environ)]
    key = json.dumps([os.getpid(), options, versions], sort_keys=True, default=str)
    if key not in _OPENED:
        _OPENED[key] = Client(connect(params, environ))
    return _OPENED[key]


def abort(client: Client) -> None:
    """Let a client send nothing more, and nobody have it again."""
    client.abort()
    for key in [key for key, known in _OPENED.items() if known is client]:
        del _OPENED[key]


def _files(options: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG") or "~/.kube/config"
    kubeconfigs = [] if isinstance(kubeconfig, Mapping) else str(kubeconfig).split(os.pathsep)
    certificates = (options[name] for name in ("ca_cert", "client_cert", "client_key"))
    return [os.path.abspath(os.path.expanduser(path)) for path in (*kubeconfigs, *certificates) if path]


def _version(path: str) -> tuple[str, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_mtime_ns, status.st_size
