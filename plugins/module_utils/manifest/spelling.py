# SPDX-License-Identifier: BSD-2-Clause
"""The keys of the models' blocks and their spellings, for the reader, the JSON Schemas and the guide's tables."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from .kinds import KINDS
from .manifest_blocks import Block
from .rules import Aliases, DefaultEntry, Rule

Mark = TypeVar("Mark")


@dataclass(frozen=True)
class Scalar:
    """One value, handed to the model as the text that the user wrote; `type` is the model's."""

    type: type = str
    choices: tuple[str, ...] = ()
    rule: Rule | None = None


@dataclass(frozen=True)
class ListOf:
    item: Shape


@dataclass(frozen=True)
class MapOf:
    item: Shape
    name: Scalar


@dataclass(frozen=True)
class BlockOf:
    model: type[Block]


Shape: TypeAlias = "Scalar | ListOf | MapOf | BlockOf"


@dataclass(frozen=True)
class Key:
    """A field of a block as users write it: `spellings` are all accepted ones, the documented one first."""

    field: str
    documented: str
    shape: Shape
    required: bool
    description: str
    default: Any
    examples: tuple[Any, ...]
    marks: tuple[Any, ...]
    spellings: tuple[str, ...]

    def mark(self, kind: type[Mark]) -> Mark | None:
        return next((mark for mark in self.marks if isinstance(mark, kind)), None)

    @property
    def block(self) -> type[Block] | None:
        """The block that is the key's value, alone or in a list or map."""
        shape = self.shape
        while isinstance(shape, (ListOf, MapOf)):
            shape = shape.item
        return shape.model if isinstance(shape, BlockOf) else None


@cache
def keys_of(model: type[Block]) -> tuple[Key, ...]:
    """The keys of a block, in the order of the model."""
    return tuple(_key_of(name, field) for name, field in model.model_fields.items())


@cache
def key_by_spelling(model: type[Block]) -> dict[str, Key]:
    return {spelling: key for key in keys_of(model) for spelling in key.spellings}


@cache
def default_entry_of(model: type[Block]) -> tuple[str, Key] | None:
    """The name of an entry that is written next to its map (`default` of a quota), and the map's key."""
    return next(((mark.name, key) for key in keys_of(model) if (mark := key.mark(DefaultEntry))), None)


def keys_along(kind: str, loc: tuple[str | int, ...]) -> Iterator[Key]:
    """The keys that lead to a place in the data of a kind, past list positions and map keys."""
    model: type[Block] | None = KINDS[kind]
    steps = iter(loc)
    for step in steps:
        if model is None:
            return
        (key,) = (key for key in keys_of(model) if key.field == step)
        yield key
        shape = key.shape
        while isinstance(shape, (ListOf, MapOf)):
            next(steps, None)
            shape = shape.item
        model = key.block


def elsewhere(spelling: str, kind: str, loc: tuple[str | int, ...]) -> tuple[list[str], list[str]]:
    """Where a key that the block at `loc` lacks is valid: kinds in which this block has it, and other blocks."""
    block = ".".join(key.documented for key in keys_along(kind, loc))
    blocks = [(each, path, model) for each in KINDS for path, model in _blocks_below("", KINDS[each])]
    homes = [(each, path) for each, path, model in blocks if spelling in key_by_spelling(model)]
    others = [each for each, path in homes if path == block]
    return others, [path for each, path in homes if each == kind and path != block]


def _blocks_below(path: str, model: type[Block]) -> Iterator[tuple[str, type[Block]]]:
    """A block and those below it with their paths; the manifest itself has the path ''."""
    yield path, model
    for key in keys_of(model):
        if key.block is not None:
            yield from _blocks_below(f"{path}.{key.documented}" if path else key.documented, key.block)


def _key_of(name: str, field: Any) -> Key:
    shape = _shape(field.annotation, rule_in(field.metadata))
    rule = shape.rule if isinstance(shape, Scalar) else None
    documented = field.serialization_alias or name
    names = (name, *(alias for mark in field.metadata if isinstance(mark, Aliases) for alias in mark.names))
    forms = (form for each in names for form in (each, each.replace("_", "-"), _camel(each)))
    return Key(
        field=name,
        documented=documented,
        shape=shape,
        required=field.is_required(),
        description=field.description or "",
        default=field.default,
        examples=tuple(field.examples or ([rule.example] if rule else ())),
        marks=tuple(field.metadata),
        spellings=tuple(dict.fromkeys([documented, *forms])),
    )


def _shape(annotation: Any, rule: Rule | None = None) -> Shape:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _shape(arguments[0], rule or rule_in(arguments[1:]))
    if origin in {Union, types.UnionType}:
        return _shape(next(argument for argument in arguments if argument is not types.NoneType), rule)
    if origin is list:
        return ListOf(_shape(arguments[0]))
    if origin is dict:
        name = _shape(arguments[0])
        return MapOf(_shape(arguments[1]), name if isinstance(name, Scalar) else Scalar())
    if origin is Literal:
        return Scalar(choices=arguments)
    return BlockOf(annotation) if issubclass(annotation, Block) else Scalar(annotation, rule=rule)


def rule_in(marks: Sequence[Any]) -> Rule | None:
    """The rule among the marks of a type; the last is the outermost."""
    return next((mark for mark in reversed(marks) if isinstance(mark, Rule)), None)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
