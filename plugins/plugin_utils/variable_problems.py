# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with the variables of a playbook or an inventory file, as sentences with a hint each. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ansible.module_utils.common import validation
from ansible.module_utils.parsing.convert_bool import boolean

from ..module_utils.manifest.problems import abridged, nearest
from ..module_utils.printable import one_line
from .playbook_variables import Playbook, Variable
from .text_table import cut

_PREFIX = "gpuctl"
_ALMOST_THE_SAME = 0.85
_LONGEST_VALUE = 60


def unknown_variables(given: Iterable[Any], known: Collection[str]) -> list[str]:
    """A sentence for each given name that is meant for the playbooks and is not known."""
    sentences = []
    for name in sorted(str(name) for name in given if name not in known):
        meant = next(iter(get_close_matches(name, known, n=1, cutoff=_ALMOST_THE_SAME)), None)
        if name.lower().startswith(_PREFIX):
            meant = meant or _with_similar_end(name, known)
        elif meant is None:
            continue  # It has nothing to do with the playbooks.
        hint = f"Did you mean {meant}?" if meant else f"Rename it. {_PREFIX}* is for the playbooks."
        sentences.append(f"Unknown variable: {one_line(name)}. {hint}")
    return sentences


def unknown_option(given: Iterable[Any], known: Iterable[str], plugin: str) -> str | None:
    """A sentence for the first key of an inventory file that is no option of its plugin.

    Ansible ignores such keys, and a misspelt filter would filter nothing.
    """
    options = sorted(known)
    for key in given:
        if key not in options:
            close = get_close_matches(str(key), options, n=1)
            hint = f"Did you mean {close[0]}?" if close else f"Valid options: {', '.join(options)}."
            return f"{key!r}: unknown option of {plugin}. {hint}"
    return None


def cut_values(extra: Mapping[str, Any]) -> list[str]:
    """A sentence if Ansible has cut a value: without quotes of its own, ``-e NAME=VALUE`` ends at the first space.

    The rest is in _raw_params, which is not shown: it may be a part of a secret.
    """
    if not extra.get("_raw_params"):
        return []
    opened = [name for name, value in extra.items() if str(value).startswith(("{", "[")) and name.startswith(_PREFIX)]
    subject = f"{', '.join(opened)}: " if opened else ""
    name = opened[0] if opened else f"{_PREFIX}_…"
    return [f"{subject}Ansible cuts a value of -e at its first space. Give it as JSON: -e '{{\"{name}\": …}}'"]


def _with_similar_end(name: str, known: Iterable[str]) -> str | None:
    """The known name that is similar after the prefix, which alone would make any two of them similar."""
    by_end = {each[len(_PREFIX) + 1 :]: each for each in known if each.startswith(_PREFIX)}
    return by_end.get(nearest(name[len(_PREFIX) + 1 :], by_end) or "")


def value_problems(playbook: Playbook, values: Mapping[str, Any], *, in_awx: bool) -> list[str]:
    """A sentence for all that is missing, and one for each value that the playbook cannot take.

    ``values`` are those of the variables of the playbook, and of their aliases.
    """
    given = {
        each.name
        for each in playbook.variables.values()
        if any(name in values and not _is_blank(each, values[name]) for name in each.names)
    }
    return [
        *_missing_variables(playbook, values, given, in_awx),
        *_exclusive(playbook, given),
        *(problem for variable in playbook.variables.values() if (problem := _value_problem(variable, values))),
    ]


def several_clusters(
    playbook: Playbook, clusters: Sequence[str], values: Mapping[str, Any], host: str, *, in_awx: bool
) -> list[str]:
    """A sentence for each thing that the playbook would do on several clusters, and that is for one."""
    is_placed = _PLACED in playbook.variables and values.get(_PLACED) not in _OFF
    if is_placed and values.get("gpuctl_state") not in (*_OFF, "present"):
        return [f"{_PLACED} is for jobs that are submitted. Leave out gpuctl_state."]
    if len(clusters) < 2:
        return []
    these = _these(clusters, in_awx)
    # Manifests may say themselves where a job may go.
    may_say = values.get("gpuctl_home") not in _OFF and values.get("gpuctl_state") in (*_OFF, "present")
    is_placed = is_placed or (may_say and "gpuctl_home" in playbook.variables)
    is_found = playbook.clusters == "of_job" and values.get("gpuctl_name") and "," not in str(values["gpuctl_name"])
    if (playbook.clusters == "one" and not is_placed) or (playbook.clusters == "of_job" and not is_found):
        if "gpuctl_home" in playbook.variables and _PLACED in playbook.variables:
            return [unplaced_problem(playbook.full_name, clusters, in_awx=in_awx)]
        placed = f" With {_setting(in_awx)}, it acts in each of them." if _PLACED in playbook.variables else ""
        return [f"{playbook.full_name} is for one cluster, {these}.{placed}"]
    problems = [f"{name} is for one cluster, {these}." for name in _ENDLESS if values.get(name) not in _OFF]
    return problems + [
        f"{name}: each cluster would write to this file, {these}, or write {{{{ inventory_hostname }}}} in its name."
        for name in _WRITTEN
        if values.get(name) and not _is_one_file(playbook, str(values[name])) and host not in str(values[name])
    ]


def unplaced_problem(playbook: str, clusters: Sequence[str], *, in_awx: bool) -> str:
    """What to say if nothing chooses among several clusters."""
    placed = f"With {_setting(in_awx)}, the job goes to one in which it runs."
    return f"{playbook} is for one cluster, {_these(clusters, in_awx)}. {placed}"


