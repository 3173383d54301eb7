# SPDX-License-Identifier: BSD-2-Clause
"""What was asked of the server, for tests that count requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Entry:
    """`verb` as authorization sees it (get, list, watch, create, …; the lower-case method for other paths)."""

    method: str
    path: str
    query: str
    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    user: str
    user_agent: str
    dry_run: bool
    status: int

    @property
    def writes(self) -> bool:
        return self.verb in ("create", "update", "patch", "delete", "deletecollection") and not self.dry_run


class RequestLog:
    """All requests since the start or the last reset, in the order in which they were answered."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def reset(self) -> None:
        self.entries.clear()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def counts(self) -> dict[str, int]:
        """How often what was done: {"list pods": 2, "patch deployments/scale": 1, "get /version": 1}."""
        return dict(Counter(_label(entry) for entry in self.entries))

    def writes(self) -> list[Entry]:
        """The requests that may have changed something: no reads, no dry runs."""
        return [entry for entry in self.entries if entry.writes]

    def report(self) -> dict[str, Any]:
        requests = [asdict(entry) for entry in self.entries]
        return {"counts": self.counts(), "requests": requests}


def _label(entry: Entry) -> str:
    if not entry.resource:
        return f"{entry.verb} {entry.path}"
    return f"{entry.verb} {entry.resource}" + (f"/{entry.subresource}" if entry.subresource else "")
