# SPDX-License-Identifier: BSD-2-Clause
"""Load manifests: files or a definition in, validated models out, or every error in them at once.

The steps of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reader, spelling) -> model (models).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from ..labels import DEFAULT_NAMESPACE
from .budget import Budget, TooMuchError
from .problems import DEFINITION, MAX_SHOWN, ManifestError, ManifestErrors, MissingLibrary, joined
from .tree import ListNode, Location, MapNode, Node, Origin, ScalarNode, SourceNode, UnsupportedValueError, from_python

if TYPE_CHECKING:
    from .validation import CheckedManifest, Document

__all__ = ["ManifestError", "ManifestErrors", "MissingLibrary", "load"]

_Found: TypeAlias = "SourceNode | ManifestError"


def load(src: Sequence[str] = (), definition: Any = None, namespace: str = DEFAULT_NAMESPACE) -> list[Document]:
    """Read and validate all manifests of the paths and of the definition, in that order.

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. Jobs without
    a namespace are in `namespace`. Raises ManifestErrors with every error of every document, or the first MAX_SHOWN and
    one more, and MissingLibrary.
    """
    from . import _pydantic  # Here: pydantic and the models take time to import, and most tasks load no manifest.

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)
    from .matrix import source_secrets
    from .validation import check_across_documents

    budget = Budget()
    sources: list[SourceNode] = []
    try:
        found = itertools.chain(_from_files(src, budget), _from_definition(definition, budget))
        errors = _read_sources(found, sources, budget)
        checked = _validated(sources, errors, budget)
        errors += check_across_documents(checked, namespace)
    except TooMuchError as problem:
        where = DEFINITION if definition is not None else ", ".join(src)
        errors = [ManifestError(where, str(problem), "Use several tasks")]
    if errors:
        raise ManifestErrors(errors, set().union(*(source_secrets(each.location.node) for each in sources)))
    return [each.document for each in checked if each.document is not None]


def _read_sources(found: Iterable[_Found], sources: list[SourceNode], budget: Budget) -> list[ManifestError]:
    """Put what was found into `sources` and return the errors."""
    errors: list[ManifestError] = []
    for each in found:
        if isinstance(each, SourceNode):
            budget.spend("manifests", 1)
            sources.append(each)
        elif len(errors) <= MAX_SHOWN:
            errors.append(each)
        else:
            break
    return errors


def _validated(sources: Iterable[SourceNode], errors: list[ManifestError], budget: Budget) -> list[CheckedManifest]:
    """The manifests of the sources after validation; their errors are appended to `errors`."""
    from .matrix import validate_each

    checked: list[CheckedManifest] = []
    for source in sources:
        if len(errors) > MAX_SHOWN:
            break
        manifests = validate_each(source, budget)
        checked += manifests
        errors += (error for each in manifests for error in each.errors)
    return checked


def _from_files(paths: Sequence[str], budget: Budget) -> Iterator[_Found]:
    if not paths:
        return
    from .sources import read_files

    for found in read_files(paths):
        if isinstance(found, ManifestError):
            yield found
        else:
            file, text = found
            yield from _from_text(text, file, 1, budget)


def _from_text(text: str, file: str, first_number: int, budget: Budget) -> list[_Found]:
    from . import yaml_text  # Here: the definition of a task mostly comes as data.

    if yaml_text.IMPORT_ERROR is not None:
        raise MissingLibrary("PyYAML", yaml_text.IMPORT_ERROR)
    documents, errors = yaml_text.read_yaml(text, file, first_number, budget)
    if not documents and not errors:
        errors = [ManifestError(file, "no manifest found", "Add one, or remove the empty source")]
    manifests = [each for number, node in documents for each in _unwrapped(node, Origin(file, number))]
    return [*manifests, *errors]


def _from_definition(definition: Any, budget: Budget) -> Iterator[_Found]:
    if definition is None:
        return
    parts = definition if isinstance(definition, (list, tuple)) else [definition]
    number = 1
    for part in parts or [""]:
        is_text = isinstance(part, str)
        found = _from_text(part, DEFINITION, number, budget) if is_text else _from_data(part, number, budget)
        yield from found
        last = (each.origin.number if isinstance(each, SourceNode) else each.document or 0 for each in found)
        number = max([number, *last]) + 1


def _from_data(data: Any, number: int, budget: Budget) -> list[_Found]:
    try:
        return list(_unwrapped(from_python(data, budget), Origin(DEFINITION, number)))
    except UnsupportedValueError as error:
        problem, hint = error.args
        path = reduce(joined, reversed(error.steps), "")
        return [ManifestError(DEFINITION, problem, hint, document=number, path=path)]


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
