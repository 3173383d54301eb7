# SPDX-License-Identifier: BSD-2-Clause
"""One run of a module, independent of AnsibleModule.

Every module is a function from a Task to a result. It runs in a module process (_process.py) and, on the controller, in
Ansible's own (plugin_utils/module_action.py).
"""

from __future__ import annotations

import gc
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .accelerators.current import use_catalog
from .kube.client import Client, cached_client, discard_client
from .kube.connection_options import connection_argument_spec, connection_secrets, shown_params
from .kube.errors import KubeError, as_sentence
from .labels import ACCELERATORS_FILE
from .libraries import missing_library
from .manifest.problems import ManifestErrors, MissingLibrary
from .options import Options, OptionsT
from .printable import half_of_a_character, printable, printable_data
from .redaction import forms_of, mask_forms, redact
from .reporter import LiveScreen, ProgressReporter
from .wording import Names, worded, worded_result

if TYPE_CHECKING:
    from .kube.shapes import MalformedObject

OtherOptionsT = TypeVar("OtherOptionsT", bound=Options)

_MAX_INTEGER = 2**31 - 1
_NAMED = 10  # objects that cannot be read, by name


class TaskFailed(Exception):
    """The task failed: the message for the user, and the result up to then."""

    def __init__(self, message: str, **result: Any) -> None:
        super().__init__(message)
        self.result = result

    @classmethod
    def before_any_write(cls, errors: Iterable[str], **result: Any) -> TaskFailed:
        """With all that is wrong, each on a line."""
        return cls("\n".join([*errors, "Nothing was changed."]), **result)


@dataclass
class Task(Generic[OptionsT]):
    """The input of a module, and its access to everything outside.

    ``params`` are all parameters as Ansible validated them, with those of the connection; ``options`` are the module's
    own. ``on_mask`` is called with values that must never be shown, ``masked`` holds all of them so far;
    ``definition_secrets`` are those of the task's manifests. ``progress`` shows how far a long task is, ``screen`` is
    where it may print; a module process has none before it ends. What goes to the terminal is made printable.
    ``names`` are those of the options where the user sets them (wording.py), ``advisers`` those of jobs/advisers.py.
    Without ``diff_mode`` no diff is built: for hundreds of objects it would cost more than the rest of the result.
    """

    options: OptionsT
    params: Mapping[str, Any]
    check_mode: bool
    warn: Callable[[str], None]
    on_mask: Callable[[Iterable[str]], None]
    masked: set[str] = field(default_factory=set)
    definition_secrets: set[str] = field(default_factory=set)
    progress: ProgressReporter = field(default_factory=ProgressReporter)
    screen: LiveScreen | None = None
    diff_mode: bool = True
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    names: Callable[[], Names] = dict
    advisers: Sequence[Callable[[Any], Any]] = ()
    level: str = "read"
    opened_client: Client | None = None

    def __post_init__(self) -> None:
        warn = self.warn
        self.warn = lambda text: warn(printable(worded(text, self.names)))

    def with_options(self, options: OtherOptionsT) -> Task[OtherOptionsT]:
        """The same task, on the same connection, with the options of another module."""
        self.client()
        return cast("Task[OtherOptionsT]", replace(self, options=cast(Any, options)))

    def require_non_negative(self, *names: str) -> None:
        """Raises TaskFailed for the first of the options that is below zero."""
        for name in names:
            value = getattr(self.options, name)
            if (value or 0) < 0:
                raise TaskFailed(f"O({name}): {value} is negative. Give 0 or more.")

    def client(self) -> Client:
        """The connection to the cluster, opened by the first call. Raises ConnectionProblem."""
        if self.opened_client is None:
            self.opened_client = cached_client(self.params, self.environ, self.mask)
            self.opened_client.transport.level = self.level
            if self.opened_client.warning:
                self.warn(self.opened_client.warning)
        return self.opened_client

    def abort(self) -> None:
        """Let requests in flight finish, and send no new ones."""
        if self.opened_client is not None:
            discard_client(self.opened_client)

    def malformed_objects(self) -> list[MalformedObject]:
        """What the lists of this task have left out, because it cannot be read."""
        return list(self.opened_client.malformed_objects.values()) if self.opened_client else []

    def warn_of_malformed_objects(self) -> None:
        """One warning for each, so that they are not mistaken for missing."""
        malformed = self.malformed_objects()
        for each in malformed[:_NAMED]:
            self.warn(each.sentence)
        if len(malformed) > _NAMED:
            self.warn(f"{len(malformed) - _NAMED} other objects cannot be read either.")

    def diff(self, parts: Callable[[], Iterable[dict[str, str]]]) -> list[dict[str, str]]:
        """Ansible's ``diff`` entries; ``parts`` is only called in diff mode."""
        return list(parts()) if self.diff_mode else []

    def mask(self, values: Iterable[str]) -> None:
        """Keep credentials, in every form, out of all that the task shows. May be called from threads.

        Not for the secrets of workloads: Ansible replaces masked values in all texts, names and statuses. They are
        masked where a string of their workload is shown (redaction.py).
        """
        shown = {text for value in values for text in (value, printable(value))}
        if new := {form for value in shown for form in forms_of(value)} - self.masked:
            self.masked = self.masked | new
            self.on_mask(new)


