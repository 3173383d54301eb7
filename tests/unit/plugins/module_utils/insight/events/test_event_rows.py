# SPDX-License-Identifier: BSD-2-Clause
"""What events say, of which others choose a part."""

from __future__ import annotations

import re
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events import jobs_source
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.event_rows import job_event
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.job_transitions import Known, Transition
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.jobs_source import (
    JobsSource,
    JobsSourceOptions,
)

KNOWN = Known(namespace="ml", name="llm", status="Failed", since="2026-08-01T09:00:00Z")
FAILED = Transition("job.failed", "failed", "2026-08-01T10:00:00Z", "Running", "Failed", KNOWN)


@pytest.mark.parametrize(
    "reason",
    [
        "{{ lookup('pipe', 'id') }}",
        "{% set x = 1 %}",
        "{#",
        "O(a={){ lookup('pipe', 'id') }}",
        "O(a={)% set x = 1 %}",
        "O(a={)O(b={)",
        "{\u200b{ x }}",
    ],
)
def test_no_text_of_others_opens_a_template(reason: str) -> None:
    event = job_event("u", FAILED, {}, "2026-08-01T10:00:05Z", reason, last_lines=[reason])
    assert not re.search(r"\{[{%#]", str([event["reason"], event["message"], *event["last_lines"]]))


def test_options_have_their_names() -> None:
    event = job_event("u", FAILED, {}, "2026-08-01T10:00:05Z", "Set O(takeover=true)")
    assert event["reason"] == "Set takeover=true"
    assert event["message"].endswith("failed: Set takeover=true.")


@pytest.mark.parametrize(
    ("environ", "types", "expected"),
    [
        ({}, None, 0),
        ({"GPUCTL_PROMETHEUS_URL": "https://p"}, None, 1),
        ({"GPUCTL_PROMETHEUS_SERVICE": "monitoring/prometheus:9090"}, None, 1),
        ({"GPUCTL_PROMETHEUS_URL": "https://p"}, ["job.failed"], 0),
    ],
)
def test_idle_devices_are_looked_for_where_prometheus_is_named(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], types: list[str] | None, expected: int
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(
        jobs_source, "IdleWatch", lambda *args: SimpleNamespace(start=lambda: started.append(args), stop=lambda: None)
    )
    task: Any = SimpleNamespace(options=JobsSourceOptions(types=types), environ=environ)
    client: Any = SimpleNamespace(connection=SimpleNamespace(server="https://cluster"))
    source = JobsSource(task, client, lambda event: None)
    cache: Any = None
    with ExitStack() as stack:
        source._watch_idle(cache, stack)
    assert len(started) == expected
