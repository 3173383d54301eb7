# SPDX-License-Identifier: BSD-2-Clause
"""Series as data, and the text in which exporters serve them.

Source: prometheus/docs content/docs/instrumenting/exposition_formats.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"
#: A number, or what it is at a time.
Value = float | Callable[[float], float]
#: name of a metric -> (type, help)
Descriptions = Mapping[str, tuple[str, str]]


class Sample(NamedTuple):
    """One series of an exporter; its labels stay the same for as long as nothing happens to a pod."""

    name: str
    labels: Mapping[str, str]
    value: Value = 1.0

    def at(self, moment: float) -> float:
        return self.value(moment) if callable(self.value) else self.value


def render(samples: Iterable[Sample], descriptions: Descriptions, moment: float) -> str:
    """The families in the order of the descriptions."""
    families: dict[str, list[str]] = {}
    for sample in samples:
        line = f"{series(sample.name, sample.labels)} {number(sample.at(moment))}"
        families.setdefault(sample.name, []).append(line)
    lines: list[str] = []
    for name, (kind, text) in descriptions.items():
        if name in families:
            lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}", *families[name])
    return "".join(f"{line}\n" for line in lines)


def series(name: str, labels: Mapping[str, str]) -> str:
    """`name{label="value"}`."""
    if not labels:
        return name
    inner = ",".join(f'{key}="{escape(value)}"' for key, value in labels.items())
    return f"{name}{{{inner}}}"


def escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    """Whole numbers without a point, others with six digits after it."""
    whole = int(value)
    return str(whole) if whole == value else f"{value:.6f}"
