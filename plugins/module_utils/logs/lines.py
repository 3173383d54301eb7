# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From the pieces of a log, as they come from the server, to the lines that are wanted of it. Pure.

Never more is held than what is kept: a log, and a single line of it (a progress bar that never ends its line), may be
larger than memory.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ..manifest.secrets import line_masker
from .log_query import ALL


@dataclass(frozen=True)
class Line:
    """A line as it is shown. ``cut``: its end was left out, because it is longer than what may be kept."""

    text: str
    timestamp: str | None = None
    cut: bool = False

    @property
    def size(self) -> int:
        """Bytes in UTF-8, with the end of the line."""
        return len(self.text.encode()) + 1


@dataclass(frozen=True)
class View:
    """How lines are shown, and which.

    ``pattern`` is looked for in the text without timestamp, secrets masked: it cannot be used to guess them.
    ``longest`` is in bytes.
    """

    longest: int
    secrets: Collection[str] = ()
    pattern: re.Pattern[str] | None = None
    timestamps: bool = False


@dataclass(frozen=True)
class Excerpt:
    """What was taken of a log. ``truncated``: the limit left out more than was asked for."""

    lines: list[str] = field(default_factory=list)
    count: int = 0
    truncated: bool = False
    last_timestamp: str | None = None


def lines_of(pieces: Iterable[bytes], view: View) -> Iterator[Line]:
    """The lines of a log that was asked for with timestamps, those that the view shows."""
    mask = line_masker(view.secrets)
    for raw, cut_before in _split(pieces, view.longest + _TIMESTAMP_ROOM):
        timestamp, data = _parted(raw)
        cut = cut_before or len(data) > view.longest
        text = mask(data[: view.longest].decode("utf-8", "replace"))
        if cut:
            text = _without_beginning_of(view.secrets, text)
        if view.pattern is None or view.pattern.search(text):
            shown = f"{timestamp} {text}" if view.timestamps and timestamp else text
            yield Line(shown, timestamp, cut)


def last_lines(lines: Iterable[Line], number: int, limit: int) -> Excerpt:
    """The last ``number`` lines (ALL: all), the newest ``limit`` bytes of them; one line at least."""
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
    # Lines that the limit left out do not matter when so many came after them as are wanted.
    missing = limited and (number == ALL or len(kept) < number)
    return Excerpt(
        [line.text for line in kept],
        len(kept),
        missing or any(line.cut for line in kept),
        kept[-1].timestamp if kept else None,
    )


def pass_on(lines: Iterable[Line], write: Callable[[bytes], object]) -> Excerpt:
    """Write each line as it comes, and keep none."""
    count, truncated, last_timestamp = 0, False, None
    for line in lines:
        write(f"{line.text}\n".encode())
        count, truncated, last_timestamp = count + 1, truncated or line.cut, line.timestamp
    return Excerpt([], count, truncated, last_timestamp)


# The kubelet writes RFC 3339 with nine digits, in the zone of the node (pkg/kubelet/kuberuntime/logs, timeFormatOut).
_TIMESTAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
_TIMESTAMP_ROOM = 40


def _split(pieces: Iterable[bytes], longest: int) -> Iterator[tuple[bytes, bool]]:
    """Each line without its end, no longer than ``longest``, and whether something of it was left out."""
    held, cut = b"", False
    for piece in pieces:
        *ended, begun = piece.split(b"\n")
        for part in ended:
            yield held + part[: longest - len(held)], cut or len(held) + len(part) > longest
            held, cut = b"", False
        cut = cut or len(held) + len(begun) > longest
        held += begun[: longest - len(held)]
    if held:
        yield held, cut


def _parted(raw: bytes) -> tuple[str | None, bytes]:
    """Timestamp and text; what the kubelet itself says into a log has no timestamp."""
    raw = raw.removesuffix(b"\r")
    match = _TIMESTAMP.match(raw)
    return (match[1].decode(), raw[match.end() :]) if match else (None, raw)


def _without_beginning_of(secrets: Collection[str], text: str) -> str:
    """Without the part of a secret with which a cut line ends, and which its mask does not know."""
    for secret in secrets:
        for length in range(min(len(secret) - 1, len(text)), 0, -1):
            if text.endswith(secret[:length]):
                return text[:-length]
    return text
