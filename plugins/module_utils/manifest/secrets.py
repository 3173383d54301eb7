# SPDX-License-Identifier: BSD-2-Clause
"""The secrets of manifests: of validated ones, of invalid ones, and of the option ``definition``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..redaction import MASK, mask_value, redact, redact_arguments, secrets_among
from .budget import Budget, TooMuchError
from .tree import ListNode, MapNode, Node, ScalarNode, UnsupportedValueError, from_python

_LINE = ("command", "args")


def secret_values(model: Any) -> set[str]:
    """The secrets of a manifest (any model of KINDS), without short and common words. None for pools and quotas."""
    environment = getattr(model, "environment", None)
    if environment is None:
        return set()
    variables = [(entry.name, entry.value) for entry in environment.env]
    # One command line of both: the last item of the command may be a flag, and the first of args its value.
    return secrets_among(variables, [*environment.command, *environment.args], marked_in(environment.env))


def marked_in(variables: Iterable[Any]) -> frozenset[str]:
    """The names of the variables that a manifest marks as secret."""
    return frozenset(entry.name for entry in variables if entry.secret)


def source_secret_values(node: Node) -> set[str]:
    """The same of a manifest that may be invalid: below each key ``env``, ``command`` or ``args``, at any level."""
    if isinstance(node, ListNode):
        return set().union(*(source_secret_values(item) for item in node.items))
    if not isinstance(node, MapNode):
        return set()
    entries = [(name.text, value) for name, value in node.entries]
    line = [text for part in _LINE for name, value in entries if name == part for text in _scalar_texts(value)]
    variables = [each for name, value in entries if name == "env" for each in _variables(value)]
    found = secrets_among([(name, value) for name, value, _is_marked in variables], line, _marked_names(variables))
    return found.union(*(source_secret_values(value) for _name, value in entries))


def shown_manifest(model: Any) -> Any:
    """A job's manifest as it is recorded: without its secrets, also where they are repeated."""
    data = model.model_dump(mode="json", exclude_defaults=True, warnings=False)
    return redact(_shown_data({"kind": model.kind, **data}), secret_values(model))


def shown_definition(data: Any) -> Any:
    """A definition as it is returned: its secrets masked, also where they are repeated; of YAML texts nothing.

    What identifies a job stays, whatever its secrets are.
    """
    if isinstance(data, str):
        return MASK
    if isinstance(data, (list, tuple)):
        return [shown_definition(item) for item in data]
    if not isinstance(data, Mapping):
        return data
    try:
        secrets = source_secret_values(from_python(data, Budget()))
    except (UnsupportedValueError, TooMuchError):
        return MASK
    return {
        key: value if key in ("kind", "job") else redact(value, secrets) for key, value in _shown_data(data).items()
    }


def _shown_data(data: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return [_shown_data(item) for item in data]
    if not isinstance(data, Mapping):
        return data
    return {
        key: _shown_env(value) if key == "env" else _shown_data(value) for key, value in data.items()
    } | _shown_line(data)


def _shown_line(block: Mapping[str, Any]) -> dict[str, Any]:
    """Command and args, as one line, with their secrets masked; each in its own form, a list or a text."""
    parts = {part: block[part] for part in _LINE if isinstance(block.get(part), (str, list, tuple))}
    if not parts:
        return parts
    words = {part: [value] if isinstance(value, str) else [*map(str, value)] for part, value in parts.items()}
    masked = iter(redact_arguments([word for part in words.values() for word in part]))
    shown = {part: [next(masked) for _word in own] for part, own in words.items()}
    return {part: shown[part][0] if isinstance(value, str) else shown[part] for part, value in parts.items()}


def _shown_env(env: Any) -> Any:
    """Variables with their secrets masked, in each form that users write: a map, a list of blocks or of texts."""
    if isinstance(env, str):
        name, equals, value = env.partition("=")
        return f"{name}={mask_value(name, value)}" if equals else env
    if isinstance(env, (list, tuple)):
        return [_shown_env(item) for item in env]
    if not isinstance(env, Mapping):
        return env
    if "name" in env:
        return _shown_variable(str(env["name"]), env)
    return {
        name: _shown_variable(str(name), value) if isinstance(value, Mapping) else _masked_value(str(name), value)
        for name, value in env.items()
    }


def _shown_variable(name: str, block: Mapping[str, Any]) -> dict[str, Any]:
    marked = {name} if _is_true(block.get("secret")) else set()
    return {key: _masked_value(name, value, marked) if key == "value" else value for key, value in block.items()}


def _masked_value(name: str, value: Any, marked: Collection[str] = ()) -> Any:
    """Numbers can be secrets, too."""
    is_value = value is not None and not isinstance(value, (bool, Mapping, list, tuple))
    masked = mask_value(name, str(value), marked) if is_value else value
    return value if masked == str(value) else masked


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "yes", "on", "1")


def _scalar_texts(node: Node) -> list[str]:
    parts = node.items if isinstance(node, ListNode) else (node,)
    return [part.text for part in parts if isinstance(part, ScalarNode)]


def _variables(node: Node) -> list[tuple[str, str | None, bool]]:
    """Name, value and mark of variables, from a map or from a list of name and value, of maps or of NAME=value."""
    if isinstance(node, ScalarNode):
        name, _equals, value = node.text.partition("=")
        return [(name, value, False)]
    if isinstance(node, ListNode):
        return [each for item in node.items for each in _variables(item)]
    given = dict(_named_scalars(node))
    if {"name", "value"} <= given.keys():
        return [(given["name"], given["value"], _is_true(given.get("secret")))]
    blocks = [(name.text, dict(_named_scalars(value))) for name, value in node.entries if isinstance(value, MapNode)]
    in_blocks = [(name, one["value"], _is_true(one.get("secret"))) for name, one in blocks if "value" in one]
    return [*((name, value, False) for name, value in given.items()), *in_blocks]


def _named_scalars(node: MapNode) -> Iterator[tuple[str, str]]:
    return ((name.text, value.text) for name, value in node.entries if isinstance(value, ScalarNode))


def _marked_names(variables: Iterable[tuple[str, str | None, bool]]) -> frozenset[str]:
    return frozenset(name for name, _value, is_marked in variables if is_marked)
