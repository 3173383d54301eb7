# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the action plugins print: tables, summaries and reasons for a terminal of a given width. Pure.

The lines of a screen are plain text; `paint` colours the cells of tables.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..module_utils.cluster.pending_reason import SCHEDULER_SAYS
from ..module_utils.insight.fit.verdicts import SHORT_VERDICTS, fit_counts
from ..module_utils.insight.follow.terminal_text import terminal_text
from ..module_utils.jobs.objects.priority import OPPORTUNISTIC
from ..module_utils.manifest.problems import abridged, enumerated, number_of
from ..module_utils.printable import printable
from .report import Row
from .text_table import ELLIPSIS, Column, cut, table_lines, text_width, wrapped

Paint = Callable[[str, str], str]

# As many rows as are always shown; of more, only the first ones, so that a screen stays a screen.
_ROWS, _FIRST_ROWS = 20, 6
_REASON_LINES, _NAMES, _LOGS = 16, 3, 2
_ALL = "Add -e gpuctl_all=true to list all."
_UNKNOWN = "?"


class Room(NamedTuple):
    """As much as is shown of each block where there is more."""

    rows: int = _FIRST_ROWS
    reasons: int = 3


# With the empty line and the recap of the callback, 30 lines. Why jobs do not run is the last to be shortened.
_STATUS_LINES = 28
_ROOMS = (Room(), *(Room(rows) for rows in (5, 4, 3, 2)), Room(2, 2), Room(1, 2), Room(1, 1))

_ORDER = ("Failed", "TimedOut", "Partially Running", "Pending", "Running", "Paused", "Succeeded")
CLUSTER = Column("cluster", "CLUSTER", least=8, optional=True)  # of the rows of several
# What is left out first on a narrow terminal has the highest `drop`.
JOB_COLUMNS = (
    CLUSTER,
    Column("name", "NAME", least=16),
    Column("namespace", "NAMESPACE", least=9),
    Column("kind", "KIND", drop=3),
    Column("pool", "POOL", drop=5),
    Column("gpus", "GPUS"),
    Column("shown_status", "STATUS"),
    Column("yields", "PRIORITY", drop=1, optional=True),
    Column("ready", "READY", drop=4),
    Column("restarts", "RESTARTS", drop=2, optional=True),
    Column("age", "AGE"),
    Column("time_left", "LEFT", drop=1, optional=True),
    Column("url", "URL", optional=True),
)
POD_COLUMNS = (
    CLUSTER,
    Column("job_id", "JOB ID", least=20),
    Column("name", "NAME", drop=5),
    Column("namespace", "NAMESPACE", drop=4),
    Column("kind", "KIND", drop=6),
    Column("status", "STATUS"),
    Column("ready", "READY", drop=7),
    Column("node", "NODE", least=10),
    Column("ip", "IP", drop=3),
    Column("age", "AGE", drop=8),
)
POOL_COLUMNS = (
    CLUSTER,
    Column("name", "POOL", least=12),
    Column("status", "STATUS"),
    Column("gpu_total", "GPUS"),
    Column("gpu_used", "USED", numeric=True),
    Column("gpu_free", "FREE", numeric=True),
    Column("node_count", "NODES"),
)
_POOL_COLUMNS = (*POOL_COLUMNS, Column("description", "DESCRIPTION", max_width=30, drop=1, optional=True))
_QUOTA_COLUMNS = (
    CLUSTER,
    Column("name", "QUOTA", least=12),
    Column("namespace", "NAMESPACE", least=9),
    Column("shown_gpu", "GPUS"),
    Column("shown_cpu", "CPU"),
    Column("shown_memory", "MEMORY"),
    Column("shown_gpu_hours", "GPU-HOURS", optional=True),
)
_NODE_COLUMNS = (
    CLUSTER,
    Column("node_name", "NODE", least=16),
    Column("status", "STATUS"),
    Column("gpu_type", "GPU TYPE", drop=1, optional=True),
    Column("gpu_total", "GPUS"),
    Column("gpu_used", "USED", numeric=True),
    Column("gpu_free", "FREE", numeric=True),
    Column("bound_pools", "POOL", drop=2),
)


def status_screen(result: Mapping[str, Any], width: int, *, everything: bool, paint: Paint) -> list[str]:
    """The result of gpuctl_status: the cluster, then its jobs, then why some are not running.

    If there are too many jobs to list them, the other tables are shortened too, until the screen is one.
    """
    rows = _rows_of_jobs(result["jobs"])
    if everything:
        return _status(result, rows, width, None, paint)
    many = not result["pods"] and len(rows) > _ROWS
    lines: list[str] = []
    for room in _ROOMS:
        lines = _status(result, rows, width, room, paint)
        if not many or len(lines) <= _STATUS_LINES:
            break
    return lines


