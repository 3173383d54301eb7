# SPDX-License-Identifier: BSD-2-Clause
"""resource.Quantity: fixed-point numbers with SI suffixes, as Kubernetes reads, compares, adds and prints them.

Source of the rules: staging/src/k8s.io/apimachinery/pkg/api/resource/{quantity,suffix}.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, total_ordering
from math import ceil, floor

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"

DECIMAL_SI, BINARY_SI, DECIMAL_EXPONENT = "DecimalSI", "BinarySI", "DecimalExponent"

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_NANO = Fraction(1, 10**9)
_MAX = 2**63 - 1


@total_ordering
@dataclass(frozen=True, eq=False)
class Quantity:
    """An exact amount and the notation it is printed in."""

    amount: Fraction
    format: str = DECIMAL_SI

    @classmethod
    def parse(cls, text: str | int | float) -> Quantity:
        """Raise ValueError, with the text of the 400 answer, for what is no quantity."""
        return cls._parse(str(text).strip())

    @classmethod
    @lru_cache(maxsize=4096)
    def _parse(cls, text: str) -> Quantity:
        sign, whole, fraction, suffix = _split(text)
        if suffix in _BINARY:
            format, scale = BINARY_SI, Fraction(2 ** _BINARY[suffix])
        elif suffix in _DECIMAL:
            format, scale = DECIMAL_SI, Fraction(10) ** _DECIMAL[suffix]
        elif exponent := _EXPONENT.fullmatch(suffix):
            format, scale = DECIMAL_EXPONENT, Fraction(10) ** int(exponent[1])
        else:
            raise ValueError(SUFFIX_ERROR)
        amount = Fraction(int((whole + fraction) or 0), 10 ** len(fraction)) * scale
        amount = Fraction(ceil(amount / _NANO)) * _NANO  # what is too small to represent is rounded up, not lost
        if format == BINARY_SI:
            amount = min(amount, Fraction(_MAX))
            if 0 < amount < 1:
                format = DECIMAL_SI
        return cls(-amount if sign == "-" else amount, format)

    @classmethod
    def of(cls, number: int, format: str = DECIMAL_SI) -> Quantity:
        return cls(Fraction(number), format)

    @property
    def value(self) -> int:
        """Rounded away from zero to a whole number, as Value() does."""
        return _away_from_zero(self.amount)

    @property
    def milli_value(self) -> int:
        return _away_from_zero(self.amount * 1000)

    @property
    def is_integer(self) -> bool:
        """What ValidateResourceQuantityValue asks: no thousandths."""
        return self.milli_value % 1000 == 0

    def round_up_to_milli(self) -> Quantity:
        """SetDefaults_ResourceList: finer than a thousandth is rounded up."""
        return Quantity(Fraction(self.milli_value, 1000), self.format)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.amount + other.amount, self.format if self.amount else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.amount - other.amount, self.format if self.amount else other.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.amount == other.amount

    def __lt__(self, other: Quantity) -> bool:
        return self.amount < other.amount

    def __hash__(self) -> int:
        return hash(self.amount)

    def __bool__(self) -> bool:
        return bool(self.amount)

    def __str__(self) -> str:
        """The canonical form: the largest suffix that leaves no fraction."""
        if not self.amount:
            return "0"
        if self.format == BINARY_SI and abs(self.amount) >= 1024 and self.amount.denominator == 1:
            return self._binary()
        return self._decimal()

    def _binary(self) -> str:
        number, suffix = int(self.amount), ""
        for name in _BINARY:
            if number % 1024:
                break
            number, suffix = number // 1024, name
        return f"{number}{suffix}"

    def _decimal(self) -> str:
        number, exponent = _away_from_zero(self.amount / _NANO), -9
        while exponent < 18 and number % 1000 == 0:
            number, exponent = number // 1000, exponent + 3
        if self.format == DECIMAL_EXPONENT:
            return f"{number}e{exponent}" if exponent else str(number)
        return f"{number}{next(name for name, power in _DECIMAL.items() if power == exponent)}"


ZERO = Quantity.of(0)


def canonical(value: str | int | float) -> str:
    """A quantity as a stored object shows it: "2048Mi" -> "2Gi", 1 -> "1", "0.70" -> "700m".

    Raises ValueError with the text of the 400 answer.
    """
    return str(Quantity.parse(value))


def parse_list(resources: dict[str, str] | None) -> dict[str, Quantity]:
    """A ResourceList."""
    return {name: Quantity.parse(value) for name, value in (resources or {}).items()}


def format_list(resources: dict[str, Quantity]) -> dict[str, str]:
    return {name: str(value) for name, value in resources.items()}


def _split(text: str) -> tuple[str, str, str, str]:
    match = _NUMBER.fullmatch(text)
    if not text or match is None:
        raise ValueError(FORMAT_ERROR)
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    if not (whole or fraction):
        raise ValueError(FORMAT_ERROR)
    # The suffix ends where letters, then a sign, then digits end; anything after that does not match.
    if not re.fullmatch(r"[eEinumkKMGTP]*[-+]?[0-9]*", suffix):
        raise ValueError(FORMAT_ERROR)
    return sign, whole, fraction, suffix


def _away_from_zero(amount: Fraction) -> int:
    return ceil(amount) if amount >= 0 else floor(amount)
