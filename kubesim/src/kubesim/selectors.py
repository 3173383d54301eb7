# SPDX-License-Identifier: BSD-2-Clause
"""Label and field selectors.

Source: apimachinery pkg/labels/selector.go (lexer, parser and their messages), pkg/fields/selector.go,
pkg/apis/*/v1/conversion.go (which fields a kind can be selected by).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubesim import schema
from kubesim.errors import bad_request
from kubesim.field import go_quote
from kubesim.kinds.names import label_key, label_value
from kubesim.resources import Resource

Labels = Mapping[str, str]
_KEYWORDS = {"in", "notin"}
_SYMBOLS = ("!=", "==", "=", "!", "(", ")", ",", ">", "<")
_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_INTEGER = re.compile(r"[-+]?[0-9]+")


@dataclass(frozen=True)
class Requirement:
    key: str
    operator: str  # in, notin, exists, !, gt, lt
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "gt" else int(value) < int(self.values[0])


@dataclass(frozen=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return all(r.matches(labels) for r in self.requirements)


def parse_labels(text: str) -> LabelSelector:
    """The labelSelector of a query; ApiError 400 with the parser's words when it is malformed."""
    parser = _LabelParser(_lex(text))
    requirements = parser.parse()
    return LabelSelector(tuple(requirements))