def _status(result: Mapping[str, Any], rows: Sequence[Row], width: int, room: Room | None, paint: Paint) -> list[str]:
    unreadable = result.get("unreadable") or {}
    blocks = [
        _cluster(result, unreadable, width, room, paint),
        quotas_block(result["quotas"], unreadable, width, room),
        _jobs_lines(result["jobs"], rows, width, room, paint),
        table_lines(result["pods"], POD_COLUMNS, width, paint) if result["pods"] else [],
        reasons_block(result["jobs"], width, room.reasons if room else None),
        *(wrapped(text, width) for text in own_namespace_texts(result.get("namespace"))),
        *(wrapped(text, width, indent="  ") for text in limits_of_clusters(result.get("clusters") or ())),
    ]
    return joined_blocks(blocks)


_CLUSTER_COLUMNS = (
    CLUSTER,
    Column("status", "STATUS"),
    Column("nodes", "NODES"),
    Column("gpu_total", "GPUS"),
    Column("gpu_used", "USED", numeric=True),
    Column("gpu_free", "FREE", numeric=True),
    Column("jobs", "JOBS"),
    Column("waiting", "WAITING"),
)


def _clusters_table(result: Mapping[str, Any], width: int, paint: Paint) -> list[str]:
    """A row for each of several clusters. What of one is not known is not shown as 0."""

    by_cluster = {key: _by_cluster(result[key]) for key in ("nodes", "jobs")}

    def row(cluster: Row) -> Row:
        if cluster["error"]:
            return {"cluster": cluster["cluster"], "status": "not read" if cluster["is_found"] else "not found"}
        nodes, jobs = (by_cluster[key][cluster["cluster"]] for key in ("nodes", "jobs"))
        gpus = {use: sum(node[use] or 0 for node in nodes) for use in ("gpu_total", "gpu_used", "gpu_free")}
        unknown = [
            *(["gpu_used", "gpu_free"] if "usage" in cluster["unreadable"] else []),
            *(["nodes", *gpus] if "nodes" in cluster["unreadable"] else []),
        ]
        counts = {**gpus, "nodes": len(nodes), "jobs": len(jobs), **dict.fromkeys(unknown, _UNKNOWN)}
        waiting = sum(job["status"] in ("Pending", "Partially Running") for job in jobs)
        return {"cluster": cluster["cluster"], "status": "read", **counts, "waiting": waiting}

    return table_lines([row(cluster) for cluster in result["clusters"]], _CLUSTER_COLUMNS, width, paint)


def _by_cluster(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["cluster"]].append(row)
    return found


def limits_of_clusters(clusters: Iterable[Row]) -> list[str]:
    """What is not shown of several clusters, each limit once with the clusters that share it."""
    limits: dict[str, list[str]] = defaultdict(list)
    own: dict[str, list[str]] = defaultdict(list)
    for each in clusters:
        unreadable = each["unreadable"] or {}
        texts = [_not_shown(what, unreadable) for what in _TITLES if what in unreadable]
        texts += [NOT_KNOWN[what] for what in NOT_KNOWN if what in unreadable]
        for text in texts:
            limits[text].append(each["cluster"])
        if each["namespace"]:
            own[each["namespace"]].append(each["cluster"])
    found = [f"{enumerated(names, 'and')}: {text}" for text, names in limits.items()]
    if len(own) < 2:
        return [*found, *own_namespace_texts(next(iter(own), None))]
    places = enumerated([f"{namespace} ({', '.join(names)})" for namespace, names in own.items()], "and")
    return [*found, f"Only the namespaces {places} are shown. Add -e gpuctl_all_namespaces=true to show all."]


def own_namespace_texts(namespace: str | None, verb: str = "show", done: str = "shown") -> list[str]:
    """For a result that covers one namespace because nothing asked for others."""
    advice = f"Add -e gpuctl_all_namespaces=true to {verb} all."
    return [f"Only namespace {namespace} is {done}. {advice}"] if namespace else []


_CHECK_COLUMNS = (
    CLUSTER,
    Column("title", "CHECK", least=16),
    Column("status", "RESULT"),
    Column("where", "WHERE", least=16, drop=1, optional=True),
)


def doctor_screen(result: Mapping[str, Any], width: int, *, everything: bool, paint: Paint) -> list[str]:
    """The result of gpuctl_doctor: the checks that found something, then what each found and what to do about it."""
    checks = [check for check in result["checks"] if everything or check["status"] != "ok"]
    known = [check for check in checks if everything or check["status"] != "unknown"]
    rows = [{**check, "where": abridged([one["place"] for one in check["findings"]], _NAMES)} for check in known]
    titles = dict.fromkeys(check["title"] for check in known)
    blocks = [
        wrapped(str(result["msg"]), width),
        table_lines(rows, _CHECK_COLUMNS, width, paint) if rows else [],
        *(_findings([each for each in known if each["title"] == title], width, everything) for title in titles),
        *_not_known(checks, result.get("hint"), width),
    ]
    return joined_blocks(blocks)


