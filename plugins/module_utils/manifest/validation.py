# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""One manifest: from its tree to a valid model, or to sentences that say what is wrong with it."""

from __future__ import annotations

import re
from typing import Any

from ._pydantic import ValidationError
from .document import Checked, Document, Origin, SourceNode
from .models import KINDS, Autoscaling, Block, Inference, JobManifest, Manifest
from .problems import ManifestError, joined
from .reader import Location, ParsedManifest, Problem, Spot, nearest, quoted, read_manifest, shown
from .spelling import BlockOf, Key, ListOf, MapOf, keys_of
from .tree import MapNode, ScalarNode

KIND_ALIASES = {"resource": "pool"}
_KUBERNETES_KINDS = frozenset(
    {
        "Job",
        "Pod",
        "Deployment",
        "StatefulSet",
        "Service",
        "ConfigMap",
        "Secret",
        "Namespace",
        "ResourceQuota",
        "CronJob",
    }
)


def validate(written: SourceNode) -> Checked:
    """Validate one manifest: its document, with warnings, or its errors, all of them."""
    origin = written.origin
    if not isinstance(written.node, MapNode):
        problem = Problem(written.path, "this is no manifest; write its keys, beginning with `kind:`", written.node)
        return Checked(origin, errors=(error_of(problem, origin),))
    kind = _kind(written.node, written.path)
    if isinstance(kind, Problem):
        return Checked(origin, errors=(error_of(kind, origin),))
    model = KINDS[kind]
    reading = read_manifest(written.node, kind, model, written.path)
    reading.data["kind"] = kind
    problems = list(reading.problems)
    document = None
    try:
        manifest = model.model_validate(reading.data)
        document = Document(manifest, origin, tuple(_warnings(manifest, reading, origin)))
    except ValidationError as error:
        found = (_problem(details, reading, model) for details in error.errors(include_url=False))
        problems += [problem for problem in found if problem is not None]
    errors = tuple(error_of(problem, origin) for problem in problems)
    return Checked(origin, None if errors else document, reading.data, reading.spots, errors)


def _kind(node: MapNode, path: str) -> str | Problem:
    where = joined(path, "kind")
    value = next((value for key, value in node.entries if key.text == "kind"), None)
    known = f"{', '.join(list(KINDS)[:-1])} or {list(KINDS)[-1]}"
    if value is None and any(key.text.lower() == "kind" for key, _value in node.entries):
        return Problem(where, "is missing; write `kind` in lower case", node)
    if value is None or (isinstance(value, ScalarNode) and value.is_null):
        return Problem(where, f"is missing; give {known}", node if value is None else value)
    if not isinstance(value, ScalarNode):
        return Problem(where, f"must be one word; give {known}", value)
    if value.text in KINDS or value.text in KIND_ALIASES:
        return KIND_ALIASES.get(value.text, value.text)
    if value.text in _KUBERNETES_KINDS:
        return Problem(where, f"is a Kubernetes object, not a manifest; give {known}", value, value.text)
    meant = nearest(value.text, KINDS)
    hint = f"did you mean {meant}?" if meant else f"give {known}"
    return Problem(where, f"is no known kind; {hint}", value, quoted(value.text, value.plain))


def _problem(details: Any, reading: ParsedManifest, model: type[Block]) -> Problem | None:
    """What pydantic refused, in words; None where something was said about that place already."""
    location: Location = tuple(details["loc"])
    if any(location[:length] in reading.refused for length in range(1, len(location) + 1)):
        return None
    context = details.get("ctx", {})
    if details["type"] == "missing":
        return _missing(location, reading, model)
    if details["type"] == "section":
        if location in reading.incomplete:
            return None
        spot = _spot_within(reading, location, context["within"], model)
        return Problem(spot.path, f"{context['problem']}; {context['remedy']}", spot.node)
    spot = reading.spot(location)
    value = shown(spot.node, location)
    if details["type"] == "value":
        return Problem(spot.path, f"{context['problem']}; {context['remedy']}", spot.node, value)
    if details["type"] == "literal_error":
        return Problem(spot.path, f"is not allowed; {_choice(spot, context['expected'])}", spot.node, value)
    return Problem(spot.path, f"is not allowed: {details['msg'].lower()}", spot.node, value)


def _choice(spot: Spot, expected: str) -> str:
    allowed = re.findall(r"'([^']*)'", expected)
    listed = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    meant = nearest(spot.node.text, allowed) if isinstance(spot.node, ScalarNode) else None
    return f"did you mean {meant}? Give {listed}" if meant else f"give {listed}"


def _missing(location: Location, reading: ParsedManifest, model: type[Block]) -> Problem:
    key, key_model = _key_at(location, model)
    if location in reading.spots:
        spot = reading.spots[location]
        return Problem(spot.path, f"is empty; {_example(key, key_model)}", spot.node)
    around = reading.spot(location[:-1])
    return Problem(joined(around.path, key.documented), f"is missing; {_example(key, key_model)}", around.node)


def _example(key: Key, model: type[Block]) -> str:
    if isinstance(key.shape, BlockOf):
        required = [inner.documented for inner in keys_of(key.shape.model) if inner.required]
        return f"add the block with {' and '.join(required)}"
    examples = model.model_fields[key.field].examples or []
    return f"add `{key.documented}: {examples[0]}`, for example" if examples else f"add `{key.documented}:`"


def _key_at(location: Location, model: type[Block]) -> tuple[Key, type[Block]]:
    steps = iter(location)
    for step in steps:
        key = next(key for key in keys_of(model) if key.field == step)
        owner = model
        shape = key.shape
        while isinstance(shape, (ListOf, MapOf)):
            next(steps, None)
            shape = shape.item
        if isinstance(shape, BlockOf):
            model = shape.model
    return key, owner


def _spot_within(
    reading: ParsedManifest, location: Location, within: tuple[str | int, ...], model: type[Block]
) -> Spot:
    """The place a section's refusal points to; for a field that was not given, where it would stand."""
    target = (*location, *within)
    if target in reading.spots or not within:
        return reading.spot(target)
    around = reading.spot(target[:-1])
    step = within[-1]
    name = _key_at(target, model)[0].documented if isinstance(step, str) else step
    return Spot(joined(around.path, name), around.node)


def _warnings(manifest: Manifest, reading: ParsedManifest, origin: Origin) -> list[str]:
    warnings: list[str] = []
    if isinstance(manifest, JobManifest):
        resources = manifest.resources
        if resources.gpu > 0 and resources.gpu_share is not None:
            where = reading.spot(("resources", "gpu_share")).path
            warnings.append(
                f"{origin}, {where}: {resources.gpu_share} is not used, for the job gets {resources.gpu} whole "
                "GPU(s); remove it, or set gpu to 0."
            )
    if isinstance(manifest, Inference) and isinstance(manifest.autoscaling, Autoscaling):
        location = ("service", "replicas")
        if location in reading.spots:
            where = reading.spots[location].path
            warnings.append(
                f"{origin}, {where}: {manifest.service.replicas} is not used, for autoscaling sets the number of "
                "copies; remove it."
            )
    return warnings


def error_of(problem: Problem, origin: Origin) -> ManifestError:
    """The problem, as it is told: with the file and the line that it is in."""
    place = problem.node.place
    return ManifestError(
        file=origin.file,
        document=origin.number,
        path=problem.path,
        message=problem.message,
        value=problem.value,
        line=place.line,
        column=place.column,
        rank=place.rank,
    )
