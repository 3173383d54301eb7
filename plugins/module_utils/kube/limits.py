# SPDX-License-Identifier: BSD-2-Clause
"""How much of a server's answers is read, and for how long.

An answer of the API server, of a proxy in its place or of a container must not fill the controller's memory or disk,
nor hold a task for ever. The limits leave room for 2,000 nodes and 20,000 pods (docs/performance.md), and a task stays
below 300 MiB whatever it is sent.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024

SLOWEST = 64 * 1024
"""Bytes per second. Each second of the time for an answer may be used up by a server that says nothing; what comes
extends it at this rate. Links of half a megabit per second are faster."""


@dataclass(frozen=True)
class Allowance:
    """The bytes of an answer, as they are sent, the seconds until its end, before what comes extends them, and those
    in which nothing comes. None: the seconds that the request may wait for its answer."""

    bytes: int
    seconds: float | None = None
    silence: float | None = None


class TooMuchData(Exception):
    """More came than is allowed; the text says how much is."""


def size_text(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


# The API server's own answers have less than 1 KiB of headers. Python's http.client accepts 100 of 64 KiB each.
HEAD = Allowance(256 * 1024)

# A page of 500 nodes of 40 KiB. The whole answer is in memory, and once more as text while it is decoded.
ANSWER = Allowance(20 * MIB)

# Larger answers are read and decoded one at a time, whatever the number of connections.
LARGE_ANSWER = 2 * MIB

# What the objects of one answer, and those of the lists that are being read, take in memory; see ``estimated_memory``.
# The latter are 8,000 pods with full spec and status in one namespace. Lists of whole clusters keep less of each pod.
ANSWER_MEMORY = 96 * MIB
LIST_MEMORY = 128 * MIB

# Kubernetes supports 150,000 pods in a cluster (kubernetes.io, "Considerations for large clusters"): 300 pages of 500.
LIST_PAGES = 1_000
LIST_SECONDS = 600.0

# The server's tokens have some 200 characters, and are sent back in a URL.
TOKEN_LENGTH = 4_096

# What is watched has less than a tenth of that. A larger event ends the watch, and a list follows.
EVENT_BYTES = MIB
# The server is asked to end a watch after 300 s. It sends the head of its answer at once, and a bookmark every minute
# (apiserver/pkg/storage/cacher, defaultBookmarkFrequency), but that is too long to wait for what a proxy holds back.
WATCH = Allowance(1024 * MIB, 330.0, silence=30.0)
# Events, as they are in memory, that wait for a task that is busy. Watches are not read meanwhile.
QUEUED_MEMORY = 8 * MIB

# The kubelet starts a new log at 10 MiB, and the API serves that one alone (containerLogMaxSize).
LOG = Allowance(4096 * MIB)
# One that is followed is asked for again after a day, or so many bytes.
FOLLOWED_LOG = Allowance(4096 * MIB, 24 * 3600.0)

# The WebSocket library reads each byte by itself.
HANDSHAKE = Allowance(64 * 1024)

# The API server sends frames of 32 KiB (its buffer for a stream).
FRAME_BYTES = MIB
MESSAGES = 1_000_000  # with errors, or nothing, for the output of a command
# A command that hashes terabytes is silent for hours.
COMMAND_SECONDS = 6 * 3600.0
