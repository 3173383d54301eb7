# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From the tree of what a user wrote to the data a model takes: keys by their fields' names, other forms resolved.

What does not fit a block's shape is a problem here: unknown keys, keys given twice, a text for a list. Where each piece
of data came from is kept, so that what the model refuses later is told in the user's own spelling.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from .forms import MapForm, NamesForm, OneOrMany
from .models import Block
from .problems import joined
from .secrets import MASK, looks_secret, redact_arguments
from .spelling import (
    BlockOf,
    Key,
    ListOf,
    Shape,
    Text,
    default_entry_of,
    documented_path,
    homes_of,
    item_of,
    key_by_spelling,
    keys_of,
    kinds_with,
)
from .tree import ListNode, MapNode, Node, ScalarNode

Location: TypeAlias = "tuple[str | int, ...]"
"""Where data stands in the model: field names, list positions, map keys; what pydantic calls `loc`."""

MAP_KEY = "[key]"
"""The last step of the location of a map's key, as opposed to its value; pydantic's own."""

_LONGEST_SHOWN = 60
_LONGEST_LIST = 12


class Problem(NamedTuple):
    path: str
    message: str
    node: Node
    value: str | None = None


class Spot(NamedTuple):
    """Where a piece of data was written."""

    path: str
    node: Node


