# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""One task as its core sees it, and how an Ansible module becomes one.

The core of every module is a function from a Task to a result. It knows nothing of AnsibleModule, so that it can run
elsewhere than in a module's process too.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import missing_required_lib

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .kube.client import Client


class TaskFailed(Exception):
    """The task has failed: the message for the user, and what was done until then."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result = result


@dataclass
class Task:
    """What a task was asked for, and how it speaks to its surroundings.

    ``hide`` takes values that must never be shown; ``hidden`` is all that were given so far. ``progress`` takes a line
    that tells a person where a long wait stands; a module's process has no way to show one before it ends.
    """

    params: Mapping[str, Any]
    check_mode: bool
    warn: Callable[[str], None]
    on_hide: Callable[[Iterable[str]], None]
    hidden: set[str] = field(default_factory=set)
    progress: Callable[[str], None] = lambda line: None
    _client: Client | None = None

    def client(self) -> Client:
        """The connection to the cluster, opened at the first call. Raises ConnectionProblem."""
        if self._client is None:
            from .kube.client import Client
            from .kube.connection import connect

            self._client = Client(connect(self.params))
        return self._client

    def hide(self, values: Iterable[str]) -> None:
        """Keep the values out of results, diffs, warnings and messages."""
        values = set(values)
        self.hidden |= values
        self.on_hide(values)


def run_module(module: AnsibleModule, core: Callable[[Task], dict[str, Any]]) -> None:
    """Run a task's core as the module and exit: with its result, or with one message that says what to do."""
    from .kube.connection import connection_secrets
    from .manifest.problems import ManifestErrors

    task = Task(module.params, module.check_mode, module.warn, module.no_log_values.update)
    task.hide(connection_secrets(module.params))
    _require_libraries(module)
    try:
        module.exit_json(**core(task))
    except ImportError as problem:  # of the kubernetes library, which is only imported to connect
        module.fail_json(msg=missing_required_lib(str(problem.name)), exception=traceback.format_exc())
    except TaskFailed as problem:
        module.fail_json(msg=str(problem), **problem.result)
    except expected_problems() as problem:
        if isinstance(problem, ManifestErrors):
            task.hide(problem.secrets)  # Ansible returns the options beside the message, the refused definition too.
        module.fail_json(msg=str(problem))


def expected_problems() -> tuple[type[Exception], ...]:
    """The failures whose text is meant for the user; anything else is a defect and shows its traceback."""
    from .kube.errors import KubeError
    from .manifest.problems import ManifestErrors

    return KubeError, ManifestErrors


def _require_libraries(module: AnsibleModule) -> None:
    """The libraries that manifests need; without them their modules import stand-ins."""
    from .manifest.load import missing_libraries

    for library in missing_libraries():
        module.fail_json(msg=missing_required_lib(library.name), exception=library.traceback)
