# SPDX-License-Identifier: BSD-2-Clause
"""Expand a matrix: one training for each combination of its values, which replace the placeholders. Pure.

    matrix: {lr: [1e-4, 3e-5], seed: [1, 2]}
    environment: {command: [python, train.py, --lr, $(matrix.lr), --seed, $(matrix.seed)], …}

Placeholders have the syntax of Kubernetes, also `$$(` for a literal `$(`, because `{{ }}` belongs to Ansible and `{ }`
is a map in YAML. They are replaced in the tree before it is read, so that every field can have them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .budget import LIMITS, Budget
from .kinds import is_training
from .problems import MAX_SHOWN, ManifestError, abridged, nearest
from .rules import JOB_NAME_LENGTH
from .secrets import source_secret_values
from .tree import ListNode, Location, MapNode, Node, ScalarNode, SourceNode
from .validation import CheckedManifest, validate

_PREFIX = "$(matrix."
_PLACEHOLDER = re.compile(r"\$\$|\$\(matrix\.(?P<parameter>[^()]*)\)")
_HASH_LENGTH = 8
_MOST_LISTED = 12
_SHORTEST_SECRET = 8

Combination = Mapping[str, str]
AnyNode = TypeVar("AnyNode", ScalarNode, ListNode, MapNode, Node)


def validate_each(source: SourceNode, budget: Budget) -> list[CheckedManifest]:
    """Validate a manifest; one with a matrix as all of its trainings, with each of their errors once.

    Raises TooMuchError.
    """
    checked = _validated_each(source, budget)
    models = [each.document.model for each in checked if each.document]
    budget.spend("nodes in trainings", sum(model.resources.node_count for model in models if is_training(model)))
    return checked


def _validated_each(source: SourceNode, budget: Budget) -> list[CheckedManifest]:
    template = validate(source)
    manifest = source.location.node
    if template.data.get("kind") != "training" or not isinstance(manifest, MapNode):
        return [template]
    uses = _uses(template)
    matrix = template.data.get("matrix") or {}
    filled_in = {use.location.path for use in uses}
    errors = [error for error in template.errors if error.path not in filled_in]
    errors += _unused(uses, template, matrix)
    # Without values, it has an error of its own already, or its key has.
    if matrix or not {("matrix",)} & (template.locations.keys() | template.meant):
        errors += itertools.islice(_misused(uses, template, matrix), MAX_SHOWN + 1)
    if errors:
        return [replace(template, document=None, errors=tuple(errors))]
    if not matrix:
        return [template]
    trainings = math.prod(map(len, matrix.values()))
    budget.spend("manifests", trainings - 1)
    budget.spend("values", _size_without_matrix(manifest) * (trainings - 1))
    known: set[ManifestError] = set()
    checked: list[CheckedManifest] = []
    for training in _expanded(manifest, template.data["job"]["name"], matrix):
        each = validate(source._replace(location=source.location._replace(node=training)))
        checked.append(replace(each, errors=tuple(error for error in each.errors if error not in known)))
        known.update(each.errors)
        if len(known) > MAX_SHOWN:
            break
    return checked


def source_secrets(manifest: Node) -> set[str]:
    """The secrets of a manifest as it was written, with and without the values of its matrix filled in."""
    found = source_secret_values(manifest)
    blocks = manifest.entries if isinstance(manifest, MapNode) else ()
    values = {
        key.text: [item.text for item in value.items if isinstance(item, ScalarNode)]
        for name, matrix in blocks
        if name.text == "matrix" and isinstance(matrix, MapNode)
        for key, value in matrix.entries
        if isinstance(value, ListNode)
    }
    most = max(map(len, values.values()), default=0)
    if most * (len(values) + _size_without_matrix(manifest)) > LIMITS["values"]:
        # Without filling each in: any that could be a secret, as a learning rate or a seed could not.
        return found | {text for texts in values.values() for text in texts if len(text) >= _SHORTEST_SECRET}
    for row in itertools.zip_longest(*values.values(), fillvalue=""):
        found |= source_secret_values(_with_values(manifest, dict(zip(values, row, strict=True))))
    return found


def _size_without_matrix(manifest: Node) -> int:
    """The number of values in each training of a matrix."""
    blocks = manifest.entries if isinstance(manifest, MapNode) else ()
    return sum(_tree_size(value) for name, value in blocks if name.text != "matrix")


def _tree_size(node: Node) -> int:
    """The number of values in a tree. A long text counts as several: each training can have a copy of it."""
    if isinstance(node, ScalarNode):
        return 1 + len(node.text) // 256
    if isinstance(node, ListNode):
        return 1 + sum(map(_tree_size, node.items))
    return 1 + sum(_tree_size(key) + _tree_size(value) for key, value in node.entries)


def names_of(base: str, combinations: Sequence[Combination]) -> list[str]:
    """The names of the trainings: `<base>-<value>-<value>`, with `-` for characters that names cannot have.

    A name that is too long, or that several combinations would have, ends in a hash of its values instead.
    """
    plain = ["-".join([base, *map(_name_part, each.values())]) for each in combinations]
    count = Counter(plain)
    return [
        name if count[name] == 1 and len(name) <= JOB_NAME_LENGTH else _hashed(name, each)
        for name, each in zip(plain, combinations, strict=True)
    ]


@dataclass(frozen=True)
class _Use:
    """A text with placeholders: its location and their parameters."""

    location: Location
    parameters: tuple[str, ...]
    names_the_job: bool


def _uses(template: CheckedManifest) -> list[_Use]:
    found: dict[str, _Use] = {}  # by path: a single item in place of a list has two entries
    for loc, location in template.locations.items():
        node = location.node
        if isinstance(node, ScalarNode) and _PREFIX in node.text and loc[0] != "matrix":
            matches = (match["parameter"] for match in _PLACEHOLDER.finditer(node.text))
            parameters = tuple(parameter for parameter in matches if parameter is not None)
            if parameters:
                found[location.path] = _Use(location, parameters, loc == ("job", "name"))
    return list(found.values())


def _misused(uses: Sequence[_Use], template: CheckedManifest, matrix: Mapping[str, object]) -> Iterator[ManifestError]:
    for use in uses:
        if use.names_the_job:
            hint = "Remove it. The values of the matrix are appended to the name"
            yield ManifestError.at(template.origin, use.location, "placeholder in the name", hint)
            continue
        for parameter in dict.fromkeys(each for each in use.parameters if each not in matrix):
            hint = f"Add `matrix:` with `{parameter or 'lr'}: [1, 2]` below it, for example"
            if matrix:
                meant = nearest(parameter, matrix)
                hint = (
                    f"Did you mean $(matrix.{meant})?"
                    if meant
                    else f"Valid parameters: {abridged(list(matrix), _MOST_LISTED)}"
                )
            yield ManifestError.at(template.origin, use.location, "unknown parameter", hint, f"$(matrix.{parameter})")


def _unused(uses: Sequence[_Use], template: CheckedManifest, matrix: Mapping[str, object]) -> Iterator[ManifestError]:
    used = {parameter for use in uses for parameter in use.parameters}
    problem = "unused parameter, the trainings would be identical"
    for parameter in (each for each in matrix if each not in used):
        hint = f"Write $(matrix.{parameter}) where its values belong, or remove it"
        yield ManifestError.at(template.origin, template.locations["matrix", parameter], problem, hint)


def _expanded(manifest: MapNode, base: str, matrix: Mapping[str, Sequence[str]]) -> Iterator[MapNode]:
    combinations = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    for name, combination in zip(names_of(base, combinations), combinations, strict=True):
        entries = [
            (key, _named_training(value, name, base) if key.text == "job" else value)
            for key, value in manifest.entries
            if key.text != "matrix"
        ]
        yield _with_values(manifest._replace(entries=tuple(entries)), combination)


def _named_training(job: Node, name: str, base: str) -> Node:
    """The block `job` with the name of the training, and by default the name of the manifest as its sweep."""
    if not isinstance(job, MapNode):
        return job
    entries = tuple(
        (key, value._replace(text=name) if key.text == "name" and isinstance(value, ScalarNode) else value)
        for key, value in job.entries
    )
    sweep = (ScalarNode("sweep", job.place), ScalarNode(base, job.place))
    return job._replace(entries=entries if any(key.text == "sweep" for key, _value in entries) else (*entries, sweep))


def _with_values(node: AnyNode, combination: Combination) -> AnyNode:
    if isinstance(node, ScalarNode):
        if _PREFIX not in node.text:
            return node
        return node._replace(text=_PLACEHOLDER.sub(lambda match: combination.get(match[1], match[0]), node.text))
    if isinstance(node, ListNode):
        return node._replace(items=tuple(_with_values(item, combination) for item in node.items))
    return node._replace(entries=tuple((key, _with_values(value, combination)) for key, value in node.entries))


def _name_part(value: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-") or "x"


def _hashed(name: str, combination: Combination) -> str:
    values = json.dumps(combination, sort_keys=True).encode("utf-8", "surrogatepass")
    beginning = name[: JOB_NAME_LENGTH - _HASH_LENGTH - 1].rstrip("-")
    return f"{beginning}-{hashlib.sha256(values).hexdigest()[:_HASH_LENGTH]}"