def _not_known(checks: Iterable[Row], hint: str | None, width: int) -> Iterator[list[str]]:
    """Each reason once, with the checks that share it; those for lack of a permission together."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for check in checks:
        if check["status"] == "unknown":
            groups["" if check["missing"] else check["reason"]].append(check)
    for reason, those in groups.items():
        titles = ", ".join(dict.fromkeys(check["title"] for check in those))
        yield wrapped(f"Not known: {titles}. {reason or hint}", width, indent="  ")


def _findings(checks: Sequence[Row], width: int, everything: bool) -> list[str]:
    """What a check has found, in one cluster or several: each problem once, with the places that share it."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for check in checks:
        cluster = f"{check['cluster']}: " if check.get("cluster") else ""
        for each in check["findings"]:
            groups[each["level"], each["problem"], each["hint"]].append(f"{cluster}{each['place']}")
    shown = list(groups.items())[: None if everything else _ROWS]
    lines = []
    for (level, problem, hint), places in shown:
        where = abridged(places, len(places) if everything else _NAMES)
        lines += wrapped(f"{checks[0]['title']} ({level}): {where}: {problem}. {hint}", width, indent="  ")
    return lines + rest_line(len(groups) - len(shown), "finding")


def explained_verdict(fit: Row) -> Row:
    """A verdict as the row of a reason, with the cheapest change."""
    status = None if fit["verdict"] == "unknown" else SHORT_VERDICTS[fit["verdict"]]  # The reason begins with it.
    return {**fit, "status": status, "reason": " ".join(filter(None, (fit["reason"], fit["hint"])))}


_VERDICTS = ("never", "after_quota", "after_nodes", "unknown", "after_jobs", "after_preemption", "now")


def joined_blocks(blocks: Iterable[Sequence[str]]) -> list[str]:
    """Blocks with an empty line between them."""
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ["", *block] if lines else block
    return lines


def _cluster(
    result: Mapping[str, Any], unreadable: Mapping[str, str], width: int, room: Room | None, paint: Paint
) -> list[str]:
    if "nodes" in unreadable:
        return wrapped(_not_shown("nodes", unreadable), width)
    nodes, pools = result["nodes"], result["pools"]
    gpus = {use: sum(node[f"gpu_{use}"] or 0 for node in nodes) for use in ("total", "used", "free")}
    clusters = result.get("clusters") or ()
    is_known = not any("usage" in one for one in (unreadable, *((each["unreadable"] or {}) for each in clusters)))
    used = f": {gpus['used']} used, {gpus['free']} free" if is_known else ""
    counts = f": {status_counts(nodes)}" if nodes else ""
    lines = [f"{number_of(len(nodes), 'node')}{counts}; {gpus['total']} GPUs{used}"]
    if clusters:
        read = sum(not each["error"] or not each["is_found"] for each in clusters)
        lines = [f"{read} of {number_of(len(clusters), 'cluster')} read; {lines[0]}"]
        lines += [*_clusters_table(result, width, paint), ""]
    inactive = [node for node in nodes if node["status"] != "active"][: max(room.rows - 2, 1)] if room else nodes
    lines += (
        [*table_lines([with_unknown(node) for node in inactive], _NODE_COLUMNS, width, paint), ""] if inactive else []
    )
    shown = _most_telling(pools, room.rows) if room and _exceeds(room, pools) else pools
    lines += (
        table_lines([with_unknown(pool) for pool in shown], _POOL_COLUMNS, width, paint) if shown else ["No pools."]
    )
    lines += rest_line(len(pools) - len(shown), "pool")
    lines += _undivided(pools, width)
    return lines + [line for what in NOT_KNOWN if what in unreadable for line in wrapped(NOT_KNOWN[what], width)]


def _undivided(pools: Sequence[Row], width: int) -> list[str]:
    """The nodes that are not divided as their pools declare, those that say the same in one line."""
    said: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pool in pools:
        for node in pool.get("division") or ():
            if node["done"] is False:
                said[pool["name"], node["state"]].append(node["node_name"])
    texts = (
        f"Not divided as pool {pool} declares: {abridged(nodes, 3)} ({state})." for (pool, state), nodes in said.items()
    )
    return [line for text in texts for line in wrapped(text, width)]


_TITLES = {"nodes": "Pools and nodes", "quotas": "Quotas"}


def _not_shown(what: str, unreadable: Mapping[str, str]) -> str:
    return f"{_TITLES[what]} are not shown: {unreadable[what]}"