def matches_label_selector(selector: dict[str, Any] | None, labels: Labels) -> bool:
    """A metav1.LabelSelector (matchLabels, matchExpressions): {} matches everything, None nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or ():
        operator = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}[expression["operator"]]
        if not Requirement(expression["key"], operator, tuple(expression.get("values") or ())).matches(labels):
            return False
    return True


def selector_text(selector: dict[str, Any] | None) -> str:
    """metav1.FormatLabelSelector as in the status of a Scale: sorted requirements joined with commas."""
    parts = {key: f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items()}
    for expression in (selector or {}).get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        parts[key] = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }[expression["operator"]]
    return ",".join(parts[key] for key in sorted(parts))


def _lex(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        symbol = next((s for s in _SYMBOLS if text.startswith(s, at)), None)
        if symbol:
            tokens.append(symbol)
            at += len(symbol)
            continue
        start = at
        while at < len(text) and not text[at].isspace() and text[at] not in "=!(),><":
            at += 1
        tokens.append(text[start:at])
    return tokens


class _LabelParser:
    """labels.Parser: recursive descent, messages word for word."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self.peek():
            return found
        while True:
            if self.peek() in _SYMBOLS and self.peek() not in ("!",):
                raise bad_request(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
            found.append(self.requirement())
            after = self.take()
            if not after:
                return found
            if after != ",":
                raise bad_request(f"found '{after}', expected: ',' or 'end of string'")
            if self.peek() != "!" and (not self.peek() or self.peek() in _SYMBOLS):
                raise bad_request(f"found '{self.peek()}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        operator = ""
        if self.peek() == "!":
            self.take()
            operator = "!"
        key = self.take()
        if not key or key in _SYMBOLS:
            raise self.error(f"found '{key}', expected: identifier")
        self.check_key(key)
        if operator or self.peek() in ("", ","):
            return Requirement(key, operator or "exists")
        operator = self.take()
        if operator not in ("in", "notin", "=", "==", "!=", ">", "<"):
            raise self.error(f"found '{operator}', expected: {_OPERATORS}")
        values = self.values() if operator in _KEYWORDS else (self.exact_value(),)
        self.check_values(key, operator, values)
        if operator in (">", "<"):
            return Requirement(key, "gt" if operator == ">" else "lt", values)
        return Requirement(key, {"=": "in", "==": "in", "!=": "notin"}.get(operator, operator), values)

    def values(self) -> tuple[str, ...]:
        opening = self.take()
        if opening != "(":
            raise self.error(f"found '{opening}' expected: '('")
        if self.peek() == ")":
            self.take()
            return ("",)
        if (self.peek() in _SYMBOLS and self.peek() != ",") or not self.peek():
            raise self.error(f"found '{self.peek()}', expected: ',', ')' or identifier")
        found: set[str] = set()
        while True:
            token = self.take()
            if token == ",":  # "(,", ",," and ",)" hold an empty value
                if not found or self.peek() in (",", ")"):
                    found.add("")
            elif not token or token in _SYMBOLS:
                raise self.error(f"found '{token}', expected: ',', or identifier")
            else:
                found.add(token)
                if self.peek() not in (",", ")"):
                    raise self.error(f"found '{self.peek()}', expected: ',' or ')'")
            if self.peek() == ")":
                self.take()
                return tuple(sorted(found))

    def exact_value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        value = self.take()
        if value in _SYMBOLS:
            raise self.error(f"found '{value}', expected: identifier")
        return value

    @staticmethod
    def error(text: str) -> Exception:
        return bad_request(f"unable to parse requirement: {text}")

    def check_key(self, key: str) -> None:
        found = label_key(key)
        if found:
            # the parser hands on a field path that is nil
            raise self.error(f"<nil>: Invalid value: {go_quote(key)}: {'; '.join(found)}")

    def check_values(self, key: str, operator: str, values: tuple[str, ...]) -> None:
        found = []
        if operator in (">", "<") and not _INTEGER.fullmatch(values[0]):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            found.append(f"values[0]: Invalid value: {go_quote(values[0])}: {text}")
        for index, value in enumerate(values):
            problems = label_value(value)
            if problems:
                found.append(f"values[{index}][{key}]: Invalid value: {go_quote(value)}: {'; '.join(problems)}")
        if found:
            raise self.error(found[0] if len(found) == 1 else f"[{', '.join(found)}]")


# --- field selectors --------------------------------------------------------------------------------------------------

FieldSelector = Callable[[dict[str, Any]], bool]
_FIELD_OPERATORS = ("!=", "==", "=")


@dataclass(frozen=True)
class FieldRequirement:
    label: str
    equal: bool
    value: str


def parse_fields(text: str) -> list[FieldRequirement]:
    """The fieldSelector of a query; backslash escapes a comma, an equals sign or itself."""
    found = []
    for term in _split_terms(text):
        if not term:
            continue
        operator, at = _field_operator(term)
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        value = re.sub(r"\\([\\,=])", r"\1", term[at + len(operator) :])
        found.append(FieldRequirement(term[:at], operator != "!=", value))
    return found


def _split_terms(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\])+", text)


def _field_operator(term: str) -> tuple[str, int]:
    at = 0
    while at < len(term):
        if term[at] == "\\":
            at += 2
            continue
        for operator in _FIELD_OPERATORS:
            if term.startswith(operator, at):
                return operator, at
        at += 1
    return "", 0


def field_matcher(resource: Resource, requirements: list[FieldRequirement]) -> FieldSelector:
    """What selects objects of a resource; 400 for a field that it cannot be selected by."""
    checks: list[tuple[list[str], bool, str, str]] = []
    for requirement in requirements:
        steps = _field_path(resource, requirement.label).split(".")
        checks.append((steps, requirement.equal, requirement.value, _unset_text(resource, steps)))

    def matches(obj: dict[str, Any]) -> bool:
        return all((_text_at(obj, steps, unset) == value) is equal for steps, equal, value, unset in checks)

    return matches


def _field_path(resource: Resource, label: str) -> str:
    own = bool(resource.field_labels)
    if label == "metadata.name" or (label == "metadata.namespace" and (resource.namespaced or not own)):
        return label
    if label in resource.field_labels:
        return resource.field_labels[label]
    if own:
        raise bad_request(_UNSUPPORTED.get(resource.kind, "field label not supported: {}").format(label))
    # runtime.DefaultMetaV1FieldSelectorConversion
    raise bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')


#: Kinds whose conversion function has words of its own.
_UNSUPPORTED = {
    "ResourceSlice": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {}",
    "Job": 'field label "{}" not supported for Job',
}


def _unset_text(resource: Resource, steps: list[str]) -> str:
    """What a field that is not set is compared as: the zero value of its Go type."""
    kind: schema.Type = schema.of(resource.group, resource.version, resource.kind)
    for step in steps:
        kind = schema.child(kind, step)
    return _text(kind.zero)


def _text_at(obj: dict[str, Any], steps: list[str], unset: str) -> str:
    value: Any = obj
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return unset if value is None else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
