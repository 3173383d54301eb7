# SPDX-License-Identifier: BSD-2-Clause
"""Validate one manifest, from its tree to a model or to its errors, and several manifests with each other."""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from ..redaction import MASK
from ._pydantic import ValidationError
from .full_width import full_width, full_width_in_value
from .host_paths import HostPaths
from .kinds import ADMINISTRATORS, KINDS, Manifest, is_inference, is_job
from .mistakes import warn_of_mistakes
from .problems import MAX_SHOWN, ManifestError, enumerated, joined, nearest
from .reader import Loc, ParsedManifest, display_value, quoted, read_manifest
from .spelling import Key, keys_along, keys_of
from .templates import TEMPLATE_HINT, unrendered
from .tree import Location, MapNode, Node, Origin, ScalarNode, SourceNode

KIND_ALIASES = {"resource": "pool"}
_WORKLOAD_KINDS = frozenset({"Job", "CronJob", "Pod", "Deployment", "StatefulSet"})
_KUBERNETES_KINDS = _WORKLOAD_KINDS | {"Service", "ConfigMap", "Secret", "Namespace", "ResourceQuota"}


@dataclass(frozen=True)
class Document:
    """A validated manifest, where it came from, and warnings as sentences that name file, document and path.

    ``certain``: those of the warnings about what is wrong in every cluster. ``spellings``: see ParsedManifest.
    """

    model: Manifest
    origin: Origin
    warnings: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()
    spellings: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class CheckedManifest:
    """A manifest after validation: the document or the errors, its unvalidated data by field names and their places."""

    origin: Origin
    document: Document | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    locations: Mapping[Loc, Location] = field(default_factory=dict, repr=False)
    errors: tuple[ManifestError, ...] = ()
    meant: Set[Loc] = frozenset()
    """Fields that an unknown key was probably meant for."""


def validate(source: SourceNode) -> CheckedManifest:
    """Validate one manifest and report all of its errors."""
    origin = source.origin
    kind = _kind(source)
    if isinstance(kind, ManifestError):
        return CheckedManifest(origin, errors=(kind,))
    parsed = read_manifest(source, kind)
    if len(parsed.errors) > MAX_SHOWN:
        return CheckedManifest(origin, errors=tuple(parsed.errors))
    parsed.data["kind"] = kind
    document = None
    try:
        manifest = KINDS[kind].model_validate(parsed.data)
        _warn_of_ignored_fields(manifest, parsed)
        warn_of_mistakes(manifest, parsed)
        document = Document(manifest, origin, tuple(parsed.warnings), tuple(parsed.certain), parsed.spellings)
    except ValidationError as error:
        found = (_manifest_error(details, parsed) for details in error.errors(include_url=False))
        parsed.errors.extend(itertools.islice((each for each in found if each is not None), MAX_SHOWN + 1))
    errors = tuple(parsed.errors)
    document = None if errors else document
    return CheckedManifest(origin, document, parsed.data, parsed.locations, errors, parsed.meant)


def _kind(source: SourceNode) -> str | ManifestError:
    path, node = source.location
    if not isinstance(node, MapNode):
        problem, hint = "not a manifest", "Write its keys, beginning with `kind:`"
        if isinstance(node, ScalarNode):
            problem, hint = full_width(node.text, shown=False) or (problem, hint)
        return ManifestError.at(source.origin, source.location, problem, hint)
    value = next((value for key, value in node.entries if key.text == "kind"), None)
    hint, shown = f"Use {enumerated([kind for kind in KINDS if kind not in ADMINISTRATORS], 'or')}", None
    if value is None:
        problem = "required key is missing"
        written = next((key for key, _value in node.entries if nearest(key.text, ["kind"])), None)
        if written is not None and written.text.lower() == "kind":
            hint = "Write `kind` in lower case"
        elif written is not None:
            location = Location(joined(path, written.text), written)
            return ManifestError.at(source.origin, location, "unknown key", "Did you mean kind?")
        elif any(key.text == "hosts" for key, _value in node.entries):
            problem, hint = "a playbook, not a manifest", "Run it with ansible-playbook"
    elif not isinstance(value, ScalarNode):
        problem = "expected one word"
    elif value.is_null:
        problem = "required value is empty"
    elif value.text in KINDS or value.text in KIND_ALIASES:
        return KIND_ALIASES.get(value.text, value.text)
    elif value.text in _KUBERNETES_KINDS:
        problem, shown = "a Kubernetes kind, not a manifest kind", value.text
    else:
        problem, shown = "unknown kind", quoted(value.text, value.plain)
        hint = f"Did you mean {meant}?" if (meant := nearest(value.text, KINDS)) else hint
        problem, hint = full_width(value.text) or (problem, hint)
    return ManifestError.at(source.origin, Location(joined(path, "kind"), value or node), problem, hint, shown)


