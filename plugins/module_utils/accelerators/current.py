# SPDX-License-Identifier: BSD-2-Clause
"""The catalog of the running task. A file of its own: tasks without accelerators do without the profiles."""

from __future__ import annotations

from typing import Any

_in_use: Any = None


def use_catalog(found: Any) -> None:
    """Let the task go on with this Catalog; None for the built-in one. A process performs one task at a time."""
    global _in_use
    _in_use = found


def in_use() -> Any:
    """The Catalog that was chosen, or None."""
    return _in_use
