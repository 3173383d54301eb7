# SPDX-License-Identifier: BSD-2-Clause
"""The CEL expressions that select devices: whether they compile, and whether a device matches.

Evaluated by cel-python, which knows no types before it runs: what Kubernetes refuses for its types is found here only
where it is plain (unknown variables and fields of `device`, a result that is no bool), in the words of its first line.
Source: staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go, apiserver pkg/cel/library.
"""

from __future__ import annotations

import re
from functools import lru_cache, total_ordering
from typing import Any

from kubesim.quantity import Quantity

Object = dict[str, Any]

MAX_LENGTH = 10 * 1024
_FIELDS = {"driver": "string", "allowMultipleAllocations": "bool", "attributes": "map", "capacity": "map"}
_MACROS = {"all", "exists", "exists_one", "filter", "map", "bind"}
_LITERALS = {"INT_LIT": "int", "UINT_LIT": "uint", "FLOAT_LIT": "double", "BOOL_LIT": "bool", "NULL_LIT": "null_type"}
_NAMED = re.compile(r"'([^']*)'")
_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class CelError(Exception):
    """What Kubernetes says when an expression fails on a device."""


@lru_cache(maxsize=1024)
def compile_problem(expression: str) -> str:
    """Why an expression is no condition on devices; "" for one that is."""
    import celpy

    try:
        tree = celpy.Environment().compile(expression)
    except celpy.CELParseError as error:
        return f"compilation failed: ERROR: <input>:{error.line or 1}:{error.column or 1}: Syntax error"
    unknown = _unknown(tree)
    if unknown:
        return f"compilation failed: ERROR: <input>:1:1: {unknown}"
    result = _result(tree)
    return "" if result in ("bool", "") else f"must evaluate to bool or the unknown type, not {result}"


def matches(expression: str, driver: str, device: Object) -> bool:
    import celpy

    try:
        result = _program(expression).evaluate({"device": _device(driver, device)})
    except celpy.CELEvalError as error:
        raise CelError(_runtime_error(str(error.args[0]))) from error
    return bool(result)


def _runtime_error(text: str) -> str:
    text = text.partition(" (in activation ")[0]
    named = _NAMED.search(text)
    return f"no such key: {named[1]}" if named and ("no such" in text or "not found" in text) else text


@lru_cache(maxsize=1024)
def _program(expression: str) -> Any:
    import celpy

    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    return environment.program(environment.compile(expression), functions=cel_functions())


# -- values ------------------------------------------------------------------------------------------------------------


