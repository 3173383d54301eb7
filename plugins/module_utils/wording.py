# SPDX-License-Identifier: BSD-2-Clause
"""How messages name options and modules: as they are called where the user can change them.

The same task may come from a playbook of this collection, a survey of AWX, a role or a playbook of the user, and its
option ``takeover`` is ``gpuctl_takeover``, ``jobs_takeover`` or ``takeover`` there. Texts mark what they name as
Ansible's documentation does, ``O(takeover)``, ``O(takeover=true)`` or ``M(gpuctl_pool,gpuctl_quota)``, and task.py
fills in the names at the edge. What is done with another module, ``M(gpuctl_workspace namespace=a)``, is a command to
type where there is a playbook for it. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

# The variable of the environment in which a module process gets its names.
WORDING = "GPUCTL_WORDING"

_MARK = re.compile(r"\b[OM]\(([a-z_]+(?:,[a-z_]+)*)(?:=([^()\s]+))?\)")
_CALL = re.compile(r"\bM\(([a-z_]+)((?: [a-z_.]+=[^()\s]+)+)\)")
_PROSE = ("error", "hint", "problem", "reason")
_ROW = "fit"  # a row within a row
# Ours, too. A message elsewhere, such as that of an event, is what others have written.
_FAILED_NODES, _MESSAGE = "failed_nodes", "message"

Names = Mapping[str, str]
"""The words for what messages mark: ``takeover`` the name of that option, ``takeover=`` how to set it, with {} for the
value, ``state=paused`` what sets it to this value, ``gpuctl_job_info`` what is used in place of that module,
``gpuctl_workspace `` the command in its place without options, ``gpuctl_workspace.namespace=`` how to set one there."""


def worded(text: str, names: Callable[[], Names] = dict) -> str:
    """The text with the names; they are only asked for if the text has a mark."""

    def name(mark: re.Match[str]) -> str:
        found = _option_name(mark[1], mark[2], names())
        # A phrase begins a sentence with a capital; a name is written as it is everywhere.
        begins = found.startswith("the ") and text[: mark.start()].endswith((". ", "? ", ".\n"))
        return f"T{found[1:]}" if begins else found

    return _MARK.sub(name, _CALL.sub(lambda mark: _call(mark[1], mark[2].split(), names()), text))


def _call(module: str, options: list[str], names: Names) -> str:
    pairs = (option.partition("=") for option in options)
    settings = [names.get(f"{module}.{key}=", f"{key}={{}}").replace("{}", value) for key, _equals, value in pairs]
    if command := names.get(f"{module} "):
        return " ".join([command, *settings])
    return f"{names.get(module, module)} ({', '.join(settings)})"


def _option_name(name: str, value: str | None, names: Names) -> str:
    if value is None:
        return " or ".join(dict.fromkeys(names.get(each, each) for each in name.split(",")))
    return names.get(f"{name}={value}") or names.get(f"{name}=", f"{name}={{}}").replace("{}", value)


def worded_result(result: Mapping[str, Any], names: Callable[[], Names]) -> dict[str, Any]:
    """The result of a module with the names in its message and notes, and in the errors and reasons of its rows."""
    return {key: _worded_value(key, value, names) for key, value in result.items()}


def _worded_value(key: str, value: Any, names: Callable[[], Names]) -> Any:
    if key == "msg" and isinstance(value, str):
        return worded(value, names)
    if key == _FAILED_NODES and isinstance(value, list):
        return [{**row, _MESSAGE: worded(row[_MESSAGE], names)} for row in value]
    if key == "notes" and isinstance(value, list):
        return [worded(str(note), names) for note in value]
    if isinstance(value, list) and any(_is_marked(row) for row in value):
        return [_worded_row(row, names) if _is_marked(row) else row for row in value]
    return value


def _is_marked(row: Any) -> bool:
    if not isinstance(row, Mapping):
        return False
    texts = (str(row[key]) for key in _PROSE if row.get(key))
    return any(_MARK.search(text) or _CALL.search(text) for text in texts) or _is_marked(row.get(_ROW))


def _worded_row(row: Mapping[str, Any], names: Callable[[], Names]) -> dict[str, Any]:
    inner = {_ROW: _worded_row(row[_ROW], names)} if isinstance(row.get(_ROW), Mapping) else {}
    return {**row, **inner, **{key: worded(row[key], names) for key in _PROSE if isinstance(row.get(key), str)}}


def names_in(environ: Mapping[str, str]) -> Names:
    """The names that a module process was given; none if they are not readable."""
    try:
        given = json.loads(environ.get(WORDING) or "{}")
    except ValueError:
        return {}
    return {str(name): str(word) for name, word in given.items()} if isinstance(given, dict) else {}
