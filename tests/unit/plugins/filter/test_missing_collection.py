# SPDX-License-Identifier: BSD-2-Clause
"""Whether a collection is installed."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.filter._missing_collection import missing_collection


@pytest.mark.parametrize(
    ("name", "missing"), [("runwhere.gpuctl", False), ("runwhere.nothing", True), ("nobody.nothing", True)]
)
def test_a_collection_is_looked_for_where_others_are(name: str, missing: bool) -> None:
    assert missing_collection(name) is missing
