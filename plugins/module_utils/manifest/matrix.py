# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""A training for each combination of values: `matrix` and the placeholders that stand for a value of it. Pure.

    matrix: {lr: [1e-4, 3e-5], seed: [1, 2]}
    environment: {command: [python, train.py, --lr, $(matrix.lr), --seed, $(matrix.seed)], …}

A placeholder is written as Kubernetes writes its own in a command, `$(NAME)`, and `$$(` is the same text left alone:
`{{ }}` and `${{ }}` belong to Ansible where a manifest is a task's definition, and `{matrix.lr}` is a map to YAML.

Placeholders are replaced in the tree, before it is read, so that every field may have them and every rule holds for
what comes out. The rest of the package only sees ordinary trainings.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from .document import Checked, SourceNode
from .problems import ManifestError
from .reader import Problem, nearest
from .rules import JOB_NAME_LENGTH
from .secrets import written_secret_values
from .tree import ListNode, MapNode, Node, ScalarNode
from .validation import error_of, validate

_BEGINNING = "$(matrix."
_PLACEHOLDER = re.compile(r"\$\$|\$\(matrix\.(?P<parameter>[^()]*)\)")
_HASH_LENGTH = 8

Combination = Mapping[str, str]
AnyNode = TypeVar("AnyNode", ScalarNode, ListNode, MapNode, Node)


def validate_each(written: SourceNode) -> list[Checked]:
    """Validate a manifest; one with a matrix as all the trainings that it stands for.

    Mistakes that do not come from the values of the matrix are told once, not for each combination.
    """
    template = validate(written)
    if template.data.get("kind") != "training" or not isinstance(written.node, MapNode):
        return [template]
    uses = _uses(template)
    matrix = template.data.get("matrix") or {}
    problems = list(_unused(uses, template, matrix))
    if matrix or ("matrix",) not in template.spots:  # One that cannot be read is told of already.
        problems += _misused(uses, matrix)
    filled_in = {use.path for use in uses}
    errors = [error for error in template.errors if error.path not in filled_in]
    errors += [error_of(problem, written.origin) for problem in problems]
    if errors:
        return [replace(template, document=None, errors=tuple(errors))]
    if not matrix:
        return [template]
    trainings = _expanded(written.node, template.data["job"]["name"], matrix)
    return _without_repetitions([validate(replace(written, node=each)) for each in trainings])


def written_secrets(manifest: Node) -> set[str]:
    """The secrets of a manifest as it was written, with those of its matrix that would be filled in."""
    found = written_secret_values(manifest)
    blocks = manifest.entries if isinstance(manifest, MapNode) else ()
    matrices = [value for key, value in blocks if key.text == "matrix" and isinstance(value, MapNode)]
    values = {
        key.text: [item.text for item in value.items if isinstance(item, ScalarNode)]
        for matrix in matrices
        for key, value in matrix.entries
        if isinstance(value, ListNode)
    }
    for row in itertools.zip_longest(*values.values(), fillvalue=""):
        found |= written_secret_values(_with_values(manifest, dict(zip(values, row, strict=True))))
    return found


def names_of(base: str, combinations: Sequence[Combination]) -> list[str]:
    """The names of the trainings: `<base>-<value>-<value>`, as far as values can stand in a name.

    A name that is too long, or that several combinations would have, ends in a hash of its values instead: no name
    ever comes to stand for other values.
    """
    plain = ["-".join([base, *(_in_a_name(value) for value in each.values())]) for each in combinations]
    count = Counter(plain)
    return [
        name if count[name] == 1 and len(name) <= JOB_NAME_LENGTH else _hashed(name, each)
        for name, each in zip(plain, combinations, strict=True)
    ]


class _Use(NamedTuple):
    """A text with placeholders: where it stands, and the parameters that it names."""

    path: str
    node: ScalarNode
    parameters: tuple[str, ...]
    names_the_job: bool


