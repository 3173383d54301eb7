# SPDX-License-Identifier: BSD-2-Clause
"""Load manifests: files or a definition in, validated models out, or every error in them at once.

The steps of one document: text -> tree (yaml_text, tree) -> a tree for each training of its matrix (matrix) -> data by
field names (reader, spelling) -> model (kinds, job_models and the other *_model files).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from ..labels import ACCELERATORS_CONFIG_MAP, ACCELERATORS_FILE, DEFAULT_NAMESPACE, SYSTEM_NAMESPACE
from .budget import Budget, TooMuchError
from .problems import DEFINITION, MAX_SHOWN, ManifestError, ManifestErrors, MissingLibrary, joined
from .tree import ListNode, Location, MapNode, Node, Origin, ScalarNode, SourceNode, UnsupportedValueError, from_python

if TYPE_CHECKING:
    from .host_paths import HostPaths
    from .policy_model import Policy
    from .validation import CheckedManifest, Document

__all__ = ["ManifestError", "ManifestErrors", "MissingLibrary", "host_paths_of", "load", "load_policy"]

_Found: TypeAlias = "SourceNode | ManifestError"


def load(
    src: Sequence[str] = (),
    definition: Any = None,
    namespace: str = DEFAULT_NAMESPACE,
    host_paths: HostPaths | None = None,
) -> list[Document]:
    """Read and validate all manifests of the paths and of the definition, in that order.

    `src` are files, directories and globs. `definition` is a map, YAML text, or a list of maps and texts. Jobs without
    a namespace are in `namespace`. What they mount of their nodes is judged by `host_paths`, if given. Raises
    ManifestErrors with every error of every document, or the first MAX_SHOWN and one more, and MissingLibrary.
    """
    _require_pydantic()
    from .matrix import source_secrets
    from .validation import check_across_documents, check_host_paths

    budget = Budget()
    sources: list[SourceNode] = []
    try:
        found = itertools.chain(_from_files(src, budget), _from_definition(definition, budget))
        errors = _read_sources(found, sources, budget)
        checked = _validated_manifests(sources, errors, budget)
        errors += check_across_documents(checked, namespace)
        errors += _without_effect(checked)
        if host_paths is not None:
            errors += check_host_paths(checked, host_paths)
    except TooMuchError as problem:
        where = DEFINITION if definition is not None else ", ".join(src)
        errors = [ManifestError(where, str(problem), "Use several tasks")]
    if errors:
        secrets: dict[Origin, set[str]] = {}
        for each in sources:
            secrets[each.origin] = secrets.get(each.origin, set()) | source_secrets(each.location.node)
        shown = [error.without(secrets.get(Origin(error.file, error.document or 0), ())) for error in errors]
        raise _errors_of_sources(shown, src, set().union(*secrets.values()))
    return [each.document for each in checked if each.document is not None]


def _errors_of_sources(
    errors: Sequence[ManifestError], paths: Sequence[str], secrets: Iterable[str] = ()
) -> ManifestErrors:
    if not paths:
        return ManifestErrors(errors, secrets)
    from .sources import without_text_behind_links

    return ManifestErrors(without_text_behind_links(errors, paths), secrets)


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


def _validated_manifests(
    sources: Iterable[SourceNode], errors: list[ManifestError], budget: Budget
) -> list[CheckedManifest]:
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


def load_profiles_file(file: str) -> dict[str, dict[str, Any]]:
    """The profiles of accelerators in a file. Raises ManifestErrors, and MissingLibrary."""
    from .sources import read_files

    found = list(read_files([file]))
    errors = [each for each in found if isinstance(each, ManifestError)]
    if errors:
        raise ManifestErrors(errors)
    return load_profiles(each for each in found if not isinstance(each, ManifestError))


def load_profiles(texts: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """The profiles of accelerators in YAML texts, each with the name of its source: their fields, by name.

    Raises ManifestErrors, and MissingLibrary.
    """
    _require_pydantic()
    from .accelerator_model import AcceleratorManifest
    from .validation import validate

    budget = Budget()
    sources: list[SourceNode] = []
    found = (each for name, text in texts for each in from_text(text, name, 1, budget))
    errors = _read_sources(found, sources, budget)
    profiles: dict[str, dict[str, Any]] = {}
    for checked in map(validate, sources):
        errors += checked.errors
        model = checked.document.model if checked.document else None
        if isinstance(model, AcceleratorManifest):
            profiles[model.accelerator.name] = model.model_dump(exclude_unset=True, exclude={"kind", "version"})
        elif model is not None:
            hint, place = "Keep only manifests of kind accelerator there", checked.locations[()]
            errors.append(ManifestError.at(checked.origin, place, "not an accelerator", hint, model.kind))
    if errors:
        raise ManifestErrors(errors)
    return profiles


def load_policy(file: str | None = None, definition: Any = None) -> Policy:
    """The policy in a file or a definition. Raises ManifestErrors, and MissingLibrary."""
    _require_pydantic()
    from .policy_model import Policy
    from .validation import validate

    budget = Budget()
    sources: list[SourceNode] = []
    found = itertools.chain(_from_files([file] if file else [], budget), _from_definition(definition, budget))
    errors = _read_sources(found, sources, budget)
    checked = [validate(source) for source in sources]
    errors += [error for each in checked for error in each.errors]
    policies = [each.document.model for each in checked if each.document and isinstance(each.document.model, Policy)]
    if not errors and (len(policies), len(checked)) != (1, 1):
        hint = "Put one manifest of kind policy into it, and nothing else"
        errors = [ManifestError(file or DEFINITION, "not a policy", hint)]
    if errors:
        raise _errors_of_sources(errors, [file] if file else [])
    return policies[0]


def host_paths_of(policy: Policy) -> HostPaths:
    """What a policy says about paths of nodes."""
    from .host_paths import HostPaths

    rules = policy.host_paths
    return HostPaths(policy.policy.name, tuple(rules.roots)) if rules else HostPaths()


_ELSEWHERE = {
    "policy": (
        "a policy among manifests has no effect",
        "Keep it in a file of its own, and name that in GPUCTL_POLICY",
    ),
    "accelerator": (
        "an accelerator among manifests has no effect",
        f"Put it into the ConfigMap {ACCELERATORS_CONFIG_MAP} in namespace {SYSTEM_NAMESPACE}, or into a file, and "
        f"name that in {ACCELERATORS_FILE}",
    ),
}


def _without_effect(checked: Iterable[CheckedManifest]) -> Iterator[ManifestError]:
    """Errors for what only administrators write: authors could otherwise believe in it, or allow themselves all."""
    for each in checked:
        kind = each.data.get("kind")
        if kind in _ELSEWHERE:
            problem, hint = _ELSEWHERE[kind]
            yield ManifestError(each.origin.file, problem, hint, document=each.origin.number)


def _require_pydantic() -> None:
    from . import _pydantic  # Here: pydantic and the models take time to import, and most tasks load no manifest.

    if _pydantic.IMPORT_ERROR is not None:
        raise MissingLibrary("pydantic", _pydantic.IMPORT_ERROR)


def _from_files(paths: Sequence[str], budget: Budget) -> Iterator[_Found]:
    if not paths:
        return
    from .sources import read_files

    for found in read_files(paths):
        if isinstance(found, ManifestError):
            yield found
        else:
            file, text = found
            yield from from_text(text, file, 1, budget)


def from_text(text: str, file: str, first_number: int, budget: Budget) -> list[_Found]:
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
        found = from_text(part, DEFINITION, number, budget) if is_text else _from_data(part, number, budget)
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
