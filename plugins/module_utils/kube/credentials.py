# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What a kubeconfig, a service account or the options say of the way to one server."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Credentials:
    """Certificates and keys are PEM texts, not paths: what a kubeconfig holds as data needs no file then.

    ``authorization`` is called for each request, perhaps of several threads: exec plug-ins renew their tokens.
    """

    server: str = ""
    authorization: Callable[[], dict[str, str]] = dict
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    validate_certs: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{username}:{password}'.encode()).decode()}"}


def read_pem(path: str) -> str:
    """Raises OSError. Bundles have comments in all languages; only what stands between the PEM lines counts."""
    with open(path, encoding="ascii", errors="ignore") as file:
        return file.read()
