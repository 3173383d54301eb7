# SPDX-License-Identifier: BSD-2-Clause
"""Make the collection importable under its Ansible name, wherever the clone lies; `make collections-path` runs this."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
COLLECTIONS = ROOT / ".cache" / "collections"


def link_collection() -> None:
    """Lay .cache/collections/ansible_collections/runwhere/gpuctl -> the clone.

    The link is relative, so that a clone that was moved or copied does not look into the old place.
    """
    link = COLLECTIONS / "ansible_collections" / "runwhere" / "gpuctl"
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(ROOT, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)  # in one step: another process may be reading it


link_collection()
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))
