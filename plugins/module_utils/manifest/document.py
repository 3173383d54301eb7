# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""A manifest on its way: as it was written, and as it is when it is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .problems import ManifestError
from .tree import Node

if TYPE_CHECKING:
    from .models import Manifest
    from .reader import Spot


class Origin(NamedTuple):
    """Where a manifest came from: the file as it was named ("definition" for none), and its number in it from 1."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, document {self.number}"


@dataclass(frozen=True)
class SourceNode:
    """A manifest as a tree; `path` is where it stands in its document, '' for all of it."""

    node: Node = field(repr=False)
    origin: Origin
    path: str = ""


@dataclass(frozen=True)
class Document:
    """A validated manifest, where it came from, and what its author should know though it is valid.

    `warnings` are sentences that name file, document and path.
    """

    model: Manifest
    origin: Origin
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checked:
    """A manifest after validation: the document if it is valid, and what is known of it if it is not.

    `data` is by field names and not validated; `spots` say where each piece of it was written. Both have secrets.
    """

    origin: Origin
    document: Document | None = None
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spots: Mapping[tuple[str | int, ...], Spot] = field(default_factory=dict, repr=False)
    errors: tuple[ManifestError, ...] = ()
