# SPDX-License-Identifier: BSD-2-Clause
"""Ask regularly which jobs do not use their devices: as gpuctl_idle does, which says what counts as idle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread
from typing import Any

from ...kube.errors import KubeError
from ...task import Task, TaskFailed
from ..idle.idle_jobs import IdleOptions, idle_policy
from ..idle.idle_jobs import run as find_idle
from ..prometheus.prometheus_options import PrometheusOptions

Rows = Sequence[Mapping[str, Any]]

_INTERVAL = 300.0  # seconds; the observed time (idle_for) is at least as long


def idle_options(options: Any) -> IdleOptions:
    """What gpuctl_idle is asked, from the options of the event source."""
    prometheus = {name: getattr(options, name) for name in PrometheusOptions.argument_spec()}
    return IdleOptions(
        namespaces=options.namespaces or None,
        all_namespaces=True,
        allowed_namespaces=options.allowed_namespaces,
        idle_for=options.idle_for,
        below=options.idle_below,
        **prometheus,
    )


class IdleWatch(Thread):
    """``report`` gets the rows of gpuctl_idle, in this thread. Whatever goes wrong, such as a Prometheus that does not
    answer, is a warning."""

    def __init__(self, task: Task[Any], report: Callable[[Rows], None], warn: Callable[[str], None]) -> None:
        super().__init__(name="idle devices", daemon=True)
        options = idle_options(task.options)
        self.seconds = int(idle_policy(options).idle_for)
        self._task = task.with_options(options)
        self._report = report
        self._warn = warn
        self._stopped = Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        problem = ""
        while not self._stopped.is_set():
            try:
                self._report(find_idle(self._task)["results"])
                problem = ""
            except Exception as error:  # A thread that ended would report nothing any more, and say nothing of it.
                is_expected = isinstance(error, (KubeError, TaskFailed))
                text = str(error) if is_expected else f"{type(error).__name__}: {error}"
                if text != problem and not self._stopped.is_set():
                    problem = text
                    self._warn(f"gpu.idle is not reported: {problem}")
            self._stopped.wait(_INTERVAL)
