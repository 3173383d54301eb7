# SPDX-License-Identifier: BSD-2-Clause
"""What a job takes of its namespace's budget of GPU-hours. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ...accelerators.catalog import catalog, whole_devices
from ...cluster.time_limits import limit_seconds, recorded_limit
from ...kube.resources import Object
from ...quotas.gpu_hours import gpu_hours_row
from .fit import FitJob


def cost_of_job(job: FitJob, workload: Object, quotas: Iterable[Object] | None, now: datetime) -> dict[str, Any] | None:
    """The budget, with ``cost``, the GPU-hours of the job until its time limit, and ``cost_per_day``; the same of its
    accelerators that have limits of their own.

    None without a budget, and for a job without GPUs. Partitions and shares cost what the prices of the administrator
    say, which are not known here.
    """
    gpus, quotas = whole_devices(job.pod.requests) * job.number, list(quotas or ())
    devices = [(row.profile, number) for row, number in catalog().rows_in(job.pod.requests) if row.is_whole_device]
    row = next(filter(None, (gpu_hours_row(quota, quotas, now) for quota in quotas)), None)
    if not gpus or row is None:
        return None
    seconds = (limit_seconds if workload["kind"] == "Job" else recorded_limit)(workload)

    def costs(gpus: int) -> dict[str, Any]:
        return {"cost": None if seconds is None else round(gpus * seconds / 3600, 1), "cost_per_day": gpus * 24}

    own = row["accelerators"].items()
    parts = {name: part | costs(job.number * sum(each for of, each in devices if of == name)) for name, part in own}
    return {**row, **costs(gpus), "accelerators": parts}
