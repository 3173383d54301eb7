# SPDX-License-Identifier: BSD-2-Clause
"""Write schemas/*.schema.json from the manifest models: one schema per kind, and one that goes by the kind.

    python tools/generate_schemas.py

The schemas (draft 2020-12) are for editors. They allow everything that loads; loading checks more than they can say.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.forms import (  # noqa: E402
    DefaultEntry,
    InSchema,
    MapForm,
    NamesForm,
    OneOrMany,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.models import KINDS, Block  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (  # noqa: E402
    BlockOf,
    Key,
    ListOf,
    MapOf,
    Shape,
    item_of,
    keys_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.validation import KIND_ALIASES  # noqa: E402

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# YAML editors read `1.10` as a number and `yes` as a text; loading takes the text of either.
_ANY_TEXT = ["string", "number", "boolean"]
_PLACEHOLDER = r"\$\(matrix\.[^()]+\)"
_TRUE_AND_FALSE = ("true", "false", "yes", "no", "on", "off")
_TRUTHS = [True, False, *(form(word) for word in _TRUE_AND_FALSE for form in (str, str.title, str.upper))]


def schemas() -> dict[str, Schema]:
    """All schemas by file name."""
    kinds = {f"{kind}.schema.json": _kind_schema(kind) for kind in KINDS}
    return {**kinds, "manifest.schema.json": _dispatching_schema()}


def _dispatching_schema() -> Schema:
    spellings = {kind: [kind, *(alias for alias, meant in KIND_ALIASES.items() if meant == kind)] for kind in KINDS}
    return {
        "$schema": DRAFT,
        "title": "Manifest of runwhere.gpuctl",
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {
                "description": "What is declared.",
                "enum": [word for words in spellings.values() for word in words],
            }
        },
        "allOf": [
            {
                "if": {"properties": {"kind": {"enum": words}}, "required": ["kind"]},
                "then": {"$ref": f"{kind}.schema.json"},
            }
            for kind, words in spellings.items()
        ],
    }


def _kind_schema(kind: str) -> Schema:
    definitions: dict[str, Schema] = {}
    schema = _block_schema(KINDS[kind], definitions, "#")
    if kind == "training":
        for name, block in definitions.items():
            _allow_placeholders(block, without={"name"} if name == "TrainingJobSection" else set())
    schema["properties"]["kind"] = {
        "description": "What is declared.",
        "enum": [kind, *(alias for alias, meant in KIND_ALIASES.items() if meant == kind)],
    }
    return {"$schema": DRAFT, "title": f"Manifest: {kind}", **schema, "$defs": dict(sorted(definitions.items()))}


def _block_schema(model: type[Block], definitions: dict[str, Schema], pointer: str, without: str = "") -> Schema:
    properties: dict[str, Schema] = {}
    needed: list[Schema] = []
    for key in keys_of(model):
        if key.field == without:
            continue
        properties[key.documented] = _key_schema(key, model, definitions)
        for spelling in key.spellings[1:]:
            properties[spelling] = {"$ref": f"{pointer}/properties/{key.documented}", "doNotSuggest": True}
        if key.required:
            needed.append({"anyOf": [{"required": [spelling]} for spelling in key.spellings]})
        default_entry = key.mark(DefaultEntry)
        if default_entry is not None and isinstance(key.shape, MapOf):
            item = _optional(_shape_schema(key.shape.item, definitions))
            properties[default_entry.name] = {"description": f"The entry `{default_entry.name}`.", **item}
    alone = [choice["anyOf"][0]["required"][0] for choice in needed if len(choice["anyOf"]) == 1]
    several = [choice for choice in needed if len(choice["anyOf"]) > 1]
    return {
        "description": (model.__doc__ or "").split("\n")[0],
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        **({"required": alone} if alone else {}),
        **({"allOf": several} if several else {}),
    }


def _key_schema(key: Key, model: type[Block], definitions: dict[str, Schema]) -> Schema:
    info = model.model_fields[key.field]
    schema = _own_form(key, definitions)
    other = _other_form(key, definitions)
    if other is not None:
        schema = {"anyOf": [schema, other]}
    if not key.required:
        schema = _optional(schema)
    notes: Schema = {}
    if info.description:
        notes["description"] = info.description
    if info.default is not None and isinstance(info.default, (str, int)) and info.default != "":
        notes["default"] = info.default
    if info.examples:
        notes["examples"] = info.examples
    return {**notes, **schema}


def _own_form(key: Key, definitions: dict[str, Schema]) -> Schema:
    schema = _shape_schema(key.shape, definitions)
    for mark in key.marks:
        if isinstance(mark, InSchema):
            schema = {**schema, **mark.keywords}
    return schema


def _other_form(key: Key, definitions: dict[str, Schema]) -> Schema | None:
    """The schema of the form, other than the field's own, in which the key may be written."""
    if key.mark(OneOrMany) and isinstance(key.shape, ListOf):
        return _shape_schema(key.shape.item, definitions)
    form = key.mark(MapForm)
    if form:
        model = item_of(key).model
        entry = f"{model.__name__}Entry"
        definitions[entry] = _block_schema(model, definitions, f"#/$defs/{entry}", without=form.key)
        names = next(_own_form(inner, definitions) for inner in keys_of(model) if inner.field == form.key)
        return _map_schema(names, {"anyOf": [{"type": [*_ANY_TEXT, "null"]}, {"$ref": f"#/$defs/{entry}"}]})
    if key.mark(NamesForm) and isinstance(key.shape, MapOf):
        return {"type": "array", "items": _value_schema(key.shape.name.annotation)}
    return None