@dataclass(frozen=True)
class ModuleSpec(Generic[OptionsT]):
    """A module: its options, the constraints between them, and the function that performs a task.

    The module and the action plugin of the same name share it. ``advisers``: see Task. ``manifests``: kinds, or all.
    ``report`` names the report that gpuctl_show makes of a result with rows (plugin_utils/reports.py); without one, it
    shows what was done to each row.
    """

    options: type[OptionsT]
    run: Callable[[Task[OptionsT]], dict[str, Any]]
    constraints: Mapping[str, Any] = field(default_factory=dict)
    advisers: Sequence[Callable[[Any], Any]] = ()
    manifests: Sequence[str] = ()
    report: str | None = None
    level: str = "read"  # of gpuctl_rbac, for all of a task, whatever is refused first

    def arguments(self) -> dict[str, Any]:
        """For AnsibleModule and ArgumentSpecValidator: all options, with those of the connection."""
        return {"argument_spec": {**connection_argument_spec(), **self.options.argument_spec()}, **self.constraints}


def shown_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as a result may return them."""
    shown = shown_params(params)
    if shown.get("definition") is not None:
        from .manifest.secrets import shown_definition  # Here: few modules take manifests.

        shown["definition"] = shown_definition(shown["definition"])
    return shown


def run_task(task: Task[Any], spec: ModuleSpec[Any]) -> dict[str, Any]:
    """Perform a task and return its printable result; one that fails has ``failed`` and ``msg``, some ``exception``.

    The caller removes masked values from it.
    """
    task.mask(connection_secrets(task.params, task.environ))
    found = worded_result(_run_module(task, spec), task.names)
    result = {name: printable_data(value) for name, value in found.items()}
    return {**result, "report": spec.report} if spec.report and "results" in result else result


def _run_module(task: Task[Any], spec: ModuleSpec[Any]) -> dict[str, Any]:
    if unusable := next(_unusable_options(task.params), None):
        return _failed_result(unusable)
    try:
        with _infrequent_gc():
            try:
                use_profiles_of(task.environ)
                task.advisers, task.level = spec.advisers, spec.level
                return spec.run(task)
            finally:
                task.warn_of_malformed_objects()
    except MissingLibrary as problem:
        return _failed_result(missing_library(problem.name), exception=problem.traceback)
    except ImportError as problem:  # of the kubernetes library or urllib3, which are only imported to connect
        return _failed_result(missing_library(str(problem.name)), exception=traceback.format_exc())
    except TaskFailed as problem:
        return _failed_result(str(problem), **problem.result)
    except ManifestErrors as problem:
        task.definition_secrets |= problem.secrets
        return _failed_result(str(problem))
    except KubeError as problem:
        unchanged = problem.asks_to_wait and not task.client().has_written
        return _failed_result(f"{as_sentence(problem)} Nothing was changed." if unchanged else str(problem))
    except Exception as problem:  # A result, not a traceback on stderr: its text may quote a secret.
        return _failed_result(
            _shown_error(
                f"This is a bug in runwhere.gpuctl; please report it: {type(problem).__name__}: {problem}", task
            ),
            exception=_shown_error(traceback.format_exc(), task),
        )
    except BaseException:  # Ansible's timeout of the task, or an interrupt
        task.abort()
        raise


def use_profiles_of(environ: Mapping[str, str]) -> None:
    """Let the task know the accelerators of the administrator's file, if there is one. Raises ManifestErrors."""
    use_catalog(None)
    if file := environ.get(ACCELERATORS_FILE):
        from .accelerators.catalog import ProfileError, built_in_catalog  # Here: few administrators have such a file.
        from .manifest.load import load_profiles_file

        try:
            use_catalog(built_in_catalog().with_profiles(load_profiles_file(file)))
        except ProfileError as problem:
            raise TaskFailed(f"{file}: accelerator {problem.name}: {problem}. Correct it.") from None


def _unusable_options(params: Mapping[str, Any]) -> Iterator[str]:
    """What no path, header or API can be, as messages. Manifests and kubeconfigs have checks of their own."""
    for name, value in params.items():
        for item in value if isinstance(value, list) and name != "definition" else [value]:
            if isinstance(item, int) and abs(item) > _MAX_INTEGER:
                yield f"O({name}): number too large. Use at most {_MAX_INTEGER}."
            elif isinstance(item, str) and name != "definition":
                problem = "NUL character in the text" if "\0" in item else half_of_a_character(item)
                if problem:
                    yield f"O({name}): {problem}. Remove it."


def _shown_error(text: str, task: Task[Any]) -> str:
    """A string of unknown origin without what is, or looks like, a secret."""
    return mask_forms(str(redact(text, task.definition_secrets)))


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


def _failed_result(message: str, **result: Any) -> dict[str, Any]:
    return {**result, "msg": message, "failed": True}
