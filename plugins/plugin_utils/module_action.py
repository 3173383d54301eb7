# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of every module: run the module's core in Ansible's own worker process where that is the same.

A module's process costs a start of Python, the transfer of the code and the import of the libraries for every task. The
worker is a fork of ansible-playbook, which has imported all of that once. Results and messages do not depend on the
path, because the core and its argument spec are the same.

plugins/action/ has a file per module that imports this class. A redirect in meta/runtime.yml would need none, but
module_defaults of a single module would then apply to all of them (playbook/base.py, _resolve_action).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ansible import constants as C
from ansible.module_utils.common.parameters import remove_values
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils.insight.prometheus.prometheus_options import (
    PROMETHEUS_PATHS,
    PrometheusOptions,
    prometheus_credentials,
    without_prometheus_credentials,
)
from ..module_utils.libraries import with_requirements_file
from ..module_utils.printable import AT_ONCE, printable, printable_data
from ..module_utils.reporter import ProgressReporter
from ..module_utils.task import ModuleSpec, Task, run_task, shown_options
from ..module_utils.wording import WORDING, Names, worded
from .ansible_core import (
    censor_results,
    hide_origin,
    keeps_facts,
    plain_options,
    returns_invocation,
    role_of,
    validate_options,
)
from .awx import awx_environment
from .cluster_hosts import GROUP, cluster_environment, cluster_of_several, cluster_options, with_last_answer
from .environment_options import environment_credentials, secret_variables, without_credentials
from .fast_path import ExecutionContext, module_process_reason
from .option_names import option_names
from .terminal import TaskScreen

_FILES = ("KUBECONFIG", "CERT_FILE", "CLIENT_CERT", "KEY_FILE", "CLIENT_KEY", "SSL_CA_CERT", "CA_CERT")
_PATHS = ("GPUCTL_POLICY", "KUBECONFIG", *(f"K8S_AUTH_{name}" for name in _FILES), *PROMETHEUS_PATHS)
_PLUGINS = "ansible_collections.runwhere.gpuctl.plugins"


def module_spec(name: str) -> ModuleSpec[Any]:
    """The core of the module ``gpuctl_…``."""
    spec: ModuleSpec[Any] = import_module(f"{_PLUGINS}.modules.{name}").MODULE
    return spec


def preload(module: str) -> None:
    """Import what a task of the module needs. Manifests need pydantic, and copies WebSockets; others do without."""
    spec = module_spec(module)
    options = spec.options.argument_spec()
    packages = []
    if {"definition", "src"} & options.keys():
        from ..module_utils.manifest.kinds import KINDS

        kinds = spec.manifests or tuple(KINDS)
        for kind in kinds:
            KINDS[kind].model_rebuild()  # Else each worker prepares it.
        packages += ["manifest", *(["jobs.objects"] if "training" in kinds else [])]
    # These import parts of their packages where an object needs them.
    if f"{_PLUGINS}.module_utils.engine.apply" in sys.modules:
        packages.append("engine")
    if f"{_PLUGINS}.module_utils.jobs.job_plans" in sys.modules:
        packages += ["jobs", "jobs.runs"]
    if f"{_PLUGINS}.module_utils.quotas.quota" in sys.modules:
        packages.append("quotas")
    if "wait_for" in options:
        packages.append("wait")
    for package in packages:
        folder = import_module(f"{_PLUGINS}.module_utils.{package}")
        for found in iter_modules(folder.__path__):
            if not found.name.endswith(("_model", "_models", "_blocks")):
                import_module(f"{folder.__name__}.{found.name}")
    libraries = ["urllib3.util.ssl_", "yaml", *(["websocket"] if "remote_path" in options else [])]
    parts = (f"{_PLUGINS}.module_utils.kube.{name}" for name in ("metered", "tls"))
    for name in (*libraries, *parts):
        import_module(name)