def _these(clusters: Sequence[str], in_awx: bool) -> str:
    return f"and these are {len(clusters)}: {abridged(clusters, 3)}. {choose_cluster(clusters[0], in_awx=in_awx)}"


def _setting(in_awx: bool) -> str:
    return f"the extra variable {_PLACED}=all" if in_awx else f"-e {_PLACED}=all"


def _is_one_file(playbook: Playbook, path: str) -> bool:
    """Whether all clusters are in one file. A saved plan is applied to the cluster that it was made for."""
    return playbook.clusters == "together" and not (playbook.name == "plan" and path.endswith(".json"))


def choose_cluster(cluster: str, *, in_awx: bool) -> str:
    return f"Choose one in the survey or as the limit, such as {cluster}" if in_awx else f"Add --limit {cluster}"


_ENDLESS = ("gpuctl_watch",)
_WRITTEN = ("gpuctl_output",)
_PLACED = "gpuctl_clusters"
_OFF = (None, "", 0, "0")


def _missing_variables(
    playbook: Playbook, values: Mapping[str, Any], given: Collection[str], in_awx: bool
) -> Iterator[str]:
    conditional = (names for name, value, names in playbook.required_if if values.get(name) == value)
    required = [each.name for each in playbook.variables.values() if each.required]
    alternatives = [[name] for name in (*required, *(name for names in conditional for name in names))]
    groups = [[playbook.variables[name] for name in group] for group in (*alternatives, *playbook.required_one_of)]
    missing = [group for group in groups if not any(each.name in given for each in group)]
    if missing:
        names = ", ".join(" or ".join(each.name for each in group) for group in missing)
        add = _survey_hint if in_awx else _on_command_line
        yield f"Missing variable{'s' if len(missing) > 1 else ''}: {names}. {add(missing)}"


def _on_command_line(missing: Sequence[list[Variable]]) -> str:
    groups = [
        [f"-e {each.name}={shlex.quote(str(each.example))}" for each in group if each.example] for group in missing
    ]
    return f"Add {' '.join(' or '.join(group) for group in groups)}."


def _survey_hint(missing: Sequence[list[Variable]]) -> str:
    questions = [f'"{each.question}"' for group in missing for each in group if each.question]
    answer = f"Answer {', '.join(questions)} in the survey, or set" if questions else "Set"
    return f"{answer} the extra variable{'s' if len(missing) > 1 else ''}."


def _exclusive(playbook: Playbook, given: Collection[str]) -> Iterator[str]:
    for group in playbook.mutually_exclusive:
        names = [name for name in group if name in given]
        if len(names) > 1:
            yield f"{' and '.join(names)} exclude each other. Give one of them."


def _value_problem(variable: Variable, values: Mapping[str, Any]) -> str | None:
    name = next((name for name in variable.names if name in values), None)
    if name is None:
        return None
    value = values[name]
    if _is_blank(variable, value):
        such_as = f", such as {variable.example}," if variable.example else ""
        return f"{name}: empty. Give a value{such_as} or leave it out." if variable.not_empty else None
    shown = "" if variable.secret else f": {cut(one_line(str(value)), _LONGEST_VALUE)}"
    what, hint, check = _TYPES[variable.type]
    try:
        check(value)
    except (TypeError, ValueError, OverflowError):  # The last one for inf.
        return f"{name}: not {what}{shown}. {hint}{f' such as {variable.example}' if variable.example else ''}."
    chosen = validation.check_type_list(value) if variable.type == "list" else [value]
    if variable.choices and (unknown := [each for each in map(_stripped, chosen) if each not in variable.choices]):
        shown = "" if variable.secret else f": {cut(one_line(', '.join(unknown)), _LONGEST_VALUE)}"
        valid = f"one of: {', '.join(variable.choices)}" if len(variable.choices) > 1 else variable.choices[0]
        return f"{name}: unknown value{shown}. Use {valid}."
    return None


def _is_blank(variable: Variable, value: Any) -> bool:
    """Whether a value stands for none, as the empty answer of a survey does; in a list, also blanks between commas."""
    if isinstance(value, str):
        return not value.strip(", \t\n" if variable.type == "list" else None)
    return value is None or (isinstance(value, (list, dict)) and all(_is_blank(variable, item) for item in value))


def _stripped(value: Any) -> str:
    return str(value).strip()


def _number_check(check: Callable[[Any], object]) -> Callable[[Any], object]:
    def check_number(value: Any) -> None:
        if isinstance(value, bool):
            raise TypeError(value)
        check(value)

    return check_number


def _check_text(value: Any) -> None:
    if isinstance(value, (list, dict)):
        raise TypeError(value)


def _check_list(value: Any) -> None:
    for item in validation.check_type_list(value):
        _check_text(item)


# What a value of the type is, what to do about another one, and what raises TypeError or ValueError for that.
_TYPES: dict[str, tuple[str, str, Callable[[Any], object]]] = {
    "bool": ("a boolean", "Use true or false", boolean),
    "float": ("a number", "Use a number", _number_check(validation.check_type_float)),
    "int": ("a whole number", "Use a number", _number_check(validation.check_type_int)),
    "list": ("a list of strings", "Use a list or a string", _check_list),
    "path": ("a path", "Use a path", _check_text),
    "raw": ("a value", "Correct it", lambda value: None),
    "str": ("a string", "Use a string", _check_text),
}
