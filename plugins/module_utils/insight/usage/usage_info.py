# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_usage_info: who held, used and waited for accelerators in a range of time.

Kubernetes knows the pods that are there, the history those that are gone, and Prometheus, where there is one, what the
devices did. Each is a fixed number of lists or queries, whatever the number of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from ...accelerators.catalog import DEVICES
from ...cluster.read_jobs import JobId
from ...jobs.runs.run_history import PastRun
from ...kube.times import read_time, time_as_text
from ...listed_namespaces import in_requested_namespaces, read_permitted
from ...namespaces import listed_namespaces
from ...options import option
from ...task import ModuleSpec, Task
from ...wording import worded
from ..history.run_times import month_of
from ..prometheus.prometheus_client import Prometheus, open_prometheus
from ..prometheus.prometheus_options import prometheus_settings
from .cluster_usage import Seen, owner_of_run, read_cluster, shared_on, uses_of
from .gpu_usage import GROUPS, Owner, Use, usage_rows, with_measurements
from .measured_usage import MeasuredUsage, NodeCapacity, read_measured
from .usage_options import AccountOptions, account_range, check_idle_below, given_prices


@dataclass(frozen=True, kw_only=True)
class UsageInfoOptions(AccountOptions):
    group_by: list[str] | None = option("list", elements="str", choices=list(GROUPS))
    use_prometheus: str = option("str", choices=["auto", "always", "never"], default="auto")


UsageTask = Task[UsageInfoOptions]


def run(task: UsageTask) -> dict[str, Any]:
    options = task.options
    since, until = account_range(options, datetime.now(timezone.utc))
    check_idle_below(options)
    group_by = list(dict.fromkeys(options.group_by or ["team"]))
    prices = given_prices(options)
    task, own = in_requested_namespaces(task)
    task, seen = read_permitted(task, read_cluster)
    prometheus = _prometheus(task)
    uses: list[Use] = []
    notes, capacities = list(seen.notes), []
    for start, end in months_of(since, until) if "month" in group_by else [(since, until)]:
        used, capacity, said = _part_of_range(task, seen, prometheus, start.timestamp(), end.timestamp())
        uses += (replace(use, month=f"{start:%Y-%m}") for use in used)
        capacities.append(capacity)
        notes += (note for note in said if note not in notes)
    groups, total = usage_rows(uses, group_by, prices)
    has_prices, is_measured = bool(prices), prometheus is not None
    rows = [row.result(group_by, has_prices=has_prices, is_measured=is_measured) for row in groups]
    totals = total.result((), has_prices=has_prices, is_measured=is_measured)
    known = [hours for hours in capacities if hours is not None]
    capacity = sum(known) if len(known) == len(capacities) else None
    whole = sum(hours for use in uses for row, hours in use.rows if row.kind == DEVICES)
    return {
        "changed": False,
        "namespace": own,
        "start": time_as_text(since),
        "end": time_as_text(until),
        "group_by": group_by,
        "currency": options.currency or "",
        "results": [row for row in rows if any(row[name] for name in _SHOWN)],
        "totals": totals,
        "capacity_hours": None if capacity is None else round(capacity, 4),
        "unallocated_hours": None if capacity is None else round(max(0.0, capacity - whole), 4),
        "source": "Kubernetes, the history of jobs and Prometheus"
        if is_measured
        else "Kubernetes and the history of jobs",
        "notes": [
            worded(note, task.names)
            for note in (*notes, *_doubtful_figures(totals, is_measured=is_measured, has_prices=has_prices))
        ],
    }


_SHOWN = ("held_hours", "queued_hours", "gpus_reclaimed", "reclaimed_hours")
MODULE = ModuleSpec(UsageInfoOptions, run, report="usage")