class ActionModule(ActionBase):  # type: ignore[misc]
    """Run one task of any module."""

    _supports_async = True  # as a module

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        hide_origin(self._task)
        variables = task_vars or {}
        os.environ.update(absolute_paths(os.environ))  # A worker is a process of its own.
        environment = self._task_environment()
        context = ExecutionContext(
            transport=self._connection.transport,
            becomes=self._connection.become is not None,
            is_async=bool(self._task.async_val),
            interpreter=self._interpreter(variables),
            environment=environment,
        )
        self._of_cluster = self._cluster_options(variables)
        of_cluster = cluster_environment(self._of_cluster, {**os.environ, **environment})
        environment |= of_cluster
        spec = module_spec(self._task.action.rpartition(".")[2])
        self._names = lambda: option_names(self._task.action.rpartition(".")[2], role_of(self._task), variables)
        if problem := structure_problem(spec.arguments()["argument_spec"], self._task.args):
            return {**result, "failed": True, "msg": worded(problem, self._names)}
        reason = module_process_reason(context)
        environment |= awx_environment(variables)
        if reason is None:
            result |= self._run_in_process(variables, environment)
        else:
            Display().vvv(f"{self._task.action} runs as a module: {reason}", host=variables.get("inventory_hostname"))
            # As ansible.builtin.normal does, which runs modules that have no action plugin.
            wrap_async = self._task.async_val and not self._connection.has_native_async
            inherited = secret_variables(environment) if context.transport == "local" and not context.becomes else {}
            left = {name: value for name, value in environment.items() if name not in inherited}
            self._passed_on = without_prometheus_credentials(without_credentials(left))
            inherited = inherited | of_cluster  # Else a module gets those of ansible-playbook.
            if names := self._names():
                self._passed_on = {**self._passed_on, WORDING: json.dumps(names)}
            with _task_environment(inherited):
                result |= self._execute_module(
                    module_args=self._task_options(environment), task_vars=task_vars, wrap_async=wrap_async
                )
            # Since ansible-core 2.19, an object, which can be no option of another task, and no JSON.
            if not isinstance(result.get("exception", ""), str):
                del result["exception"]
            if context.transport == "local" and result.get("failed") and isinstance(result.get("msg"), str):
                result["msg"] = with_requirements_file(result["msg"])
        if self._task.no_log:
            censor_results(result)
        return result

    def _cluster_options(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the host, or of the cluster that the task is delegated to."""
        host = self._task.delegate_to
        if host in (variables.get("groups") or {}).get(GROUP, ()):
            return cluster_options(self._task.args, variables["hostvars"][host], lambda value: value)
        return cluster_options(self._task.args, variables, self._templar.template)

    def _interpreter(self, variables: Mapping[str, Any]) -> str:
        """The Python interpreter from variables, environment or ansible.cfg, or a keyword like ``auto``."""
        host = self._task.delegate_to
        if host:
            variables = variables.get("ansible_delegated_vars", {}).get(host, {})
        return str(self._templar.template(C.config.get_config_value("INTERPRETER_PYTHON", variables=variables)))

    def _task_environment(self) -> dict[str, str]:
        """The keyword ``environment`` of task, block and play."""
        environment: dict[str, Any] = {}
        self._compute_environment_string(environment)
        return {name: str(value) for name, value in environment.items()}

    def _task_options(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """The task's options, and the credentials of ``environment``: options are on no command line."""
        options: dict[str, Any] = {**self._of_cluster, **self._task.args}
        found = {**options, **environment_credentials(environment, options)}
        if issubclass(module_spec(self._task.action.rpartition(".")[2]).options, PrometheusOptions):
            found |= prometheus_credentials(environment, options)
        return found

    def _compute_environment_string(self, raw_environment_out: dict[str, Any] | None = None) -> str:
        """On the command line of a module, which every user of its machine can read; without what it gets otherwise."""
        text: str = super()._compute_environment_string(raw_environment_out)
        return text if self._passed_on is None else str(self._connection._shell.env_prefix(**self._passed_on))

    _passed_on: Mapping[str, str] | None = None
    _of_cluster: Mapping[str, Any] = {}
    _names: Callable[[], Names] = dict

    def _run_in_process(self, variables: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
        """What AnsibleModule does with a task: validate, run, report without secrets."""
        spec = module_spec(self._task.action.rpartition(".")[2])
        options = validate_options(spec.arguments(), plain_options(self._task_options(environment)), self._task.action)
        secrets, warnings = options.secrets, options.warnings

        screen = TaskScreen(f"{variables.get('inventory_hostname')}: {self._task.get_name()}")

        def show(line: str) -> None:
            if not self._task.no_log:
                screen.show(str(remove_values(worded(line, self._names), set(secrets))))

        if options.error:
            result = {"msg": printable(options.error), "failed": True}
        else:
            task = Task(
                spec.options.from_params(options.params),
                options.params,
                self._task.check_mode,
                warnings.append,
                secrets.update,
                progress=ProgressReporter(show, screen.interval),
                screen=None if self._task.no_log else screen,
                diff_mode=self._task.diff,
                environ={**os.environ, **environment},
                names=self._names,
            )
            with _working_directory(self._loader.get_basedir()), screen.said_on_interrupt():
                result = run_task(task, spec)
            screen.erase()
            is_one = bool(self._of_cluster) and not self._task.delegate_to and cluster_of_several(variables)
            if is_one and task.opened_client and keeps_facts():
                result = with_last_answer(result, variables.get("ansible_facts") or {}, datetime.now(timezone.utc))
        if returns_invocation(variables):
            result["invocation"] = {"module_args": printable_data(shown_options(options.params))}
        if warnings:
            result["warnings"] = list(dict.fromkeys(warnings))
        if options.deprecations:
            result["deprecations"] = options.deprecations
        return {name: _masked(result.pop(name), secrets) for name in list(result)}


def structure_problem(spec: Mapping[str, Any], options: Mapping[str, Any]) -> str | None:
    """The first option with a list or dictionary where a string belongs.

    Ansible makes ``['a', 'b']`` a string, which would be looked for as a name.
    """
    for name, facts in spec.items():
        for given in {name, *facts.get("aliases", ())} & options.keys():
            value, is_list = options[given], facts.get("type") == "list"
            items = (value if isinstance(value, list) else ()) if is_list else (value,)
            is_text = facts.get("elements" if is_list else "type", "str") in ("str", "path")
            found = next((item for item in items if isinstance(item, (list, dict))), None)
            if is_text and found is not None:
                what = "a list" if isinstance(found, list) else "a dictionary"
                hint = "Give the list itself" if is_list else "Give one, and use a loop for several"
                return f"O({name}): {what} in place of a string. {hint}."
    return None


def absolute_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with relative paths, which mean the directory in which the user has typed the command.

    Options and the keyword ``environment`` stand in a playbook, and mean its directory.
    """
    given = {name: environ[name] for name in _PATHS if environ.get(name)}
    return {
        name: os.pathsep.join(
            path if path.startswith("~") else os.path.abspath(path) for path in text.split(os.pathsep)
        )
        for name, text in given.items()
    }


def _masked(value: Any, secrets: set[str]) -> Any:
    """A value of a result without secrets, and as plain as a module's after its round trip through JSON.

    Of a long list, rows are removed as they are copied, and equal strings become one, also where Ansible sends them on.
    """
    if isinstance(value, list) and len(value) > AT_ONCE:
        rows = []
        while value:
            rows += json.loads(_masked_text(value[:AT_ONCE], secrets), object_pairs_hook=_sharing_strings())
            del value[:AT_ONCE]
        return rows
    return json.loads(_masked_text(value, secrets))


def _masked_text(value: Any, secrets: set[str]) -> str:
    text = json.dumps(value)
    # A short secret may be spelled like a boolean; AnsibleModule leaves booleans alone, too.
    if not isinstance(value, bool) and any(json.dumps(secret)[1:-1] in text for secret in secrets):
        text = json.dumps(remove_values(value, secrets))  # Searching all values one by one takes long.
    return text


def _sharing_strings() -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    seen: dict[str, str] = {}
    return lambda pairs: {
        key: seen.setdefault(value, value) if isinstance(value, str) else value for key, value in pairs
    }


@contextmanager
def _task_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Let a module inherit variables from the worker, which runs one task at a time."""
    former = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(former)


@contextmanager
def _working_directory(path: str) -> Iterator[None]:
    """Resolve relative paths in options, kubeconfigs and exec plugins as a module does.

    The local connection starts modules in the directory of the playbook. A worker runs one task at a time, so changing
    the directory affects nothing else.
    """
    former = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(former)
