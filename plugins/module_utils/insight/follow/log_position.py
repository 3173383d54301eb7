# SPDX-License-Identifier: BSD-2-Clause
"""How far a log was read, so that reading can go on after a connection broke: no line is lost, none comes twice.

The API takes the time to go on from in whole seconds (``sinceTime``), and lines of several streams, or of one
nanosecond, need not be in the order of their timestamps. But the kubelet gives the lines since a time in the order of
its file, so those of the last seconds come again, before any other. They are recognized by a hash of line and
timestamp, equal ones by their number. Pure.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter as Counted
from datetime import datetime, timezone

from ...kube.times import read_time, time_as_text

_MARGIN = 1  # seconds by which the lines of a container's two streams may be in another order than their timestamps
_MOST_KEPT = 131_072  # lines: 2 MiB for each log
_FRACTION = re.compile(r"\.\d+")

SEEN, NEW, GAP = "seen", "new", "gap"


class LogPosition:
    """``add`` each line as it comes; ``resume`` before the log is asked for again ``since``.

    ``whole``: the log is read from its beginning. Otherwise the first seconds of what comes again may have lines that
    were left out the first time.
    """

    def __init__(self, *, whole: bool) -> None:
        self._hashes = array("q")
        self._seconds = array("q")  # of the same lines
        self._newest: int | None = None
        # Only from later seconds on, all lines are known.
        self._unknown: float = -math.inf if whole else math.inf
        self._expected: Counted[int] | None = None  # the lines that may come again
        self._recognized = False
        self._memo: tuple[str, int] = ("", 0)

    @property
    def newest(self) -> int | None:
        """The second of the newest line, since 1970."""
        return self._newest

    @property
    def is_empty(self) -> bool:
        return self._newest is None

    @property
    def is_known(self) -> bool:
        """Whether what came again begins with lines that came before: it is the same log."""
        return self._recognized or self.is_empty

    @property
    def since(self) -> str | None:
        """The query parameter sinceTime to go on with; None to read from the beginning."""
        if self._newest is None:
            return None
        return time_as_text(datetime.fromtimestamp(self._newest - _MARGIN, timezone.utc))

    def resume(self) -> None:
        """The log is read again, beginning at ``since``."""
        self._expected, self._recognized = Counted(self._hashes), False

    def add(self, raw: bytes, timestamp: str) -> str:
        """SEEN: the line came before. NEW: it did not. GAP: nor did any line before it that is known come again.

        After GAP, the line has not been added: to accept it, call ``skip`` and add it again.
        """
        second = self._second_of(timestamp)
        if self._expected is not None:
            if self._comes_again(raw, self._expected):
                return SEEN
            if self._newest is not None and not self._recognized:
                if second <= self._newest and self._newest - _MARGIN <= self._unknown:
                    return SEEN  # from before the first line that was asked for
                return GAP
            if not self._expected or (self._newest is not None and second > self._newest + _MARGIN):
                self._expected = None
        self._keep(raw, second)
        return NEW

    def skip(self) -> None:
        """What is known no longer exists: everything that comes is new."""
        self._expected = None

    def _comes_again(self, raw: bytes, expected: Counted[int]) -> bool:
        number = hash(raw)
        if number not in expected:
            return False
        expected[number] -= 1
        if not expected[number]:
            del expected[number]
        self._recognized = True
        return True

    def _keep(self, raw: bytes, second: int) -> None:
        if self._newest is None or second > self._newest:
            if self._unknown == math.inf:
                self._unknown = second
            self._newest = second
            self._drop_before(second - _MARGIN)
        if second >= self._newest - _MARGIN:
            self._hashes.append(hash(raw))
            self._seconds.append(second)
        if len(self._hashes) > _MOST_KEPT:
            half = _MOST_KEPT // 2
            self._unknown = max(self._unknown, *self._seconds[:half])
            del self._hashes[:half], self._seconds[:half]

    def _drop_before(self, first: int) -> None:
        if not self._seconds or min(self._seconds) >= first:
            return
        kept = [number for number, second in enumerate(self._seconds) if second >= first]
        self._hashes = array("q", (self._hashes[number] for number in kept))
        self._seconds = array("q", (self._seconds[number] for number in kept))

    def _second_of(self, timestamp: str) -> int:
        """Since 1970. Lines of one second come together, and reading a time takes longer than all else here."""
        key = timestamp[:19] + timestamp[-6:] if timestamp[-1] != "Z" else timestamp[:19]
        if self._memo[0] != key:
            self._memo = key, math.floor(read_time(_FRACTION.sub("", timestamp)).timestamp())
        return self._memo[1]
