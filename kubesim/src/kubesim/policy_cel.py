# SPDX-License-Identifier: BSD-2-Clause
"""CEL of admission policies, evaluated by cel-python: expressions over object, oldObject, request and variables.

Functions that CEL does not have are those of Kubernetes (apiserver pkg/cel/library: lists, quantity, authorizer).
Source: staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/{compile,activation}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from kubesim.device_cel import cel_functions

Object = dict[str, Any]
Decide = Callable[[str, str, str, str], bool]
"""Whether the user has a verb on a resource of a group in a namespace."""


class EvaluationError(Exception):
    """An expression fails on an object."""


class PolicyScope:
    """What expressions of one policy see of one request. Variables are evaluated when they are used, once."""

    def __init__(self, values: Mapping[str, Any], variables: Iterable[Mapping[str, str]], decide: Decide) -> None:
        import celpy

        self._activation = {name: celpy.json_to_cel(value) for name, value in values.items()}
        self._activation["authorizer"] = _Authorizer(decide)
        self._activation["variables"] = _lazy({one["name"]: one["expression"] for one in variables}, self.value)

    def value(self, expression: str) -> Any:
        """Raises EvaluationError."""
        import celpy

        try:
            return _program(expression).evaluate(self._activation)
        except (celpy.CELEvalError, TypeError, ValueError) as error:
            raise EvaluationError(str(error.args[0] if error.args else error)) from error


@lru_cache(maxsize=4096)
def compile_problem(expression: str) -> str:
    """Why an expression does not compile; "" for one that does."""
    import celpy

    try:
        celpy.Environment().compile(expression)
    except celpy.CELParseError as error:
        return f"compilation failed: ERROR: <input>:{error.line or 1}:{error.column or 1}: Syntax error"
    return ""


@lru_cache(maxsize=4096)
def _program(expression: str) -> Any:
    import celpy

    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    return environment.program(environment.compile(expression), functions={**cel_functions(), **_functions()})


def _functions() -> dict[str, Any]:
    from celpy import celtypes

    return {
        "sum": lambda values: sum(values, celtypes.IntType(0)),
        "max": lambda values: max(values),
        "min": lambda values: min(values),
        "group": lambda check, name: check.with_group(str(name)),
        "resource": lambda check, name: check.with_resource(str(name)),
        "namespace": lambda check, name: check.with_namespace(str(name)),
        "check": lambda check, verb: check.with_verb(str(verb)),
        "allowed": lambda check: celtypes.BoolType(check.is_allowed()),
    }


class _Authorizer:
    def __init__(self, decide: Decide, asked: tuple[str, str, str, str] = ("", "", "", "")) -> None:
        self._decide, self._asked = decide, asked

    def _with(self, position: int, value: str) -> _Authorizer:
        asked = list(self._asked)
        asked[position] = value
        return _Authorizer(self._decide, (asked[0], asked[1], asked[2], asked[3]))

    def with_verb(self, verb: str) -> _Authorizer:
        return self._with(0, verb)

    def with_group(self, group: str) -> _Authorizer:
        return self._with(1, group)

    def with_resource(self, resource: str) -> _Authorizer:
        return self._with(2, resource)

    def with_namespace(self, namespace: str) -> _Authorizer:
        return self._with(3, namespace)

    def is_allowed(self) -> bool:
        return self._decide(*self._asked)


def _lazy(expressions: Mapping[str, str], evaluate: Callable[[str], Any]) -> Any:
    from celpy import celtypes

    class Variables(celtypes.MapType):  # type: ignore[misc]  # cel-python has no types
        def __getitem__(self, key: Any) -> Any:
            if key not in self:
                self[key] = evaluate(expressions[str(key)])
            return super().__getitem__(key)

        def get(self, key: Any, default: Any = None) -> Any:
            return self[key]

    return Variables()
