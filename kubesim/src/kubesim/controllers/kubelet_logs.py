# SPDX-License-Identifier: BSD-2-Clause
"""The logs of containers: what they say by themselves, and the part of it that a request asks for."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.clock import rfc3339_nano

from .base import Object
from .kubelet_behavior import Behavior

Line = tuple[datetime, str]
STEPS = 10
LOOK_SECONDS = 0.05  # between two looks at a log that is followed


def written_at_start(
    pod: Object, container: Object, env: dict[str, str], behavior: Behavior, printed: list[str] | None, start: datetime
) -> list[Line]:
    """What a container logs when it starts: the text set for it, what its program prints, or environment and steps."""
    if behavior.log:
        texts = behavior.log.removesuffix("\n").split("\n")
    elif behavior.log_lines is not None:
        texts = [f"line {number}" for number in range(1, behavior.log_lines + 1)]
    elif printed is not None:
        texts = printed
    else:
        metadata = pod["metadata"]
        texts = [f"{metadata['namespace']}/{metadata['name']} {container['name']}: {container.get('image', '')}"]
        texts += [line for name, value in env.items() for line in f"{name}={value}".split("\n")]
        texts += [f"step {number}/{STEPS}" for number in range(1, STEPS + 1)]
    if behavior.log_seconds is not None:
        step = behavior.log_seconds / len(texts)
        return [(start + timedelta(seconds=number // 2 * 2 * step), text) for number, text in enumerate(texts)]
    return [(start + timedelta(milliseconds=number), text) for number, text in enumerate(texts)]


def written_by(lines: list[Line], now: datetime) -> list[Line]:
    return lines[: bisect_right(lines, now, key=lambda line: line[0])]


def select(lines: list[Line], tail: int | None, since: datetime | None) -> list[Line]:
    """The last lines, and of those the ones that are new enough (pkg/kubelet/kuberuntime/logs, ReadLogs)."""
    if tail is not None:
        lines = lines[len(lines) - min(tail, len(lines)) :]
    return [line for line in lines if since is None or line[0] >= since]


def text_of(lines: list[Line], timestamps: bool) -> str:
    return "".join(f"{rfc3339_nano(moment)} {line}\n" if timestamps else f"{line}\n" for moment, line in lines)


@dataclass
class FollowedLog:
    """What a request with follow=true gets: ``first``, and then what comes to ``lines`` until the container ends."""

    first: list[Line]
    known: int  # lines, when those were taken
    lines: Callable[[], list[Line]]
    ended: Callable[[], bool]
    timestamps: bool

    async def pieces(self) -> AsyncIterator[bytes]:
        new, known = self.first, self.known
        while True:
            yield text_of(new, self.timestamps).encode()  # of nothing, too: the client may be gone
            ended = self.ended()  # before the last look
            lines = self.lines()
            new, known = lines[known:], len(lines)
            if ended and not new:
                return
            await asyncio.sleep(LOOK_SECONDS)
