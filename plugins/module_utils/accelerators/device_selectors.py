# SPDX-License-Identifier: BSD-2-Clause
"""Conditions on devices of Dynamic Resource Allocation: written as CEL, and read where they are simple. Pure.

Selectors of DeviceClasses and claims are CEL expressions, which nothing here can evaluate. But those that jobs get, and
those of the usual classes, are single comparisons joined by ``&&``: these are understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..quantity import QuantityError, parse

DRIVER, EQUALS, PRODUCT, AT_LEAST, MORE_THAN = "driver", "equals", "product", "at least", "more than"

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """What a device must be or have. ``domain`` is that of the attribute or capacity, mostly the driver.

    Products are compared without regard to case, and to spaces or dashes: NVIDIA's labels have dashes for spaces.
    """

    kind: str
    name: str = ""
    value: str | int | bool = ""
    domain: str = ""

    @property
    def cel(self) -> str:
        place = f"['{self.domain}'].{self.name}"
        if self.kind == DRIVER:
            return f"device.driver == {cel_literal(self.value)}"
        if self.kind == EQUALS:
            return f"device.attributes{place} == {cel_literal(self.value)}"
        if self.kind == PRODUCT:
            return f"device.attributes{place}.lowerAscii().replace(' ', '-') == {cel_literal(_product(self.value))}"
        if self.kind == AT_LEAST:
            return f"device.capacity{place}.compareTo(quantity({cel_literal(self.value)})) >= 0"
        return f"device.capacity{place}.isGreaterThan(quantity({cel_literal(self.value)}))"

    def is_met(self, driver: str, attributes: Values, capacity: Mapping[str, str]) -> bool:
        """Whether a device has it; attributes and capacity by ``domain/name``."""
        if self.kind == DRIVER:
            return driver == self.value
        key = f"{self.domain}/{self.name}"
        if self.kind in (AT_LEAST, MORE_THAN):
            return key in capacity and self._has_enough(capacity[key])
        if key not in attributes:
            return False
        found = attributes[key]
        if self.kind == PRODUCT:
            return _product(found) == _product(self.value)
        # In Python True == 1, but in CEL a bool equals no int.
        return bool(type(found) is type(self.value) and found == self.value)

    def _has_enough(self, amount: str) -> bool:
        try:
            has, wanted = parse(amount).value, parse(str(self.value)).value
        except QuantityError:
            return False
        return has >= wanted if self.kind == AT_LEAST else has > wanted

    def __str__(self) -> str:
        if self.kind == DRIVER:
            return f"driver {self.value}"
        if self.kind in (AT_LEAST, MORE_THAN):
            return f"{self.kind} {self.value} of {self.name}"
        return f"{self.name} {str(self.value).lower() if isinstance(self.value, bool) else self.value}"


@dataclass(frozen=True)
class DeviceRequest:
    """The devices that each pod of a job claims, where a DeviceClass offers them instead of an extended resource."""

    device_class: str
    count: int
    conditions: tuple[Condition, ...] = ()


def _product(value: object) -> str:
    return str(value).lower().replace(" ", "-")


def cel_literal(value: str | int | bool) -> str:
    if isinstance(value, str):
        return "'" + json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    return str(value).lower()


# -- reading -----------------------------------------------------------------------------------------------------------

_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_PLACE = rf"\[\s*(?P<domain>{_TEXT})\s*\](?:\.(?P<name>\w+)|\[\s*(?P<key>{_TEXT})\s*\])"
_AMOUNT = rf"quantity\(\s*(?P<value>{_TEXT})\s*\)"
_FORMS = {  # Compiled when first used: most tasks have no devices to claim.
    DRIVER: rf"device\.driver\s*==\s*(?P<value>{_TEXT})",
    EQUALS: rf"device\.attributes{_PLACE}\s*==\s*(?P<value>{_TEXT}|-?\d+|true|false)",
    PRODUCT: rf"device\.attributes{_PLACE}\.lowerAscii\(\)\.replace\(' ', '-'\)\s*==\s*(?P<value>{_TEXT})",
    AT_LEAST: rf"device\.capacity{_PLACE}\.compareTo\(\s*{_AMOUNT}\s*\)\s*>=\s*0",
    MORE_THAN: rf"device\.capacity{_PLACE}\.isGreaterThan\(\s*{_AMOUNT}\s*\)",
}


@dataclass(frozen=True)
class Selection:
    """What selectors ask of a device: the conditions that are understood, and the expressions that are not."""

    conditions: tuple[Condition, ...] = ()
    others: tuple[str, ...] = ()


def selection_of(selectors: Sequence[Mapping[str, Any]] | None) -> Selection:
    """What the selectors of a DeviceClass or of a request ask."""
    understood: list[Condition] = []
    others: list[str] = []
    for selector in selectors or ():
        expression = str((selector.get("cel") or {}).get("expression") or "")
        for term in _terms(expression):
            condition = _condition(term)
            if condition is None:
                others.append(term)
            else:
                understood.append(condition)
    return Selection(tuple(understood), tuple(others))


def _condition(term: str) -> Condition | None:
    for kind, form in _FORMS.items():
        found = re.fullmatch(form, term)
        if found:
            groups = found.groupdict()
            name = groups.get("name") or _literal_value(groups.get("key") or "''")
            return Condition(
                kind, str(name), _literal_value(groups["value"]), str(_literal_value(groups.get("domain") or "''"))
            )
    return None


def _literal_value(literal: str) -> str | int | bool:
    if literal in ("true", "false"):
        return literal == "true"
    if literal[0] not in "'\"":
        return int(literal)
    return re.sub(r"\\(.)", r"\1", literal[1:-1])


def _terms(expression: str) -> list[str]:
    """The parts of an expression that are joined by ``&&`` at its top, without parentheses around them."""
    depth, start, quote, index = 0, 0, "", 0
    expression = expression.strip()
    parts: list[str] = []
    while index < len(expression):
        character = expression[index]
        if quote:
            index += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and (character == "?" or expression.startswith("||", index)):
            return [expression]  # They bind less than &&.
        elif depth == 0 and expression.startswith("&&", index):
            parts.append(expression[start:index])
            index += 1
            start = index + 1
        index += 1
    return [term for part in (*parts, expression[start:]) for term in _without_parentheses(part.strip())]


def _without_parentheses(term: str) -> list[str]:
    if term.startswith("(") and _closing(term) == len(term) - 1:
        return _terms(term[1:-1])
    return [term] if term and term != "true" else []


def _closing(text: str) -> int:
    """Where the parenthesis that a string begins with is closed, as far as quotes do not matter."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return index
    return -1
