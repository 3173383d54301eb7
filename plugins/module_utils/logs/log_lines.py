# SPDX-License-Identifier: BSD-2-Clause
"""Split a log, as it arrives in pieces from the server, into lines, and keep those that are wanted. Pure.

Only the kept lines are buffered: a log, and a single line of it (a progress bar without newlines), may be larger than
memory.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

from ..printable import printable
from ..redaction import line_masker
from .log_query import ALL


@dataclass(frozen=True)
class Line:
    """A line as it is shown, printable. ``cut``: its end is missing, because it is longer than the limit."""

    text: str
    timestamp: str | None = None
    cut: bool = False

    @property
    def size(self) -> int:
        """Bytes in UTF-8, with the newline."""
        return len(self.text.encode()) + 1


@dataclass(frozen=True)
class View:
    """Which lines are shown, and how.

    ``search`` says of each line whether it is shown. It gets the masked text without timestamp, so it cannot be used to
    guess secrets. ``max_line`` is in bytes.
    """

    max_line: int
    secrets: Collection[str] = ()
    search: Callable[[Sequence[str]], Sequence[bool]] | None = None
    timestamps: bool = False


@dataclass(frozen=True)
class Excerpt:
    """The lines taken from a log. ``truncated``: the limit removed some of the requested ones."""

    lines: list[str] = field(default_factory=list)
    count: int = 0
    truncated: bool = False
    last_timestamp: str | None = None
    first_timestamp: str | None = None


def split_log(pieces: Iterable[bytes], view: View) -> Iterator[Line]:
    """The lines of a log with timestamps that the view shows."""
    lines = _timed_lines(pieces, view)
    if view.search is None:
        return (line for _text, line in lines)
    return _grep_lines(lines, view.search)


def _timed_lines(pieces: Iterable[bytes], view: View) -> Iterator[tuple[str, Line]]:
    """Each line, and its text without timestamp."""
    mask = line_masker(view.secrets)
    for raw, cut_before in _split_lines(pieces, view.max_line + _TIMESTAMP_ROOM):
        timestamp, data = split_timestamp(raw)
        text, cut = readable_text(data, view, mask)
        printed, longer = _shown_text(text, view.max_line)
        shown = f"{timestamp} {printed}" if view.timestamps and timestamp else printed
        yield text, Line(shown, timestamp, cut_before or cut or longer)


def readable_text(data: bytes, view: View, mask: Callable[[str], str]) -> tuple[str, bool]:
    """What a line without its timestamp shows at its end, without secrets; and whether it is cut."""
    data = last_state(data)
    text = mask(data[: view.max_line].decode("utf-8", "replace"))
    cut = len(data) > view.max_line
    return (_without_partial_secret(view.secrets, text) if cut else text), cut


def last_state(data: bytes) -> bytes:
    """What is left of a line once it was written: a carriage return starts it again, as progress bars do."""
    return data.rstrip(b"\r").rpartition(b"\r")[2]


def _grep_lines(lines: Iterable[tuple[str, Line]], search: Callable[[Sequence[str]], Sequence[bool]]) -> Iterator[Line]:
    """Searched in groups, because each search is a message to another process."""
    group: list[tuple[str, Line]] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line[0])
        if size > _GROUP_SIZE or len(group) == _GROUP:
            yield from compress((each for _text, each in group), search([text for text, _each in group]))
            group, size = [], 0
    if group:
        yield from compress((each for _text, each in group), search([text for text, _each in group]))


def last_lines(lines: Iterable[Line], number: int, limit: int) -> Excerpt:
    """The last ``number`` lines (ALL: all), at most ``limit`` bytes of them, but at least one line."""
    kept: deque[Line] = deque()
    size, limited = 0, False
    for line in lines:
        kept.append(line)
        size += line.size
        while number != ALL and len(kept) > number:
            size -= kept.popleft().size
        while size > limit and len(kept) > 1:
            size -= kept.popleft().size
            limited = True
    # Lines removed by the limit do not count if as many as wanted came after them.
    missing = limited and (number == ALL or len(kept) < number)
    return Excerpt(
        [line.text for line in kept],
        len(kept),
        missing or any(line.cut for line in kept),
        kept[-1].timestamp if kept else None,
        kept[0].timestamp if kept else None,
    )


def stream_lines(lines: Iterable[Line], write: Callable[[bytes], object]) -> Excerpt:
    """Write each line as it arrives, and keep none."""
    count, truncated, last_timestamp, first_timestamp = 0, False, None, None
    for line in lines:
        write(f"{line.text}\n".encode())
        first_timestamp = line.timestamp if not count else first_timestamp
        count, truncated, last_timestamp = count + 1, truncated or line.cut, line.timestamp
    return Excerpt([], count, truncated, last_timestamp, first_timestamp)


_GROUP, _GROUP_SIZE = 4096, 256 * 1024  # lines, characters

# The kubelet writes RFC 3339 with nine digits, in the zone of the node (pkg/kubelet/kuberuntime/logs, timeFormatOut).
_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
_TIMESTAMP_ROOM = 40


class LineBuffer:
    """Lines from pieces of a log, each at most ``max_line`` bytes. ``rest`` is the line that has not ended yet."""

    def __init__(self, max_line: int) -> None:
        self._max_line = max_line
        self.rest = b""
        self.cut = False

    def feed(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        """The lines that end in the piece, without their newlines, and whether each was cut."""
        *complete, rest = piece.split(b"\n")
        for part in complete:
            self._add_part(part)
            yield self.rest, self.cut
            self.rest, self.cut = b"", False
        self._add_part(rest)

    def _add_part(self, part: bytes) -> None:
        line = self.rest + part if self.rest else part
        if len(line) > self._max_line and b"\r" in line:  # Of a progress bar, only the last state is kept.
            timestamp, data = _stamp_and_text(line)
            line, self.cut = timestamp + data[data.rstrip(b"\r").rfind(b"\r") + 1 :], False
        self.cut = self.cut or len(line) > self._max_line
        self.rest = line[: self._max_line]


def _split_lines(pieces: Iterable[bytes], max_line: int) -> Iterator[tuple[bytes, bool]]:
    """Each line without its newline, at most ``max_line`` bytes of it, and whether it was cut."""
    buffer = LineBuffer(max_line)
    for piece in pieces:
        yield from buffer.feed(piece)
    if buffer.rest:
        yield buffer.rest, buffer.cut


def _stamp_and_text(raw: bytes) -> tuple[bytes, bytes]:
    match = _TIMESTAMP.match(raw)
    end = match.end() if match else 0
    return raw[:end], raw[end:]


def split_timestamp(raw: bytes) -> tuple[str | None, bytes]:
    """Timestamp and text; lines that the kubelet itself writes have no timestamp."""
    match = _TIMESTAMP.match(raw)
    return (match[1].decode(), raw[match.end() :]) if match else (None, raw)


def _shown_text(text: str, limit: int) -> tuple[str, bool]:
    """The text, printable, and whether it had to be cut for that: an escape sequence is longer than its character."""
    shown = printable(text)
    if shown is text or len(shown.encode()) <= limit:
        return shown, False
    return shown.encode()[:limit].decode("utf-8", "ignore"), True


def _without_partial_secret(secrets: Collection[str], text: str) -> str:
    """Without the beginning of a secret at the end of a cut line, which the mask does not match."""
    for secret in secrets:
        for length in range(min(len(secret) - 1, len(text)), 0, -1):
            if text.endswith(secret[:length]):
                return text[:-length]
    return text
