# SPDX-License-Identifier: BSD-2-Clause
"""How long a task waits for one of several clusters. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLE = "K8S_AUTH_CONNECT_TIMEOUT"
_SECONDS = "4"  # One that is down must not hold the others up for long.


def connect_limit(environ: Mapping[str, str]) -> dict[str, str]:
    """The variable for its connection, with what the environment of the task sets, if it does."""
    return {_VARIABLE: environ.get(_VARIABLE) or _SECONDS}
