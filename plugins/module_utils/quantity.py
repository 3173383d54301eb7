# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes resource quantities: parsed exactly, compared by value, written as the API server writes them.

The rules are those of apimachinery's pkg/api/resource (quantity.go, suffix.go, amount.go).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal

Format = Literal["binary", "decimal", "exponent"]

GIB = 1024**3

_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?=\.?[0-9])(?P<whole>[0-9]*)\.?(?P<fraction>[0-9]*)"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)"
)
_MAX_BINARY = 2**63 - 1
_FAST_PATH_DIGITS = 18
_FAST_PATH_BINARY_DIGITS = 15
# Far beyond any resource (2**63 has 19 digits): `1e999999999` would fill the memory.
_MAX_EXPONENT = 30
_MAX_DIGITS = 100  # More would not fit into a float, which shares of two quantities are.


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity."""


@dataclass(frozen=True, order=True)
class Quantity:
    """An exact value and its canonical text. 1Gi and 1024Mi are equal."""

    value: Fraction
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text


def parse(text: str | int | float) -> Quantity:
    """Parse a quantity as the API server does: `2`, `0.5`, `500m`, `32Gi`, `1e3`. Raises QuantityError."""
    return _parse_text(str(text).strip())


@lru_cache(maxsize=1024)  # Jobs and pods request the same few amounts.
def _parse_text(text: str) -> Quantity:
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity")
    whole = (match["whole"] or "").lstrip("0") or "0"
    fraction, suffix = match["fraction"], match["suffix"]
    base, exponent, form = _suffix_scale(suffix)
    if abs(exponent) > _MAX_EXPONENT or len(whole) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(f"{text!r} is out of range")
    exact = Fraction(int(whole + fraction), 10 ** len(fraction)) * Fraction(base) ** exponent
    sign = -1 if match["sign"] == "-" else 1
    value = sign * _bounded_value(exact, form)
    canonical = text if _is_canonical(whole, fraction, exponent, form) else _canonical(value, form)
    return Quantity(value, canonical)


def canonical(text: str | int | float) -> str:
    """The text in the form the API server returns: 1024Mi -> 1Gi, 0.5 -> 500m. Raises QuantityError."""
    return parse(text).text


def stored(text: str | int | float) -> Fraction:
    """The value that the API server keeps in a list of resources: it rounds up to thousandths. Raises QuantityError.

    (pkg/apis/core/v1/defaults.go, SetDefaults_ResourceList.)
    """
    return Fraction(math.ceil(parse(text).value * 1000), 1000)


def uniform(text: str | int | float, *, of_bytes: bool = False) -> str:
    """The same text for every spelling of a value: 1e3 -> 1k; of bytes, 1073741824 -> 1Gi. Raises QuantityError.

    ``canonical`` keeps the form of the text, as the API server does.
    """
    value = parse(text).value
    return _canonical(value, "binary" if of_bytes and value % 1024 == 0 else "decimal")


def _suffix_scale(suffix: str) -> tuple[int, int, Format]:
    if suffix in _BINARY:
        return 1024, _BINARY[suffix], "binary"
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "decimal"
    return 10, int(suffix[1:]), "exponent"


def _bounded_value(value: Fraction, form: Format) -> Fraction:
    """quantity.go ParseQuantity: round up to nanos, limit binary quantities to 2**63-1."""
    if (value * 10**9).denominator != 1:
        value = Fraction(math.ceil(value * 10**9), 10**9)
    return min(value, Fraction(_MAX_BINARY)) if form == "binary" else value


def _is_canonical(whole: str, fraction: str, exponent: int, form: Format) -> bool:
    """Whether ParseQuantity returns the text as it is. Its check is coarse: `1.500` and `+3Gi` pass too."""
    digits = whole + fraction
    if form == "binary":
        power = exponent * 10
        precision = _FAST_PATH_BINARY_DIGITS - len(whole) - int(power * 3 / 10) - 1
        return not fraction and precision >= 0 and int(digits) % 8 != 0
    scale = exponent - len(fraction)
    fast = len(digits) <= _FAST_PATH_DIGITS and scale >= -9
    return fast and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _canonical(value: Fraction, form: Format) -> str:
    """quantity.go CanonicalizeBytes: no fraction digits, the largest exact suffix."""
    if value == 0:
        return "0"
    if form == "binary" and abs(value) >= 1024 and value.denominator == 1:
        number, power = _without_factor(int(value), 1024, max(_BINARY_SUFFIX))
        return f"{number}{_BINARY_SUFFIX.get(power, '')}"
    number, power = _without_factor(int(value * 10**9), 10, 9 + max(_DECIMAL_SUFFIX))
    power -= 9
    surplus = power % 3
    number, power = number * 10**surplus, power - surplus
    if form == "exponent":
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_SUFFIX[power]}"


def _without_factor(number: int, factor: int, most: int) -> tuple[int, int]:
    times = 0
    while times < most and number % factor == 0:
        number //= factor
        times += 1
    return number, times
