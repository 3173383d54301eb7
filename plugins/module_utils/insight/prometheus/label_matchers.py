# SPDX-License-Identifier: BSD-2-Clause
"""Text of PromQL from values that others have chosen. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}


def promql_string(value: str) -> str:
    """A string of PromQL, which are those of Go: a line break would end the expression."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'


def pattern_of(value: str) -> str:
    """A regular expression for exactly this value. That of Prometheus, RE2, knows what Python escapes."""
    return re.escape(value)


def one_of(values: Iterable[str]) -> str:
    """A string of PromQL with a regular expression for exactly these values, for ``=~``; for none, what no value is."""
    return promql_string("|".join(sorted(map(pattern_of, values))) or "a^")


def matchers(**labels: str | Iterable[str]) -> str:
    """A selector for labels with a value, or one of several: ``{namespace="a",pod=~"b|c"}``."""
    parts = (
        f"{name}={promql_string(value)}" if isinstance(value, str) else f"{name}=~{one_of(value)}"
        for name, value in labels.items()
    )
    return "{" + ",".join(parts) + "}"
