# SPDX-License-Identifier: BSD-2-Clause
"""What a file already has of a log, of which the kubelet may no longer serve the beginning.

Every 10 seconds the kubelet renames the log of a running container that has reached 10 MiB, and an empty file takes
its place (pkg/kubelet/logs/container_log_manager.go, ``rotateLatestLog``; the defaults of containerLogMaxSize and
containerLogMonitorInterval). The API serves the newest file alone. So a log may begin at any time after the start of
its container, or be empty, and nothing in the answer says so. On Kubernetes 1.36, of 400,000 lines that a container
wrote within 40 s, the API served the last 80,000.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, BinaryIO

from ..cluster.pod_status import start_of
from ..kube.times import read_time

_FIRST_LINE = timedelta(seconds=2)  # A log that begins within this time after its container is hardly rotated yet.
_SILENCE = timedelta(minutes=1)  # Programs that load models or buffer their output say nothing for a while.
_ROTATED_SIZE = 64 * 1024  # bytes: one rotated log in 160 has less
_CHUNK = 1024 * 1024
_HEADING = re.compile(rb"^==> ([-.a-z0-9]+) <==\n", re.MULTILINE)
_PAGE = 4096
_MOST_COMPARED = 1024 * _CHUNK  # bytes: in a log of equal lines, each of them may be the one to continue from
_LINE = 64 * 1024  # bytes of a line that are compared
_TIMESTAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


@dataclass(frozen=True)
class ServedLog:
    """A log as the server gave it. ``complete``: all lines that the kubelet has. ``size`` is in bytes.

    ``started``: when its container started.
    """

    pod: str
    started: str | None
    first_timestamp: str | None
    complete: bool
    size: int


class LogHistory:
    """The content of a file before it is replaced."""

    def __init__(self, file: BinaryIO) -> None:
        self._content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._written = os.fstat(file.fileno()).st_mtime
        self._sections = dict(_sections(self._content))

    def extend(self, log: ServedLog, part: BinaryIO, whole: BinaryIO, *, only: bool) -> tuple[BinaryIO, bool]:
        """The lines of ``part`` after those that the file has and the server no longer; and whether some are missing.

        Together they go to ``whole``; if there are none, ``part`` is returned. ``only``: no other log goes to the file.
        A file that was written before the container started has nothing of its log.
        """
        start, end = self._sections.get(log.pod) or (self._sections.get("") if only else None) or (0, 0)
        started = _whole_second(log.started) if log.started else None
        if start == end or started is None or self._written < started.timestamp():
            return part, False
        kept, missing = self._kept_end(start, end, log, part, started)
        if kept == start:
            return part, missing
        for position in range(start, kept, _CHUNK):
            whole.write(self._content[position : min(position + _CHUNK, kept)])
        part.seek(0)
        shutil.copyfileobj(part, whole)
        return whole, missing

    def _kept_end(self, start: int, end: int, log: ServedLog, part: BinaryIO, started: datetime) -> tuple[int, bool]:
        """The end of the lines to keep, and whether lines are missing after them."""
        if not log.size:
            return end, True
        if not log.complete:
            return start, False
        with mmap.mmap(part.fileno(), 0, access=mmap.ACCESS_READ) as new:
            if (found := _overlap(self._content, start, end, new)) is not None:
                return found, False
            if self._is_covered(start, end, new):
                return start, False
        first = _whole_second(log.first_timestamp) if log.first_timestamp else None
        if first is not None and first - started <= _FIRST_LINE:
            return start, False
        return end, True

    def _is_covered(self, start: int, end: int, new: mmap.mmap) -> bool:
        """Whether the log has the first or last line of the section, or the file shows lines in another way."""
        first = _line_at(self._content, start, end)
        last = _line_at(self._content, max(start, self._content.rfind(b"\n", start, end - 1) + 1), end)
        if bool(_TIMESTAMP.match(first)) != bool(_TIMESTAMP.match(_line_at(new, 0, len(new)))):
            return True
        return new.find(first) != -1 or new.find(last) != -1


def rotated_message(log: ServedLog) -> str | None:
    """A warning if a complete log seems to lack its beginning."""
    if not log.complete or not log.started or not log.first_timestamp or log.size < _ROTATED_SIZE:
        return None
    if _whole_second(log.first_timestamp) - _whole_second(log.started) < _SILENCE:
        return None
    return (
        f"the log of pod {log.pod} begins at {log.first_timestamp}, but its container started at {log.started}. "
        f"Earlier lines may have been rotated away by the kubelet."
    )


def missing_message(log: ServedLog, path: str) -> str:
    """A warning about lines that neither the log nor the file has."""
    when = f"before {log.first_timestamp}" if log.first_timestamp else "of the log"
    return (
        f"lines {when} of pod {log.pod} have been rotated away by the kubelet. {path} keeps those that it already has. "
        f"Others may be missing."
    )


def started_at(pod: Mapping[str, Any], container: str) -> str | None:
    """When the container that wrote a log started."""
    status = pod.get("status") or {}
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        if each["name"] == container:
            return start_of(each.get("state"))
    return None


def _whole_second(timestamp: str) -> datetime:
    """Without the fraction: before Python 3.11, nine digits are too many."""
    return read_time(re.sub(r"\.\d+", "", timestamp))


def _sections(content: mmap.mmap) -> list[tuple[str, tuple[int, int]]]:
    """Begin and end of the lines of each pod; "" is the pod of a file without headings."""
    headings = list(_HEADING.finditer(content)) if content[:4] == b"==> " else []
    if not headings:
        return [("", (0, len(content)))]
    ends = [*(heading.start() for heading in headings[1:]), len(content)]
    return [(heading[1].decode(), (heading.end(), end)) for heading, end in zip(headings, ends, strict=True)]


def _overlap(old: mmap.mmap, start: int, end: int, new: mmap.mmap) -> int | None:
    """Where those lines of a section begin that ``new`` begins with too; None if there are none, or too many to try."""
    first = _line_at(new, 0, len(new))
    position, left = max(start, end - len(new)), _MOST_COMPARED
    while left > 0 and (position := old.find(first, position, end)) != -1:
        if position == start or old[position - 1 : position] == b"\n":
            same = _number_of_same_bytes(old, position, end, new)
            if same == end - position:
                return position
            left -= same + _PAGE
        position += 1
    return None


def _number_of_same_bytes(old: mmap.mmap, start: int, end: int, new: mmap.mmap) -> int:
    """In whole pieces, which grow: most places differ at once."""
    position, size = start, _PAGE
    while position < end:
        stop = min(position + size, end)
        if old[position:stop] != new[position - start : stop - start]:
            break
        position, size = stop, min(2 * size, _CHUNK)
    return position - start


def _line_at(content: mmap.mmap, start: int, end: int) -> bytes:
    newline = content.find(b"\n", start, end)
    return content[start : min(end if newline == -1 else newline + 1, start + _LINE)]
