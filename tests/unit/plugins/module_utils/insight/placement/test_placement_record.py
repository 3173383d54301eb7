# SPDX-License-Identifier: BSD-2-Clause
"""Records of placements that others have damaged."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.placement.placement_record import (
    PlacementRecord,
    UnusableRecord,
    read_record,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client

OURS = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
LOST = {"cluster": "west", "by": "alice", "at": "2026-11-01T00:00:00Z"}
#: what is said to be lost -> what is known of it
DAMAGED: dict[str, tuple[Any, ...]] = {
    "5": (),
    "true": (),
    '"west"': (),
    '{"cluster": "west"}': (),
    "[": (),
    "[" * 5_000: (),
    "[1, null, []]": (),
    '[{"cluster": 7}]': ({"cluster": "7", "by": "None", "at": "None"},),
    '[{"cluster": "west", "by": "alice", "at": "2026-11-01T00:00:00Z", "more": 1}]': (LOST,),
}


def read(data: Any, labels: Any = OURS) -> PlacementRecord | None:
    found = {"metadata": {"labels": labels}, "data": data}
    client = cast("Client", SimpleNamespace(get=lambda *_words: found))
    return read_record(client, "team-a", "sft")[0]


@pytest.mark.parametrize(("text", "lost"), DAMAGED.items())
def test_what_is_no_list_of_lost_clusters_is_left_out(text: str, lost: tuple[Any, ...]) -> None:
    assert read({"cluster": "east", "assumed-lost": text}) == PlacementRecord("east", lost=lost)
    assert read({"cluster": "east", "moved-from": text}) == PlacementRecord("east", moved=lost)


def test_a_text_of_a_record_is_cut() -> None:
    placed = read({"cluster": "east", "reason": "a" * 1_000_000, "leaving": "b" * 1_000_000})
    assert placed is not None
    assert (len(placed.reason), len(placed.leaving)) == (1_000, 1_000)


def test_the_last_moves_are_kept() -> None:
    placed = PlacementRecord("east", claimed_by="alice", claimed_at="2026-11-01T00:00:00Z")
    for number in range(12):
        placed = replace(placed, leaving=f"west-{number}").arrived
    assert [row["cluster"] for row in placed.moved] == [f"west-{number}" for number in range(2, 12)]
    assert (placed.leaving, placed.moved[0]["by"]) == ("", "alice")


@pytest.mark.parametrize(
    ("data", "labels", "said"),
    [
        ({"cluster": "east"}, {}, "is not managed by gpuctl"),
        (None, OURS, "does not say in which cluster"),
        ({"cluster": ""}, OURS, "does not say in which cluster"),
    ],
)
def test_what_is_no_record_is_said(data: Any, labels: Any, said: str) -> None:
    with pytest.raises(UnusableRecord, match=said):
        read(data, labels)
