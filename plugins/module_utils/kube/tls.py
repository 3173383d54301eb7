# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Certificates and keys, as OpenSSL wants them."""

from __future__ import annotations

import os
import ssl
from tempfile import TemporaryDirectory

from .connection import Connection
from .errors import ConnectionProblem


def tls_context(connection: Connection, *, with_client_cert: bool = True) -> ssl.SSLContext:
    """Whom the connection trusts, and as whom it introduces itself. Raises ConnectionProblem for what is no PEM."""
    from urllib3.util.ssl_ import create_urllib3_context

    context: ssl.SSLContext = create_urllib3_context(
        cert_reqs=ssl.CERT_REQUIRED if connection.validate_certs else ssl.CERT_NONE
    )
    try:
        if connection.ca_cert:
            context.load_verify_locations(cadata=connection.ca_cert)
        elif connection.validate_certs:
            context.load_default_certs()
    except ssl.SSLError as problem:
        raise ConnectionProblem(f"ca_cert, or the kubeconfig's certificate-authority, is no PEM: {problem}") from None
    if connection.client_cert and with_client_cert:
        _load_client_cert(context, connection.client_cert, connection.client_key)
    return context


def _load_client_cert(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """OpenSSL reads these from a file only; it is there for as long as that takes."""

    def refuse() -> str:
        raise ConnectionProblem("client_key is encrypted; give one that needs no password")

    with TemporaryDirectory(prefix="gpuctl-") as directory:  # nobody else may look into it (tempfile.mkdtemp)
        path = os.path.join(directory, "client.pem")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{certificate}\n{key or ''}\n")
        try:
            context.load_cert_chain(path, password=refuse)
        except ssl.SSLError as problem:
            raise ConnectionProblem(
                f"client_cert and client_key, or those of the kubeconfig's user, are no PEM or do not belong together: "
                f"{problem}"
            ) from None
