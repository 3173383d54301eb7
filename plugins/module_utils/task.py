# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""One task as its core sees it, and how an Ansible module becomes one.

The core of every module is a function from a Task to a result. It knows nothing of AnsibleModule, so that it can run
elsewhere than in a module's process too: plugin_utils/local_action.py runs it in Ansible's own.
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import missing_required_lib

from .zipped import compile_once

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
    that tells a person where a long wait stands; a module's process has no way to show one before it ends. ``environ``
    has the variables of the task: those of the process unless somebody says otherwise. Without ``diff_mode`` nobody
    looks at differences, and writing them out for hundreds of objects would cost more than the rest of the report.
    """

    params: Mapping[str, Any]
    check_mode: bool
    warn: Callable[[str], None]
    on_mask: Callable[[Iterable[str]], None]
    masked: set[str] = field(default_factory=set)
    progress: Callable[[str], None] = lambda line: None
    diff_mode: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _client: Client | None = None

    def require_non_negative(self, *options: str) -> None:
        """Raises TaskFailed for one that is below zero, before anything is sent."""
        for option in options:
            if (self.params[option] or 0) < 0:
                raise TaskFailed(f"{option} is {self.params[option]}; give 0 or more.")

    def client(self) -> Client:
        """The connection to the cluster, opened at the first call. Raises ConnectionProblem."""
        if self._client is None:
            from .kube.client_cache import cached_client

            self._client = cached_client(self.params, self.environ)
        return self._client

    def abort(self) -> None:
        """Let what the core has begun come to its end, and nothing new begin."""
        if self._client is not None:
            from .kube.client_cache import discard_client

            discard_client(self._client)

    def diff(self, parts: Callable[[], Iterable[dict[str, str]]]) -> list[dict[str, str]]:
        """Ansible's ``diff`` entries, made only when they are looked at."""
        return list(parts()) if self.diff_mode else []

    def mask(self, values: Iterable[str]) -> None:
        """Keep the values out of results, diffs, warnings and messages."""
        values = set(values)
        self.masked |= values
        self.on_mask(values)


@dataclass(frozen=True)
class ModuleSpec:
    """What stands behind one module: its own options, what holds between them, and the function that does the task.

    The module and the action plugin of the same name both take it from here.
    """

    options: Mapping[str, Any]
    run: Callable[[Task], dict[str, Any]]
    constraints: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """For AnsibleModule and ArgumentSpecValidator: all options, with those of the connection."""
        from .kube.connection_options import connection_argument_spec

        return {"argument_spec": {**connection_argument_spec(), **self.options}, **self.constraints}


@dataclass(frozen=True)
class TaskResult:
    """What a task returns. A failed one has ``msg``, and ``exception`` where a traceback helps."""

    result: dict[str, Any]
    failed: bool = False


def run_module(module: AnsibleModule, core: ModuleSpec) -> None:
    """Run a task's core as the module and exit: with its result, or with one message that says what to do."""
    compile_once()
    # They watch long-lived programs, and to find them pydantic would read the metadata of all that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    task = Task(
        module.params, module.check_mode, module.warn, module.no_log_values.update, diff_mode=bool(module._diff)
    )
    outcome = run_task(task, core)
    if outcome.failed:
        module.fail_json(**outcome.result)
    module.exit_json(**outcome.result)


def run_task(task: Task, core: ModuleSpec) -> TaskResult:
    """Run a task's core; every failure becomes a message. What the task has hidden may stand in the result."""
    from .kube.connection_options import connection_secrets
    from .kube.errors import KubeError
    from .manifest.problems import ManifestErrors, MissingLibrary

    task.mask(connection_secrets(task.params))
    try:
        with _infrequent_gc():
            return TaskResult(core.run(task))
    except MissingLibrary as problem:
        return _failure(missing_required_lib(problem.name), exception=problem.traceback)
    except ImportError as problem:  # of the kubernetes library or urllib3, which are only imported to connect
        return _failure(missing_required_lib(str(problem.name)), exception=traceback.format_exc())
    except TaskFailed as problem:
        return _failure(str(problem), **problem.result)
    except ManifestErrors as problem:
        task.mask(problem.secrets)  # Ansible returns the options beside the message, the refused definition too.
        return _failure(str(problem))
    except KubeError as problem:
        return _failure(str(problem))
    except Exception as problem:
        # Its text may quote a secret: it has to pass where secrets are taken out, as every result does.
        return _failure(
            f"this is a defect of runwhere.gpuctl, please report it: {type(problem).__name__}: {problem}",
            exception=traceback.format_exc(),
        )
    except BaseException:  # Ansible's timeout of the task, or an interrupt
        task.abort()
        raise


@contextmanager
def _infrequent_gc() -> Iterator[None]:
    """Hundreds of jobs are a hundred thousand objects without a cycle among them. Python would look for one at each
    700th, and time and again through all that Ansible and the libraries have made before."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _failure(message: str, **result: Any) -> TaskResult:
    return TaskResult({**result, "msg": message}, failed=True)
