# SPDX-License-Identifier: BSD-2-Clause
"""Run the event source, whose requests block, in a thread beside the event loop of ansible-rulebook."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from concurrent.futures import CancelledError as HandOverCancelled
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Any

from ...kube.client import Client
from ...kube.connection_options import connection_secrets, resolve_connection
from ...kube.errors import KubeError, as_sentence
from ...libraries import missing_library
from ...redaction import mask_forms, redact
from ...task import ModuleSpec, Task, TaskFailed, use_profiles_of
from ...wording import worded
from .jobs_source import LOGGER, JobsSource, JobsSourceOptions
from .state_file import StateFileError

NAME = "runwhere.gpuctl.jobs"
_STOP_TIMEOUT = 5.0  # seconds for the thread to end
_POLL_INTERVAL = 0.02  # seconds


class SourceFailed(Exception):
    """The text is for the user."""


def source_arguments() -> dict[str, Any]:
    """The argument spec of the source, and the constraints between arguments."""
    return ModuleSpec(JobsSourceOptions, lambda task: {}).arguments()


async def run_source(queue: Any, args: Mapping[str, Any]) -> None:
    """Put the events into the queue until the task is cancelled. Raises SourceFailed."""
    given = dict(args)
    echo = given.pop("eda_feedback_queue", None)
    run = _Run(queue, echo, _validated_arguments(given))
    await run.until_cancelled()


class _Run:
    """The thread of the source, and the event that it is putting into the queue."""

    def __init__(self, queue: Any, echo: Any, params: Mapping[str, Any]) -> None:
        self._queue, self._echo = queue, echo
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._pending_put: Future[None] | None = None
        self._is_stopping = False
        self._masked: set[str] = set()
        self._source = self._prepared(params)
        self._thread = Thread(target=self._work, name=NAME, daemon=True)

    async def until_cancelled(self) -> None:
        self._thread.start()
        try:
            await self._ended
        finally:
            self._is_stopping = True
            self._source.stop()
            if self._pending_put is not None:
                self._pending_put.cancel()
            await asyncio.shield(self._loop.run_in_executor(None, self._thread.join, _STOP_TIMEOUT))

    def _prepared(self, params: Mapping[str, Any]) -> JobsSource:
        """Raises SourceFailed."""
        learn = self._masked.update
        learn(connection_secrets(params, os.environ))
        options = JobsSourceOptions.from_params(params)
        try:
            use_profiles_of(os.environ)
            client = Client(resolve_connection(params, os.environ, learn))
        except ImportError as problem:
            raise SourceFailed(f"{NAME}: {missing_library(str(problem.name))}") from None
        except (KubeError, TaskFailed) as problem:
            raise self._source_failure(problem) from None
        client.report_secrets(learn)
        task = Task(options, params, False, LOGGER.warning, learn, self._masked, opened_client=client)
        return JobsSource(task, client, self._deliver)

    def _work(self) -> None:
        """The thread. Every exception becomes a SourceFailed: a future does not take a StopIteration."""
        failure: SourceFailed | None = None
        try:
            self._source.run()
        except HandOverCancelled:
            pass
        except BaseException as problem:
            failure = self._source_failure(problem)
        with suppress(RuntimeError):  # The loop has been closed.
            self._loop.call_soon_threadsafe(self._end_with, failure)

    def _end_with(self, failure: SourceFailed | None) -> None:
        if self._ended.done() or self._is_stopping:
            return
        if failure:
            self._ended.set_exception(failure)
        else:
            self._ended.set_result(None)

    def _source_failure(self, problem: BaseException) -> SourceFailed:
        text = worded(str(problem))
        if not isinstance(problem, (KubeError, StateFileError, TaskFailed)):
            text = f"this is a bug in runwhere.gpuctl; please report it: {type(problem).__name__}: {text}"
        return SourceFailed(mask_forms(str(redact(f"{NAME}: {text}", self._masked))))

    def _deliver(self, event: dict[str, Any]) -> None:
        """In the thread: return when the event was taken. Raises HandOverCancelled."""
        masked = redact(event, self._masked)
        self._pending_put = asyncio.run_coroutine_threadsafe(self._put_event(masked), self._loop)
        if self._is_stopping:
            self._pending_put.cancel()
        self._pending_put.result()

    async def _put_event(self, event: dict[str, Any]) -> None:
        """Return once the rule engine has taken the event: one that is still queued is lost when the process ends."""
        await self._queue.put(event)
        if self._echo is not None:
            await self._echo.get()
            return
        inner = getattr(self._queue, "queue", self._queue)  # FilteredQueue of ansible-rulebook
        await asyncio.sleep(0)
        while not inner.empty():
            await asyncio.sleep(_POLL_INTERVAL)


def _validated_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with their defaults. Raises SourceFailed with all that is wrong."""
    from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
    from jinja2 import UndefinedError

    arguments = source_arguments()
    try:
        result = ArgumentSpecValidator(arguments["argument_spec"]).validate(dict(args))
    except UndefinedError as problem:  # ansible-rulebook leaves it to the source to look at a variable.
        text = f"{NAME}: {problem}. Set it in the file of --vars, or in the environment with --env-vars."
        raise SourceFailed(text) from None
    problems = list(result.error_messages)
    params: dict[str, Any] = result.validated_parameters
    for name, (least, most) in _RANGES.items():
        value = params.get(name)
        if not problems and isinstance(value, int) and not least <= value <= most:
            problems.append(f"{name}: {value} is out of range. Give {least} to {most}.")
    if problems:
        secrets = connection_secrets({name: args.get(name) for name in args}, os.environ)
        raise SourceFailed(str(redact(f"{NAME}: {' '.join(map(as_sentence, problems))}", secrets)))
    return params


_RANGES = {
    "since": (0, 604_800),
    "pending_after": (1, 31_536_000),
    "quota_percent": (1, 100),
    "log_lines": (0, 20),
}
