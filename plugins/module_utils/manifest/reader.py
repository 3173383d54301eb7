# SPDX-License-Identifier: BSD-2-Clause
"""From the tree of what a user wrote to the data a model takes: keys by their fields' names, other forms resolved.

Reports unknown and duplicate keys, and values of another shape. Keeps the location of all data for the model's errors.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..kube.errors import cut
from ..redaction import MASK, looks_secret, mask_forms, redact_arguments
from .full_width import full_width, in_ascii
from .kinds import KINDS
from .manifest_blocks import Block
from .problems import MAX_SHOWN, ManifestError, enumerated, joined, nearest
from .rules import MapForm, NamesForm, OneOrMany, ShortForm
from .spelling import BlockOf, Key, ListOf, MapOf, Scalar, Shape, default_entry_of, elsewhere, key_by_spelling, keys_of
from .tree import Entry, ListNode, Location, MapNode, Node, Origin, ScalarNode, SourceNode

Loc: TypeAlias = "tuple[str | int, ...]"
"""The position of data in the model: field names, list positions, map keys; what pydantic calls `loc`."""

MAP_KEY = "[key]"
"""The last step to a map's key, as opposed to its value; pydantic's own."""

MAX_ENTRIES = 5_000
"""Of a list or map: as many as a cluster has nodes at most (Kubernetes, "Considerations for large clusters")."""

_MAX_VALUE_LENGTH = 60
_MAX_LISTED_KEYS = 12


@dataclass
class ParsedManifest:
    """The data of one manifest by field names, where each piece of it was written, and the errors found on the way."""

    kind: str
    origin: Origin
    data: dict[str, Any] = field(default_factory=dict)
    locations: dict[Loc, Location] = field(default_factory=dict)
    errors: list[ManifestError] = field(default_factory=list)
    rejected: set[Loc] = field(default_factory=set)
    """Places that have an error already."""
    incomplete: set[Loc] = field(default_factory=set)
    """Blocks with an unknown key: what they lack may be just that key."""
    meant: set[Loc] = field(default_factory=set)
    """Fields that an unknown key was probably meant for: that they are missing is no error of its own."""
    warnings: list[str] = field(default_factory=list)
    spellings: dict[str, str] = field(default_factory=dict)
    """The paths of fields that are written otherwise than documented, by the documented path."""
    certain: list[str] = field(default_factory=list)
    """Those of the warnings about what is wrong in every cluster."""

    def location(self, loc: Loc) -> Location:
        """Where the data was written, or the nearest block around it."""
        while loc not in self.locations:
            loc = loc[:-1]
        return self.locations[loc]

    def ignored(self, location: Location, value: object, why: str) -> None:
        self.warnings.append(f"{self.origin}, {location.path}: ignored: {value}. {why}")

    def error(self, location: Location, problem: str, hint: str, value: str | None = None) -> None:
        """Raises TooManyErrors."""
        self.errors.append(ManifestError.at(self.origin, location, problem, hint, value))
        if len(self.errors) > MAX_SHOWN:
            raise TooManyErrors


class TooManyErrors(Exception):
    """A manifest has more errors than are shown."""


def read_manifest(source: SourceNode, kind: str) -> ParsedManifest:
    """The data for the kind's model in the tree of a manifest, which is a map."""
    parsed = ParsedManifest(kind, source.origin)
    path, node = source.location
    if isinstance(node, MapNode):
        with suppress(TooManyErrors):
            parsed.data = _Reader(parsed).block(node, KINDS[kind], (), path)
    return parsed


def display_value(node: Node, loc: Loc) -> str | None:
    """A value as errors show it; None for lists, maps and null, a mask for what may be a secret."""
    if not isinstance(node, ScalarNode) or node.is_null:
        return None
    name = loc[-1]
    if ("env" in loc and name == "value") or (isinstance(name, str) and name != MAP_KEY and looks_secret(name)):
        return MASK
    return quoted(node.text, node.plain)


def quoted(text: str, plain: bool = False) -> str:
    """The text, cut, and in quotes unless it was `plain` and needs none."""
    shown = cut(mask_forms(text), _MAX_VALUE_LENGTH)
    return shown if plain and re.fullmatch(r"[\w./:+%@=~-]+", shown) else json.dumps(shown, ensure_ascii=False)


