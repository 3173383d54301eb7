# SPDX-License-Identifier: BSD-2-Clause
"""The rules and dashboards of the role monitoring in a real Prometheus, over what exporters send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import Source, plain_queries

from tools.draw_dashboards import Source as Drawn
from tools.draw_dashboards import expressions, page

from . import gpu_story, monitoring
from .gpu_story import HOUR
from .monitoring import Prometheus, World

pytestmark = monitoring.needs_prometheus

ROOT = Path(__file__).resolve().parents[2]
DASHBOARDS = {file.stem: json.loads(file.read_text()) for file in ROOT.glob("roles/monitoring/files/dashboards/*.json")}
END = 1_767_240_000.0
WORLDS = {
    "without honorLabels": World(honor_labels=False, hostname="Hostname"),
    "honorLabels": World(honor_labels=True, hostname="hostname"),
}
SELECTED = {"pool": ".*", "namespace": ".*", "job": "llama-sft"}


@pytest.fixture(scope="module", params=WORLDS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    with gpu_story.told(tmp_path_factory.mktemp("story"), END, world=WORLDS[request.param]) as server:
        yield server


def drawn(server: Prometheus) -> Drawn:
    return Drawn(server.query_range, server.query, END - 6 * HOUR, END, 600, SELECTED)


def test_every_recorded_series_has_samples(told: Prometheus) -> None:
    records = [rule["record"] for rules in gpu_story.passes() for rule in rules]
    assert [record for record in records if not told.query(f"last_over_time({record}[6h])", END)] == []


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_of_a_dashboard_has_data(told: Prometheus, name: str) -> None:
    source = drawn(told)
    asked = expressions(DASHBOARDS[name])
    assert len(asked) >= 8
    empty = [title for title, _kind, text in asked if not told.query(source.expression(text), END)]
    assert empty == []
    assert "No data" not in page(DASHBOARDS[name], source)


def test_hours_are_those_of_the_jobs_however_series_are_scraped(told: Prometheus) -> None:
    """Recorded and plain expressions say the same, and that is what arithmetic says."""
    expected = {
        work.job: len(work.nodes) * work.gpus * ((work.end or 6) - work.start) for work in gpu_story.WORKS
    }  # hours
    for source in (Source.RULES, Source.POD_LABELS):
        asked = plain_queries(built_in_catalog(), source, ["nvidia"]).gpu_hours(6 * 3600)
        found = {one["metric"]["job_name"]: float(one["value"][1]) for one in told.query(asked, END)}
        assert found.keys() == expected.keys()
        # A pod that begins and ends with a minute has one sample less than minutes.
        minute = {work.job: len(work.nodes) * work.gpus / 60 for work in gpu_story.WORKS}
        assert {job for job in found if abs(found[job] - expected[job]) > 1.6 * minute[job]} == set()


def test_an_idle_notebook_is_idle(told: Prometheus) -> None:
    asked = plain_queries(built_in_catalog(), Source.RULES).idle_hours(3 * 3600, 0.05)
    idle = {one["metric"]["job_name"]: float(one["value"][1]) for one in told.query(asked, END)}
    assert idle.pop("notebook-li") == pytest.approx(6, rel=0.01)
    # Others begin with a minute without work.
    assert max(idle.values(), default=0) < 0.1
