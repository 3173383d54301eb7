# SPDX-License-Identifier: BSD-2-Clause
"""Faults that a test injects: slow answers, refusals, broken connections, stale watches."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
from dataclasses import dataclass, field

from kubesim import errors
from kubesim.request_info import RequestInfo

#: kind -> (status, reason, message)
_ANSWERS = {
    "error": (500, "InternalError", "Internal error occurred: ordered by the test"),
    "unavailable": (503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "timeout": (504, "Timeout", "Timeout: request did not complete within the allotted timeout"),
    "conflict": (409, "Conflict", errors.STALE),
}
KINDS = (*_ANSWERS, "busy", "latency", "reset", "expired")


class ConnectionBroken(Exception):
    """The connection is to be dropped without an answer."""


@dataclass
class Fault:
    """What happens to which requests.

    kind: latency (`seconds`, then answered as usual), busy (429 with Retry-After `seconds`), error (500), unavailable
    (503), timeout (504), conflict (409), expired (410; a watch gets it within its stream), reset
    (the connection breaks before the request is looked at). verb and path are patterns (fnmatch): `patch`, `*/jobs/*`.
    The first `skip` requests that match pass, then `count` fail (None: all of them)."""

    kind: str
    verb: str = "*"
    path: str = "*"
    count: int | None = 1
    skip: int = 0
    seconds: float = 0.0
    number: int = field(default=0)
    hits: int = field(default=0)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}: one of {', '.join(KINDS)}")

    def takes(self, info: RequestInfo) -> bool:
        """Whether this request fails; counts it."""
        if not (fnmatch.fnmatchcase(info.verb, self.verb) and fnmatch.fnmatchcase(info.path, self.path)):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.count is not None and self.hits >= self.count:
            return False
        self.hits += 1
        return True


class Faults:
    """The faults in force, in the order in which they were added."""

    def __init__(self) -> None:
        self.active: list[Fault] = []
        self._numbers = itertools.count(1)

    def add(self, fault: Fault) -> int:
        """Put a fault in force; gives the number to remove it by."""
        fault.number = next(self._numbers)
        self.active.append(fault)
        return fault.number

    def remove(self, number: int) -> None:
        self.active = [fault for fault in self.active if fault.number != number]

    def clear(self) -> None:
        self.active.clear()

    async def inject(self, info: RequestInfo) -> None:
        """Delay, refuse (ApiError) or break (ConnectionBroken) a request."""
        for fault in list(self.active):
            if not fault.takes(info):
                continue
            if fault.kind == "latency":
                await asyncio.sleep(fault.seconds)
            elif fault.kind == "reset":
                raise ConnectionBroken
            else:
                raise _refusal(fault, info)


def _refusal(fault: Fault, info: RequestInfo) -> errors.ApiError:
    if fault.kind == "busy":
        return errors.too_many_requests(
            "the server has received too many requests and has asked us to try again later", int(fault.seconds) or 1
        )
    if fault.kind == "expired":
        return errors.expired("The resourceVersion for the provided watch is too old.")
    if fault.kind == "conflict":
        return errors.conflict(info.group, info.plural, info.name)
    status, reason, message = _ANSWERS[fault.kind]
    return errors.ApiError(status, reason, message)