# An account of level submit reads nodes, and of pods only its own.
NOT_KNOWN = {
    "usage": "How many GPUs are free is not known: this account may not list the pods of all namespaces. An "
    "administrator grants it: level read of gpuctl_rbac, with append=true.",
    "pools": "Pools without nodes are not shown: this account may not read what is declared in gpuctl-system.",
}


def with_unknown(row: Row) -> Row:
    """The row of a node or pool whose usage the account has no permission to read."""
    unknown = {key: _UNKNOWN for key in ("gpu_used", "gpu_free") if row[key] is None}
    return {**row, **unknown}


def _exceeds(room: Room, rows: Sequence[Row]) -> bool:
    """A line that counts one more row takes the place of that row."""
    return len(rows) > room.rows + 1


def _most_telling(pools: Sequence[Row], number: int) -> list[Row]:
    """What needs a person comes first, then where a job would find free GPUs; pools without GPUs come last."""

    def place(pool: Row) -> tuple[bool, bool, int]:
        is_fine = pool["status"] == "active" and bool(pool["node_count"])
        return is_fine, is_fine and not pool["gpu_total"], -(pool["gpu_free"] or 0)

    return sorted(pools, key=place)[:number]


def quotas_block(quotas: Sequence[Row], unreadable: Mapping[str, str], width: int, room: Room | None) -> list[str]:
    if "quotas" in unreadable:
        return wrapped(_not_shown("quotas", unreadable), width)
    if not quotas:
        return []
    most_used = sorted(quotas, key=_percent, reverse=True)
    shown = most_used[: room.rows] if room and _exceeds(room, quotas) else quotas
    rows = [{**row, **{f"shown_{key}": _use_text(row.get(key)) for key in ("gpu", "cpu", "memory")}} for row in shown]
    rows = [{**row, "shown_gpu_hours": _hours_text(row.get("gpu_hours"))} for row in rows]
    own = [line for row in shown for text in _accelerator_hours(row) for line in wrapped(text, width)]
    return [*table_lines(rows, _QUOTA_COLUMNS, width), *own, *rest_line(len(quotas) - len(shown), "quota")]


def _accelerator_hours(quota: Row) -> Iterator[str]:
    """``GPU-hours of team-a until 2026-12-01: 900 of 1,000 for amd``"""
    budget = quota.get("gpu_hours") or {}
    parts = [
        f"{_UNKNOWN if part['used'] is None else format(part['used'], ',.0f')} of {part['limit']:,} for {name}"
        for name, part in (budget.get("accelerators") or {}).items()
    ]
    if parts:
        place = f"{quota['namespace']} in {quota['cluster']}" if quota.get("cluster") else quota["namespace"]
        yield f"GPU-hours of {place} until {budget['until'][:10]}: {', '.join(parts)}"


def _percent(quota: Row) -> float:
    budget = quota.get("gpu_hours") or {}
    uses = [quota.get(key) or {} for key in ("gpu", "cpu", "memory")]
    uses += [budget, *(budget.get("accelerators") or {}).values()]
    return max((use.get("percent") or 0.0 for use in uses), default=0.0)


def _use_text(use: Mapping[str, Any] | None) -> str:
    if not use:
        return "no limit"
    return f"{_UNKNOWN if use['used'] is None else use['used']} of {use['hard']}"


def _hours_text(budget: Mapping[str, Any] | None) -> str | None:
    """``4,210 of 5,000 until 2026-12-01``"""
    if not budget:
        return None
    used = _UNKNOWN if budget["used"] is None else f"{budget['used']:,.0f}"
    return f"{used} of {budget['limit']:,} until {budget['until'][:10]}"


def jobs_block(jobs: Sequence[Row], width: int, *, room: Room | None, paint: Paint) -> list[str]:
    """A summary and a row for each job, of many those that fit the room; trainings of one sweep share a row."""
    return _jobs_lines(jobs, _rows_of_jobs(jobs), width, room, paint)


def _jobs_lines(jobs: Sequence[Row], rows: Sequence[Row], width: int, room: Room | None, paint: Paint) -> list[str]:
    if not jobs:
        return ["No jobs."]
    shown = rows[: room.rows] if room and len(rows) > _ROWS else rows
    yielding = sum(job.get("priority") == OPPORTUNISTIC for job in jobs)
    apart = f"; {yielding} opportunistic" if yielding else ""
    lines = [f"{number_of(len(jobs), 'job')}: {status_counts(jobs)}{apart}", *_jobs_table(shown, width, paint)]
    rest = rows[len(shown) :]
    return lines + _counted_rest(rest, "status", width)


