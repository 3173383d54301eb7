# SPDX-License-Identifier: BSD-2-Clause
"""The query for a log."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_query import ALL, log_query, since_query

SINCE = {
    None: {},
    "": {},
    "600": {"sinceSeconds": "600"},
    "45s": {"sinceSeconds": "45"},
    "10m": {"sinceSeconds": "600"},
    "2h": {"sinceSeconds": "7200"},
    "1h30m": {"sinceSeconds": "5400"},
    "1d": {"sinceSeconds": "86400"},
    "1d2h3m4s": {"sinceSeconds": "93784"},
    " 10m ": {"sinceSeconds": "600"},
    "2026-01-31T08:00:00Z": {"sinceTime": "2026-01-31T08:00:00Z"},
    "2026-01-31t08:00:00z": {"sinceTime": "2026-01-31T08:00:00Z"},
    "2026-01-31T08:00:00+08:00": {"sinceTime": "2026-01-31T08:00:00+08:00"},
    "2026-01-31T08:00:00.123456789Z": {"sinceTime": "2026-01-31T08:00:00.123456789Z"},
    # What Ansible makes of a time without quotes.
    "2026-01-31 08:00:00+00:00": {"sinceTime": "2026-01-31T08:00:00+00:00"},
}


@pytest.mark.parametrize("since", SINCE)
def test_since(since):
    assert since_query(since) == SINCE[since]


@pytest.mark.parametrize(
    "since",
    [
        "yesterday", "10 minutes", "-10m", "1.5h", "m", "30m2h", "10M", "2026-01-31", "2026-01-31T08:00:00",
        "2026-02-30T08:00:00Z", "2026-01-31T25:00:00Z", "08:00:00Z",
    ],
)  # fmt: skip
def test_an_invalid_since(since):
    with pytest.raises(
        ValueError, match=r"^O\(since\): .* is invalid\. Give seconds \(600\), a duration \(10m, 2h, 1h30m, 1d\)"
    ):
        since_query(since)


@pytest.mark.parametrize("since", ["0", "0s", "0h0m"])
def test_an_empty_since_is_ignored(since):
    with pytest.raises(ValueError, match="Give one second or more"):
        since_query(since)


BASE = {"container": "main", "timestamps": "true"}
QUERIES = {
    "the last lines": ({"tail": 100}, {**BASE, "tailLines": "100"}),
    "all lines": ({"tail": ALL}, BASE),
    "since": ({"tail": 5, "since": "10m"}, {**BASE, "tailLines": "5", "sinceSeconds": "600"}),
    "before the restart": ({"tail": ALL, "previous": True}, {**BASE, "previous": "true"}),
}


@pytest.mark.parametrize(("options", "query"), QUERIES.values(), ids=QUERIES)
def test_query(options, query):
    assert log_query("main", **{"since": None, "previous": False, **options}) == query
