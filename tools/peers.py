# SPDX-License-Identifier: BSD-2-Clause
"""Fetch collections that tests and benchmarks use into .cache/peers, from the package `ansible` on the package index.

The wheel of the `ansible` package holds a hundred collections; only the wanted one is unpacked.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".cache" / "peers"
ANSIBLE = "ansible==12.3.0"  # the release for ansible-core 2.19


def kubernetes_core() -> Path:
    """The directory for ANSIBLE_COLLECTIONS_PATH that holds kubernetes.core; fetched at the first call."""
    return _fetched("kubernetes.core")


def awx_awx() -> Path:
    """The same for awx.awx, which configures AWX."""
    return _fetched("awx.awx")


def community_grafana() -> Path:
    """The same for community.grafana, by which the role monitoring installs dashboards."""
    return _fetched("community.grafana")


def _fetched(collection: str) -> Path:
    stamp = PEERS / f".{ANSIBLE}.{collection}"
    if not stamp.exists():
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*command, "--no-deps", "--dest", directory, ANSIBLE], check=True)
            (wheel,) = Path(directory).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                prefix = f"ansible_collections/{collection.replace('.', '/')}/"
                archive.extractall(PEERS, [name for name in archive.namelist() if name.startswith(prefix)])
        stamp.touch()
    return PEERS


if __name__ == "__main__":
    print(kubernetes_core())
