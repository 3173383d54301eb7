# SPDX-License-Identifier: BSD-2-Clause
"""Places in the text of manifests."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """The place of a node: line and column from 1 (None outside of YAML text), and its rank in reading order."""

    line: int | None
    column: int | None
    rank: int


NO_PLACE = Place(None, None, 0)