@total_ordering
class Amount:
    """quantity() and the values of `device.capacity`."""

    def __init__(self, text: str) -> None:
        self.quantity = Quantity.parse(str(text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Amount) and self.quantity == other.quantity

    def __lt__(self, other: Amount) -> bool:
        return self.quantity < other.quantity

    def __hash__(self) -> int:
        return hash(self.quantity.amount)


@total_ordering
class Semver:
    """semver() and attributes of type version; a pre-release comes before its release."""

    def __init__(self, text: str) -> None:
        found = _SEMVER.fullmatch(str(text))
        if found is None:
            raise ValueError(f"No Major.Minor.Patch elements found: {text}")
        self.numbers = tuple(int(part) for part in found.groups()[:3])
        self.before = tuple(
            (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in (found[4] or "").split(".") if part
        )

    def _order(self) -> tuple[Any, ...]:
        return self.numbers, not self.before, self.before

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self._order() == other._order()

    def __lt__(self, other: Semver) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash(self._order())


def cel_functions() -> dict[str, Any]:
    """The functions that Kubernetes adds to CEL, of those that kubesim has."""
    from celpy import celtypes

    integer, boolean = celtypes.IntType, celtypes.BoolType
    return {
        "quantity": Amount,
        "semver": Semver,
        "isQuantity": lambda text: boolean(_parses(Amount, text)),
        "isSemver": lambda text: boolean(_parses(Semver, text)),
        "isGreaterThan": lambda one, other: boolean(one > other),
        "isLessThan": lambda one, other: boolean(one < other),
        "compareTo": lambda one, other: integer((one > other) - (one < other)),
        "asInteger": lambda amount: integer(amount.quantity.value),
        "isInteger": lambda amount: boolean(amount.quantity.amount.denominator == 1),
        "asApproximateFloat": lambda amount: celtypes.DoubleType(float(amount.quantity.amount)),
        "sign": lambda amount: integer((amount.quantity.amount > 0) - (amount.quantity.amount < 0)),
        "lowerAscii": lambda text: celtypes.StringType(text.lower()),
        "upperAscii": lambda text: celtypes.StringType(text.upper()),
        "replace": lambda text, old, new: celtypes.StringType(text.replace(old, new)),
        "substring": lambda text, *ends: celtypes.StringType(text[slice(*ends) if ends[1:] else slice(ends[0], None)]),
        "lastIndexOf": lambda text, part: integer(text.rfind(part)),
        "trim": lambda text: celtypes.StringType(text.strip()),
        "major": lambda version: integer(version.numbers[0]),
        "minor": lambda version: integer(version.numbers[1]),
        "patch": lambda version: integer(version.numbers[2]),
    }


def _parses(kind: type, text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _device(driver: str, device: Object) -> Any:
    from celpy import celtypes

    attributes, capacity = _Domains(), _Domains()
    for name, value in (device.get("attributes") or {}).items():
        attributes.put(driver, name, _attribute(value))
    for name, value in (device.get("capacity") or {}).items():
        capacity.put(driver, name, Amount(value["value"]))
    fields = {
        "driver": celtypes.StringType(driver),
        "allowMultipleAllocations": celtypes.BoolType(device.get("allowMultipleAllocations", False)),
        "attributes": attributes.as_map(),
        "capacity": capacity.as_map(),
    }
    return celtypes.MapType({celtypes.StringType(name): value for name, value in fields.items()})


def _attribute(value: Object) -> Any:
    from celpy import celtypes

    if "int" in value:
        return celtypes.IntType(value["int"])
    if "bool" in value:
        return celtypes.BoolType(value["bool"])
    if "version" in value:
        return Semver(value["version"])
    return celtypes.StringType(value.get("string", ""))


class _Domains:
    """Values by domain and name; a name without a domain belongs to the driver, an unknown domain is an empty map."""

    def __init__(self) -> None:
        self.domains: dict[str, dict[str, Any]] = {}

    def put(self, driver: str, name: str, value: Any) -> None:
        domain, slash, short = name.rpartition("/")
        self.domains.setdefault(domain if slash else driver, {})[short] = value

    def as_map(self) -> Any:
        from celpy import celtypes

        class Domains(celtypes.MapType):  # type: ignore[misc]  # cel-python has no types
            def __getitem__(self, key: Any) -> Any:
                return super().__getitem__(key) if key in self else celtypes.MapType()

        text = celtypes.StringType
        return Domains(
            {
                text(domain): celtypes.MapType({text(name): value for name, value in values.items()})
                for domain, values in self.domains.items()
            }
        )


# -- what can be said before it runs -----------------------------------------------------------------------------------


def _unknown(tree: Any) -> str:
    names = {str(node.children[0]) for node in tree.find_data("ident")}
    calls = {str(node.children[1]) for node in tree.find_data("member_dot_arg")}
    if not calls & _MACROS:  # these bring variables of their own
        for name in sorted(names - {"device"}):
            return f"undeclared reference to '{name}' (in container '')"
    for node in tree.find_data("member_dot"):
        base, name = node.children[0], str(node.children[1])
        inner = _innermost(base)
        if inner.data == "ident" and str(inner.children[0]) == "device" and name not in _FIELDS:
            return f"undefined field '{name}'"
    return ""


def _innermost(tree: Any) -> Any:
    while len(tree.children) == 1 and hasattr(tree.children[0], "data"):
        tree = tree.children[0]
    return tree


def _result(tree: Any) -> str:
    """The type of the result, where it is plain; "" where it is not."""
    node = _innermost(tree)  # cel-python puts the left side of a sum into a node of the operator
    if node.data in ("conditionalor", "conditionaland", "relation"):
        return "bool"
    if node.data == "literal":
        return _LITERALS.get(node.children[0].type, "string")
    if node.data in ("addition", "multiplication"):
        kinds = {_result(child) for child in node.children}
        return kinds.pop() if len(kinds) == 1 else ""
    if node.data == "member_dot":
        inner = _innermost(node.children[0])
        if inner.data == "ident" and str(inner.children[0]) == "device":
            return _FIELDS.get(str(node.children[1]), "")
    return ""
