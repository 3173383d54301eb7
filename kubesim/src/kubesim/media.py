# SPDX-License-Identifier: BSD-2-Clause
"""Media types: in which form an answer is wanted, and reading request bodies.

Source: apiserver pkg/endpoints/handlers/negotiation, apimachinery pkg/runtime/serializer.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

from kubesim import errors, protobuf, resources, schema
from kubesim.resources import Resource

JSON, YAML = "application/json", "application/yaml"
KNOWN = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True)
class Form:
    """How an answer is written: media type, and as what (Table, PartialObjectMetadata, PartialObjectMetadataList…)."""

    media: str = JSON
    kind: str = ""
    stream: bool = False


def negotiate(accept: str) -> Form:
    """The first acceptable form of an Accept header; 406 when there is none."""
    if not accept:
        return Form()
    for clause in accept.split(","):
        media, *params = (part.strip() for part in clause.split(";"))
        options = dict(param.partition("=")[::2] for param in params)
        if media in ("*/*", "application/*"):
            return Form()
        if media not in (JSON, YAML):
            continue
        kind = options.get("as", "")
        if not kind:
            return Form(media)
        if options.get("g") == "meta.k8s.io" and options.get("v") == "v1" and kind in _FORMS:
            return Form(media, kind)
    text = f"406: Not Acceptable\n\nAvailable representations: {KNOWN}"
    raise errors.ApiError(406, "NotAcceptable", text, {})


_FORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")


# What go-yaml rejects anywhere (readerc.go, yaml_parser_update_buffer), in JSON too.
_NOT_IN_YAML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")


class _Loader(yaml.CSafeLoader):
    """YAML as JSON knows it: times stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
    for first, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load(body: bytes, content_type: str) -> Any:
    """A JSON or YAML body as data; ValueError when it is neither."""
    if protobuf.MEDIA_TYPE in content_type:
        try:
            return protobuf.load(body)
        except protobuf.Unreadable as error:
            raise errors.unsupported_media_type(f"{KNOWN} (but not {error})") from None
    if "yaml" in content_type:
        if _NOT_IN_YAML.search(body.decode("utf-8", "replace")):
            raise ValueError("error converting YAML to JSON: yaml: control characters are not allowed")
        if body.lstrip().startswith(b"{"):  # nearly always JSON, which is read much faster
            with contextlib.suppress(ValueError):
                return json.loads(body)
        try:
            return yaml.load(body, _Loader)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    return schema.load_json(body)


def dump(value: Any, form: Form) -> bytes:
    if form.media == YAML:
        return yaml.safe_dump(value, sort_keys=True, allow_unicode=True).encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def read_object(
    body: bytes, content_type: str, resource: Resource, kind: str, api_version: str, validation: str
) -> tuple[dict[str, Any], list[str]]:
    """The object of a create or update: (what Go would decode, warnings about unknown and repeated fields).

    ApiError 400 (unreadable, wrong kind, wrong types, unknown fields under Strict), 415."""
    plain_type = content_type.partition(";")[0].strip()
    if plain_type not in ("", JSON, YAML, protobuf.MEDIA_TYPE):
        raise errors.unsupported_media_type(KNOWN)
    given = _load_object(body, plain_type, kind)
    found_version, found_kind = given.get("apiVersion") or api_version, given.get("kind") or kind
    if (found_version, found_kind) != (api_version, kind):
        raise _wrong_kind(found_version, found_kind, resource, kind)
    given["apiVersion"], given["kind"] = api_version, kind
    return decode(given, validation)


def decode(given: dict[str, Any], validation: str) -> tuple[dict[str, Any], list[str]]:
    """An object with apiVersion and kind as Go would decode it, and what strict decoding objects to."""
    kind, version = given["kind"], given["apiVersion"].rpartition("/")[2]
    head = f'{kind} in version "{version}" cannot be handled as a {kind}'
    report = schema.Report() if validation != "Ignore" else None
    try:
        obj = schema.read(given, report)
    except schema.DecodeError as error:
        raise errors.bad_request(f"{head}: {error}") from None
    problems = report.problems if report else []
    if problems and validation == "Strict":
        raise errors.bad_request(f"{head}: strict decoding error: {', '.join(problems)}")
    return obj, problems


def _load_object(body: bytes, media: str, kind: str) -> dict[str, Any]:
    try:
        given = load(body, media)
        if not isinstance(given, dict):
            what = {list: "array", str: "string", bool: "bool"}.get(type(given), "number")
            raise ValueError(
                f"json: cannot unmarshal {what} into Go value of type struct "
                '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
            )
    except (ValueError, RecursionError) as error:
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; "
            f"json parse error: {error} ({body[:16].hex()} ...)"
        ) from None
    return given


def _wrong_kind(found_version: str, found_kind: str, resource: Resource, kind: str) -> errors.ApiError:
    """handlers.transformDecodeError, and the check of the version in the create and update handlers."""
    group, _, version = found_version.rpartition("/")
    if (group, found_kind) == (resource.group, kind) and _is_served(group, version, found_kind):
        expected = resource.api_version
        return errors.bad_request(
            f"the API version in the data ({found_version}) does not match the expected API version ({expected})"
        )
    if _is_served(group, version, found_kind):
        package = resource.group.partition(".")[0] or "core"
        why = f"converting ({version}.{found_kind}) to ({package}.{kind}): unknown conversion"
    else:
        where = f'version "{found_version}" in scheme "pkg/api/legacyscheme/scheme.go:30"'
        why = f'no kind "{found_kind}" is registered for {where}'
    return errors.bad_request(f'{found_kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _is_served(group: str, version: str, kind: str) -> bool:
    return any((r.group, r.version, r.kind) == (group, version, kind) for r in resources.RESOURCES)
