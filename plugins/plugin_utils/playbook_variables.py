# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks of the collection and their variables, as playbooks/vars/playbooks.yml describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_COLLECTION = Path(__file__).resolve().parents[2]
_DESCRIPTION = _COLLECTION / "playbooks" / "vars" / "playbooks.yml"


@dataclass(frozen=True)
class Variable:
    """A variable as one playbook takes it."""

    name: str
    description: tuple[str, ...]
    type: str
    elements: str | None = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    example: str | None = None
    feeds: tuple[str, ...] = ()
    question: str | None = None
    secret: bool = False
    not_empty: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The name, and those that stand for it."""
        return self.name, *self.aliases

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Any]) -> Variable:
        return cls(name, **{key: _hashable(value) for key, value in facts.items()} | _paragraphs(facts))


@dataclass(frozen=True)
class Playbook:
    """A playbook, and its variables by name, in the order in which a person reads about them."""

    name: str
    short_description: str
    description: tuple[str, ...]
    modules: tuple[str, ...]
    variables: Mapping[str, Variable]
    required_one_of: tuple[tuple[str, ...], ...] = ()
    mutually_exclusive: tuple[tuple[str, ...], ...] = ()
    required_if: tuple[tuple[Any, ...], ...] = ()
    sets: str | None = None
    instead_of: tuple[str, ...] = ()
    in_command: tuple[str, ...] = ()
    clusters: str = "each"

    @property
    def full_name(self) -> str:
        return f"runwhere.gpuctl.{self.name}"

    @property
    def names(self) -> list[str]:
        """All names that its variables have."""
        return [name for variable in self.variables.values() for name in variable.names]


@lru_cache(maxsize=1)
def described_playbooks() -> dict[str, Playbook]:
    """All playbooks by name."""
    return {name: _playbook(name, _descriptions()) for name in _descriptions()["playbooks"]}


@lru_cache(maxsize=1)
def shared_variables() -> dict[str, Variable]:
    """The variables of all playbooks: a workflow gives its variables to each of its playbooks."""
    return {name: Variable.of(name, facts) for name, facts in _descriptions()["variables"].items()}


@lru_cache(maxsize=1)
def _descriptions() -> dict[str, Any]:
    described: dict[str, Any] = _read_yaml(_DESCRIPTION)
    return described


@lru_cache(maxsize=1)
def role_variables() -> tuple[str, ...]:
    """The names of the variables of all roles, which playbooks pass on to them."""
    specs = sorted(_COLLECTION.glob("roles/*/meta/argument_specs.yml"))
    return tuple(name for spec in specs for name in _read_yaml(spec)["argument_specs"]["main"]["options"])


def preload() -> None:
    """Read all of it before Ansible forks its workers, each of which checks the variables of a host."""
    described_playbooks()
    shared_variables()
    role_variables()


def _playbook(name: str, described: Mapping[str, Any]) -> Playbook:
    facts = described["playbooks"][name]
    like = _playbook(facts["like"], described) if "like" in facts else None
    without = facts.get("without", ())
    modules = tuple(facts.get("modules") or (like.modules if like else ()))
    own = {
        variable: Variable.of(variable, _fed(described["variables"][variable] | (changes or {}), modules))
        for variable, changes in facts.get("variables", {}).items()
    }
    inherited = {each.name: each for each in like.variables.values() if each.name not in without} if like else {}

    def groups(kind: str) -> tuple[tuple[str, ...], ...]:
        given = facts.get(kind) or (getattr(like, kind) if like else ())
        return tuple(tuple(group) for group in given if not set(group) <= set(without))

    return Playbook(
        name,
        facts["short_description"],
        _paragraphs(facts)["description"],
        modules,
        {**own, **{variable: each for variable, each in inherited.items() if variable not in own}},
        groups("required_one_of"),
        groups("mutually_exclusive"),
        tuple(tuple(condition) for condition in facts.get("required_if", ())),
        facts.get("sets"),
        tuple(facts.get("instead_of", ())),
        tuple(facts.get("in_command", ())),
        facts.get("clusters") or (like.clusters if like else "each"),
    )


def _fed(facts: Mapping[str, Any], modules: Sequence[str]) -> dict[str, Any]:
    """The facts of a variable with the options of those modules alone."""
    fed = [option for option in facts.get("feeds", ()) if option.partition(".")[0] in modules]
    return {**facts, "feeds": fed}


def _paragraphs(facts: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    text = facts.get("description", ())
    return {"description": (text,) if isinstance(text, str) else tuple(text)}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _read_yaml(path: Path) -> Any:
    import yaml

    # The loader in C is ten times as fast.
    return yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
