# SPDX-License-Identifier: BSD-2-Clause
"""Searching lines in a process of its own, which ends in any case."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs import log_grep
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_grep import Grep, GrepFailed

LINES = ["", "loss 0.9", "\u4f60\u597d \U0001f600", "a\rb", "\x00"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("", [True] * 5),
        ("^$", [True, False, False, False, False]),
        (r"\d", [False, True, False, False, False]),
        ("\u597d", [False, False, True, False, False]),
        ("\r", [False, False, False, True, False]),
    ],
)
def test_each_line_is_searched_by_itself(expression: str, expected: list[bool]) -> None:
    with Grep(expression) as grep:
        assert grep.search(LINES) == expected
        assert grep.search([""]) == expected[:1]


def test_threads_share_it() -> None:
    with Grep("7$") as grep, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: grep.search([f"{number}"] * 100), range(50)))
    assert found == [[number % 10 == 7] * 100 for number in range(50)]


@pytest.mark.parametrize(
    ("expression", "line"),
    [("(a+)+$", "a" * 40 + "!"), (r"^(\w+\s?)*$", "word " * 20 + "!"), ("(x*)*(x*)*(x*)*y", "x" * 60)],
)
def test_an_expression_that_takes_for_ever_is_ended(
    expression: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened = log_grep._SEARCH.replace("search, 2.0", "search, 0.2")
    assert shortened != log_grep._SEARCH
    monkeypatch.setattr(log_grep, "_SEARCH", shortened)
    with Grep(expression) as grep, pytest.raises(GrepFailed, match=r"takes too long to search the log\. Avoid"):
        grep.search(["fine", line])


def test_no_process_is_left() -> None:
    with Grep("a") as grep:
        grep.search(["a"])
        process = grep._process
    assert process is not None
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
