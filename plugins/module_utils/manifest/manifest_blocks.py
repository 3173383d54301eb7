# SPDX-License-Identifier: BSD-2-Clause
"""What the manifests of all kinds have in common, as types.

`serialization_alias` is the documented spelling of a key; the reader converts the others and reports unknown keys.
Values arrive as the text that the user wrote. The JSON Schemas and the manifest guide are generated from these classes:
one frozen class per kind and per block, with snake_case attributes.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from . import rules
from ._pydantic import BaseModel, ConfigDict, Field


class Block(BaseModel):
    """A part of a manifest. Rejects unknown keys too, for models built without load()."""

    # pydantic prepares a kind with its first manifest, and no block by itself: half of the time.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)
    IGNORED: ClassVar[dict[str, str]] = {}
    """Keys without effect that load with a warning, and what to do instead, as sentences."""


def optional(block: type[Block], description: str, **options: Any) -> Any:
    """A field whose default is the block without keys: always the same one, as nothing changes blocks."""
    return Field(default_factory=cache(block.model_construct), description=description, **options)


class VersionedManifest(Block):
    """What all manifests have in common."""

    kind: str
    version: rules.Version | None = Field(
        default=None, description="Version of the manifest format.", examples=["v0.1", "v1"]
    )


class Section(Block):
    """The name and description of a pool, quota or policy."""

    name: rules.DnsLabel = Field(description="Name of the pool, quota or policy.", examples=["training-pool"])
    description: rules.Description | None = Field(default=None, description="Purpose of the pool, quota or policy.")