def months_of(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The range in parts, one for each month of the calendar, in UTC."""
    while since < until:
        _first, following = month_of(since)
        yield since, min(following, until)
        since = following


def _part_of_range(
    task: UsageTask, seen: Seen, prometheus: Prometheus | None, since: float, until: float
) -> tuple[list[Use], float | None, list[str]]:
    """What pods used, the hours of devices that there were, and notes about both."""
    uses = uses_of(seen, since, until)
    if prometheus is None:
        return uses, _capacity_hours(seen, since, until, None), []
    namespaces = listed_namespaces(task, task.options.namespaces or None)
    measured = read_measured(prometheus, since, until, task.options.idle_below, namespaces)
    uses = with_measurements(uses, measured.pods, 2 * measured.step / 3600)
    uses += only_measured(uses, measured, seen)
    absence = [measured.absence] if measured.absence and any(use.counted for use in uses) else []
    return uses, _capacity_hours(seen, since, until, measured), [*measured.notes, *absence]


# -- what Prometheus knows ---------------------------------------------------------------------------------------------


def _prometheus(task: UsageTask) -> Prometheus | None:
    """None where none is given and it is not required."""
    options = task.options
    if options.use_prometheus == "never":
        return None
    is_set = prometheus_settings(options, task.environ).is_set
    if options.use_prometheus == "auto" and not is_set:
        return None
    return open_prometheus(task, options)


def only_measured(uses: Iterable[Use], measured: MeasuredUsage, seen: Seen) -> list[Use]:
    """The pods that Prometheus has seen, and neither Kubernetes nor the history knows any more."""
    known = {(use.owner.namespace, use.pod) for use in uses}
    last_runs: dict[JobId, PastRun] = {}
    for run in sorted(seen.runs, key=lambda run: run.submitted_at or ""):
        last_runs[run.namespace, run.name] = run
    found = []
    for (namespace, pod), reported in measured.pods.items():
        origin = measured.origins.get((namespace, pod))
        if (namespace, pod) in known or not (reported.held or reported.queued) or origin is None or origin.job is None:
            continue
        job = namespace, origin.job or ""
        last_run, live = last_runs.get(job), seen.owners.get(job)
        owner = (owner_of_run(last_run) if last_run else live) or Owner(namespace, origin.job)
        node = (seen.nodes or {}).get(origin.node or "")
        found.append(
            Use(
                replace(owner, pool=origin.pool or owner.pool),
                origin.held,
                (node.gpu_type if node else None)
                or (last_run.gpu_type if last_run else None)
                or seen.wanted_types.get(job),
                queued=reported.queued,
                exact=False,
                measured=reported,
                pod=pod,
                shared=shared_on(node, origin.held),
            )
        )
    return found


# -- the rest ----------------------------------------------------------------------------------------------------------


def _capacity_hours(seen: Seen, since: float, until: float, measured: MeasuredUsage | None) -> float | None:
    """The hours of whole devices that there were: by Prometheus for as long as it has samples of a node, and for the
    rest of its life by the node that is there now, which knows too whether its devices are shared."""
    reported = measured.capacity if measured is not None else {}
    if not seen.whole or (seen.nodes is None and not reported):
        return None
    nodes = seen.nodes or {}
    hours = sum(capacity.hours for name, capacity in reported.items() if name not in nodes)
    for node in nodes.values():
        capacity = reported.get(node.name) or NodeCapacity(0.0, 0.0)
        seconds = max(0.0, until - max(since, read_time(node.created_at).timestamp()))
        if node.gpu_total:
            hours += capacity.hours + max(0.0, seconds - capacity.seconds) / 3600 * node.gpu_total
    return hours


_NEGLIGIBLE = 0.01  # of the held hours


def _doubtful_figures(totals: Mapping[str, Any], *, is_measured: bool, has_prices: bool) -> list[str]:
    """What the figures do not say."""
    found = []
    if not is_measured:
        found.append(
            "Busy and idle hours, memory and energy are not known without Prometheus. Set O(prometheus_url) or "
            "O(prometheus_service)."
        )
    elif totals["coverage"] is not None and totals["coverage"] < 1 - _NEGLIGIBLE:
        found.append(
            f"The utilization of {_in_percent(1 - totals['coverage'])} of the held hours is not known: no exporter has "
            f"reported it."
        )
    if totals["estimated_hours"] > _NEGLIGIBLE * totals["held_hours"]:
        found.append(
            f"{_in_percent(totals['estimated_hours'] / totals['held_hours'])} of the held hours are estimated: the end "
            f"of these pods was not observed. Run the playbook record_history more often."
        )
    if has_prices and totals["unpriced_hours"]:
        share = _in_percent(totals["unpriced_hours"] / totals["held_hours"])
        found.append(f"{share} of the held hours have no price. Add their types to O(prices).")
    return found


def _in_percent(part: float) -> str:
    return f"{math.ceil(part * 100)} %"
