# SPDX-License-Identifier: BSD-2-Clause
"""Load manifests: files or a definition in, validated models out, or every error in them at once.

The steps of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reader, spelling) -> model (models).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
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

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. Jobs without
    a namespace are in `namespace`. Raises ManifestErrors with every error of every document, and MissingLibrary.
    """
    from . import _pydantic  # Here: pydantic and the models take time to import, and most tasks load no manifest.

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)
    from .matrix import source_secrets, validate_each
    from .validation import check_across_documents

    sources, errors = _combined([_from_files(src), _from_definition(definition)])
    checked = [each for source in sources for each in validate_each(source)]
    errors += [error for each in checked for error in each.errors]
    errors += check_across_documents(checked, namespace)
    if errors:
        secrets: dict[Origin, set[str]] = {}
        for each in sources:
            secrets[each.origin] = secrets.get(each.origin, set()) | source_secrets(each.location.node)
        shown = [error.without(secrets.get(Origin(error.file, error.document or 0), ())) for error in errors]
        raise ManifestErrors(shown, set().union(*secrets.values()))
    return [each.document for each in checked if each.document is not None]


def _from_files(paths: Sequence[str]) -> _Found:
    if not paths:
        return [], []
    from .sources import read_files

    files, errors = read_files(paths)
    return _combined([([], errors), *(_from_text(text, file, 1) for file, text in files)])


def _from_text(text: str, file: str, first_number: int) -> _Found:
    from . import yaml_text  # Here: the definition of a task mostly comes as data.

    if yaml_text.IMPORT_ERROR is not None:
        raise MissingLibrary("PyYAML", yaml_text.IMPORT_ERROR)
    documents, errors = yaml_text.read_yaml(text, file, first_number)
    if not documents and not errors:
        errors = [ManifestError(file, "no manifest found", "Add one, or remove the empty source")]
    return [each for number, node in documents for each in _unwrapped(node, Origin(file, number))], errors


def _from_definition(definition: Any) -> _Found:
    if definition is None:
        return [], []
    parts = definition if isinstance(definition, (list, tuple)) else [definition]
    found: list[_Found] = []
    number = 1
    for part in parts or [""]:
        sources, errors = _from_text(part, DEFINITION, number) if isinstance(part, str) else _from_data(part, number)
        found.append((sources, errors))
        last = [*(source.origin.number for source in sources), *(error.document or 0 for error in errors)]
        number = max([number, *last]) + 1
    return _combined(found)


def _combined(parts: Sequence[_Found]) -> _Found:
    return [source for part in parts for source in part[0]], [error for part in parts for error in part[1]]


def _from_data(data: Any, number: int) -> _Found:
    try:
        return list(_unwrapped(from_python(data), Origin(DEFINITION, number))), []
    except UnsupportedValueError as error:
        problem, hint = error.args
        path = reduce(joined, reversed(error.steps), "")
        return [], [ManifestError(DEFINITION, problem, hint, document=number, path=path)]


def _unwrapped(node: Node, origin: Origin, path: str = "") -> Iterator[SourceNode]:
    """The manifests in a document: itself, the items of a list, the items of `kind: List`."""
    items = node.items if isinstance(node, ListNode) else None
    if isinstance(node, MapNode):
        keys = {key.text: value for key, value in node.entries}
        kind, listed = keys.get("kind"), keys.get("items")
        if isinstance(kind, ScalarNode) and kind.text == "List" and isinstance(listed, ListNode):
            items, path = listed.items, joined(path, "items")
    if items is None:
        yield SourceNode(origin, Location(path, node))
    for position, item in enumerate(items or ()):
        yield from _unwrapped(item, origin, joined(path, position))
