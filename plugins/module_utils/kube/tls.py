# SPDX-License-Identifier: BSD-2-Clause
"""TLS contexts from the certificates and keys of a connection."""

from __future__ import annotations

import os
import ssl
from tempfile import TemporaryDirectory

from .connection import Connection, Peer
from .errors import ConnectionProblem


def tls_context(connection: Connection, *, with_client_cert: bool = True) -> ssl.SSLContext:
    """Raises ConnectionProblem for certificates and keys that OpenSSL rejects."""
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
        raise ConnectionProblem(
            f"{connection.peer.authority_source} is not a PEM certificate: {problem}. Use a file that contains BEGIN "
            f"CERTIFICATE."
        ) from None
    if connection.client_cert and with_client_cert:
        _load_client_cert(context, connection.client_cert, connection.client_key, connection.peer)
    return context


def _load_client_cert(context: ssl.SSLContext, certificate: str, key: str | None, peer: Peer) -> None:
    """Load it from a temporary file, since OpenSSL reads client certificates from files alone."""

    def fail() -> str:
        raise ConnectionProblem(f"{peer.key} is encrypted. Use a key without a password.")

    with TemporaryDirectory(prefix="gpuctl-") as directory:  # readable by its owner alone (tempfile.mkdtemp)
        path = os.path.join(directory, "client.pem")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{certificate}\n{key or ''}\n")
        try:
            context.load_cert_chain(path, password=fail)
        except ssl.SSLError as problem:
            raise ConnectionProblem(
                f"{peer.certificate_source} are not PEM or do not match: {problem}. Use a certificate and the key that "
                f"it was issued for."
            ) from None
