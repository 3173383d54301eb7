# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What several manifests may not be together: the same job twice, one host in two pools, a namespace in two quotas.

Looks at manifests that have other errors as well, so that all errors are told at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .document import Checked
from .problems import ManifestError


def check_across_documents(manifests: Sequence[Checked], namespace: str) -> list[ManifestError]:
    """The errors between manifests. Jobs without a namespace are in `namespace`."""
    claimed: dict[Hashable, tuple[_Claim, Checked]] = {}
    errors: list[ManifestError] = []
    for manifest in manifests:
        for claim in _claims(manifest.data, namespace):
            earlier, first = claimed.setdefault(claim.identity, (claim, manifest))
            if first is not manifest:
                errors.append(_error(claim, manifest, earlier, first))
    return errors


class _Claim(NamedTuple):
    """What only one manifest may say: its identity, where it is said, and the words for who says it again.

    ``owner`` is how those words name who said it first, before its place.
    """

    identity: Hashable
    location: tuple[str | int, ...]
    sentence: str
    remedy: str
    owner: str = ""


def _claims(data: Mapping[str, Any], namespace: str) -> Iterator[_Claim]:
    kind = data.get("kind")
    if kind in {"pool", "quota"}:
        name = _text(data, kind, "name")
        if name is not None:
            yield _Claim((kind, name), (kind, "name"), f"a {kind} of this name is", "give each its own name")
        for node in data.get("nodes", {}):
            yield _Claim(("node", node), ("nodes", node), "this node is in a pool", "keep it in one of them")
        for limited in data.get("namespaces", {}) if name is not None else ():
            sentence = f"quota {name} limits this namespace, which is"
            place = ("namespaces", limited)
            yield _Claim(place, place, sentence, "keep it in one of them", owner=f"quota {name}, ")
        return
    name = _text(data, "job", "name")
    if name is not None:
        where = _text(data, "job", "namespace") or namespace
        sentence = f"a job of this name in namespace {where} is"
        yield _Claim(("job", where, name), ("job", "name"), sentence, "give each its own name")


def _text(data: Mapping[str, Any], section: str, field: str) -> str | None:
    block = data.get(section)
    value = block.get(field) if isinstance(block, Mapping) else None
    return value if isinstance(value, str) else None


def _error(claim: _Claim, second: Checked, earlier: _Claim, first: Checked) -> ManifestError:
    spot, other = second.spots[claim.location], first.spots[earlier.location]
    origin, place = second.origin, spot.node.place
    where = f"document {first.origin.number}" if first.origin.file == origin.file else str(first.origin)
    return ManifestError(
        file=origin.file,
        document=origin.number,
        path=spot.path,
        message=f"{claim.sentence} in {earlier.owner}{where} ({other.path}) already; {claim.remedy}",
        line=place.line,
        column=place.column,
        rank=place.rank,
    )
