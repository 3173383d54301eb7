# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""One manifest: from its tree to a valid model, or to its errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..accelerators import requested
from ._pydantic import ValidationError
from .models import KINDS, Autoscaling, Inference, JobManifest, Manifest
from .problems import ManifestError, enumerated, joined, nearest
from .reader import Loc, ParsedManifest, display_value, quoted, read_manifest
from .spelling import Key, keys_along, keys_of
from .tree import Location, MapNode, Node, Origin, ScalarNode, SourceNode

KIND_ALIASES = {"resource": "pool"}
_KUBERNETES_KINDS = frozenset(
    (
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
    )
)


@dataclass(frozen=True)
class Document:
    """A validated manifest, where it came from, and what its author should know though it is valid.

    `warnings` are sentences that name file, document and path.
    """

    model: Manifest
    origin: Origin
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedManifest:
    """A manifest after validation: the document if it is valid, the errors if it is not.

    `data` is by field names and not validated; `locations` say where each piece of it was written. Both have secrets.
    """

    origin: Origin
    document: Document | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    locations: Mapping[Loc, Location] = field(default_factory=dict, repr=False)
    errors: tuple[ManifestError, ...] = ()


def validate(source: SourceNode) -> CheckedManifest:
    """Validate one manifest: its document, with warnings, or its errors, all of them."""
    origin = source.origin
    kind = _kind(source)
    if isinstance(kind, ManifestError):
        return CheckedManifest(origin, errors=(kind,))
    parsed = read_manifest(source, kind)
    parsed.data["kind"] = kind
    errors = parsed.errors
    document = None
    try:
        manifest = KINDS[kind].model_validate(parsed.data)
        document = Document(manifest, origin, tuple(_warnings(manifest, parsed)))
    except ValidationError as error:
        found = (_error(details, parsed) for details in error.errors(include_url=False))
        errors += [each for each in found if each is not None]
    return CheckedManifest(origin, None if errors else document, parsed.data, parsed.locations, tuple(errors))


def _kind(source: SourceNode) -> str | ManifestError:
    path, node = source.location
    if not isinstance(node, MapNode):
        return ManifestError.at(
            source.origin, source.location, "not a manifest", "Write its keys, beginning with `kind:`"
        )
    value = next((value for key, value in node.entries if key.text == "kind"), None)

    def error(at: Node, problem: str, hint: str, shown: str | None = None) -> ManifestError:
        return ManifestError.at(source.origin, Location(joined(path, "kind"), at), problem, hint, shown)

    use_known = f"Use {enumerated(list(KINDS), 'or')}"
    if value is None and any(key.text.lower() == "kind" for key, _value in node.entries):
        return error(node, "required key is missing", "Write `kind` in lower case")
    if value is None or (isinstance(value, ScalarNode) and value.is_null):
        return error(value or node, f"required {'key is missing' if value is None else 'value is empty'}", use_known)
    if not isinstance(value, ScalarNode):
        return error(value, "expected one word", use_known)
    if value.text in KINDS or value.text in KIND_ALIASES:
        return KIND_ALIASES.get(value.text, value.text)
    if value.text in _KUBERNETES_KINDS:
        return error(value, "a Kubernetes kind, not a manifest kind", use_known, value.text)
    meant = nearest(value.text, KINDS)
    hint = f"Did you mean {meant}?" if meant else use_known
    return error(value, "unknown kind", hint, quoted(value.text, value.plain))


def _error(details: Any, parsed: ParsedManifest) -> ManifestError | None:
    """The error of an error of pydantic; None where one has been reported for that place already."""
    loc: Loc = tuple(details["loc"])
    if any(loc[:length] in parsed.rejected for length in range(1, len(loc) + 1)):
        return None
    context = details.get("ctx", {})
    if details["type"] == "missing":
        return _missing(loc, parsed)
    if details["type"] == "section":
        if loc in parsed.incomplete:
            return None
        location = _location_within(parsed, loc, context["within"])
        return ManifestError.at(parsed.origin, location, context["problem"], context["hint"])
    location = parsed.location(loc)
    problem, hint = "invalid value", details["msg"]
    if details["type"] == "value":
        problem, hint = context["problem"], context["hint"]
    elif details["type"] == "literal_error":
        problem, hint = "unsupported value", _choice(location.node, context["expected"])
    return ManifestError.at(parsed.origin, location, problem, hint, display_value(location.node, loc))


def _choice(node: Node, expected: str) -> str:
    allowed = re.findall(r"'([^']*)'", expected)
    meant = nearest(node.text, allowed) if isinstance(node, ScalarNode) else None
    return f"{f'Did you mean {meant}? ' if meant else ''}Use {enumerated(allowed, 'or')}"


def _missing(loc: Loc, parsed: ParsedManifest) -> ManifestError:
    *_outer, key = keys_along(parsed.kind, loc)
    if loc in parsed.locations:
        return ManifestError.at(parsed.origin, parsed.locations[loc], "required value is empty", _example(key))
    around = parsed.location(loc[:-1])
    location = Location(joined(around.path, key.documented), around.node)
    return ManifestError.at(parsed.origin, location, "required key is missing", _example(key))


def _example(key: Key) -> str:
    if key.block is not None:
        required = [inner.documented for inner in keys_of(key.block) if inner.required]
        return f"Add the block with {' and '.join(required)}"
    return f"Add `{key.documented}: {key.examples[0]}`, for example" if key.examples else f"Add `{key.documented}:`"


def _location_within(parsed: ParsedManifest, loc: Loc, within: Loc) -> Location:
    """The place that a section's error points to; for a field that was not given, where it would stand."""
    target = (*loc, *within)
    if target in parsed.locations or not within:
        return parsed.location(target)
    around = parsed.location(target[:-1])
    *_outer, key = keys_along(parsed.kind, target)
    return Location(joined(around.path, key.documented if isinstance(within[-1], str) else within[-1]), around.node)


def _warnings(manifest: Manifest, parsed: ParsedManifest) -> list[str]:
    warnings: list[str] = []
    if isinstance(manifest, JobManifest):
        wanted = requested(manifest.resources)
        for row, _amount in wanted[1:]:
            used, number = wanted[0]
            where, value = parsed.location(("resources", row.field)).path, getattr(manifest.resources, row.field)
            if used.is_whole_device:
                gets, other = f"{number} whole GPU(s)", f"set {used.documented} to 0"
            else:
                gets, other = used.text(number), used.documented
            warnings.append(f"{parsed.origin}, {where}: ignored: {value}. The job gets {gets}. Remove it, or {other}.")
    if isinstance(manifest, Inference) and isinstance(manifest.autoscaling, Autoscaling):
        location = parsed.locations.get(("service", "replicas"))
        if location is not None:
            warnings.append(
                f"{parsed.origin}, {location.path}: ignored: {manifest.service.replicas}. autoscaling sets the number "
                "of replicas. Remove it."
            )
    return warnings