def _manifest_error(details: Any, parsed: ParsedManifest) -> ManifestError | None:
    """The manifest error for an error of pydantic; None if that place has an error already."""
    loc: Loc = tuple(details["loc"])
    if any(loc[:length] in parsed.rejected for length in range(1, len(loc) + 1)):
        return None
    context = details.get("ctx", {})
    if details["type"] == "missing":
        return None if loc in parsed.meant else _missing_key(loc, parsed)
    if details["type"] == "section":
        within = context["within"]
        lacks = not within or (*loc, *within) not in parsed.locations
        if loc in parsed.incomplete and lacks:
            return None
        location = _location_of(parsed, (*loc, *within)) if within else parsed.location(loc)
        return ManifestError.at(parsed.origin, location, context["problem"], context["hint"])
    location = parsed.location(loc)
    problem, hint = "invalid value", details["msg"]
    if details["type"] == "value":
        problem, hint = context["problem"], context["hint"]
    elif details["type"] == "literal_error":
        problem, hint = "unsupported value", _choice(location.node, context["expected"])
    value = display_value(location.node, loc)
    if isinstance(location.node, ScalarNode):
        text = location.node.text
        wrong = full_width_in_value(text, shown=False) if value == MASK else full_width(text)
        problem, hint = wrong or (problem, TEMPLATE_HINT if unrendered(text, parsed.origin) else hint)
    return ManifestError.at(parsed.origin, location, problem, hint, value)


def _choice(node: Node, expected: str) -> str:
    allowed = re.findall(r"'([^']*)'", expected)
    meant = nearest(node.text, allowed) if isinstance(node, ScalarNode) else None
    return f"{f'Did you mean {meant}? ' if meant else ''}Use {enumerated(allowed, 'or')}"


def _missing_key(loc: Loc, parsed: ParsedManifest) -> ManifestError:
    *_outer, key = keys_along(parsed.kind, loc)
    problem = f"required {'value is empty' if loc in parsed.locations else 'key is missing'}"
    return ManifestError.at(parsed.origin, _location_of(parsed, loc), problem, _example(key))


def _example(key: Key) -> str:
    if key.block is not None:
        required = [inner.documented for inner in keys_of(key.block) if inner.required]
        return f"Add the block with {' and '.join(required)}"
    return f"Add `{key.documented}: {key.examples[0]}`, for example" if key.examples else f"Add `{key.documented}:`"


def _location_of(parsed: ParsedManifest, loc: Loc) -> Location:
    """The location of the data; of a missing field, below the nearest block around it."""
    if loc in parsed.locations:
        return parsed.locations[loc]
    around = parsed.location(loc[:-1])
    *_outer, key = keys_along(parsed.kind, loc)
    return Location(joined(around.path, key.documented if isinstance(loc[-1], str) else loc[-1]), around.node)


