# SPDX-License-Identifier: BSD-2-Clause
"""What the manifests of one call may have together, so that a small file fills neither memory nor time. Pure.

Every value in the tree of a manifest counts, keys included. The trainings of a matrix count with all of their values,
and the nodes of a training because each has a line in its hostfile.
"""

from __future__ import annotations

from typing import Literal

LIMITS = {"KiB of text": 16_384, "manifests": 2_000, "values": 100_000, "nodes in trainings": 100_000}

What = Literal["KiB of text", "manifests", "values", "nodes in trainings"]


class TooMuchError(Exception):
    """A call has more than one of the limits allows."""


class Budget:
    """What remains of the limits."""

    def __init__(self) -> None:
        self._remaining = dict(LIMITS)

    def spend(self, what: What, number: int) -> None:
        """Raises TooMuchError."""
        self._remaining[what] -= number
        if self._remaining[what] < 0:
            raise TooMuchError(f"more than {LIMITS[what]} {what}")
