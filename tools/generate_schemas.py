# SPDX-License-Identifier: BSD-2-Clause
"""Write schemas/*.schema.json from the manifest models.

    python -m tools.generate_schemas

One schema per kind, manifest.schema.json, which selects one of them, and definitions.schema.json with what they share.
The schemas (draft 2020-12) are for editors. They allow everything that loads; loading checks more than they can say.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest import rules  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.manifest_blocks import Block  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (  # noqa: E402
    BlockOf,
    Key,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    keys_of,
    rule_in,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.validation import KIND_ALIASES  # noqa: E402

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
WIDTH = 120
# YAML editors read `1.10` as a number and `yes` as a text; loading takes the text of either.
_TYPES: dict[type, Schema] = {str: {"type": ["string", "number", "boolean"]}, int: {"type": ["integer", "string"]}}
_NULL: Schema = {"type": "null"}
_PLACEHOLDER: Schema = {"type": "string", "pattern": r"\$\(matrix\.[^()]+\)"}
_RULE_NAMES = {
    rule: name for name, annotation in vars(rules).items() if (rule := rule_in(getattr(annotation, "__metadata__", ())))
}


def schemas() -> dict[str, Schema]:
    """All schemas by file name."""
    definitions: dict[str, Schema] = {"Placeholder": _PLACEHOLDER}
    kinds = {f"{kind}.schema.json": _kind(kind, definitions) for kind in KINDS}
    shared = {
        "$schema": DRAFT,
        "title": "Definitions shared by the schemas of manifests",
        "$defs": dict(sorted(definitions.items())),
    }
    return {**kinds, "manifest.schema.json": _any_kind(), "definitions.schema.json": shared}


def _words_for(kind: str) -> list[str]:
    return [kind, *(alias for alias, meant in KIND_ALIASES.items() if meant == kind)]


def _any_kind() -> Schema:
    words = [word for kind in KINDS for word in _words_for(kind)]
    return {
        "$schema": DRAFT,
        "title": "Manifest of runwhere.gpuctl",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"description": "Kind of the manifest.", "enum": words}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"enum": _words_for(kind)}}, "required": ["kind"]},
                "then": {"$ref": f"{kind}.schema.json"},
            }
            for kind in KINDS
        ],
    }


def _kind(kind: str, definitions: dict[str, Schema]) -> Schema:
    model = KINDS[kind]
    schema = _Generator(definitions, placeholders=issubclass(model, Training)).block(model, "#")
    schema["properties"]["kind"] = {"description": "Kind of the manifest.", "enum": _words_for(kind)}
    external = json.dumps(schema).replace('"#/$defs/', '"definitions.schema.json#/$defs/')
    return {"$schema": DRAFT, "title": f"Manifest: {kind}", **json.loads(external)}


class _Generator:
    """Writes the schemas of blocks into `definitions`; a training's have names of their own and take placeholders."""

    def __init__(self, definitions: dict[str, Schema], placeholders: bool) -> None:
        self._definitions = definitions
        self._placeholders = placeholders

    def block(self, model: type[Block], pointer: str, without: str = "") -> Schema:
        """The schema of a block at `pointer`."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        any_of: list[Schema] = []
        for key in keys_of(model):
            if key.field == without:
                continue
            properties[key.documented] = self._key(key)
            for spelling in key.spellings[1:]:
                properties[spelling] = {"$ref": f"{pointer}/properties/{key.documented}", "doNotSuggest": True}
            if key.required and len(key.spellings) == 1:
                required.append(key.documented)
            elif key.required:
                any_of.append({"anyOf": [{"required": [spelling]} for spelling in key.spellings]})
            entry = key.mark(rules.DefaultEntry)
            if entry and isinstance(key.shape, MapOf):
                item = self._choice(self._shape(key.shape.item), _NULL)
                properties[entry.name] = {"description": f"The entry `{entry.name}`.", **item}
        for name, advice in model.IGNORED.items():
            properties[name] = {"description": f"Ignored. {advice}", "deprecated": True, "doNotSuggest": True}
        return {
            "description": (model.__doc__ or "").split("\n")[0],
            "type": "object",
            "additionalProperties": False,
            **({"required": required} if required else {}),
            **({"allOf": any_of} if any_of else {}),
            "properties": properties,
        }

    def _key(self, key: Key) -> Schema:
        default = {"default": key.default} if isinstance(key.default, (str, int)) and key.default != "" else {}
        examples = {"examples": list(key.examples)} if key.examples else {}
        forms = [self._shape(key.shape, placeholder=not key.mark(rules.NoPlaceholder)), *self._other_forms(key)]
        schema = self._choice(*forms, *([] if key.required else [_NULL]))
        # Next to a reference, editors show only this description, so it includes the rule's words.
        rule = key.shape.rule if isinstance(key.shape, Scalar) else None
        words = f" {_sentence(rule)}" if rule and "enum" not in rule.keywords else ""
        notes = {"description": f"{key.description}{words}"} if key.description else {}
        return {**notes, **default, **examples, **schema}

    def _other_forms(self, key: Key) -> list[Schema]:
        """The schemas of the forms, other than the field's own, in which the key may be written."""
        if key.mark(rules.OneOrMany) and isinstance(key.shape, ListOf):
            return [self._shape(key.shape.item)]
        if key.mark(rules.NamesForm) and isinstance(key.shape, MapOf):
            return [{"type": "array", "items": self._shape(key.shape.name)}]
        short = key.mark(rules.ShortForm)
        if short and key.block:
            return [self._shape(inner.shape) for inner in keys_of(key.block) if inner.field == short.field]
        form = key.mark(rules.MapForm)
        if form and key.block:
            name = next(inner.shape for inner in keys_of(key.block) if inner.field == form.key)
            text = {"type": [*_TYPES[str]["type"], "null"]}
            entry = self._definition(key.block, "Entry", without=form.key)
            return [self._map(self._shape(name, placeholder=False), self._choice(text, entry))]
        return []

    def _shape(self, shape: Shape, placeholder: bool = True) -> Schema:
        if isinstance(shape, BlockOf):
            return self._definition(shape.model)
        if isinstance(shape, ListOf):
            return {"type": "array", "items": self._shape(shape.item)}
        if isinstance(shape, MapOf):
            return self._map(self._shape(shape.name, placeholder=False), self._choice(self._shape(shape.item), _NULL))
        if shape.choices:
            schema: Schema = {"enum": list(shape.choices)}
        elif shape.rule:
            schema = self._rule(shape.rule, shape.type)
        else:
            return _TYPES[shape.type]
        return self._choice(schema, {"$ref": "#/$defs/Placeholder"}) if self._placeholders and placeholder else schema

    def _rule(self, rule: rules.Rule, value_type: type) -> Schema:
        schema = {
            **({} if "enum" in rule.keywords else _types(rule, value_type)),
            **rule.keywords,
            **({"patternErrorMessage": f"Use {rule.words}{rule.length}."} if "pattern" in rule.keywords else {}),
        }
        name = _RULE_NAMES.get(rule)
        if name is None:  # a rule of one field, written in a model
            return schema
        self._definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def _definition(self, model: type[Block], suffix: str = "", without: str = "") -> Schema:
        prefix = "Training" if self._placeholders and not model.__name__.startswith("Training") else ""
        name = f"{prefix}{model.__name__}{suffix}"
        if name not in self._definitions:
            self._definitions[name] = {}
            self._definitions[name] = self.block(model, f"#/$defs/{name}", without)
        return {"$ref": f"#/$defs/{name}"}

    @staticmethod
    def _map(name: Schema, item: Schema) -> Schema:
        return {"type": "object", "propertyNames": name, "additionalProperties": item}

    @staticmethod
    def _choice(*schemas: Schema) -> Schema:
        """One of the schemas; a key left empty (null) is a key not given."""
        flat = [inner for schema in schemas for inner in (schema["anyOf"] if list(schema) == ["anyOf"] else [schema])]
        if len(flat) == 1:
            return flat[0]
        if flat[-1] is _NULL and len(flat) == 2:
            if "enum" in flat[0]:
                return {"enum": [*flat[0]["enum"], None]}
            if isinstance(flat[0].get("type"), list):
                return {**flat[0], "type": [*flat[0]["type"], "null"]}
        return {"anyOf": flat}


