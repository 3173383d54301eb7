# SPDX-License-Identifier: BSD-2-Clause
"""Certificates for servers and clients that the tests start."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NO_PASSWORD = serialization.NoEncryption()
HOUR = timedelta(hours=1)


def pem_files(
    directory: Path,
    name: str,
    encryption: serialization.KeySerializationEncryption = NO_PASSWORD,
    *,
    host: str = "",
    expires: timedelta = HOUR,
) -> tuple[str, str]:
    """Paths of a self-signed certificate, by default for the host of that name, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host or name)])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * HOUR)
        .not_valid_after(now + expires)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host or name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    directory.joinpath(f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    directory.joinpath(f"{name}.key").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return str(directory / f"{name}.crt"), str(directory / f"{name}.key")