def _jobs_table(rows: Sequence[Row], width: int, paint: Paint) -> list[str]:
    """The table; URLs that leave too little room below it, since neither they nor names can be used if they are cut."""
    lines = table_lines(rows, JOB_COLUMNS, width)
    crowded = max(map(text_width, lines), default=0) > width or any(ELLIPSIS in line for line in lines)
    if not crowded or not any(row.get("url") for row in rows):
        return table_lines(rows, JOB_COLUMNS, width, paint)
    urls = [line for row in rows if row.get("url") for line in wrapped(f"{place_of(row)}: {row['url']}", width, "  ")]
    return [*table_lines([{**row, "url": None} for row in rows], JOB_COLUMNS, width, paint), "", *urls]


def _rows_of_jobs(jobs: Iterable[Row]) -> list[dict[str, Any]]:
    """In the order in which they are shown."""
    rows = [job_cells(own[0]) if len(own) == 1 else _sweep(own) for own in _by_sweep(jobs)]
    return sorted(rows, key=lambda row: _ORDER.index(row["status"]) if row["status"] in _ORDER else 0)


def _by_sweep(jobs: Iterable[Row]) -> list[list[Row]]:
    """The trainings of each sweep together; any other job by itself."""
    sweeps: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for number, job in enumerate(jobs):
        sweeps[(job.get("cluster"), job["namespace"], job["sweep"]) if job.get("sweep") else (number,)].append(job)
    return list(sweeps.values())


def _partitions(job: Row) -> str:
    """``2x 1g.10gb``"""
    parts = (each for each in job.get("accelerators") or () if each["partition"])
    return ", ".join(f"{each['amount']}x {each['partition']}" for each in parts)


def gpus_of(job: Row) -> str:
    """``2x8`` of two pods, ``8 of 16`` of a quota. A job that is not known requests nothing."""
    wanted, gpu = job.get("pods_wanted") or 0, job.get("gpu")
    if isinstance(gpu, Mapping):
        return _use_text(gpu)
    if wanted > 1 and gpu:
        return f"{wanted}x{gpu}"
    return str(gpu or job.get("gpu_share") or _partitions(job) or "-")


def _gpus_together(jobs: Sequence[Row]) -> str:
    """Of the trainings of a sweep, which request the same."""
    return gpus_of({**jobs[0], "pods_wanted": sum(job.get("pods_wanted") or 0 for job in jobs)})


def job_cells(job: Row) -> dict[str, Any]:
    """The cells of a job. One that cannot be read has neither pods nor GPUs."""
    return {
        **job,
        "gpus": gpus_of(job),
        "shown_status": job["status"],
        "yields": OPPORTUNISTIC if job.get("priority") == OPPORTUNISTIC else None,
        "url": _first_url(job),
    }


def _sweep(jobs: Sequence[Row]) -> dict[str, Any]:
    """One row: how many run, and how many have ended otherwise than they should."""
    counts = Counter(job["status"] for job in jobs)
    first = next(
        status for status in ("Running", "Pending", "Succeeded", "Failed", "TimedOut", *_ORDER) if counts[status]
    )
    words = {"Failed": "failed", "TimedOut": "timed out"}
    failed = "".join(f", {counts[bad]} {word}" for bad, word in words.items() if counts[bad] and first != bad)
    return {
        **job_cells(jobs[0]),
        "name": jobs[0]["sweep"],
        "kind": "sweep",
        "status": "Failed" if failed else first,
        "shown_status": f"{counts[first]}/{len(jobs)} {words.get(first, first.lower())}{failed}",
        "ready": None,
        "restarts": sum(job.get("restarts") or 0 for job in jobs),
        "gpus": _gpus_together(jobs),
        "time_left": None,
        "url": None,
    }


def reasons_block(rows: Iterable[Row], width: int, first: int | None) -> list[str]:
    """The reasons, each once with the jobs that share it, those of the most jobs first, and of paused ones last."""
    by_size = _by_reason(rows)
    shown = by_size[:first]
    lines = [line for (status, _key), own in shown for line in _reason(status, own, width, everything=first is None)]
    return lines + rest_line(len(by_size) - len(shown), "reason")


def shared_reasons(rows: Iterable[Row]) -> list[str]:
    """The same, each as one text."""
    return [_shared_reason(status, own, everything=True) for (status, _key), own in _by_reason(rows)]


