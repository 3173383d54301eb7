# SPDX-License-Identifier: BSD-2-Clause
"""The logs of containers: what they say by themselves, and the part of it that a request asks for."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubesim.clock import rfc3339_micro

from .base import Object
from .kubelet_behavior import Behavior

Line = tuple[datetime, str]
STEPS = 10


def written_at_start(
    pod: Object, container: Object, env: dict[str, str], behavior: Behavior, printed: list[str] | None, start: datetime
) -> list[Line]:
    """What a container logs when it starts: what it is told to, what its program prints, or environment and steps."""
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
    return [(start + timedelta(milliseconds=number), text) for number, text in enumerate(texts)]


def select(
    lines: list[Line], tail: int | None, since: datetime | None, timestamps: bool, limit_bytes: int | None
) -> str:
    if since is not None:
        lines = [line for line in lines if line[0] >= since]
    if tail is not None:
        lines = lines[len(lines) - min(tail, len(lines)) :]
    text = "".join(f"{rfc3339_micro(moment)} {line}\n" if timestamps else f"{line}\n" for moment, line in lines)
    if limit_bytes is not None:
        text = text.encode()[:limit_bytes].decode(errors="ignore")
    return text
