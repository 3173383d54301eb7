# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Manifests, loaded: files or a definition in, validated models out, or every error in them at once.

    documents = load(["jobs/", "pool.yaml"])

The road of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reading, spelling) -> model (models).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..labels import DEFAULT_NAMESPACE
from .document import Document, Origin, SourceNode
from .problems import DEFINITION, ManifestError, ManifestErrors, MissingLibrary, joined
from .tree import ListNode, MapNode, Node, ScalarNode, UnfitValueError, from_python

__all__ = ["Document", "ManifestError", "ManifestErrors", "MissingLibrary", "Origin", "load"]


def load(src: Sequence[str] = (), definition: Any = None, namespace: str = DEFAULT_NAMESPACE) -> list[Document]:
    """Read and validate all manifests of the paths and of the definition, in that order.

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. `namespace`
    is where jobs without a namespace go; it decides which of them are the same job.
    Raises ManifestErrors with every error of every document, and MissingLibrary. Reads files and does nothing else.
    """
    _require_pydantic()
    # Here and not above: the models and pydantic take time to import, and most modules' calls load no manifest.
    from .cross_document import check_across_documents
    from .matrix import validate_each, written_secrets

    manifests, errors = _from_files(src)
    if definition is not None:
        defined, problems = _from_definition(definition)
        manifests += defined
        errors += problems
    checked = [each for written in manifests for each in validate_each(written)]
    errors += [error for each in checked for error in each.errors]
    errors += check_across_documents(checked, namespace)
    if errors:
        raise ManifestErrors(errors, set().union(*(written_secrets(each.node) for each in manifests)))
    return [each.document for each in checked if each.document is not None]


def _require_pydantic() -> None:
    from . import _pydantic

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)


def _from_files(paths: Sequence[str]) -> tuple[list[SourceNode], list[ManifestError]]:
    if not paths:
        return [], []
    from .sources import read_sources

    sources, errors = read_sources(paths)
    manifests: list[SourceNode] = []
    for source in sources:
        found, problems = _from_text(source.text, source.file, 1)
        manifests += found
        errors += problems
    return manifests, errors


def _from_text(text: str, file: str, first_number: int) -> tuple[list[SourceNode], list[ManifestError]]:
    from . import yaml_text  # Here: the definition of a task mostly comes as data.

    if yaml_text.IMPORT_ERROR is not None:
        raise MissingLibrary("PyYAML", yaml_text.IMPORT_ERROR)
    documents, errors = yaml_text.read_yaml(text, file, first_number)
    if not documents and not errors:
        return [], [ManifestError(file, None, "", "holds no manifest; write one or leave it out")]
    return [
        written for document in documents for written in _unwrapped(document.node, Origin(file, document.number), "")
    ], errors


def _from_definition(definition: Any) -> tuple[list[SourceNode], list[ManifestError]]:
    parts = definition if isinstance(definition, (list, tuple)) else [definition]
    manifests: list[SourceNode] = []
    errors: list[ManifestError] = []
    number = 1
    for part in parts or [""]:
        if isinstance(part, str):
            found, problems = _from_text(part, DEFINITION, number)
        else:
            found, problems = _from_data(part, number)
        manifests += found
        errors += problems
        number = max([number, *(written.origin.number for written in found), *(p.document or 0 for p in problems)]) + 1
    return manifests, errors


def _from_data(data: Any, number: int) -> tuple[list[SourceNode], list[ManifestError]]:
    try:
        node = from_python(data)
    except UnfitValueError as error:
        return [], [ManifestError(DEFINITION, number, "", f"this is no manifest: {error}")]
    return list(_unwrapped(node, Origin(DEFINITION, number), "")), []


def _unwrapped(node: Node, origin: Origin, path: str) -> Iterator[SourceNode]:
    """The manifests in a document: itself, the items of a list, the items of `kind: List`."""
    items, where = _items(node), path
    if isinstance(node, MapNode) and items is not None:
        where = joined(path, "items")
    if items is None:
        yield SourceNode(node, origin, path)
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