def _shape_schema(shape: Shape, definitions: dict[str, Schema]) -> Schema:
    if isinstance(shape, BlockOf):
        name = shape.model.__name__
        if name not in definitions:
            definitions[name] = {}
            definitions[name] = _block_schema(shape.model, definitions, f"#/$defs/{name}")
        return {"$ref": f"#/$defs/{name}"}
    if isinstance(shape, ListOf):
        return {"type": "array", "items": _shape_schema(shape.item, definitions)}
    if isinstance(shape, MapOf):
        return _map_schema(_value_schema(shape.name.annotation), _optional(_shape_schema(shape.item, definitions)))
    return _value_schema(shape.annotation)


def _map_schema(name: Schema, item: Schema) -> Schema:
    names = {keyword: value for keyword, value in name.items() if keyword != "type"}
    return {"type": "object", "propertyNames": names, "additionalProperties": item}


def _value_schema(annotation: Any) -> Schema:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        schema = _value_schema(arguments[0])
        for mark in arguments[1:]:
            if isinstance(mark, InSchema):
                schema = {**schema, **mark.keywords}
        return schema
    if origin in {Union, types.UnionType}:
        return _value_schema(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return {"enum": list(arguments)}
    if annotation is bool:
        return {"enum": _TRUTHS}
    if annotation is int:
        return {"type": ["integer", "string"], "pattern": "^[+-]?[0-9]+$"}
    return {"type": list(_ANY_TEXT)}


def _allow_placeholders(block: Schema, without: set[str]) -> None:
    """Let every value of a block be one of the training's matrix, also where its type would not take the text."""
    for name, value in block["properties"].items():
        if name not in without:
            block["properties"][name] = _or_placeholder(value)


def _or_placeholder(schema: Schema) -> Schema:
    if "enum" in schema or "pattern" in schema:
        notes = {word: value for word, value in schema.items() if word in ("description", "default", "examples")}
        rest = {word: value for word, value in schema.items() if word not in notes}
        return {**notes, "anyOf": [rest, {"type": "string", "pattern": _PLACEHOLDER}]}
    inner: Schema = {
        word: _or_placeholder(schema[word]) for word in ("items", "additionalProperties") if word in schema
    }
    if "anyOf" in schema:
        inner["anyOf"] = [_or_placeholder(choice) for choice in schema["anyOf"]]
    return {**schema, **inner}


def _optional(schema: Schema) -> Schema:
    """A key left empty is a key not given."""
    if "enum" in schema or isinstance(schema.get("type"), list):
        nulls: dict[str, list[Any]] = {"enum": [None], "type": ["null"]}
        return {**schema, **{word: [*schema[word], *nulls[word]] for word in nulls if word in schema}}
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def main() -> None:
    directory = ROOT / "schemas"
    directory.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
