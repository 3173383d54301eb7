# SPDX-License-Identifier: BSD-2-Clause
"""Advice in the manifests that declare the jobs: which scalar to replace, and by what. Pure.

A scalar is replaced where it stands, so comments, order, quotes, indentation and line ends stay as their author wrote
them. What cannot be replaced there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from ...manifest.budget import Budget
from ...manifest.kinds import is_job
from ...manifest.load import from_text
from ...manifest.matrix import validate_each
from ...manifest.place import Place
from ...manifest.problems import ManifestError
from ...manifest.syntax import source_lines
from ...manifest.tree import MapNode, Node, ScalarNode, SourceNode
from ...manifest.validation import CheckedManifest
from ...quantity import QuantityError, parse
from .advice_rules import GPU, SHARE

JobKey: TypeAlias = "tuple[str, str, str]"
"""Kind, namespace and name."""

AFTER_SUBMITTING = "Submit it, and look again once it has run."
_AMOUNT = re.compile(r"[0-9]+[A-Za-z]{0,2}")


class Edit(NamedTuple):
    """The text from ``start`` to ``end`` becomes ``text``."""

    start: int
    end: int
    text: str


class NotPatched(Exception):
    """Why a value stays as it is, as a sentence."""


@dataclass(frozen=True)
class DeclaredJob:
    """A job where it is declared: the text of the file, and the document or item in it."""

    file: str
    text: str
    source: SourceNode
    checked: CheckedManifest

    def line_of(self, what: str) -> int:
        """That of the field, else that of the manifest."""
        found = self.checked.locations.get(_path_of(what), self.source.location)
        return found.node.place.line or 1


def checked_manifests(file: str, text: str) -> Iterator[tuple[SourceNode, CheckedManifest]]:
    """The manifests of a text that can be read, and what is wrong with each."""
    budget = Budget()
    for source in from_text(text, file, 1, budget):
        if not isinstance(source, ManifestError):
            yield from ((source, checked) for checked in validate_each(source, budget))


def declared_jobs(file: str, text: str, namespace: str) -> dict[JobKey, DeclaredJob]:
    """The jobs of a file; those without a namespace are in ``namespace``."""
    found: dict[JobKey, DeclaredJob] = {}
    for source, checked in checked_manifests(file, text):
        if checked.document and is_job(model := checked.document.model):
            key = model.kind, model.job.namespace or namespace, model.job.name
            found[key] = DeclaredJob(file, text, source, checked)
    return found


def edit_of(job: DeclaredJob, row: Mapping[str, Any]) -> Edit:
    """The replacement that a row of advice stands for. Raises NotPatched."""
    what, asked, advised = str(row["what"]), str(row["asked"]), str(row["advised"])
    found = job.checked.locations.get(_path_of(what))
    manifest = job.source.location.node
    if isinstance(manifest, MapNode) and any(key.text == "matrix" for key, _value in manifest.entries):
        raise NotPatched("it is one of a sweep, and all of its trainings ask for the same. Change it by hand.")
    if found is None or not isinstance(found.node, ScalarNode):
        raise NotPatched(f"the manifest does not set it, so it is a default. Add {what.partition('.')[2]}: {advised}.")
    # What the manifest means, whatever its spelling.
    value: Any = job.checked.document and job.checked.document.model
    for name in _path_of(what):
        value = getattr(value, name, None)
    if _amount(value) is None or _amount(value) != _amount(asked):
        raise NotPatched(f"the manifest asks for {found.node.text}, and what runs for {asked}. {AFTER_SUBMITTING}")
    is_share = what == SHARE
    if not _AMOUNT.fullmatch(advised) or (not is_share and (_amount(advised) or 0) >= (_amount(asked) or 0)):
        raise NotPatched("the advice is no smaller amount.")
    if shared := _shared_by(job, found.node):
        raise NotPatched(f"its value comes from {shared}, which others may use. Change it by hand.")
    start = _offset(job.text, found.node.place)
    for quote in ("", '"', "'"):
        if job.text.startswith(f"{quote}{found.node.text}{quote}", start):
            start += len(quote)
            edit = Edit(start, start + len(found.node.text), advised)
            return _with_key(job, found.node, edit) if is_share else edit
    raise NotPatched("its value is not written as it is read. Change it by hand.")


def _with_key(job: DeclaredJob, value: Node, edit: Edit) -> Edit:
    """The key ``gpu`` becomes ``gpu-share`` with its value; what is between them stays."""
    key = _steps_to(job.source.location.node, value)[-1][0]
    start, old, new = _offset(job.text, key.place), GPU.rpartition(".")[2], SHARE.rpartition(".")[2]
    start += job.text.startswith(('"', "'"), start)
    if ("resources", "gpu_share") in job.checked.locations or not job.text.startswith(old, start):
        raise NotPatched("the manifest sets gpu-share beside gpu, or gpu in another spelling. Change it by hand.")
    return Edit(start, edit.end, new + job.text[start + len(old) : edit.start] + edit.text)


def with_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with the replacements, which do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _path_of(what: str) -> tuple[str, ...]:
    """Where the manifest has what is to be replaced: a share is in place of whole GPUs."""
    return tuple((GPU if what == SHARE else what).split("."))


def _amount(value: Any) -> Fraction | None:
    try:
        return parse(str(value)).value
    except QuantityError:
        return None


def _shared_by(job: DeclaredJob, wanted: Node) -> str:
    """The YAML by which a value, or a map around it, stands in several places; "" for one that stands only here.

    An anchor is in front of what it names. What an alias stands for is read from before its key, and a key that a merge
    brings from before the map that it is in.
    """
    parent = job.source.location.node
    marks = [_mark(job.text, parent.place)]
    for key, value in _steps_to(parent, wanted):
        marks.append("a merge key" if key.place.rank < parent.place.rank else "")
        marks.append("an alias" if value.place.rank < key.place.rank else _mark(job.text, value.place))
        parent = value
    return next(filter(None, marks), "")


def _steps_to(node: Node, wanted: Node) -> list[tuple[ScalarNode, Node]]:
    """The keys and values from a map down to the very node."""
    for key, value in node.entries if isinstance(node, MapNode) else ():
        below = _steps_to(value, wanted)
        if below or value is wanted:
            return [(key, value), *below]
    return []


def _mark(text: str, place: Place) -> str:
    return {"&": "an anchor", "!": "a tag"}.get(text[_offset(text, place) :][:1], "")


def _offset(text: str, place: Place) -> int:
    return _line_starts(text)[(place.line or 1) - 1] + (place.column or 1) - 1


@lru_cache(maxsize=2)  # The values of a file are looked for one after the other.
def _line_starts(text: str) -> tuple[int, ...]:
    return tuple(accumulate(map(len, source_lines(text)), initial=0))
