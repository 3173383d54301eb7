# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of ansible-core that are not public API, each behind one function.

tests/unit/plugins/action/test_ansible_core.py runs on every supported version of ansible-core.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.callback import CallbackBase
from ansible.utils.unsafe_proxy import wrap_var

try:
    from ansible.module_utils.common.json import Direction, get_module_encoder

    _ENCODER: dict[str, Any] = {"cls": get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)}
except ImportError:  # ansible-core 2.18 and older
    from ansible.module_utils.common.json import AnsibleJSONEncoder

    _ENCODER = {"cls": AnsibleJSONEncoder, "vault_to_text": True}


@dataclass(frozen=True)
class ValidatedOptions:
    """``params`` as AnsibleModule would have them, the values to mask, and ``error`` if they are invalid."""

    params: dict[str, Any]
    secrets: set[str]
    warnings: list[str]
    deprecations: list[dict[str, Any]]
    error: str | None


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A task's options as a module receives them: after a round trip through JSON.

    On the controller, strings carry their origin and whether they are trusted as templates. Returned in a result like
    that, text from a manifest could be rendered as a template.
    """
    plain: dict[str, Any] = json.loads(json.dumps(options, **_ENCODER))
    return plain


def validate_options(spec: Mapping[str, Any], options: Mapping[str, Any], action: str) -> ValidatedOptions:
    """Validate like AnsibleModule, with its messages. ``spec`` holds the arguments of ArgumentSpecValidator."""
    try:
        result = ArgumentSpecValidator(**spec).validate(dict(options))
    except Exception as problem:
        # Not of a dictionary where it expects one, or not of infinity as a number. What is secret is not known.
        return ValidatedOptions({}, set(), [], [], f"an option is not of the documented type: {problem}")
    error = str(result.errors.msg) if result.error_messages else None
    if error and isinstance(result.errors[0], UnsupportedError):
        error = f"Unsupported parameters for ({action}) module: {error}"
    return ValidatedOptions(
        {**options, **result.validated_parameters},
        set(result._no_log_values),
        [f"Both option {each['option']} and its alias {each['alias']} are set." for each in result._warnings],
        list(result._deprecations),
        error,
    )


def as_unsafe(data: Any) -> Any:
    """Data from outside, with every text and key marked so that Ansible never takes it for a template.

    Before ansible-core 2.19, any other text of an inventory plugin is a template. Since then, only a text with the mark
    of trust is one, and this removes that.
    """
    return wrap_var(data)


def shows_messages() -> bool:
    """Whether the message of a failed task is shown as lines: by our callback plugin, and since ansible-core 2.19.

    Older ones quote it as JSON, with the lines run together.
    """
    return C.DEFAULT_STDOUT_CALLBACK == "runwhere.gpuctl.plain" or hasattr(
        CallbackBase, "_handle_warnings_and_exception"
    )


def role_of(task: Any) -> str | None:
    """The role of this collection that the task of an action plugin is in."""
    role = getattr(task, "_role", None)
    collection, _dot, name = str(role.get_name() if role else "").rpartition(".")
    return name if collection == "runwhere.gpuctl" else None


def value_of_result(result: Any, name: str) -> Any:
    """A value of a result that a callback plugin gets. Since ansible-core 2.19, its attribute ``result`` copies all of
    it, which takes long for a thousand rows."""
    data = getattr(result, "_return_data", None)
    return (result._result if data is None else data).get(name)


def keeps_facts() -> bool:
    """Whether facts of a host are there in the next run, as with fact storage of AWX: they are not by default."""
    return str(C.CACHE_PLUGIN).rpartition(".")[2] != "memory"


def hide_origin(task: Any) -> None:
    """Keep the message of a task of this collection to itself: there is nothing to mend where the task is.

    Since 2.19, an error quotes the task in its file (executor/task_executor.py, AnsibleTaskError), which helps in a
    playbook of the user's own.
    """
    if any(f"/runwhere/gpuctl/{folder}/" in str(task.get_path()) for folder in ("playbooks", "roles")):
        task._ds = None


def returns_invocation(variables: Mapping[str, Any]) -> bool:
    """Whether results have ``invocation``: always before ansible-core 2.21, which has a setting for it."""
    try:
        return bool(C.config.get_config_value("INJECT_INVOCATION", variables=variables))
    except AnsibleError:  # no such setting
        return True


def censor_results(result: dict[str, Any]) -> None:
    """Apply no_log to each entry of ``results``.

    A list of that name looks like a loop's. Since 2.19, no_log censors only those entries of it that ask for it
    themselves (executor/task_result.py, as_callback_task_result).
    """
    for entry in result.get("results") or ():
        entry["_ansible_no_log"] = True
