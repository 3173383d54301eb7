# SPDX-License-Identifier: BSD-2-Clause
"""Where the advisers of jobs are handed in (jobs/advisers.py says what they are): the module gpuctl_job."""

from __future__ import annotations

from dataclasses import replace

from ..jobs.advisers import Advised, Adviser
from ..jobs.job_options import JobOptions
from ..task import ModuleSpec


def advised(spec: ModuleSpec[JobOptions]) -> ModuleSpec[JobOptions]:
    """The module with advisers."""
    return replace(spec, advisers=ADVISERS)


def fit_adviser(advised: Advised) -> Adviser:
    """None in a task that does not ask whether its jobs would run: it imports nothing of that."""
    task = advised.task
    if not task.check_mode and not task.options.predict and task.options.preempt:
        return Adviser()
    from .fit.delayed_jobs import with_delays
    from .fit.fit_adviser import FitAdviser

    return FitAdviser(advised, with_delays)


ADVISERS = (fit_adviser,)
