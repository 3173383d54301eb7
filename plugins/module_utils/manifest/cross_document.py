# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Cross-document checks: the same job twice, one host in two pools, a namespace in two quotas.

Manifests that have other errors are checked as well, so that all errors are reported at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .problems import ManifestError
from .reader import Loc
from .validation import CheckedManifest


def check_across_documents(manifests: Sequence[CheckedManifest], namespace: str) -> list[ManifestError]:
    """The errors between manifests. Jobs without a namespace are in `namespace`."""
    claimed: dict[Hashable, tuple[_Claim, CheckedManifest]] = {}
    errors: list[ManifestError] = []
    for manifest in manifests:
        for claim in _claims(manifest.data, namespace):
            earlier, first = claimed.setdefault(claim.identity, (claim, manifest))
            if first is not manifest:
                errors.append(_error(claim, manifest, earlier, first))
    return errors


@dataclass(frozen=True)
class _Claim:
    """What only one manifest may have: an identity, its place in the data, and the error if another has it, too.

    ``owner`` precedes the place of this manifest in the error of the other.
    """

    identity: Hashable
    loc: Loc
    problem: str
    hint: str = "Keep it in one of them"
    owner: str = ""


def _claims(data: Mapping[str, Any], namespace: str) -> Iterator[_Claim]:
    kind = data.get("kind")
    if kind in {"pool", "quota"}:
        name = _text(data, kind, "name")
        if name is not None:
            yield _Claim((kind, name), (kind, "name"), f"duplicate {kind}", "Use different names")
        for node in data.get("nodes", {}):
            yield _Claim(("node", node), ("nodes", node), "node in several pools")
        for limited in data.get("namespaces", {}) if name is not None else ():
            loc = ("namespaces", limited)
            yield _Claim(loc, loc, f"namespace in several quotas: in {name}", owner=f"{name}, ")
    elif (name := _text(data, "job", "name")) is not None:
        where = _text(data, "job", "namespace") or namespace
        problem = f"duplicate job in namespace {where}"
        yield _Claim(("job", where, name), ("job", "name"), problem, "Use different names")


def _text(data: Mapping[str, Any], section: str, field: str) -> str | None:
    block = data.get(section)
    value = block.get(field) if isinstance(block, Mapping) else None
    return value if isinstance(value, str) else None


def _error(claim: _Claim, second: CheckedManifest, earlier: _Claim, first: CheckedManifest) -> ManifestError:
    where = f"document {first.origin.number}" if first.origin.file == second.origin.file else str(first.origin)
    problem = f"{claim.problem}, also in {earlier.owner}{where} ({first.locations[earlier.loc].path})"
    return ManifestError.at(second.origin, second.locations[claim.loc], problem, claim.hint)
