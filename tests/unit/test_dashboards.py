# SPDX-License-Identifier: BSD-2-Clause
"""The dashboards of the role monitoring are what their generator writes, and what its picture shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tools.draw_dashboards import Source, page

ROOT = Path(__file__).resolve().parents[2]
FILES = {file.name: file for file in ROOT.glob("roles/monitoring/files/dashboards/*.json")}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk needs Python 3.11")
def test_the_dashboards_are_generated() -> None:
    pytest.importorskip("grafana_foundation_sdk")
    from tools.generate_dashboards import texts

    assert {name: file.read_text(encoding="utf-8") for name, file in FILES.items()} == texts()


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_is_classic_json_with_a_place_for_each_panel(name: str) -> None:
    dashboard = json.loads(FILES[name].read_text(encoding="utf-8"))
    assert dashboard["uid"] == f"gpuctl-{Path(name).stem}"
    assert dashboard["schemaVersion"] >= 36
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}
    assert dashboard["templating"]["list"][0]["type"] == "datasource"


@pytest.mark.parametrize("name", FILES)
def test_a_picture_escapes_what_series_are_called_and_says_where_there_are_none(name: str) -> None:
    dashboard = json.loads(FILES[name].read_text(encoding="utf-8"))
    labels = dict.fromkeys(("pool", "namespace", "job_name", "pod", "node", "hostname", "resource"), "<b>&")
    some = [{"metric": labels, "values": [[0, "1"], [60, "2"]], "value": [60, "2"]}]
    variables = {"pool": "a", "namespace": "b", "job": "c"}
    full = page(dashboard, Source(lambda *_asked: some, lambda *_asked: some, 0, 3600, 60, variables))
    assert "No data" not in full
    assert "<b>" not in full
    empty = page(dashboard, Source(lambda *_asked: [], lambda *_asked: [], 0, 3600, 60, variables))
    assert empty.count("No data") == len(dashboard["panels"])
