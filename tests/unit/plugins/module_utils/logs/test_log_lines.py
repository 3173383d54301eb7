# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of a log, however it comes and however large it is."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_grep import Grep
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_lines import (
    Excerpt,
    Line,
    View,
    last_lines,
    split_log,
    stream_lines,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.log_query import ALL

MIB = 1024**2
T1, T2, T3 = (f"2026-01-31T08:00:0{second}.123456789Z" for second in (1, 2, 3))


def texts(pieces: Iterable[bytes], **view: object) -> list[str]:
    return [line.text for line in split_log(pieces, View(**{"max_line": 1000, **view}))]  # type: ignore[arg-type]


PIECES = {
    "nothing": ([], []),
    "a whole": ([b"a\nb\n"], ["a", "b"]),
    "no end": ([b"a\nb"], ["a", "b"]),
    "empty lines": ([b"a\n\n\nb\n"], ["a", "", "", "b"]),
    "lines over several pieces": ([b"o", b"n", b"e\ntw", b"o\n"], ["one", "two"]),
    "an end of its own": ([b"one", b"\n", b"two\n"], ["one", "two"]),
    "a character over two pieces": ([b"\xe4\xbd", b"\xa0\n"], ["\u4f60"]),
    "no UTF-8": ([b"a\xffb\n"], ["a\ufffdb"]),
    "ends as Windows writes them": ([b"a\r\nb\r\n"], ["a", "b"]),
    "a progress bar": ([b"1%\r2%\r3%\n"], ["3%"]),
    "a progress bar that ends with a return": ([b"1%\r2%\r\n"], ["2%"]),
    "a progress bar over several pieces": ([b"1%\r2", b"%", b"\r", b"3%\nx"], ["3%", "x"]),
    "a progress bar that was cleared": ([b"99%\r   \rdone\n"], ["done"]),
}


@pytest.mark.parametrize(("pieces", "expected"), PIECES.values(), ids=PIECES)
def test_lines(pieces, expected):
    assert texts(pieces) == expected


def test_of_a_progress_bar_that_is_longer_than_a_line_may_be_the_end_is_kept():
    bar = b"\r".join(b"%6d%%" % number for number in range(1000))
    pieces = [T1.encode() + b" ", *(bar[start : start + 100] for start in range(0, len(bar), 100)), b"\n"]
    assert list(split_log(pieces, View(max_line=50))) == [Line("   999%", T1)]


TIMESTAMPS = {
    "UTC": (f"{T1} one\n", "one", T1),
    "another zone": ("2026-01-31T16:00:01.000000000+08:00 one\n", "one", "2026-01-31T16:00:01.000000000+08:00"),
    "an empty line": (f"{T1} \n", "", T1),
    "an empty line without the blank": (f"{T1}\n", "", T1),
    "blanks of the text": (f"{T1}   one\n", "  one", T1),
    "the kubelet itself": ("failed to try resolving symlinks\n", "failed to try resolving symlinks", None),
}


@pytest.mark.parametrize(("log", "text", "timestamp"), TIMESTAMPS.values(), ids=TIMESTAMPS)
def test_timestamps_are_taken_off(log, text, timestamp):
    assert list(split_log([log.encode()], View(1000))) == [Line(text, timestamp)]


def test_timestamps_are_left_where_they_are_wanted():
    assert texts([f"{T1} one\nno time\n".encode()], timestamps=True) == [f"{T1} one", "no time"]


GREPS = {
    "a word": ("loss", ["step 1 loss 0.9", "step 2 loss 0.8"]),
    "an expression": (r"loss 0\.[0-8]", ["step 2 loss 0.8"]),
    "from the beginning, which is not the timestamp": ("^step", ["step 1 loss 0.9", "step 2 loss 0.8"]),
    "to the end": ("done$", ["done"]),
    "case": ("LOSS", []),
    "no case": ("(?i)LOSS", ["step 1 loss 0.9", "step 2 loss 0.8"]),
    "a time, which is not part of the text": ("2026", []),
    "not beyond a line": ("(?s)loss.*step", []),
}


@pytest.mark.parametrize("timestamps", [False, True])
@pytest.mark.parametrize(("pattern", "expected"), GREPS.values(), ids=GREPS)
def test_grep(pattern, expected, timestamps):
    log = f"{T1} step 1 loss 0.9\n{T2} step 2 loss 0.8\n{T3} done\n".encode()
    with Grep(pattern) as grep:
        found = texts([log], search=grep.search, timestamps=timestamps)
    assert [text.rpartition("Z ")[2] for text in found] == expected


SECRETS = {
    "within a line": ({"hunter2"}, "password hunter2 given", "password ******** given"),
    "the longer first": ({"hunter2", "hunter2000"}, "hunter2000", "********"),
    "a key of several lines": ({"-----BEGIN-----\nMIIEabcd\n-----END-----\n"}, "MIIEabcd", "********"),
    "none": (set(), "hunter2", "hunter2"),
}


@pytest.mark.parametrize(("secrets", "text", "shown"), SECRETS.values(), ids=SECRETS)
def test_secrets_are_masked(secrets, text, shown):
    middle = len(text) // 2
    assert texts([text[:middle].encode(), text[middle:].encode()], secrets=secrets) == [shown]


def test_a_secret_cannot_be_guessed_with_grep():
    with Grep("hunter2") as grep:
        assert texts([b"password hunter2\n"], secrets={"hunter2"}, search=grep.search) == []


def test_a_line_that_is_cut_within_a_secret_does_not_show_its_beginning():
    log = f"{T1} password hunter2 given\n{T2} next\n".encode()
    lines = list(split_log([log], View(max_line=len("password hunt"), secrets={"hunter2"})))
    assert lines == [Line("password ", T1, cut=True), Line("next", T2)]


def lines(*texts: str) -> list[Line]:
    return [Line(text, f"t{number}") for number, text in enumerate(texts)]


LAST = {
    "fewer than wanted": (lines("a", "b"), 3, 100, Excerpt(["a", "b"], 2, False, "t1", "t0")),
    "more than wanted": (lines("a", "b", "c"), 2, 100, Excerpt(["b", "c"], 2, False, "t2", "t1")),
    "all": (lines("a", "b", "c"), ALL, 100, Excerpt(["a", "b", "c"], 3, False, "t2", "t0")),
    "none": ([], 3, 100, Excerpt([], 0, False, None)),
    "the limit is smaller": (lines("aa", "bb", "cc"), 3, 6, Excerpt(["bb", "cc"], 2, True, "t2", "t1")),
    "the limit is smaller than all": (lines("aa", "bb", "cc"), ALL, 6, Excerpt(["bb", "cc"], 2, True, "t2", "t1")),
    "what the limit leaves out is not wanted": (
        lines("a" * 9, "b", "c"),
        2,
        6,
        Excerpt(["b", "c"], 2, False, "t2", "t1"),
    ),
    "the limit counts bytes": (lines("\u4f60", "\u597d"), 2, 7, Excerpt(["\u597d"], 1, True, "t1", "t1")),
    "the newest line in any case": (lines("a", "b" * 9), 2, 6, Excerpt(["b" * 9], 1, True, "t1", "t1")),
    "a line that was cut": ([Line("a", "t0", cut=True)], 2, 6, Excerpt(["a"], 1, True, "t0", "t0")),
    "a cut line that is not wanted": (
        [Line("a", "t0", cut=True), Line("b", "t1")], 1, 6, Excerpt(["b"], 1, False, "t1", "t1"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "number", "limit", "excerpt"), LAST.values(), ids=LAST)
def test_the_last_lines(given, number, limit, excerpt):
    assert last_lines(given, number, limit) == excerpt


def test_lines_are_passed_on_and_not_kept():
    written: list[bytes] = []
    excerpt = stream_lines([Line("a", "t0", cut=True), Line("\u4f60", "t1")], written.append)
    assert written == [b"a\n", b"\xe4\xbd\xa0\n"]
    assert excerpt == Excerpt([], 2, True, "t1", "t0")


GIB_OF = {
    "lines": b"x" * 65_535 + b"\n",
    "one line that never ends": b"x" * 65_536,
}


@pytest.mark.parametrize("piece", GIB_OF.values(), ids=GIB_OF)
def test_a_gibibyte_takes_no_more_memory_than_what_is_kept(piece):
    limit = MIB // 4
    view = View(limit, secrets={"hunter2"}, search=lambda lines: [True] * len(lines))
    tracemalloc.start()
    try:
        excerpt = last_lines(split_log((piece for _ in range(1024 * MIB // len(piece))), view), ALL, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert excerpt.truncated
    assert MIB // 8 < sum(map(len, excerpt.lines)) <= limit
    assert peak < 4 * MIB
