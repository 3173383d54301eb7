# SPDX-License-Identifier: BSD-2-Clause
"""Load manifests: files or a definition in, validated models out, or every error in them at once.

The steps of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reader, spelling) -> model (models).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from ..labels import DEFAULT_NAMESPACE
from .problems import DEFINITION, ManifestError, ManifestErrors, MissingLibrary, joined
from .tree import ListNode, Location, MapNode, Node, Origin, ScalarNode, SourceNode, UnsupportedValueError, from_python

if TYPE_CHECKING:
    from .host_paths import HostPaths
    from .validation import CheckedManifest, Document

__all__ = ["ManifestError", "ManifestErrors", "MissingLibrary", "load", "load_host_paths"]

_Found: TypeAlias = "tuple[list[SourceNode], list[ManifestError]]"


def load(
    src: Sequence[str] = (),
    definition: Any = None,
    namespace: str = DEFAULT_NAMESPACE,
    host_paths: HostPaths | None = None,
) -> list[Document]:
    """Read and validate all manifests of the paths and of the definition, in that order.

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. Jobs without
    a namespace are in `namespace`. What they mount of their nodes is judged by `host_paths`, if given. Raises
    ManifestErrors with every error of every document, and MissingLibrary.
    """
    _require_pydantic()
    from .matrix import source_secrets, validate_each
    from .validation import check_across_documents, check_host_paths

    sources, errors = _combined([_from_files(src), _from_definition(definition)])
    checked = [each for source in sources for each in validate_each(source)]
    errors += [error for each in checked for error in each.errors]
    errors += check_across_documents(checked, namespace)
    errors += _policies_among(checked)
    if host_paths is not None:
        errors += check_host_paths(checked, host_paths)
    if errors:
        raise ManifestErrors(errors, set().union(*(source_secrets(each.location.node) for each in sources)))
    return [each.document for each in checked if each.document is not None]


def load_host_paths(file: str) -> HostPaths:
    """What the policy in a file says about paths of nodes. Raises ManifestErrors, and MissingLibrary."""
    _require_pydantic()
    from .host_paths import HostPaths
    from .models import Policy
    from .validation import validate

    sources, errors = _from_files([file])
    checked = [validate(source) for source in sources]
    errors += [error for each in checked for error in each.errors]
    policies = [each.document.model for each in checked if each.document and isinstance(each.document.model, Policy)]
    if not errors and (len(policies), len(checked)) != (1, 1):
        errors = [ManifestError(file, "not a policy", "Put one manifest of kind policy into it, and nothing else")]
    if errors:
        raise ManifestErrors(errors)
    (policy,) = policies
    rules = policy.host_paths
    return HostPaths(policy.policy.name, tuple(rules.roots)) if rules else HostPaths()


def _policies_among(checked: Iterable[CheckedManifest]) -> Iterator[ManifestError]:
    """Errors for policies: whoever writes manifests could otherwise believe in one, or allow himself anything."""
    for each in checked:
        if each.data.get("kind") == "policy":
            hint = "Keep it in a file of its own, and name that in GPUCTL_POLICY"
            yield ManifestError(
                each.origin.file, "a policy among manifests has no effect", hint, document=each.origin.number
            )


def _require_pydantic() -> None:
    from . import _pydantic  # Here: pydantic and the models take time to import, and most tasks load no manifest.

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)


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
