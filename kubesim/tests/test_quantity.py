# SPDX-License-Identifier: BSD-2-Clause
"""Amounts are read, printed, compared and added as Kubernetes does."""

from __future__ import annotations

import re

import pytest

from kubesim.quantity import FORMAT_ERROR, SUFFIX_ERROR, Quantity, canonical


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1", "1"),
        (1, "1"),
        (0.5, "500m"),
        ("0.1", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1000", "1k"),
        ("10000000", "10M"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Mi", "512Ki"),
        ("1000Ki", "1000Ki"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("100M", "100M"),
        ("+5", "5"),
        ("-5", "-5"),
        ("-1.5", "-1500m"),
        ("0", "0"),
        ("0Gi", "0"),
        ("0.0000000001", "1n"),
        ("1.0", "1"),
        (".5", "500m"),
        ("5.", "5"),
        ("1u", "1u"),
    ],
)
def test_amounts_are_stored_in_canonical_notation(given: str | int | float, stored: str) -> None:
    assert canonical(given) == stored


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", FORMAT_ERROR),
        ("abc", FORMAT_ERROR),
        ("1 Gi", FORMAT_ERROR),
        ("1GiB", FORMAT_ERROR),
        ("1K", SUFFIX_ERROR),
        ("1kk", SUFFIX_ERROR),
        ("1mi", SUFFIX_ERROR),
    ],
)
def test_what_is_no_amount_is_refused(given: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        canonical(given)


def test_amounts_compare_by_value_not_by_notation() -> None:
    assert Quantity.parse("1Ki") == Quantity.parse("1024")
    assert Quantity.parse("1G") < Quantity.parse("1Gi")
    assert max(map(Quantity.parse, ("900m", "1", "0.95"))) == Quantity.of(1)


@pytest.mark.parametrize(
    ("one", "other", "total", "rest"),
    [
        ("1", "500m", "1500m", "500m"),
        ("1Gi", "512Mi", "1536Mi", "512Mi"),
        ("0", "1Gi", "1Gi", "-1Gi"),
        ("2", "2", "4", "0"),
    ],
)
def test_sums_keep_the_notation_of_what_they_began_with(one: str, other: str, total: str, rest: str) -> None:
    a, b = Quantity.parse(one), Quantity.parse(other)
    assert (str(a + b), str(a - b)) == (total, rest)
