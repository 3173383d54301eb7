# SPDX-License-Identifier: BSD-2-Clause
"""One run of a module, independent of AnsibleModule.

Every module is a function from a Task to a result. It runs in a module process (_process.py) and, on the controller, in
Ansible's own (plugin_utils/module_action.py).
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from ansible.module_utils.basic import missing_required_lib

from .kube.client import Client, cached_client, discard_client
from .kube.connection_options import connection_argument_spec, connection_secrets
from .kube.errors import KubeError
from .manifest.problems import ManifestErrors, MissingLibrary
from .manifest.tree import half_of_a_character
from .options import OptionsT

if TYPE_CHECKING:
    pass


_MAX_INTEGER = 2**31 - 1


class TaskFailed(Exception):
    """The task failed: the message for the user, and the result up to then."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result = result


@dataclass
class Task(Generic[OptionsT]):
    """The input of a module, and its access to everything outside.

    ``params`` are all parameters as Ansible validated them, with those of the connection; ``options`` are the module's
    own. ``on_mask`` is called with values that must never be shown, ``masked`` holds all of them so far. ``progress``
    shows a line during a long wait; a module process cannot show one before it ends. Without ``diff_mode`` no diff is
    built: for hundreds of objects it would cost more than the rest of the result.
    """

    options: OptionsT
    params: Mapping[str, Any]
    check_mode: bool
    warn: Callable[[str], None]
    on_mask: Callable[[Iterable[str]], None]
    masked: set[str] = field(default_factory=set)
    progress: Callable[[str], None] = lambda line: None
    diff_mode: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _client: Client | None = None

    def require_non_negative(self, *names: str) -> None:
        """Raises TaskFailed for the first of the options that is below zero."""
        for name in names:
            value = getattr(self.options, name)
            if (value or 0) < 0:
                raise TaskFailed(f"{name}: {value} is negative. Give 0 or more.")

    def client(self) -> Client:
        """The connection to the cluster, opened by the first call. Raises ConnectionProblem."""
        if self._client is None:
            self._client = cached_client(self.params, self.environ)
        return self._client

    def abort(self) -> None:
        """Let requests in flight finish, and send no new ones."""
        if self._client is not None:
            discard_client(self._client)

    def diff(self, parts: Callable[[], Iterable[dict[str, str]]]) -> list[dict[str, str]]:
        """Ansible's ``diff`` entries; ``parts`` is only called in diff mode."""
        return list(parts()) if self.diff_mode else []

    def mask(self, values: Iterable[str]) -> None:
        """Keep the values out of results, diffs, warnings and messages."""
        values = set(values)
        self.masked |= values
        self.on_mask(values)


@dataclass(frozen=True)
class ModuleSpec(Generic[OptionsT]):
    """A module: its options, the constraints between them, and the function that performs a task.

    The module and the action plugin of the same name share it.
    """

    options: type[OptionsT]
    run: Callable[[Task[OptionsT]], dict[str, Any]]
    constraints: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """For AnsibleModule and ArgumentSpecValidator: all options, with those of the connection."""
        return {"argument_spec": {**connection_argument_spec(), **self.options.argument_spec()}, **self.constraints}


def run_task(task: Task[Any], spec: ModuleSpec[Any]) -> dict[str, Any]:
    """Perform a task and return its result; one that fails has ``failed`` and ``msg``, some ``exception``.

    The caller removes masked values from it.
    """
    task.mask(connection_secrets(task.params))
    if message := next(_unusable_options(task.params), None):
        return _failure(message)
    try:
        with _infrequent_gc():
            return spec.run(task)
    except MissingLibrary as problem:
        return _failure(missing_required_lib(problem.name), exception=problem.traceback)
    except ImportError as problem:  # of the kubernetes library or urllib3, which are only imported to connect
        return _failure(missing_required_lib(str(problem.name)), exception=traceback.format_exc())
    except TaskFailed as problem:
        return _failure(str(problem), **problem.result)
    except ManifestErrors as problem:
        task.mask(problem.secrets)  # Ansible returns the options too, and with them the invalid manifest.
        return _failure(str(problem))
    except KubeError as problem:
        return _failure(str(problem))
    except Exception as problem:  # A result, not a traceback on stderr: its text may quote a secret.
        return _failure(
            f"This is a bug in runwhere.gpuctl; please report it: {type(problem).__name__}: {problem}",
            exception=traceback.format_exc(),
        )
    except BaseException:  # Ansible's timeout of the task, or an interrupt
        task.abort()
        raise


def _unusable_options(params: Mapping[str, Any]) -> Iterator[str]:
    """What no path, header or API can be, as messages. Manifests and kubeconfigs have checks of their own."""
    for name, value in params.items():
        for item in value if isinstance(value, list) and name != "definition" else [value]:
            if isinstance(item, int) and abs(item) > _MAX_INTEGER:
                yield f"{name}: number too large. Use at most {_MAX_INTEGER}."
            elif isinstance(item, str) and name != "definition" and (problem := _unusable_text(item)):
                yield f"{name}: {problem}. Remove it."


def _unusable_text(text: str) -> str | None:
    return "NUL character in the text" if "\0" in text else half_of_a_character(text)


@contextmanager
def _infrequent_gc() -> Iterator[None]:
    """Hundreds of jobs are a hundred thousand objects without a reference cycle. By default Python searches for cycles
    after every 700 new objects, also among all those of Ansible and the libraries. docs/performance.md has figures."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def _failure(message: str, **result: Any) -> dict[str, Any]:
    return {**result, "msg": message, "failed": True}
