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


def test_the_translation_has_the_same_rows() -> None:
    text = GUIDE.with_name("guide_your_cluster_zh.rst").read_text(encoding="utf-8")
    table = text.partition("     - 缺少时\n")[2].partition("\n\n")[0]
    versions = [line.removeprefix("     - ") for line in table.splitlines() if line.startswith("     - 1.")]
    assert versions == [number(row.since) for row in FEATURES]
    assert text.count("   * - ") == GUIDE.read_text(encoding="utf-8").count("   * - ")
