# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module's core in Ansible's own worker process, where a module could only do the same in another one.

A module's process costs a start of Python, the transfer of the code and the import of the libraries, for each task
anew. The worker is a fork of ansible-playbook, which has imported all that once. What a task does and says is the same
on both ways, because the core and its argument spec are the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from ansible import constants as C
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.parameters import remove_values
from ansible.module_utils.errors import UnsupportedError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, TaskResult, run_task
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fast_path import ExecutionContext, module_process_reason
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.serialization import module_params


class LocalAction(ActionBase):  # type: ignore[misc]
    """The action plugin of a module: ``core`` is what stands behind both."""

    core: ClassVar[ModuleSpec[Any]]

    _supports_async = True  # by the module

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        environment = self._environment()
        reason = module_process_reason(self._execution_context(variables, environment))
        if reason is None:
            return self._unseen(result | self._run_here(variables, environment))
        Display().vvv(f"{self._task.action} runs as a module: {reason}", host=variables.get("inventory_hostname"))
        # As ansible.builtin.normal does, which would have run the module if this plugin were not there.
        wrap_async = self._task.async_val and not self._connection.has_native_async
        result |= self._execute_module(task_vars=task_vars, wrap_async=wrap_async)
        return self._unseen(result)

    def _unseen(self, result: dict[str, Any]) -> dict[str, Any]:
        """A list ``results`` looks like a loop's: with no_log, ansible-core hides those of its entries that say so
        themselves (since 2.19: executor/task_result.py, as_callback_task_result)."""
        if self._task.no_log:
            for entry in result.get("results") or ():
                entry["_ansible_no_log"] = True
        return result

    def _execution_context(self, variables: Mapping[str, Any], environment: Mapping[str, str]) -> ExecutionContext:
        return ExecutionContext(
            transport=self._connection.transport,
            becomes=self._connection.become is not None,
            is_async=bool(self._task.async_val),
            interpreter=self._interpreter(variables),
            environment=environment,
        )

    def _interpreter(self, variables: Mapping[str, Any]) -> str:
        """The Python that variables, environment or ansible.cfg ask for, or one of the words for "find one"."""
        host = self._task.delegate_to
        if host:
            variables = variables.get("ansible_delegated_vars", {}).get(host, {})
        return str(self._templar.template(C.config.get_config_value("INTERPRETER_PYTHON", variables=variables)))

    def _environment(self) -> dict[str, str]:
        """What the keyword ``environment`` of task, block and play says."""
        given: dict[str, Any] = {}
        self._compute_environment_string(given)
        return {name: str(value) for name, value in given.items()}

    def _run_here(self, variables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
        """What AnsibleModule does with a task: validate, run, report without secrets."""
        given = module_params(self._task.args)
        validation = ArgumentSpecValidator(**self.core.arguments()).validate(given)
        params = given | validation.validated_parameters
        secrets: set[str] = set(validation._no_log_values)
        warnings = [
            f"Both option {each['option']} and its alias {each['alias']} are set." for each in validation._warnings
        ]

        def progress(line: str) -> None:
            if not self._task.no_log:
                where = f"{variables.get('inventory_hostname')}: {self._task.get_name()}"
                Display().display(f"[{where}] {remove_values(line, secrets)}")

        if validation.error_messages:
            outcome = TaskResult({"msg": self._refusal(validation)}, failed=True)
        else:
            task = Task(
                self.core.read_options(params),
                params,
                self._task.check_mode,
                warnings.append,
                secrets.update,
                progress=progress,
                diff_mode=self._task.diff,
                environ={**os.environ, **environment},
            )
            with _working_directory(self._loader.get_basedir()):
                outcome = run_task(task, self.core)
        result = {**outcome.result, "invocation": {"module_args": params}}
        if warnings:
            result["warnings"] = list(dict.fromkeys(warnings))
        if validation._deprecations:
            result["deprecations"] = validation._deprecations
        return {**_without(secrets, result), **({"failed": True} if outcome.failed else {})}

    def _refusal(self, validation: Any) -> str:
        message = str(validation.errors.msg)
        if isinstance(validation.errors[0], UnsupportedError):
            return f"Unsupported parameters for ({self._task.action}) module: {message}"
        return message


def _without(secrets: set[str], result: dict[str, Any]) -> dict[str, Any]:
    """The result as a module's would come back: without secrets, and plain after its way through JSON."""
    # A short secret may be spelt like a truth value, which says nothing of it (AnsibleModule spares them too).
    spared = {name: value for name, value in result.items() if value is None or isinstance(value, bool)}
    shown = remove_values(result, secrets) | spared if secrets else result
    received: dict[str, Any] = json.loads(json.dumps(shown))
    return received


@contextmanager
def _working_directory(path: str) -> Iterator[None]:
    """Relative paths in options, kubeconfigs and exec plug-ins mean what they mean in a module: the local connection
    starts those in the directory of the playbook. A worker does one task at a time, so nobody else is moved."""
    former = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(former)