def _types(rule: rules.Rule, value_type: type) -> Schema:
    """The types of YAML whose text the rule's pattern takes: patterns only apply to texts."""
    pattern = rule.keywords.get("pattern")
    if value_type is not str or pattern is None:
        return _TYPES[value_type]

    def takes(text: str) -> bool:
        return re.search(pattern, text) is not None

    number = "number" if takes("0.5") or takes("-0.5") else "integer" if takes("1") or takes("-1") else None
    types = ["string", *([number] if number else []), *(["boolean"] if takes("true") else [])]
    is_bounded = number is None or "maximum" in rule.keywords
    below_zero = {} if is_bounded or takes("-1") else {"minimum": 0}
    above_zero = {} if is_bounded or takes("1") else {"maximum": -1}
    return {"type": types, **below_zero, **above_zero}


def _sentence(rule: rules.Rule) -> str:
    return f"{rule.words[0].upper()}{rule.words[1:]}{rule.length}."


def text_of(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON with a value on one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) < WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        names = [f"{json.dumps(name)}: " for name in value]
        parts = [name + text_of(part, inner, len(name)) for name, part in zip(names, value.values(), strict=True)]
    else:
        parts = [text_of(part, inner) for part in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


def main() -> None:
    for name, schema in schemas().items():
        (ROOT / "schemas" / name).write_text(f"{text_of(schema)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
