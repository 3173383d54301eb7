# SPDX-License-Identifier: BSD-2-Clause
"""Compare an answer with a recorded one, by the rules of README.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

_VARIABLE = re.compile(r"\{\{([^}]+)\}\}")
_PLACEHOLDER = re.compile(r"<(uid|rv|time|ip|port|rand|opaque|text|lines:\d+|items:\d+|absent)>")
_PATTERNS = {
    "uid": r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "rv": r"[0-9]+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "ip": r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}",
    "port": r"3[0-2]\d{3}",
    "rand": r"[a-z0-9]+",
    "opaque": r".*",
    "text": r".*",
}


def at_path(document: Any, path: str) -> Any:
    """The value at a path like /metadata/labels/a~1b or /items/0; KeyError when it is not there."""
    current = document
    for step in _steps(path):
        try:
            current = current[int(step)] if isinstance(current, list) else current[step]
        except (IndexError, TypeError, ValueError):
            raise KeyError(path) from None
    return current


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def fill(value: Any, variables: Mapping[str, Any], *, url: bool = False) -> Any:
    """Put captured values in: {{name}} within a text becomes text, a text that is nothing else becomes the value."""
    if isinstance(value, dict):
        return {fill(k, variables): fill(v, variables) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, variables) for v in value]
    if not isinstance(value, str):
        return value
    whole = _VARIABLE.fullmatch(value)
    if whole and not url:
        return variables[whole[1]]

    def text(match: re.Match[str]) -> str:
        found = str(variables[match[1]])
        return quote(found, safe="") if url else found

    return _VARIABLE.sub(text, value)


@dataclass
class Rules:
    """How a step is compared. Paths are lists of steps, `*` stands for one step."""

    subset: bool = False
    ignore: list[str] = field(default_factory=list)
    unordered: list[str] = field(default_factory=list)
    contains: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, step: Mapping[str, Any]) -> Rules:
        return cls(
            step.get("match") == "subset", step.get("ignore", []), step.get("unordered", []), step.get("contains", [])
        )


class Matcher:
    """differences(expected, actual) is empty when they match. `contained`: lists in any order, with more entries."""

    def __init__(self, rules: Rules, *, contained: bool = False) -> None:
        self.rules, self.contained = rules, contained

    def differences(self, expected: Any, actual: Any, path: tuple[str, ...] = ()) -> list[str]:
        if self._listed(self.rules.ignore, path):
            return []
        if isinstance(expected, str):
            return _text_differences(expected, actual, path)
        if isinstance(expected, dict):
            if not isinstance(actual, dict):
                return [_differ(path, expected, actual)]
            return self._objects(expected, actual, path)
        if isinstance(expected, list):
            if not isinstance(actual, list):
                return [_differ(path, expected, actual)]
            return self._lists(expected, actual, path)
        return [] if _same_scalar(expected, actual) else [_differ(path, expected, actual)]

    def _objects(self, expected: dict[str, Any], actual: dict[str, Any], path: tuple[str, ...]) -> list[str]:
        found: list[str] = []
        for key, value in expected.items():
            here = (*path, key)
            if key == "managedFields" and isinstance(value, list):
                found += self._managed_fields(value, actual.get(key), here)
            elif key in actual:
                found += self.differences(value, actual[key], here)
            elif value not in ("<absent>", "<items:0>") and not self._listed(self.rules.ignore, here):
                found.append(f"{_show(here)}: missing, expected {_json(value)}")
        if not self.rules.subset:
            for key in actual.keys() - expected.keys() - {"managedFields"}:
                if not self._listed(self.rules.ignore, (*path, key)):
                    found.append(f"{_show((*path, key))}: not expected: {_json(actual[key])}")
        return found

    def _managed_fields(self, expected: list[Any], actual: Any, path: tuple[str, ...]) -> list[str]:
        """Entries may have more keys; there must be one for each that is recorded, and no other."""
        if not isinstance(actual, list) or len(actual) != len(expected):
            return [_differ(path, expected, actual)]
        loose = Matcher(Rules())
        found = []
        for entry in expected:
            if not any(
                isinstance(have, dict)
                and all(k in have and not loose.differences(v, have[k]) for k, v in entry.items())
                for have in actual
            ):
                found.append(f"{_show(path)}: no entry {_json(entry)} in {_json(actual)}")
        return found

    def _lists(self, expected: list[Any], actual: list[Any], path: tuple[str, ...]) -> list[str]:
        more = self.contained or self._listed(self.rules.contains, path)
        if not more and not self._listed(self.rules.unordered, path):
            if len(expected) != len(actual):
                return [f"{_show(path)}: {len(actual)} entries instead of {len(expected)}: {_json(actual)}"]
            found: list[str] = []
            for index, (want, have) in enumerate(zip(expected, actual, strict=True)):
                found += self.differences(want, have, (*path, str(index)))
            return found
        if len(actual) < len(expected) or (not more and len(actual) != len(expected)):
            return [f"{_show(path)}: {len(actual)} entries instead of {len(expected)}: {_json(actual)}"]
        return self._any_order(expected, actual, path)

    def _any_order(self, expected: list[Any], actual: list[Any], path: tuple[str, ...]) -> list[str]:
        """A pairing in which every expected entry has an actual one of its own (augmenting paths)."""
        owner: dict[int, int] = {}
        fits = [
            [j for j, have in enumerate(actual) if not self.differences(want, have, (*path, str(i)))]
            for i, want in enumerate(expected)
        ]

        def place(i: int, seen: set[int]) -> bool:
            for j in fits[i]:
                if j not in seen:
                    seen.add(j)
                    if j not in owner or place(owner[j], seen):
                        owner[j] = i
                        return True
            return False

        return [
            f"{_show(path)}: no entry like {_json(want)} in {_json(actual)}"
            for i, want in enumerate(expected)
            if not place(i, set())
        ]

    @staticmethod
    def _listed(paths: list[str], path: tuple[str, ...]) -> bool:
        return any(_fits(_steps(pattern), path) for pattern in paths)


def _fits(pattern: list[str], path: tuple[str, ...]) -> bool:
    return len(pattern) == len(path) and all(p in ("*", s) for p, s in zip(pattern, path, strict=True))


def _same_scalar(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or actual is None:
        return expected is actual
    return isinstance(actual, (int, float)) and expected == actual


def _text_differences(expected: str, actual: Any, path: tuple[str, ...]) -> list[str]:
    whole = _PLACEHOLDER.fullmatch(expected)
    if whole:
        return [] if _is(whole[1], actual) else [_differ(path, expected, actual)]
    if not isinstance(actual, str):
        return [_differ(path, expected, actual)]
    if not _PLACEHOLDER.search(expected):
        return [] if expected == actual else [_differ(path, expected, actual)]
    pattern, at = "", 0
    for match in _PLACEHOLDER.finditer(expected):
        pattern += re.escape(expected[at : match.start()]) + _PATTERNS.get(match[1], re.escape(match[0]))
        at = match.end()
    pattern += re.escape(expected[at:])
    return [] if re.fullmatch(pattern, actual, re.S) else [_differ(path, expected, actual)]


def _is(placeholder: str, actual: Any) -> bool:
    """Whether a value is of a placeholder's kind."""
    name, _, number = placeholder.partition(":")
    if name == "absent":
        return False
    if name == "items":
        return isinstance(actual, list) and len(actual) == int(number)
    if name == "port":
        return isinstance(actual, int) and not isinstance(actual, bool) and 30000 <= actual <= 32767
    if name == "lines":
        return isinstance(actual, str) and len(actual.splitlines()) == int(number)
    return isinstance(actual, str) and re.fullmatch(_PATTERNS[name], actual, re.S) is not None


def _show(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 600 else text[:600] + "…"


def _differ(path: tuple[str, ...], expected: Any, actual: Any) -> str:
    return f"{_show(path)}: expected {_json(expected)}, got {_json(actual)}"