class _Reader:
    def __init__(self, parsed: ParsedManifest) -> None:
        self._parsed = parsed

    def block(self, node: MapNode, model: type[Block], loc: Loc, path: str) -> dict[str, Any]:
        self._locate(loc, path, node)
        keys = key_by_spelling(model)
        default_entry = default_entry_of(model)
        data: dict[str, Any] = {}
        given: dict[str, ScalarNode] = {}
        defaults: list[Entry] = []
        for name, value in node.entries:
            key = keys.get(name.text)
            if default_entry is not None and key is None and name.text == default_entry[0]:
                defaults.append((name, value))
            elif key is None and name.text in model.IGNORED:
                self._ignored_key(name, value, model, path)
            elif key is None:
                self._unknown_key(name, model, loc, path)
            elif key.field in given:
                self._duplicate_key(name, given[key.field], path)
            else:
                given[key.field] = name
                if name.text != key.documented:
                    self._parsed.spellings[joined(path, key.documented)] = joined(path, name.text)
                self._read_field(data, key, value, (*loc, key.field), joined(path, name.text))
        if default_entry is not None and defaults:
            self._default_entry(data, default_entry[1], defaults, loc, path)
        return data

    def _read_field(self, data: dict[str, Any], key: Key, node: Node, loc: Loc, path: str) -> None:
        self._locate(loc, path, node)
        if isinstance(node, ScalarNode) and (node.is_null or isinstance(key.shape, Scalar)):
            data |= {} if node.is_null else {key.field: node.text}
            return
        form, short = key.mark(MapForm), key.mark(ShortForm)
        number = 0 if isinstance(node, ScalarNode) else len(node.items if isinstance(node, ListNode) else node.entries)
        if number > MAX_ENTRIES:
            self._reject_place(loc, Location(path, node), f"too many entries: {number}", f"Use at most {MAX_ENTRIES}")
        elif key.mark(OneOrMany) and isinstance(node, ScalarNode):
            self._locate((*loc, 0), path, node)
            data[key.field] = [node.text]
        elif short and isinstance(node, ScalarNode):
            self._locate((*loc, short.field), path, node)
            data[key.field] = {short.field: node.text}
        elif form and key.block and isinstance(node, ListNode):
            data[key.field] = self._block_items(node, key.block, form, loc, path)
        elif form and key.block and isinstance(node, MapNode):
            data[key.field] = self._map_form(node, key.block, form, loc, path)
        elif key.mark(NamesForm) and isinstance(node, ListNode):
            data[key.field] = self._names_form(node, loc, path)
        else:
            value = self._read_value(node, key.shape, loc, path)
            if loc not in self._parsed.rejected:
                data[key.field] = value

    def _read_value(self, node: Node, shape: Shape, loc: Loc, path: str) -> Any:
        if isinstance(shape, Scalar) and isinstance(node, ScalarNode):
            return node.text
        if isinstance(shape, BlockOf) and isinstance(node, MapNode):
            return self.block(node, shape.model, loc, path)
        if isinstance(shape, ListOf) and isinstance(node, ListNode):
            return self._read_items(node, shape.item, loc, path)
        if isinstance(shape, MapOf) and isinstance(node, MapNode):
            return self._map(node, shape.item, loc, path)
        return self._wrong_type(node, shape, loc, path)

    def _read_items(self, node: ListNode, shape: Shape, loc: Loc, path: str) -> list[Any]:
        items: list[Any] = []
        for position, item in enumerate(node.items):
            below, where = (*loc, position), joined(path, position)
            self._locate(below, where, item)
            if isinstance(item, ScalarNode) and item.is_null:
                hint = 'Write "" for an empty text' if isinstance(shape, Scalar) else "Remove the item"
                self._reject_place(below, Location(where, item), "empty item", hint)
            items.append(None if below in self._parsed.rejected else self._read_value(item, shape, below, where))
        return items

    def _block_items(self, node: ListNode, model: type[Block], form: MapForm, loc: Loc, path: str) -> list[Any]:
        """A list of blocks that could be a map; rejects `- HF_HOME: /cache` and `- HF_HOME=/cache`."""
        known = key_by_spelling(model)
        for position, item in enumerate(node.items):
            name = None
            if isinstance(item, ScalarNode) and not item.is_null:
                name = item.text.split("=")[0]
            elif isinstance(item, MapNode) and len(item.entries) == 1 and item.entries[0][0].text not in known:
                name = item.entries[0][0].text
            if name is not None:
                hint = f"Write `- {form.key}: {quoted(name, True)}` and `{form.value}:` below it"
                self._reject_place(
                    (*loc, position), Location(joined(path, position), item), f"missing {form.key}", hint
                )
        return self._read_items(node, BlockOf(model), loc, path)

    def _map(self, node: MapNode, item: Shape, loc: Loc, path: str) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for name, value in self._distinct(node, path):
            below, where = (*loc, name.text), joined(path, name.text)
            self._locate(below, where, value)
            self._locate((*below, MAP_KEY), where, name)
            empty: Any = [] if isinstance(item, ListOf) else {}
            is_null = isinstance(value, ScalarNode) and value.is_null
            data[name.text] = empty if is_null else self._read_value(value, item, below, where)
        return data

    def _map_form(self, node: MapNode, model: type[Block], form: MapForm, loc: Loc, path: str) -> list[Any]:
        """`env: {HF_HOME: /cache}` as the list of blocks that it abbreviates."""
        entries: list[Any] = []
        for name, value in self._distinct(node, path):
            below, where = (*loc, len(entries)), joined(path, name.text)
            entry: dict[str, Any] = {}
            self._locate(below, where, value)
            if isinstance(value, MapNode):
                entry = self.block(value, model, below, where)
                if form.key in entry:
                    location = Location(joined(where, form.key), value)
                    self._parsed.error(location, f"the key of the block is its {form.key} already", "Remove it")
            elif not (isinstance(value, ScalarNode) and value.is_null):
                self._locate((*below, form.value), where, value)
                entry[form.value] = self._read_value(value, Scalar(), (*below, form.value), where)
            self._locate((*below, form.key), where, name)
            entries.append({**entry, form.key: name.text})
        return entries

    def _names_form(self, node: ListNode, loc: Loc, path: str) -> dict[str, Any]:
        """`nodes: [gpu-1, gpu-2]` as the map of empty blocks that it abbreviates."""
        names: dict[str, Any] = {}
        for position, item in enumerate(node.items):
            location = Location(joined(path, position), item)
            if not isinstance(item, ScalarNode) or item.is_null:
                self._wrong_type(item, Scalar(), (*loc, position), location.path)
            elif item.text in names:
                self._parsed.error(location, "duplicate name", "Keep one", quoted(item.text, True))
            else:
                names[item.text] = {}
                self._locate((*loc, item.text), *location)
                self._locate((*loc, item.text, MAP_KEY), *location)
        return names

    def _default_entry(self, data: dict[str, Any], key: Key, given: list[Entry], loc: Loc, path: str) -> None:
        """A quota's `default:` block, moved into the map of its namespaces."""
        if len(given) > 1:
            self._duplicate_key(given[1][0], given[0][0], path)
        name, value = given[0]
        entries = data.setdefault(key.field, {})
        if name.text in entries:
            other = self._parsed.location((*loc, key.field, name.text))
            location = Location(joined(path, name.text), name)
            self._parsed.error(location, f"duplicate key, here and as {other.path}", "Keep one")
        elif isinstance(key.shape, MapOf):
            single = MapNode(((name, value),), name.place)
            entries.update(self._map(single, key.shape.item, (*loc, key.field), path))

    def _distinct(self, node: MapNode, path: str) -> Iterator[Entry]:
        given: dict[str, ScalarNode] = {}
        for name, value in node.entries:
            first = given.setdefault(name.text, name)
            if first is name:
                yield name, value
            else:
                self._duplicate_key(name, first, path)

    def _ignored_key(self, name: ScalarNode, value: Node, model: type[Block], path: str) -> None:
        shown = display_value(value, (name.text,)) or _type_name(value)
        self._parsed.ignored(Location(joined(path, name.text), name), shown, model.IGNORED[name.text])

    def _unknown_key(self, name: ScalarNode, model: type[Block], loc: Loc, path: str) -> None:
        known = key_by_spelling(model)
        kind = self._parsed.kind
        self._parsed.incomplete.add(loc)
        others, homes = elsewhere(name.text, kind, loc)
        default_entry = default_entry_of(model)
        meant = nearest(name.text, [*known, *([default_entry[0]] if default_entry else [])])
        problem = "unknown key"
        if others and meant is not None and meant in known:
            problem = f"unknown key for {kind}"
            hint = f"Did you mean {_same_style(known[meant], name.text)}?"
            self._parsed.meant.add((*loc, known[meant].field))
        elif others:
            problem = f"unknown key for {kind}"
            hint = f"Only {enumerated(others, 'and')} {'has' if len(others) == 1 else 'have'} it. Remove it"
        elif homes:
            problem = "misplaced key"
            hint = f"Move it {' or '.join(f'under {home}' if home else 'to the top level' for home in homes)}"
            self._parsed.meant |= {(*home.split("."), name.text) if home else (name.text,) for home in homes}
        elif meant is not None:
            hint = f"Did you mean {_same_style(known[meant], name.text) if meant in known else meant}?"
            self._parsed.meant |= {(*loc, known[meant].field)} if meant in known else set()
        else:
            valid = [key.documented for key in keys_of(model)]
            more = ", …" if len(valid) > _MAX_LISTED_KEYS else ""
            hint = f"Valid keys: {', '.join(valid[:_MAX_LISTED_KEYS])}{more}"
        if wrong := full_width(name.text):
            problem, hint = wrong
            self._parsed.meant |= {(*loc, key.field)} if (key := known.get(in_ascii(name.text))) else set()
        self._parsed.error(Location(joined(path, name.text), name), problem, hint)

    def _duplicate_key(self, name: ScalarNode, first: ScalarNode, path: str) -> None:
        lines = f" on lines {first.place.line} and {name.place.line}" if first.place.line is not None else ""
        other = f" (first as {first.text})" if first.text != name.text else ""
        self._parsed.error(Location(joined(path, name.text), name), f"duplicate key{lines}{other}", "Keep one")

    def _wrong_type(self, node: Node, shape: Shape, loc: Loc, path: str) -> None:
        expected, value = "a map", None
        if isinstance(shape, Scalar):
            expected, hint = "a single value", "Write one value"
        elif isinstance(shape, MapOf):
            hint = "Write `name:` lines below the key"
        elif isinstance(shape, BlockOf):
            required = [key for key in keys_of(shape.model) if key.required]
            name = (required or keys_of(shape.model))[0].documented
            hint = f"Write its keys below it, such as `{name}:`"
            if isinstance(node, ScalarNode) and len(required) == 1 and isinstance(required[0].shape, Scalar):
                value = display_value(node, loc)
                hint = f"Write `{name}: {value}`" if value else hint
        elif isinstance(node, ScalarNode) and isinstance(shape.item, Scalar):
            words = json.dumps(redact_arguments(_split_command(node.text)), ensure_ascii=False)
            expected, hint = "a list", f"Write {words}"
        else:
            expected, hint = "a list", "Begin each item with '- '"
        if isinstance(node, ScalarNode) and (wrong := full_width(node.text, shown=False)):
            self._reject_place(loc, Location(path, node), *wrong)
            return
        self._reject_place(loc, Location(path, node), f"expected {expected}, got {_type_name(node)}", hint, value)

    def _locate(self, loc: Loc, path: str, node: Node) -> None:
        self._parsed.locations[loc] = Location(path, node)

    def _reject_place(self, loc: Loc, location: Location, problem: str, hint: str, value: str | None = None) -> None:
        self._parsed.rejected.add(loc)
        self._parsed.error(location, problem, hint, value)


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _type_name(node: Node) -> str:
    if isinstance(node, ScalarNode):
        return "nothing" if node.is_null else "a single value"
    return "a list" if isinstance(node, ListNode) else "a map"


def _same_style(key: Key, written: str) -> str:
    """The spelling in the style of what was written: gpu_type for gpu_typ, gpu-type for gpu-typ."""
    styled = (spelling for mark in "-_" if mark in written for spelling in key.spellings if mark in spelling)
    return next(styled, key.documented)
