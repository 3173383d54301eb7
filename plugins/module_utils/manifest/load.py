# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Load manifests: files or a definition in, validated models out, or every error in them at once.

    documents = load(["jobs/", "pool.yaml"])

The steps of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reader, spelling) -> model (models).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..labels import DEFAULT_NAMESPACE
from .problems import DEFINITION, ManifestError, ManifestErrors, MissingLibrary, joined
from .tree import ListNode, Location, MapNode, Node, Origin, ScalarNode, SourceNode, UnsupportedValueError, from_python

if TYPE_CHECKING:
    from .validation import Document

__all__ = ["ManifestError", "ManifestErrors", "MissingLibrary", "load"]

_Found: TypeAlias = "tuple[list[SourceNode], list[ManifestError]]"


def load(src: Sequence[str] = (), definition: Any = None, namespace: str = DEFAULT_NAMESPACE) -> list[Document]:
    """Read and validate all manifests of the paths and of the definition, in that order.

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. `namespace`
    is where jobs without a namespace go; it decides which of them are the same job.
    Raises ManifestErrors with every error of every document, and MissingLibrary. Reads files and does nothing else.
    """
    _require_pydantic()
    # Here and not above: the models and pydantic take time to import, and most modules' calls load no manifest.
    from .cross_document import check_across_documents
    from .matrix import source_secrets, validate_each

    sources, errors = _from_files(src)
    if definition is not None:
        defined, definition_errors = _from_definition(definition)
        sources += defined
        errors += definition_errors
    checked = [each for source in sources for each in validate_each(source)]
    errors += [error for each in checked for error in each.errors]
    errors += check_across_documents(checked, namespace)
    if errors:
        raise ManifestErrors(errors, set().union(*(source_secrets(each.location.node) for each in sources)))
    return [each.document for each in checked if each.document is not None]


def _require_pydantic() -> None:
    from . import _pydantic

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)


def _from_files(paths: Sequence[str]) -> _Found:
    if not paths:
        return [], []
    from .sources import read_files

    files, errors = read_files(paths)
    sources: list[SourceNode] = []
    for file, text in files:
        found, text_errors = _from_text(text, file, 1)
        sources += found
        errors += text_errors
    return sources, errors


def _from_text(text: str, file: str, first_number: int) -> _Found:
    from . import yaml_text  # Here: the definition of a task mostly comes as data.

    if yaml_text.IMPORT_ERROR is not None:
        raise MissingLibrary("PyYAML", yaml_text.IMPORT_ERROR)
    documents, errors = yaml_text.read_yaml(text, file, first_number)
    if not documents and not errors:
        return [], [ManifestError(file, "no manifest found", "Add one, or remove the empty source")]
    return [
        source for document in documents for source in _unwrapped(document.node, Origin(file, document.number), "")
    ], errors


def _from_definition(definition: Any) -> _Found:
    parts = definition if isinstance(definition, (list, tuple)) else [definition]
    sources: list[SourceNode] = []
    errors: list[ManifestError] = []
    number = 1
    for part in parts or [""]:
        if isinstance(part, str):
            found, part_errors = _from_text(part, DEFINITION, number)
        else:
            found, part_errors = _from_data(part, number)
        sources += found
        errors += part_errors
        numbers = [*(source.origin.number for source in found), *(error.document or 0 for error in part_errors)]
        number = max([number, *numbers]) + 1
    return sources, errors


def _from_data(data: Any, number: int) -> _Found:
    try:
        node = from_python(data)
    except UnsupportedValueError as error:
        return [], [ManifestError(DEFINITION, error.problem, error.hint, document=number)]
    return list(_unwrapped(node, Origin(DEFINITION, number), "")), []


def _unwrapped(node: Node, origin: Origin, path: str) -> Iterator[SourceNode]:
    """The manifests in a document: itself, the items of a list, the items of `kind: List`."""
    items, where = _items(node), path
    if isinstance(node, MapNode) and items is not None:
        where = joined(path, "items")
    if items is None:
        yield SourceNode(origin, Location(path, node))
        return
    for position, item in enumerate(items):
        yield from _unwrapped(item, origin, joined(where, position))


def _items(node: Node) -> tuple[Node, ...] | None:
    if isinstance(node, ListNode):
        return node.items
    if not isinstance(node, MapNode):
        return None
    keys = {key.text: value for key, value in node.entries}
    kind, items = keys.get("kind"), keys.get("items")
    is_list = isinstance(kind, ScalarNode) and kind.text == "List"
    return items.items if is_list and isinstance(items, ListNode) else None
