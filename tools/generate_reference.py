# SPDX-License-Identifier: BSD-2-Clause
"""Write the tables of fields into docs/docsite/rst/guide_manifests.rst from the manifest models.

    python tools/generate_reference.py

What stands above the mark in that file is written by hand.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest import rules  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.forms import (  # noqa: E402
    DefaultEntry,
    InSchema,
    MapForm,
    NamesForm,
    OneOrMany,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.models import (  # noqa: E402
    KINDS,
    Block,
    JobManifest,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (  # noqa: E402
    BlockOf,
    Key,
    ListOf,
    MapOf,
    Shape,
    keys_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.validation import KIND_ALIASES  # noqa: E402

GUIDE = ROOT / "docs" / "docsite" / "rst" / "guide_manifests.rst"
MARK = ".. Everything below is generated from the models by tools/generate_reference.py\n"

# What a text must look like, in words; the models have it as a pattern.
_IN_WORDS = {
    f"^{rules.DNS_LABEL}$": "lower case letters, digits and ``-``",
    f"^{rules.DNS_SUBDOMAIN}$": "lower case letters, digits, ``-`` and ``.``",
    f"^{rules.LABEL_VALUE}$": "letters, digits, ``-``, ``_`` and ``.``",
    f"^({rules.LABEL_VALUE})?$": "letters, digits, ``-``, ``_`` and ``.``, or empty",
    f"^{rules.ENV_NAME}$": "letters, digits and ``_``",
    f"^{rules.PARAMETER_NAME}$": "letters, digits, ``-`` and ``_``",
    f"^{rules.IMAGE}$": "image reference",
    f"^{rules.HTTP_PATH}$": "path of a URL, such as ``/health``",
    f"^{rules.METRIC_NAME}$": "name of a metric",
    f"^{rules.INTERFACE_NAME}$": "name of a network interface",
    rules.QUANTITY: "quantity",
    r"^/(?!(.*/)?\.\.(/|$))[^:]*$": "absolute path without ``..`` and ``:``",
}


def reference() -> str:
    """The tables of all kinds, in reStructuredText."""
    common = [_heading("Fields of every job", "-"), *_sections(JobManifest, [])]
    shared = list(keys_of(JobManifest))
    kinds = [part for kind, model in KINDS.items() for part in _kind(kind, model, shared)]
    return "\n".join([*common, *kinds])


def _kind(kind: str, model: type[Block], shared: list[Key]) -> Iterator[str]:
    yield _heading(f"Fields of {kind}", "-")
    others = [f"``{alias}``" for alias, meant in KIND_ALIASES.items() if meant == kind]
    spelled = f" Its ``kind`` may also be written {' or '.join(others)}." if others else ""
    yield f"{(model.__doc__ or '').splitlines()[0]}{spelled}\n"
    if issubclass(model, JobManifest):
        yield "What every job has, and:\n"
    yield from _sections(model, shared if issubclass(model, JobManifest) else [])


def _sections(model: type[Block], but: list[Key]) -> list[str]:
    rows = list(_rows(model, "", {key.field: key for key in but}))
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 30 25 15 30", ""]
    for cells in [("Field", "Value", "Default", "Meaning"), *rows]:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(cells)]
    return ["\n".join([*lines, ""])]


def _rows(model: type[Block], path: str, known: dict[str, Key]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each key, those of blocks below it after it; of a key that is known, what its block adds to that."""
    for key in keys_of(model):
        there = known.get(key.field)
        if key.field == "kind" or (there is not None and there.shape == key.shape):
            continue
        place = f"{path}{key.documented}"
        info = model.model_fields[key.field]
        inner = _inner(key.shape)
        if there is None and not (inner and isinstance(key.shape, BlockOf)):
            yield f"``{place}``", _value(key, model), _default(key, info), (info.description or "").strip()
        if inner:
            ending = {ListOf: "[].", MapOf: ".<name>."}.get(type(key.shape), ".")
            base = _inner(there.shape) if there else None
            yield from _rows(inner, place + ending, {one.field: one for one in keys_of(base)} if base else {})


def _inner(shape: Shape) -> type[Block] | None:
    if isinstance(shape, BlockOf):
        return shape.model
    return _inner(shape.item) if isinstance(shape, (ListOf, MapOf)) else None


def _default(key: Key, info: Any) -> str:
    if key.required:
        return "**required**"
    if isinstance(info.default, bool):
        return f"``{str(info.default).lower()}``"
    return f"``{info.default}``" if isinstance(info.default, (str, int)) and info.default != "" else ""


def _value(key: Key, model: type[Block]) -> str:
    """What may stand there: type and rule of the field's own form, and the other forms."""
    own = _shape(key.shape, [mark for mark in key.marks if isinstance(mark, InSchema)])
    others = []
    if key.mark(OneOrMany):
        others.append("or one of it")
    if key.mark(MapForm):
        form = key.mark(MapForm)
        others.append(f"or a map from {form.key} to {form.value}")
    if key.mark(NamesForm):
        others.append("or a list of names")
    if key.mark(DefaultEntry):
        others.append(f"the entry ``{key.mark(DefaultEntry).name}`` may stand beside it")
    return ", ".join([own, *others])


def _shape(shape: Shape, marks: list[InSchema]) -> str:
    if isinstance(shape, BlockOf):
        return "block"
    if isinstance(shape, ListOf):
        return f"list of {_several(shape.item)}"
    if isinstance(shape, MapOf):
        return f"map from name ({_text(shape.name.annotation, [])}) to {_several(shape.item)}"
    return _text(shape.annotation, marks)


def _several(item: Shape) -> str:
    if isinstance(item, BlockOf):
        return "blocks"
    words = _shape(item, [])
    return words.replace("list", "lists", 1) if isinstance(item, ListOf) else words.replace("text", "texts", 1)


def _text(annotation: Any, marks: list[InSchema]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [mark for mark in arguments[1:] if isinstance(mark, InSchema)]
        return _text(arguments[0], [*inner, *marks])
    if origin in {Union, types.UnionType}:
        return _text(next(argument for argument in arguments if argument is not type(None)), marks)
    if origin is Literal:
        return " ".join(f"``{choice}``" for choice in arguments)
    if annotation is bool:
        return "``true`` or ``false``"
    keywords: dict[str, Any] = {}
    for mark in marks:
        keywords |= mark.keywords
    if "enum" in keywords:
        return " ".join(f"``{choice}``" for choice in keywords["enum"] if isinstance(choice, str))
    if annotation is int:
        return f"whole number{_range(keywords)}"
    words = _IN_WORDS[keywords["pattern"]] if "pattern" in keywords else "text"
    longest = f", at most {keywords['maxLength']} characters" if "maxLength" in keywords else ""
    return f"{words}{_range(keywords)}{longest}"


def _range(keywords: dict[str, Any]) -> str:
    if "exclusiveMinimum" in keywords:
        return f", more than {keywords['exclusiveMinimum']}"
    if "maximum" in keywords:
        return f" from {keywords['minimum']} to {keywords['maximum']}"
    return f", {keywords['minimum']} or more" if "minimum" in keywords else ""


def _heading(words: str, line: str) -> str:
    return f"{words}\n{line * len(words)}\n"


def main() -> None:
    written, _mark, _old = GUIDE.read_text(encoding="utf-8").partition(MARK)
    GUIDE.write_text(f"{written}{MARK}\n{reference()}", encoding="utf-8")


if __name__ == "__main__":
    main()
