# SPDX-License-Identifier: BSD-2-Clause
"""Where the advisers of jobs are handed in (jobs/advisers.py says what they are): the module gpuctl_job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..jobs.advisers import MakeAdviser
from ..task import ModuleSpec

if TYPE_CHECKING:
    from ..jobs.job_options import JobOptions


def advised(spec: ModuleSpec[JobOptions]) -> ModuleSpec[JobOptions]:
    """The module with advisers, which are imported by the first task that has something for them to look at."""
    return replace(spec, advisers=import_advisers)


def import_advisers() -> Sequence[MakeAdviser]:
    from .fit.delayed_jobs import with_delays
    from .fit.fit_adviser import FitAdviser

    return (partial(FitAdviser, with_delays=with_delays),)
