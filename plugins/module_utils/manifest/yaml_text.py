# SPDX-License-Identifier: BSD-2-Clause
"""YAML text to trees of maps, lists and texts, in bounded size and depth, from the parser's events.

A document that does not parse is one error; reading continues at the next `---`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .budget import Budget
from .place import Place
from .problems import ManifestError
from .syntax import YamlSyntaxError, explain, snippet, source_lines
from .templates import TEMPLATE_HINT
from .tree import (
    MAX_DEPTH,
    Entry,
    ListNode,
    MapNode,
    Node,
    ScalarNode,
    UnsupportedValueError,
    joined_surrogates,
    whole_text,
)

IMPORT_ERROR: str | None = None
"""The traceback of the failed import of PyYAML, for `fail_json(exception=…)`; None when it is there."""

try:
    import yaml
except ImportError:
    IMPORT_ERROR = traceback.format_exc()

MAX_BYTES = 1024 * 1024
MAX_ALIASED_NODES = 10_000
MAX_ERRORS = 20

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_CORE_TAG = "tag:yaml.org,2002:"
_CORE_SCALARS = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
_SEPARATOR = re.compile(r"---(\s|$)")
_COLUMNS = 10_000
_LONG = 64 * 1024

TextDocument: TypeAlias = "tuple[int, Node]"
"""The number of a document in its text, from 1, and its tree."""


def read_yaml(
    text: str, file: str, first_number: int, budget: Budget
) -> tuple[list[TextDocument], list[ManifestError]]:
    """All documents of a text but empty ones, and an error for each that cannot be read, up to MAX_ERRORS.

    Raises TooMuchError.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        return [], [ManifestError(file, f"larger than {MAX_BYTES // 1024} KiB", "Split it into several files")]
    budget.spend("KiB of text", size // 1024)
    documents: list[TextDocument] = []
    errors: list[ManifestError] = []
    lines = source_lines(joined_surrogates(text))
    line, number = 0, first_number
    while line < len(lines) and len(errors) < MAX_ERRORS:
        composed = _compose(lines, line, number, budget)
        if composed.error is None:
            documents.extend(composed.finished)
            break
        number = max(number, composed.number)
        # An error after what seemed the end of a document is an error of that document.
        documents.extend(document for document in composed.finished if document[0] < number)
        errors.append(_error_at(composed.error, file, number, lines))
        below = range(max(composed.error.line, composed.start_line + 1), len(lines))
        line = next((each for each in below if _SEPARATOR.match(lines[each])), len(lines))
        number += 1
    return documents, errors


def _compose(lines: list[str], line: int, number: int, budget: Budget) -> _Composer:
    """Parse the lines from `line` on with libyaml, which is ten times faster than PyYAML's own parser.

    From the first document with an error, PyYAML's parser takes over, unless that would take long: messages should not
    depend on libyaml.
    """
    finished: list[TextDocument] = []
    for loader in getattr(yaml, "CSafeLoader", yaml.SafeLoader), yaml.SafeLoader:
        composer = _Composer(number, line, budget)
        try:
            composer.read(yaml.parse("".join(lines[line:]), Loader=loader))
        except YamlSyntaxError as error:
            composer.error = error
        except (yaml.YAMLError, UnicodeError) as error:
            if loader is not yaml.SafeLoader and not _is_long(lines[composer.start_line :], error):
                line, number = composer.start_line, max(number, composer.number)
                finished += [document for document in composer.finished if document[0] < number]
                continue
            composer.error = explain(error, lines[line:], line)
        break
    composer.finished = finished + composer.finished
    return composer


def _is_long(lines: list[str], error: Exception) -> bool:
    """Whether it takes PyYAML's parser long to get from the lines to the error."""
    mark = getattr(error, "problem_mark", None)
    return sum(map(len, lines[: mark.line + 1] if mark else lines)) > _LONG


def _error_at(error: YamlSyntaxError, file: str, number: int, lines: list[str]) -> ManifestError:
    place = _place_at(error.line, error.column)
    path = f"line {place.line}, column {place.column}"
    shown = snippet(lines, error.line, error.column)
    return ManifestError(file, error.problem, error.hint, document=number, path=path, place=place, snippet=shown)


def _place_at(line: int, column: int) -> Place:
    return Place(line + 1, column + 1, line * _COLUMNS + min(column, _COLUMNS - 1))


@dataclass
class _Open:
    """A map or list that is being read; `size` and `height` also count the nodes of aliases."""

    event: Any
    is_map: bool
    children: list[Node] = field(default_factory=list)
    size: int = 1
    height: int = 1


class _Composer:
    """Builds the trees of consecutive documents from parser events."""

    def __init__(self, number: int, first_line: int, budget: Budget) -> None:
        self.finished: list[TextDocument] = []
        self.error: YamlSyntaxError | None = None
        self.number = number - 1
        self.start_line = first_line
        self._first_line = first_line
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Node, int, int]] = {}
        self._aliased = 0
        self._budget = budget

    def read(self, events: Iterator[Any]) -> None:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):  # first, as most of them are
                self._add_node(self._scalar(event), 1, 1, event.anchor)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._begin_document(event)
            elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                self._open(event)
            elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                self._close()
            elif isinstance(event, yaml.AliasEvent):
                self._add_alias(event)

    def _begin_document(self, event: Any) -> None:
        self.number += 1
        self.start_line = self._line_number(event)
        self._stack, self._anchors, self._aliased = [], {}, 0

    def _open(self, event: Any) -> None:
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in {None, "!", f"{_CORE_TAG}{'map' if is_map else 'seq'}"}:
            raise self._tag_error(event)
        self._stack.append(_Open(event, is_map))
        self._check_depth(event, 0)

    def _close(self) -> None:
        frame = self._stack.pop()
        place = self._place_at(frame.event)
        children = tuple(frame.children)
        node = MapNode(self._merged_entries(self._pairs(frame)), place) if frame.is_map else ListNode(children, place)
        self._add_node(node, frame.size, frame.height, frame.event.anchor)

    def _add_node(self, node: Node, size: int, height: int, anchor: str | None) -> None:
        self._budget.spend("values", 1)
        if anchor is not None:
            self._anchors[anchor] = (node, size, height)
        if self._stack:
            frame = self._stack[-1]
            frame.children.append(node)
            frame.size += size
            frame.height = max(frame.height, height + 1)
        elif not (isinstance(node, ScalarNode) and node.is_null):
            self.finished.append((self.number, node))

    def _add_alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._error_at(
                event, f"alias without an anchor: *{event.anchor}", f"Define &{event.anchor} before it"
            )
        node, size, height = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED_NODES:
            problem = f"aliases repeat more than {MAX_ALIASED_NODES} values"
            raise self._error_at(event, problem, "Write them out or use fewer")
        self._check_depth(event, height)
        self._add_node(node, size, height, None)

    def _check_depth(self, event: Any, below: int) -> None:
        if len(self._stack) + below > MAX_DEPTH:
            raise self._error_at(event, f"nested more than {MAX_DEPTH} levels deep", "Use fewer levels")

    def _scalar(self, event: Any) -> ScalarNode:
        tag = event.tag
        if tag is not None and tag.removeprefix(_CORE_TAG) not in _CORE_SCALARS | {"!"}:
            raise self._tag_error(event)
        # libyaml's style of a plain scalar is '', PyYAML's own None.
        plain = not event.style and tag in {None, f"{_CORE_TAG}null"}
        try:
            text = whole_text(event.value)
        except UnsupportedValueError as error:
            raise self._error_at(event, *error.args) from None
        return ScalarNode(text, self._place_at(event), is_null=plain and text in _NULLS, plain=plain)

    def _pairs(self, frame: _Open) -> list[Entry]:
        pairs = []
        for key, value in zip(frame.children[::2], frame.children[1::2], strict=True):
            if not isinstance(key, ScalarNode):
                if isinstance(key, ListNode):
                    raise self._error_at(frame.event, "expected a string as key, got a list", "Write a string")
                raise self._error_at(frame.event, "expected a string, got a map", TEMPLATE_HINT)
            pairs.append((key, value))
        return pairs

    def _merged_entries(self, pairs: list[Entry]) -> tuple[Entry, ...]:
        """With YAML 1.1 merge keys (`<<: *base`) resolved: a map's own entries win over merged ones."""
        own = [(key, value) for key, value in pairs if not _is_merge(key)]
        known = {key.text for key, _value in own}
        for key, value in (pair for pair in pairs if _is_merge(pair[0])):
            for base in value.items if isinstance(value, ListNode) else (value,):
                if not isinstance(base, MapNode):
                    line, column = divmod(key.place.rank, _COLUMNS)
                    raise YamlSyntaxError("<< can only merge a map", "Use an alias of a map", line, column)
                own += [entry for entry in base.entries if entry[0].text not in known]
                known |= {entry[0].text for entry in base.entries}
        return tuple(own)

    def _tag_error(self, event: Any) -> YamlSyntaxError:
        hint = "Remove it. A manifest has only maps, lists, texts and numbers"
        if event.tag == "!vault":
            hint = "Keep the secret in a vaulted variable and pass the manifest as definition"
        return self._error_at(event, f"unsupported tag: {event.tag.replace(_CORE_TAG, '!!')}", hint)

    def _error_at(self, event: Any, problem: str, hint: str) -> YamlSyntaxError:
        return YamlSyntaxError(problem, hint, self._line_number(event), event.start_mark.column)

    def _place_at(self, event: Any) -> Place:
        return _place_at(self._line_number(event), event.start_mark.column)

    def _line_number(self, event: Any) -> int:
        return self._first_line + int(event.start_mark.line)


def _is_merge(key: ScalarNode) -> bool:
    return key.plain and key.text == "<<"
