# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the options of a module are called where the user of a task sets them, for module_utils/wording.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..module_utils.wording import Names, worded
from .ansible_core import role_of
from .awx import is_awx_job
from .playbook_variables import Variable, described_playbooks, role_variables, shared_variables

_JOB = "gpuctl_job"


def option_names(module: str, role: str | None, variables: Mapping[str, Any]) -> Names:
    """The names for a task of the module, with these variables, which may be in a role of the collection."""
    # A play of the collection says in this variable which playbook it is. No other play has it.
    name = variables.get("gpuctl_playbook")
    playbook = described_playbooks().get(str(name)) if name else None
    if playbook is None:
        return _names_of_role(role, "{}={{}}") if role else {}
    in_awx = is_awx_job(variables)
    setting = "{}={{}}" if in_awx else "-e {}={{}}"
    names = dict(_names_of_role(role, setting)) if role else {}
    names.update(_names_of_variables(module, playbook.variables.values(), setting, in_awx))
    if _JOB not in playbook.modules:  # What helps is another playbook, with its variables.
        names = {**_names_of_variables(_JOB, shared_variables().values(), setting, in_awx), **names}
    return {**names, **_names_of_playbooks(), **_commands(setting, in_awx)}


def with_option_names(text: str, task: Any, variables: Mapping[str, Any] | None) -> str:
    """The text of an action plugin with the names that its options have where the user sets them."""
    module = task.action.rpartition(".")[2]
    return worded(text, lambda: option_names(module, role_of(task), variables or {}))


def _commands(setting: str, in_awx: bool) -> Names:
    """How to type what is done with another playbook; a job template of AWX has no command."""
    names: dict[str, str] = {}
    for playbook in described_playbooks().values():
        for module in playbook.instead_of:
            names |= {} if in_awx else {f"{module} ": f"ansible-playbook {playbook.full_name}"}
            own = _names_of_variables(module, playbook.variables.values(), setting, in_awx)
            names |= {f"{module}.{option}": name for option, name in own.items() if option.endswith("=")}
    return names


def _names_of_playbooks() -> Names:
    """What is done with another playbook, and not with a module or a state."""
    return {
        name: f"the playbook {playbook.full_name}"
        for playbook in described_playbooks().values()
        for name in (playbook.sets, *playbook.instead_of)
        if name
    }


def _names_of_role(role: str, setting: str) -> Names:
    own = {name.removeprefix(f"{role}_"): name for name in role_variables() if name.startswith(f"{role}_")}
    return {**own, **{f"{option}=": setting.format(name) for option, name in own.items()}}


def _names_of_variables(module: str, variables: Iterable[Variable], setting: str, in_awx: bool) -> dict[str, str]:
    names: dict[str, str] = {}
    for variable in variables:
        question = f' ("{variable.question}" in the survey)' if in_awx and variable.question else ""
        for fed in variable.feeds:
            if fed.startswith(f"{module}."):
                option = fed.partition(".")[2]
                names[option] = variable.name
                names[f"{option}="] = setting.format(variable.name) + question
    return names
