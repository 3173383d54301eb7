# SPDX-License-Identifier: BSD-2-Clause
"""The options of a module as a dataclass: name, Python type and argument spec of each in one line.

They do not include the connection options, which kube/connection_options.py reads from the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

OptionsT = TypeVar("OptionsT", bound="Options")


def option(type: str, *, default: Any = None, required: bool = False, **spec: Any) -> Any:
    """A field of an Options class. The arguments are those of Ansible's argument spec."""
    facts = {"type": type, **({"required": True} if required else {"default": default}), **spec}
    return field(default=MISSING if required else default, metadata=facts)  # pylint: disable=invalid-field-call


@dataclass(frozen=True, kw_only=True)
class Options:
    """The base class. Subclasses are frozen, keyword-only dataclasses too."""

    @classmethod
    def argument_spec(cls) -> dict[str, dict[str, Any]]:
        """What AnsibleModule validates the options by."""
        return {each.name: dict(each.metadata) for each in fields(cls)}

    @classmethod
    def from_params(cls: type[OptionsT], params: Mapping[str, Any]) -> OptionsT:
        """The options among the parameters that Ansible has validated."""
        return cls(**{each.name: params[each.name] for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class ConcurrencyOptions(Options):
    """The option of modules that write many objects. The client reads it like a connection option."""

    concurrency: int = option("int", default=10)


@dataclass(frozen=True, kw_only=True)
class DeclaringOptions(Options):
    """What declares the manifests of a task, and the sources whose objects it takes over; see declared_source.py."""

    source: str | None = option("str")
    adopt: list[str] | None = option("list", elements="str")