@dataclass
class ParsedManifest:
    """The data of one manifest, with its origin and the problems found on the way."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    spots: dict[Location, Spot] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    refused: set[Location] = field(default_factory=set)
    """Where a problem is known already, so that nothing more is said about it."""
    incomplete: set[Location] = field(default_factory=set)
    """Blocks with an unknown key: what they lack together may be just that key."""

    def spot(self, location: Location) -> Spot:
        """Where the data at a location was written, or the nearest block around it."""
        while location not in self.spots:
            location = location[:-1]
        return self.spots[location]


def read_manifest(node: MapNode, kind: str, model: type[Block], path: str) -> ParsedManifest:
    """The data for `model` in the tree of a manifest; `path` is where the tree stands in its document."""
    reading = ParsedManifest(kind)
    reading.data = _Reader(reading).block(node, model, (), path)
    return reading


def shown(node: Node, location: Location) -> str | None:
    """A value as an error shows it; None for what is no single value, a mask for what may be a secret."""
    if not isinstance(node, ScalarNode) or node.is_null:
        return None
    if "env" in location and location[-1] == "value":
        return MASK
    if isinstance(location[-1], str) and location[-1] != MAP_KEY and looks_secret(location[-1]):
        return MASK
    return quoted(node.text, node.plain)


def quoted(text: str, plain: bool = False) -> str:
    cut = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"
    return cut if plain and re.fullmatch(r"[\w./:+%@=~-]+", cut) else json.dumps(cut, ensure_ascii=False)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    import difflib  # Here: most manifests have nothing wrong.

    lower = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.7)
    return lower[matches[0]] if matches else None


class _Reader:
    def __init__(self, reading: ParsedManifest) -> None:
        self._reading = reading

    def block(self, node: MapNode, model: type[Block], location: Location, path: str) -> dict[str, Any]:
        self._reading.spots[location] = Spot(path, node)
        keys = key_by_spelling(model)
        default_entry = default_entry_of(model)
        data: dict[str, Any] = {}
        given: dict[str, ScalarNode] = {}
        defaults: list[tuple[ScalarNode, Node]] = []
        for name, value in node.entries:
            key = keys.get(name.text)
            if default_entry is not None and key is None and name.text == default_entry[0]:
                defaults.append((name, value))
                continue
            if key is None:
                self._unknown(name, model, location, path)
                continue
            if key.field in given:
                self._twice(name, given[key.field], path)
                continue
            given[key.field] = name
            self._field(data, key, value, (*location, key.field), joined(path, name.text))
        if default_entry is not None:
            self._default_entry(data, default_entry[1], defaults, location, path)
        return data

    def _field(self, data: dict[str, Any], key: Key, node: Node, location: Location, path: str) -> None:
        self._reading.spots[location] = Spot(path, node)
        if isinstance(node, ScalarNode) and node.is_null:
            return
        if key.mark(OneOrMany) and isinstance(node, ScalarNode):
            self._reading.spots[_below(location, 0)] = Spot(path, node)
            data[key.field] = [node.text]
        elif key.mark(MapForm) and isinstance(node, ListNode):
            data[key.field] = self._block_items(node, key, key.mark(MapForm), location, path)
        elif key.mark(MapForm) and isinstance(node, MapNode):
            data[key.field] = self._map_form(node, key, key.mark(MapForm), location, path)
        elif key.mark(NamesForm) and isinstance(node, ListNode):
            data[key.field] = self._names_form(node, location, path)
        else:
            value = self._value(node, key.shape, location, path)
            if location not in self._reading.refused:
                data[key.field] = value

    def _value(self, node: Node, shape: Shape, location: Location, path: str) -> Any:
        if isinstance(shape, Text):
            if isinstance(node, ScalarNode):
                return node.text
            return self._refuse(location, path, node, f"{_a(node)} is not allowed here; give one value")
        if isinstance(shape, BlockOf):
            if isinstance(node, MapNode):
                return self.block(node, shape.model, location, path)
            return self._no_block(node, shape.model, location, path)
        if isinstance(shape, ListOf):
            if isinstance(node, ListNode):
                return self._items(node, shape.item, location, path)
            return self._no_list(node, shape.item, location, path)
        if isinstance(node, MapNode):
            return self._map(node, shape.item, location, path)
        return self._refuse(location, path, node, f"{_a(node)} is not allowed here; write `name:` lines below it")

    def _items(self, node: ListNode, shape: Shape, location: Location, path: str) -> list[Any]:
        items: list[Any] = []
        for position, item in enumerate(node.items):
            below, where = (*location, position), joined(path, position)
            self._reading.spots[below] = Spot(where, item)
            if below in self._reading.refused:
                items.append(None)
            elif isinstance(item, ScalarNode) and item.is_null:
                remedy = 'write "" for an empty text' if isinstance(shape, Text) else "remove the item"
                self._refuse(below, where, item, f"is empty; {remedy}")
                items.append(None)
            else:
                items.append(self._value(item, shape, below, where))
        return items

    def _block_items(self, node: ListNode, key: Key, form: MapForm, location: Location, path: str) -> list[Any]:
        """A list of blocks that could have been a map; `- HF_HOME: /cache` and `- HF_HOME=/cache` are neither."""
        block = item_of(key)
        known = key_by_spelling(block.model)
        for position, item in enumerate(node.items):
            name = None
            if isinstance(item, ScalarNode) and not item.is_null:
                name = item.text.split("=")[0]
            elif isinstance(item, MapNode) and len(item.entries) == 1 and item.entries[0][0].text not in known:
                name = item.entries[0][0].text
            if name is not None:
                remedy = f"write `- {form.key}: {quoted(name, True)}` and `{form.value}:` below it"
                self._refuse((*location, position), joined(path, position), item, f"has no {form.key}; {remedy}")
        return self._items(node, block, location, path)

    def _map(self, node: MapNode, item: Shape, location: Location, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        given: dict[str, ScalarNode] = {}
        for name, value in node.entries:
            if name.text in given:
                self._twice(name, given[name.text], path)
                continue
            given[name.text] = name
            below, where = (*location, name.text), joined(path, name.text)
            self._reading.spots[below] = Spot(where, value)
            self._reading.spots[_below(below, MAP_KEY)] = Spot(where, name)
            empty = isinstance(value, ScalarNode) and value.is_null
            nothing: Any = [] if isinstance(item, ListOf) else {}
            data[name.text] = nothing if empty else self._value(value, item, below, where)
        return data

    def _map_form(self, node: MapNode, key: Key, form: MapForm, location: Location, path: str) -> list[Any]:
        """`env: {HF_HOME: /cache}` as the list of blocks it stands for."""
        model = item_of(key).model
        entries: list[Any] = []
        given: dict[str, ScalarNode] = {}
        for name, value in node.entries:
            if name.text in given:
                self._twice(name, given[name.text], path)
                continue
            given[name.text] = name
            below, where = (*location, len(entries)), joined(path, name.text)
            if isinstance(value, MapNode):
                entry = self.block(value, model, below, where)
                if form.key in entry:
                    self._problem(joined(where, form.key), value, "is the key of this block already; remove it")
            else:
                self._reading.spots[below] = Spot(where, value)
                entry = {}
                if not (isinstance(value, ScalarNode) and value.is_null):
                    self._reading.spots[_below(below, form.value)] = Spot(where, value)
                    entry[form.value] = self._value(value, Text(), (*below, form.value), where)
            self._reading.spots[_below(below, form.key)] = Spot(where, name)
            entries.append({**entry, form.key: name.text})
        return entries

    def _names_form(self, node: ListNode, location: Location, path: str) -> dict[str, Any]:
        """`nodes: [gpu-1, gpu-2]` as the map of empty blocks it stands for."""
        names: dict[str, Any] = {}
        for position, item in enumerate(node.items):
            where = joined(path, position)
            if not isinstance(item, ScalarNode) or item.is_null:
                self._refuse((*location, position), where, item, f"{_a(item)} is not allowed here; give one name")
            elif item.text in names:
                self._problem(where, item, "is given twice; keep one", quoted(item.text, True))
            else:
                names[item.text] = {}
                self._reading.spots[_below(location, item.text)] = Spot(where, item)
                self._reading.spots[_below(location, item.text, MAP_KEY)] = Spot(where, item)
        return names

    def _default_entry(
        self, data: dict[str, Any], key: Key, given: list[tuple[ScalarNode, Node]], location: Location, path: str
    ) -> None:
        """A quota's `default:` block, moved into the map beside it."""
        if not given:
            return
        if len(given) > 1:
            self._twice(given[1][0], given[0][0], path)
        name, value = given[0]
        entries = data.setdefault(key.field, {})
        if name.text in entries:
            other = self._reading.spots[_below(location, key.field, name.text)]
            self._problem(joined(path, name.text), name, f"is given twice, here and as {other.path}; keep one")
            return
        single = MapNode(((name, value),), name.place)
        entries.update(self._map(single, item_of(key), (*location, key.field), path))

    def _unknown(self, name: ScalarNode, model: type[Block], location: Location, path: str) -> None:
        """Say what was probably meant; a field that it was meant to be is then not missing as well."""
        known = key_by_spelling(model)
        kind = self._reading.kind
        block = documented_path(kind, location)
        self._reading.incomplete.add(location)
        others = kinds_with(name.text, block)
        homes = [home for home in homes_of(name.text, kind) if home != block]
        meant = nearest(name.text, known)
        if others:
            message = f"is a key of {_listed(others)}, not of {kind}; remove it"
        elif homes:
            places = " or ".join(f"under {home}" if home else "at the top level" for home in homes)
            message = f"is no key here; it belongs {places}"
        elif meant is not None:
            message = f"is no known key; did you mean {_same_style(known[meant], name.text)}?"
            self._reading.refused.add((*location, known[meant].field))
        else:
            valid = [key.documented for key in keys_of(model)]
            message = f"is no known key; the keys here are {_listed(valid[:_LONGEST_LIST])}"
        self._problem(joined(path, name.text), name, message)

    def _twice(self, name: ScalarNode, first: ScalarNode, path: str) -> None:
        where = ""
        if first.place.line is not None:
            where = f", on lines {first.place.line} and {name.place.line}"
        other = f" (first as {first.text})" if first.text != name.text else ""
        self._problem(joined(path, name.text), name, f"is given twice{where}{other}; keep one")

    def _no_block(self, node: Node, model: type[Block], location: Location, path: str) -> None:
        required = [key for key in keys_of(model) if key.required]
        if isinstance(node, ScalarNode) and len(required) == 1 and isinstance(required[0].shape, Text):
            name = required[0].documented
            value = shown(node, location)
            self._refuse(location, path, node, f"stands where keys are expected; write `{name}: {node.text}`", value)
            return
        example = (required or list(keys_of(model)))[0].documented
        self._refuse(
            location, path, node, f"{_a(node)} is not allowed here; write its keys below it, such as `{example}:`"
        )

    def _no_list(self, node: Node, shape: Shape, location: Location, path: str) -> None:
        if isinstance(node, ScalarNode) and isinstance(shape, Text):
            words = json.dumps(redact_arguments(_split(node.text)), ensure_ascii=False)
            self._refuse(location, path, node, f"one text is not allowed here; write a list: {words}")
        else:
            self._refuse(location, path, node, f"{_a(node)} is not allowed here; begin each item with '- '")

    def _refuse(self, location: Location, path: str, node: Node, message: str, value: str | None = None) -> None:
        self._reading.refused.add(location)
        self._problem(path, node, message, value)

    def _problem(self, path: str, node: Node, message: str, value: str | None = None) -> None:
        self._reading.problems.append(Problem(path, message, node, value))


def _below(location: Location, *steps: str | int) -> Location:
    return (*location, *steps)


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _a(node: Node) -> str:
    if isinstance(node, ListNode):
        return "a list"
    return "a map" if isinstance(node, MapNode) else "a single value"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _same_style(key: Key, written: str) -> str:
    """The spelling in the style of what was written, so that gpu_typ is told gpu_type and gpu-typ gpu-type."""
    for mark in "-", "_":
        if mark in written:
            styled = next((spelling for spelling in key.spellings if mark in spelling), None)
            if styled is not None:
                return styled
    return key.documented
