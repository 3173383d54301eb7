# SPDX-License-Identifier: BSD-2-Clause
"""The guide to clusters says what the table of features says, row by row."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import FEATURES, number

GUIDE = Path(__file__).parents[2] / "docs" / "docsite" / "rst" / "guide_your_cluster.rst"


def test_the_table_of_the_guide_is_that_of_the_features() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    table = text.partition("     - Without it\n")[2].partition("\n\n")[0]
    rows = [
        f"   * - {row.title}\n     - {number(row.since)}\n     - {row.needed_by}\n     - {row.result}: {row.without}"
        for row in FEATURES
    ]
    assert table == "\n".join(rows)