def _by_reason(rows: Iterable[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("reason"):
            groups[row.get("status") or "", _own_words(_unnamed_reason(row))].append(row)
    return sorted(groups.items(), key=lambda group: (group[0][0] == "Paused", -len(group[1])))


def _shared_reason(status: str, rows: Sequence[Row], *, everything: bool) -> str:
    reasons = {rows[0]["reason"]} if len(rows) == 1 else set(map(_unnamed_reason, rows))
    # Schedulers count the nodes of their cluster at a time of their own.
    reason = reasons.pop() if len(reasons) == 1 else _own_words(reasons.pop())
    names = [place_of(row) for row in rows]
    who = abridged(names, len(names) if everything else _NAMES)
    return f"{who}{f' ({status})' if status else ''}: {reason}"


def _own_words(reason: str) -> str:
    """The reason without what the scheduler says, unless that is all of it."""
    return reason.partition(SCHEDULER_SAYS)[0].rstrip() or reason


def _reason(status: str, rows: Sequence[Row], width: int, *, everything: bool) -> list[str]:
    own_words, scheduler, counts = _shared_reason(status, rows, everything=everything).partition(SCHEDULER_SAYS)
    lines = wrapped(own_words, width, indent="  ")
    quote = f"  {scheduler}{counts}".rstrip()
    if everything:
        return lines + (wrapped(quote, width, indent="  ") if quote else [])
    if len(lines) > _REASON_LINES:  # An error may quote a long answer. What to do about it comes last.
        lines = [*lines[: _REASON_LINES // 2], "  …", *lines[-_REASON_LINES // 2 :]]
    return lines + ([cut(quote, width)] if quote else [])


def place_of(row: Row) -> str:
    """``team-a/sft``, or ``east/team-a/sft`` in a table of several clusters; nodes and pools are in no namespace."""
    parts = (row.get("cluster"), row.get("namespace"), row.get("name") or row.get("node_name"))
    return "/".join(str(part) for part in parts if part)


_POD = "[a-z0-9][-a-z0-9.]*"
_PODS = re.compile(rf"\b(pods?) ({_POD}(?:(?:, | and ){_POD})*)( |$)")
_QUOTED_NAME = re.compile(rf'\b(pods|ReplicaSet) "({_POD})"')  # in messages of the server and of controllers
_START = 40  # Names of pods begin with as much of the job's at least (generateName keeps 58 characters of both).


def _unnamed_reason(row: Row) -> str:
    return without_own_pods(row.get("name") or "", row["reason"])


def without_own_pods(job: str, reason: str) -> str:
    """The reason without the names of the job's own pods, which differ for each job.

    A reason that begins with one goes on with a verb, and needs no subject after the names of the jobs.
    """
    start = f"{job}-"[:_START]

    def unnamed(found: re.Match[str]) -> str:
        names = re.split(", | and ", found[2])
        if len(start) == 1 or not all(name.startswith(start) for name in names):
            return found[0]
        if len(names) > 1:
            return f"{found[1]}{found[3]}"
        return f"a {found[1]}{found[3]}" if found.start() else ""

    def elided(found: re.Match[str]) -> str:
        return f'{found[1]} "{ELLIPSIS}"' if found[2].startswith(start) else found[0]

    return _QUOTED_NAME.sub(elided, _PODS.sub(unnamed, reason))


def _first_url(row: Row) -> str | None:
    """Where the job answers. While it is paused, its Service keeps its address, but has no endpoints."""
    if row.get("status") == "Paused":
        return None
    return next(iter(row.get("access_urls") or ()), None)


def status_counts(rows: Iterable[Row], key: str = "status") -> str:
    """``480 Running, 25 Pending``, the most frequent first; rows of others may lack the key."""
    counts = Counter(row.get(key) or "other" for row in rows)
    return ", ".join(f"{number} {value}" for value, number in counts.most_common())


def _counted_rest(rows: Sequence[Row], key: str, width: int) -> list[str]:
    return wrapped(f"… and {len(rows)} more: {status_counts(rows, key)}. {_ALL}", width) if rows else []


def rest_line(number: int, noun: str) -> list[str]:
    return [f"… and {number_of(number, f'more {noun}')}. {_ALL}"] if number > 0 else []


_CHANGE_COLUMNS = (
    Column("what", "WHAT", optional=True),
    Column("name", "NAME", least=16, optional=True),
    Column("node_name", "NODE", least=10, optional=True),
    Column("namespace", "NAMESPACE", least=9, optional=True),
    Column("kind", "KIND", drop=2, optional=True),
    Column("gpus", "GPUS", optional=True),
    Column("action", "ACTION", optional=True),
    Column("shown_verdict", "RUNS", optional=True),
    Column("runs", "RUNS", numeric=True, optional=True),
    Column("new_runs", "NEW", numeric=True, optional=True),
    Column("new_ends", "ENDED", numeric=True, optional=True),
    Column("removed_runs", "REMOVED", drop=3, numeric=True, optional=True),
    Column("status", "STATUS", optional=True),
    Column("url", "URL", drop=1, optional=True),
)
_NO_CHANGE = "unchanged"
_SUBMITTED = {"create", "update", "recreate", "failed", _NO_CHANGE}


def changes_screen(
    rows: Sequence[Row], summary: str | None, width: int, *, everything: bool, paint: Paint, predicts: bool = False
) -> list[str]:
    """What a task did to each of its jobs, pools, quotas or nodes; what failed and what changed come first.

    ``predicts``: it is what the task would do, with when the jobs would run. Otherwise only which jobs they preempt.
    """
    most = None if everything else Room().reasons
    rows = [{**row, "action": "failed"} if _is_refused(row) else row for row in rows]
    fits = [row["fit"] for row in rows if row.get("fit")] if predicts else []
    by_interest = sorted(rows, key=_order_of_change)
    # A sweep is submitted as one. What stops or deletes jobs names each.
    folds = {row.get("action") for row in rows} <= _SUBMITTED
    groups = _by_sweep(by_interest) if folds else [[row] for row in by_interest]
    folded = [_change_cells(own, predicts=bool(fits)) for own in groups]
    shown = folded if everything or len(folded) <= _ROWS else folded[:_FIRST_ROWS]
    table = table_lines(shown, _CHANGE_COLUMNS, width, paint) if shown else []
    errors = [{**row, "reason": row["error"], "status": None} for row in rows if row.get("error")]
    fine = [row for row in rows if not row.get("error")]
    preempting = [_preempting(row) for row in fine if not predicts and (row.get("fit") or {}).get("preempts")]
    waiting = [row for row in fine if not predicts or not row.get("fit")]
    # Why a job runs is shown on request.
    predicted = [explained_verdict(fit) for fit in fits if everything or fit["verdict"] != "now" or fit.get("delays")]
    if summary and (sweeps := [own for own in groups if len(own) > 1]):
        names = enumerated([own[0]["sweep"] for own in sweeps], "and")
        named = f"Sweep {names} is" if len(sweeps) == 1 else f"Sweeps {names} are"
        summary = f"{summary}. {named} {sum(map(len, sweeps))} of them."
    if summary and fits:
        summary = f"{summary.rstrip('.')}. Would run: {fit_counts(fits)}."
    blocks = [
        [*table, *_counted_rest(folded[len(shown) :], "action", width)],
        reasons_block(errors, width, most),
        reasons_block(preempting, width, None),
        reasons_block([*sorted(predicted, key=by_verdict), *waiting], width, most),
        *(wrapped(text, width) for text in gpu_hours_texts(rows)),
        *(_last_lines(row) for row in [row for row in rows if row.get("log")][: None if everything else _LOGS]),
        wrapped(summary, width) if summary else [],
    ]
    return joined_blocks(blocks)


def gpu_hours_texts(rows: Iterable[Row]) -> Iterator[str]:
    """What is left of the budgets of jobs, and what the jobs take of it."""
    by_budget: dict[tuple[str | None, str], list[Row]] = {}
    for row in rows:
        if hours := (row.get("fit") or {}).get("gpu_hours"):
            by_budget.setdefault((row.get("cluster"), row["namespace"]), []).append(hours)
    for (cluster, namespace), found in by_budget.items():
        place, budget = f"{namespace} in {cluster}" if cluster else namespace, found[0]
        cost = sum(each["cost"] or 0.0 for each in found)
        daily = sum(each["cost_per_day"] for each in found if each["cost"] is None)
        limit, until = f"{budget['limit']:,}", budget["until"][:10]
        known = f"{limit} until {until}, not counted yet"
        if budget["left"] is not None:
            known = f"{budget['left']:,.0f} of {limit} left until {until}"
        parts = [f"up to {cost:,.0f} until their time limits"] if cost else []
        parts += [f"{daily:,} a day without one"] if daily else []
        much = " That is more than is left." if budget["left"] is not None and cost > budget["left"] else ""
        for name, part in (budget.get("accelerators") or {}).items():
            own = [each["accelerators"][name] for each in found]
            if part["left"] is not None and any(each["cost_per_day"] for each in own):
                known += f", {part['left']:,.0f} of {part['limit']:,} for {name}"
                if not much and sum(each["cost"] or 0.0 for each in own) > part["left"]:
                    much = f" That is more than is left for {name}."
        yield f"GPU-hours of {place}: {known}. The jobs take {' and '.join(parts)}.{much}"


def _preempting(row: Row) -> Row:
    """Which jobs give way to a job: its owner may not have meant that."""
    jobs = [place_of(job) for job in row["fit"]["preempts"]]
    noun, has, starts = ("job", "has", "starts") if len(jobs) == 1 else ("jobs", "have", "start")
    which = f"which {has} a lower priority and {starts} again once there is room"
    fit, others = row["fit"], f"{noun} {enumerated(jobs, 'and')}"
    if fit["verdict"] == "after_preemption":
        return {**row, "status": None, "reason": f"To run, it preempts {others}, {which}."}
    return {**row, "status": None, "reason": fit["reason"]}


def _order_of_change(row: Row) -> tuple[bool, bool, int]:
    """What failed comes first, and what nothing was done to last; before that, jobs that would not run."""
    fit = row.get("fit")
    return not row.get("error"), row.get("action") == _NO_CHANGE, by_verdict(fit) if fit else len(_VERDICTS)


def by_verdict(fit: Row) -> int:
    return _VERDICTS.index(fit["verdict"])


def _change_cells(jobs: Sequence[Row], *, predicts: bool) -> dict[str, Any]:
    """One row: of a job, or of all trainings of a sweep."""
    cells = {**jobs[0], "url": _first_url(jobs[0])}
    if len(jobs) > 1:
        cells |= {"name": jobs[0]["sweep"], "kind": "sweep", "url": None}
        cells |= {key: _values_text([str(job.get(key) or "-") for job in jobs]) for key in ("action", "status")}
    if predicts:
        cells |= {
            "gpus": _gpus_together(jobs),
            "shown_verdict": _values_text([_runs(job) for job in jobs]),
            "status": None,
            "url": None,
        }
    return cells


def _runs(job: Row) -> str:
    """When the job would run; the status of one that the task does not start."""
    fit = job.get("fit")
    return SHORT_VERDICTS[fit["verdict"]] if fit else str(job.get("status") or "-")


def _values_text(values: Sequence[str]) -> str:
    """``create``, or ``3 create, 1 unchanged``."""
    counts = Counter(values).most_common()
    return counts[0][0] if len(counts) == 1 else ", ".join(f"{number} {value}" for value, number in counts)


def _is_refused(row: Row) -> bool:
    """Nothing was done, and nothing is there: "unchanged" would read as if there were."""
    return bool(row.get("error")) and row.get("action") == _NO_CHANGE and not row.get("status")


def _last_lines(row: Row) -> list[str]:
    return [f"Last lines of the log of {place_of(row)}:", *(f"  {line}" for line in row["log"])]


def logs_screen(rows: Sequence[Row], *, colors: bool = False) -> list[str]:
    """The logs of pods, with their colours or without."""
    blocks = []
    for row in rows:
        title = f"==> {row['namespace']}/{row['pod']} on {row['node'] or 'no node'} ({row['status']}) <=="
        lines = [row["error"]] if row["error"] else [_terminal_line(line, colors) for line in row["lines"]]
        blocks.append([title, *lines])
    return joined_blocks(blocks)


def _terminal_line(line: str, colors: bool) -> str:
    return terminal_text(line.replace(_SEQUENCE, "\x1b["), colors=colors)


_SEQUENCE = printable("\x1b[")  # as results have it


def fitting(text: str, width: int) -> str:
    """The text with the lines that are too wide for the terminal broken between words; the others stay as they are."""
    lines = [[line] if text_width(line) <= width else wrapped(line, width, indent="  ") for line in text.splitlines()]
    return "\n".join(line for broken in lines for line in broken)


def error_screen(message: str, width: int, *, everything: bool) -> list[str]:
    """A message of several errors, one a line: as many of them as fit on the screen, and what came of it."""
    lines = message.splitlines()
    end = lines[-1:] if lines[-1:] == [_NO_EFFECT] else []
    errors = [_error(line, width) for line in lines[: len(lines) - len(end)]]
    shown: list[str] = []
    for number, error in enumerate(errors):
        if shown and not everything and len(shown) + len(error) > _ROWS:
            return [*shown, *rest_line(len(errors) - number, "line"), *end]
        shown += error
    return shown + end


_NO_EFFECT = "Nothing was changed."


def _error(line: str, width: int) -> list[str]:
    """The line broken between words, but not where it quotes a manifest: a mark below points to a column of that."""
    if text_width(line) <= width:
        return [line]
    return [cut(line, width)] if _QUOTED.match(line) else wrapped(line, width, indent="  ")


_QUOTED = re.compile(r" *\d* \| ")


def next_commands(rows: Sequence[Row], default_namespace: str | None, width: int) -> list[str]:
    """What a user does after a submission: complete commands, each of which a shell takes as it is.

    ``default_namespace`` is the one that they act in by themselves.
    """
    jobs = [row for row in rows if row.get("action") != "delete" and not row.get("error")]
    if not jobs:
        return []
    first = jobs[0]
    place = "" if first["namespace"] == default_namespace else f" -e gpuctl_namespace={first['namespace']}"
    everywhere = "" if len({row["namespace"] for row in jobs}) == 1 else " -e gpuctl_all_namespaces=true"
    return [
        *_command("status: ", f"ansible-playbook runwhere.gpuctl.status{everywhere or place}", width),
        *_command("logs:   ", f"ansible-playbook runwhere.gpuctl.logs -e gpuctl_name={first['name']}{place}", width),
    ]


def _command(title: str, command: str, width: int) -> list[str]:
    """The command behind its title, with a backslash where it goes on in the next line."""
    if len(title + command) <= width:
        return [title + command]
    first, *others = wrapped(command, width - len(title + " \\"))
    return " \\\n".join([title + first, *(" " * len(title) + line for line in others)]).splitlines()
