# SPDX-License-Identifier: BSD-2-Clause
"""The options of modules that account for a range of time, and what they mean. Raises TaskFailed for what is wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...given_times import InvalidTime
from ...listed_namespaces import ListedNamespacesOptions
from ...options import option
from ...task import TaskFailed
from ..history.run_times import usage_range
from ..prometheus.prometheus_options import PrometheusOptions


@dataclass(frozen=True, kw_only=True)
class PricesOptions(ListedNamespacesOptions):
    """What an hour costs."""

    prices: Mapping[str, Any] | None = option("dict")


@dataclass(frozen=True, kw_only=True)
class AccountOptions(PrometheusOptions, PricesOptions):
    """A range of time, when a device counts as idle, and the currency of prices."""

    range: str | None = option("str")
    start: str | None = option("str")
    end: str | None = option("str")
    idle_below: float = option("float", default=0.05)
    currency: str | None = option("str")


def account_range(options: AccountOptions, now: datetime, default: str = "") -> tuple[datetime, datetime]:
    """From when to when; ``default`` is the length of a range that no option names."""
    is_set = options.range or options.start or options.end
    try:
        return usage_range(options.range if is_set else default, options.start, options.end, now)
    except InvalidTime as problem:
        raise TaskFailed(str(problem)) from None


def check_idle_below(options: AccountOptions) -> None:
    if not 0 <= options.idle_below <= 1:
        raise TaskFailed(f"O(idle_below): {options.idle_below:g} is not a part. Use 0 to 1, such as 0.05 for 5 %.")


def given_prices(options: PricesOptions) -> dict[str, float]:
    """The price of an hour by type, partition or resource."""
    prices = {}
    for name, value in (options.prices or {}).items():
        try:
            price = float(value)
        except (TypeError, ValueError):
            price = math.nan
        if isinstance(value, bool) or not math.isfinite(price) or price < 0:
            raise TaskFailed(f"O(prices): not a price of {name}: {value}. Give the price of one hour, such as 2.5.")
        prices[str(name)] = price
    return prices
