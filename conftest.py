# SPDX-License-Identifier: BSD-2-Clause
"""Make the collection importable under its Ansible name, wherever the clone lies."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
COLLECTIONS = ROOT / ".cache" / "collections"


def link_collection() -> None:
    """Lay .cache/collections/ansible_collections/runwhere/gpuctl -> the clone; what `make collections-path` does."""
    link = COLLECTIONS / "ansible_collections" / "runwhere" / "gpuctl"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(ROOT)


link_collection()
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))
