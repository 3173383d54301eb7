# SPDX-License-Identifier: BSD-2-Clause
"""Hypothesis strategies for manifests, from the models: right values, values at the edges, and wrong ones."""

from __future__ import annotations

from typing import Annotated, Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.manifest_blocks import Block
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.rules import Rule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (
    BlockOf,
    Key,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    keys_of,
)
from hypothesis import strategies as st
from pydantic import TypeAdapter

from .mutants import VALUES

SCALARS = st.sampled_from([value for value in VALUES if not isinstance(value, (dict, list)) and value is not None])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def right_value(shape: Scalar) -> st.SearchStrategy[Any]:
    """What the rule of a single value accepts, as far as its pattern and bounds say."""
    if shape.choices:
        return st.sampled_from(shape.choices)
    return st.text(max_size=8) if shape.rule is None else _by_rule(shape.rule)


def _by_rule(rule: Rule) -> st.SearchStrategy[Any]:
    words = rule.keywords
    if "enum" in words:
        return st.sampled_from(words["enum"])
    if rule.before and "maximum" in words:
        edges = st.sampled_from([words["minimum"], words["maximum"]])
        return edges | st.integers(words["minimum"], min(words["maximum"], words["minimum"] + 9))
    if "pattern" in words:
        matching = st.from_regex(words["pattern"].replace("$", r"\Z"), fullmatch=True)
        return matching.map(lambda text: text[: words.get("maxLength", 300)]) | st.just(rule.example)
    return st.text(max_size=8)


def any_value(shape: Scalar) -> st.SearchStrategy[Any]:
    """A right value, one at an edge of its rule, or any."""
    keywords = shape.rule.keywords if shape.rule else {}
    edges = [keywords[bound] + step for bound in ("minimum", "maximum") if bound in keywords for step in (-1, 0, 1)]
    longest = [
        ("a" * length)
        for length in (keywords.get("maxLength", 0) - 1, keywords.get("maxLength", 0) + 1)
        if 0 < length < 3000
    ]
    return right_value(shape) | SCALARS | st.sampled_from([*edges, *longest] or ["a"])


def block(model: type[Block], *, wrong: bool) -> st.SearchStrategy[dict[str, Any]]:
    """A block of the model in any spelling, with all required keys; with wrong values among them if `wrong`."""
    keys = [key for key in keys_of(model) if key.field not in {"kind", "matrix"}]

    @st.composite
    def drawn(draw: st.DrawFn) -> dict[str, Any]:
        chosen = [key for key in keys if key.required or draw(st.integers(0, 3)) == 0]
        return {draw(st.sampled_from(key.spellings)): draw(_value(key.shape, wrong=wrong)) for key in chosen}

    return drawn()


def _value(shape: Shape, *, wrong: bool) -> st.SearchStrategy[Any]:
    if isinstance(shape, BlockOf):
        return block(shape.model, wrong=wrong)
    if isinstance(shape, ListOf):
        return st.lists(_value(shape.item, wrong=wrong), max_size=3)
    if isinstance(shape, MapOf):
        return st.dictionaries(_value(shape.name, wrong=wrong).map(str), _value(shape.item, wrong=wrong), max_size=3)
    return any_value(shape) if wrong else right_value(shape)


def manifest(*, wrong: bool) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(sorted(KINDS)).flatmap(
        lambda kind: block(KINDS[kind], wrong=wrong).map(lambda data: {"kind": kind, **data})
    )


def scalar_keys() -> dict[str, tuple[Key, TypeAdapter[Any]]]:
    """Each key with a single value, by block and field, with what validates it in the model."""
    found: dict[str, tuple[Key, TypeAdapter[Any]]] = {}

    def collect(model: type[Block]) -> None:
        for key in keys_of(model):
            if isinstance(key.shape, Scalar) and key.field != "kind":
                field = model.model_fields[key.field]
                marked = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
                found[f"{model.__name__}.{key.field}"] = key, TypeAdapter(marked)
            if key.block is not None:
                collect(key.block)

    for model in KINDS.values():
        collect(model)
    return found