def _uses(template: Checked) -> list[_Use]:
    found: dict[str, _Use] = {}  # by path: one item that stands for a list has two locations
    for location, spot in template.spots.items():
        node = spot.node
        if isinstance(node, ScalarNode) and _BEGINNING in node.text and location[0] != "matrix":
            matches = (match["parameter"] for match in _PLACEHOLDER.finditer(node.text))
            parameters = tuple(parameter for parameter in matches if parameter is not None)
            if parameters:
                found[spot.path] = _Use(spot.path, node, parameters, location == ("job", "name"))
    return list(found.values())


def _misused(uses: Sequence[_Use], matrix: Mapping[str, object]) -> Iterator[Problem]:
    for use in uses:
        if use.names_the_job:
            remedy = "write it without a placeholder, the values of the matrix are added to it"
            yield Problem(use.path, f"is the beginning of the trainings' names; {remedy}", use.node)
            continue
        for parameter in dict.fromkeys(use.parameters):
            if parameter in matrix:
                continue
            remedy = f"add `matrix:` with `{parameter or 'lr'}: [1, 2]` below it, for example"
            if matrix:
                meant = nearest(parameter, matrix)
                remedy = f"did you mean $(matrix.{meant})?" if meant else f"the matrix has {', '.join(matrix)}"
            yield Problem(use.path, f"$(matrix.{parameter}) stands for no parameter; {remedy}", use.node)


def _unused(uses: Sequence[_Use], template: Checked, matrix: Mapping[str, object]) -> Iterator[Problem]:
    used = {parameter for use in uses for parameter in use.parameters}
    for parameter in matrix:
        if parameter not in used:
            spot = template.spots["matrix", parameter]
            remedy = f"write $(matrix.{parameter}) where its values belong, or remove it"
            yield Problem(spot.path, f"is used nowhere, so that trainings would be the same; {remedy}", spot.node)


def _expanded(manifest: MapNode, base: str, matrix: Mapping[str, Sequence[str]]) -> Iterator[MapNode]:
    """The manifest of each training: its own name, its values, no matrix."""
    combinations = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    for name, combination in zip(names_of(base, combinations), combinations, strict=True):
        entries = [
            (key, _named(value, name, base) if key.text == "job" else value)
            for key, value in manifest.entries
            if key.text != "matrix"
        ]
        yield _with_values(manifest._replace(entries=tuple(entries)), combination)


def _named(job: Node, name: str, base: str) -> Node:
    """The block `job` with the training's name, and the manifest's as the sweep that it belongs to."""
    if not isinstance(job, MapNode):
        return job
    entries = tuple(
        (key, value._replace(text=name) if key.text == "name" and isinstance(value, ScalarNode) else value)
        for key, value in job.entries
    )
    sweep = (ScalarNode("sweep", job.place), ScalarNode(base, job.place))
    return job._replace(entries=entries if any(key.text == "sweep" for key, dummy in entries) else (*entries, sweep))


def _with_values(node: AnyNode, combination: Combination) -> AnyNode:
    if isinstance(node, ScalarNode):
        if _BEGINNING not in node.text:
            return node
        text = _PLACEHOLDER.sub(lambda match: combination.get(match["parameter"], match[0]), node.text)
        return node._replace(text=text)
    if isinstance(node, ListNode):
        return node._replace(items=tuple(_with_values(item, combination) for item in node.items))
    return node._replace(entries=tuple((key, _with_values(value, combination)) for key, value in node.entries))


def _without_repetitions(manifests: list[Checked]) -> list[Checked]:
    """The same mistake in the same place is told for the first of them only."""
    told: set[ManifestError] = set()
    once: list[Checked] = []
    for each in manifests:
        new = tuple(error for error in each.errors if error not in told)
        told.update(new)
        once.append(replace(each, errors=new))
    return once


def _in_a_name(value: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-") or "x"


def _hashed(name: str, combination: Combination) -> str:
    values = json.dumps(combination, sort_keys=True).encode("utf-8", "surrogatepass")
    beginning = name[: JOB_NAME_LENGTH - _HASH_LENGTH - 1].rstrip("-")
    return f"{beginning}-{hashlib.sha256(values).hexdigest()[:_HASH_LENGTH]}"
