# SPDX-License-Identifier: BSD-2-Clause
"""Logs that the kubelet has rotated: what a file has of them stays, and what is missing is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import job_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs import log_history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_history import _whole_second

from ..cluster.live_objects import with_container
from ..insight.follow.test_job_log import ASKED, a_list, pod, task
from ..kube.conversation import Exchange, conversation

STARTED = "2026-01-31T08:00:00Z"
AT_START, LATER = "2026-01-31T08:00:01.123456789Z", "2026-01-31T09:30:00.123456789+00:00"
BEFORE, AFTER = (_whole_second(f"2026-01-31T{hour}:00:00Z").timestamp() for hour in ("07", "09"))


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "_AT_ONCE", 1)


def running(name: str, started: str | None = STARTED) -> dict[str, Any]:
    state = {"running": {"startedAt": started}} if started else {"running": {}}
    return pod(name, status=with_container("Running", ready=True, state=state), nodeName="node-1")


def read(dest: Path | None, *logs: str, began: str = LATER, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """The result and the warnings of reading logs into a file; ``began``: the time of all lines."""
    options = {"tail": -1, **options}
    query = {} if options["tail"] == -1 or "grep" in options else {"tailLines": str(options["tail"])}
    query |= {"sinceSeconds": "600"} if "since" in options else {}
    exchanges = [
        Exchange(
            "GET",
            f"/api/v1/namespaces/ml/pods/x-{number}/log",
            {**ASKED, **query, **({"previous": "true"} if "previous" in options else {})},
            answer="".join(f"{began} {line}\n" for line in text.splitlines()),
        )
        for number, text in enumerate(logs)
    ]
    pods = [running(f"x-{number}", options.pop("started", STARTED)) for number, _text in enumerate(logs)]
    with conversation(a_list("pods", *pods), *exchanges) as url:
        made = task(url, dest=str(dest) if dest else None, **options)
        return job_log.run(made), made.warned  # type: ignore[attr-defined]


def lines(text: str) -> str:
    return "".join(f"line {letter}\n" for letter in text)


GONE, EMPTY = (
    f"lines {which} of pod x-0 have been rotated away by the kubelet. {{dest}} keeps those that it already has. "
    f"Others may be missing."
    for which in ("before {time}", "of the log")
)

# What the file has, what the server has, further options; what the file has then, and the warning.
ROTATIONS: dict[str, tuple[str, str, dict[str, Any], str, str | None]] = {
    "nothing rotated": ("ab", "abc", {}, "abc", None),
    "nothing new": ("ab", "ab", {}, "ab", None),
    "rotated, without a gap": ("abcd", "de", {}, "abcde", None),
    "rotated, nothing new": ("abcd", "cd", {}, "abcd", None),
    "rotated, with repeated lines": ("abaab", "abc", {}, "abaabc", None),
    "rotated, with a gap": ("ab", "fg", {}, "abfg", GONE),
    "rotated just now": ("ab", "", {}, "ab", EMPTY),
    "fewer lines than wanted": ("abc", "cd", {"tail": 10}, "abcd", None),
    "fewer lines than wanted, with a gap": ("abc", "f", {"tail": 10}, "abcf", GONE),
    "as many lines as wanted": ("abc", "fg", {"tail": 2}, "fg", None),
    "a file with the last lines alone": ("cd", "abcde", {}, "abcde", None),
    "the whole log, and a file about something else": ("xy", "ab", {"began": AT_START}, "ab", None),
    "another container": ("ab", "fg", {"started": "2026-01-31T09:29:59Z"}, "fg", None),
    "another container, without a line yet": ("ab", "", {"started": "2026-01-31T09:29:59Z"}, "", None),
    "a container of which nothing is known": ("ab", "fg", {"started": None}, "fg", None),
    "only the newest lines": ("ab", "fg", {"since": "10m"}, "fg", None),
    "no newest lines": ("ab", "", {"since": "10m"}, "", None),
    "only matching lines": ("ab", "fg", {"grep": "f"}, "f", None),
    "a container before": ("ab", "fg", {"previous": True}, "fg", None),
}


@pytest.mark.parametrize(("had", "has", "options", "expected", "warning"), ROTATIONS.values(), ids=ROTATIONS)
def test_the_file_keeps_what_the_server_no_longer_has(tmp_path, had, has, options, expected, warning):
    dest = tmp_path / "x.log"
    dest.write_text(lines(had))
    os.utime(dest, (AFTER, AFTER))
    result, warned = read(dest, lines(has), **options)
    assert dest.read_text() == lines(expected)
    assert result["changed"] == (expected != had)
    assert warned == ([warning.format(time=LATER, dest=dest)] if warning else [])


def test_a_file_from_before_the_container_is_replaced(tmp_path):
    dest = tmp_path / "x.log"
    dest.write_text(lines("ab"))
    os.utime(dest, (BEFORE, BEFORE))
    assert read(dest, lines("fg"))[1] == []
    assert dest.read_text() == lines("fg")


def test_a_file_with_timestamps_is_replaced_by_one_without(tmp_path):
    dest = tmp_path / "x.log"
    read(dest, lines("ab"), timestamps=True)
    assert read(dest, lines("bc"))[1] == []
    assert dest.read_text() == lines("bc")


def test_the_logs_of_several_pods(tmp_path):
    dest = tmp_path / "x.log"
    read(dest, lines("ab"), lines("pq"), lines("xy"))
    os.utime(dest, (AFTER, AFTER))
    _result, warned = read(dest, lines("bc"), "", lines("xyz"))
    assert dest.read_text() == "".join(
        f"==> x-{number} <==\n{lines(text)}" for number, text in enumerate(("abc", "pq", "xyz"))
    )
    assert warned == [EMPTY.format(dest=dest).replace("x-0", "x-1")]
    _result, warned = read(dest, lines("cd"))
    assert dest.read_text() == lines("abcd")


def test_a_log_of_equal_lines_is_not_compared_for_ever(tmp_path, monkeypatch):
    compared: list[int] = []
    number_of_same_bytes = log_history._number_of_same_bytes

    def count(*arguments: Any) -> int:
        compared.append(number_of_same_bytes(*arguments))
        return compared[-1]

    monkeypatch.setattr(log_history, "_number_of_same_bytes", count)
    monkeypatch.setattr(log_history, "_MOST_COMPARED", 10_000_000)
    dest, equal = tmp_path / "x.log", "waiting\n" * 5_000
    dest.write_text(f"{equal}a\n")
    os.utime(dest, (AFTER, AFTER))
    read(dest, f"{equal}b\n")
    assert sum(compared) < 10_100_000
    assert dest.read_text() == f"{equal}b\n"


LONG = lines("x" * 12_000)
BEGINS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "long after the start": (LONG, {}, True),
    "soon after the start": (LONG, {"began": AT_START}, False),
    "long after the start, of a program that says little": (lines("ab"), {}, False),
    "fewer lines than wanted": (LONG, {"tail": 20_000}, True),
    "as many lines as wanted": (LONG, {"tail": 12_000}, False),
    "only matching lines": (LONG, {"grep": "line"}, False),
    "of a container that could not start": (LONG, {"started": "1970-01-01T00:00:00Z"}, False),
}


@pytest.mark.parametrize("to_file", [False, True], ids=["into the result", "into a file"])
@pytest.mark.parametrize(("log", "options", "warns"), BEGINS.values(), ids=BEGINS)
def test_a_log_that_begins_late_may_have_been_rotated(tmp_path, log, options, warns, to_file):
    _result, warned = read(tmp_path / "x.log" if to_file else None, log, **options)
    assert warned == (
        [
            f"the log of pod x-0 begins at {LATER}, but its container started at {STARTED}. "
            "Earlier lines may have been rotated away by the kubelet."
        ]
        if warns
        else []
    )


def test_a_line_of_a_log_that_looks_like_a_heading_is_none(tmp_path):
    """What is between the arrows is no name of a pod, and no text."""
    dest = tmp_path / "x.log"
    read(dest, lines("a"), lines("b"))
    dest.write_bytes(dest.read_bytes() + b"==> \xff\xfe <==\n")
    os.utime(dest, (AFTER, AFTER))
    result, warned = read(dest, lines("a"), lines("b"))
    assert (result["changed"], warned) == (True, [])
    assert b"\xff" not in dest.read_bytes()