def _warn_of_ignored_fields(manifest: Manifest, parsed: ParsedManifest) -> None:
    resources = manifest.resources if is_job(manifest) else None
    if resources and resources.gpu and resources.gpu_share is not None:
        why = f"The job gets {resources.gpu} whole GPU(s). Remove it, or set gpu to 0."
        parsed.ignored(parsed.location(("resources", "gpu_share")), resources.gpu_share, why)
    replicas = ("service", "replicas")
    if is_inference(manifest) and manifest.autoscaling is not None and replicas in parsed.locations:
        why = "autoscaling sets the number of replicas. Remove it."
        parsed.ignored(parsed.location(replicas), manifest.service.replicas, why)


def check_across_documents(manifests: Sequence[CheckedManifest], namespace: str) -> list[ManifestError]:
    """The errors between manifests, valid or not. Jobs without a namespace are in `namespace`."""
    claimed: dict[Hashable, tuple[_Unique, CheckedManifest]] = {}
    errors: list[ManifestError] = []
    for manifest in manifests:
        for claim in _claimed_names(manifest.data, namespace):
            earlier, first = claimed.setdefault(claim.identity, (claim, manifest))
            if first is not manifest and len(errors) <= MAX_SHOWN:
                errors.append(_claim_error(claim, manifest, earlier, first))
    return errors


def check_host_paths(manifests: Sequence[CheckedManifest], allowed: HostPaths) -> list[ManifestError]:
    """The errors for paths of nodes that manifests, valid or not, may not mount."""
    # A dict, because the trainings of a matrix share the place of a path.
    errors: dict[ManifestError, None] = {}
    for manifest in manifests:
        wrong = {error.path for error in manifest.errors}
        for number, path in _host_paths(manifest.data):
            location = manifest.locations[("storage", "workdirs", number, "path")]
            if location.path not in wrong and (refusal := allowed.refusal(path)):
                problem, hint = refusal
                errors[ManifestError.at(manifest.origin, location, problem, hint, quoted(path, True))] = None
    return list(errors)


def _host_paths(data: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The paths of nodes among the workdirs of a manifest, each with its number."""
    storage = data.get("storage")
    workdirs = storage.get("workdirs") if isinstance(storage, Mapping) else None
    for number, workdir in enumerate(workdirs if isinstance(workdirs, list) else ()):
        path = workdir.get("path") if isinstance(workdir, Mapping) and workdir.get("claim") is None else None
        if isinstance(path, str):
            yield number, path


@dataclass(frozen=True)
class _Unique:
    """What only one manifest may have, and the error of a second one; `owner` precedes the first's place in it."""

    identity: Hashable
    loc: Loc
    problem: str
    hint: str = "Keep it in one of them"
    owner: str = ""


def _claimed_names(data: Mapping[str, Any], namespace: str) -> Iterator[_Unique]:
    kind = data.get("kind")
    if kind in {"pool", "quota"}:
        name = _text_at(data, kind, "name")
        if name is not None:
            yield _Unique((kind, name), (kind, "name"), f"duplicate {kind}", "Use different names")
        for node in data.get("nodes", {}):
            yield _Unique(("node", node), ("nodes", node), "node in several pools")
        for limited in data.get("namespaces", {}) if name is not None else ():
            loc = ("namespaces", limited)
            yield _Unique(loc, loc, f"namespace in several quotas: in {name}", owner=f"{name}, ")
    elif (name := _text_at(data, "job", "name")) is not None:
        where = _text_at(data, "job", "namespace") or namespace
        problem = f"duplicate job in namespace {where}"
        yield _Unique(("job", where, name), ("job", "name"), problem, "Use different names")


def _text_at(data: Mapping[str, Any], section: str, field: str) -> str | None:
    block = data.get(section)
    value = block.get(field) if isinstance(block, Mapping) else None
    return value if isinstance(value, str) else None


def _claim_error(claim: _Unique, second: CheckedManifest, earlier: _Unique, first: CheckedManifest) -> ManifestError:
    where = f"document {first.origin.number}" if first.origin.file == second.origin.file else str(first.origin)
    problem = f"{claim.problem}, also in {earlier.owner}{where} ({first.locations[earlier.loc].path})"
    return ManifestError.at(second.origin, second.locations[claim.loc], problem, claim.hint)
