# SPDX-License-Identifier: BSD-2-Clause
"""What people see. The screens are kept as text in the folder screens/; GPUCTL_UPDATE_SCREENS=1 writes them again."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.jobs.job_rows import malformed_job_row
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import with_restarts
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.shapes import MalformedObject
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fit_report import fit_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import (
    Room,
    changes_screen,
    doctor_screen,
    error_screen,
    fitting,
    gpu_hours_texts,
    jobs_block,
    logs_screen,
    next_commands,
    quotas_block,
    reasons_block,
    status_screen,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import text_width, wrapped

SCREENS = Path(__file__).with_name("screens")
Row = dict[str, Any]


def plain(key: str, cell: str) -> str:
    return cell


def job(number: int, **fields: Any) -> Row:
    """A job as gpuctl_status returns it; every seventh waits, every fiftieth has failed."""
    row: Row = {
        "name": f"train-{number}",
        "namespace": ("team-a", "team-b", "研究团队")[number % 3],
        "kind": "training",
        "pool": "training-pool",
        "status": "Running",
        "reason": None,
        "ready": "2/2",
        "pods_wanted": 2,
        "gpu": 8,
        "gpu_share": None,
        "sweep": None,
        "restarts": 0,
        "running_for": "3h",
        "age": "4h",
        "access_urls": [],
    }
    name = fields.get("name", row["name"])
    if number % 50 == 49:
        row |= {"status": "Failed", "ready": "0/2", "running_for": None}
        row["reason"] = f"pod {name}-0-x7k2p failed: CUDA out of memory (exit code 1)"
    elif number % 7 == 3:
        row |= {"status": "Pending", "ready": "0/2", "running_for": None}
        row["reason"] = (
            f"pod {name}-0-ab1cd cannot be scheduled: it needs 8 GPUs on one node, but the most free on one of "
            "the 5 nodes of pool training-pool is 4 GPUs (on node-1), 4 GPUs short. Wait for other jobs to finish, "
            "delete one, or raise job.priority."
        )
    return {**row, **fields}


def status(jobs: list[Row], **parts: Any) -> Row:
    nodes = [
        {
            "node_name": f"gpu-node-{number}",
            "status": "active" if number else "faulty",
            "gpu_type": "A100-100G",
            "gpu_total": 8,
            "gpu_used": 5,
            "gpu_free": 3 if number else 0,
            "bound_pools": ["training-pool"],
        }
        for number in range(10)
    ]
    pool = {"name": "training-pool", "status": "active", "gpu_total": 80, "gpu_used": 50, "gpu_free": 27}
    quota = {
        "name": "teams",
        "namespace": "team-a",
        "cpu": None,
        "memory": {"used": "1Ti", "hard": "2Ti", "percent": 50},
    }
    return {
        "jobs": jobs,
        "pods": [],
        "nodes": nodes,
        "pools": [{**pool, "node_count": 10, "description": "训练 A100"}],
        "quotas": [{**quota, "gpu": {"used": 24, "hard": 24, "percent": 100}}],
        "unreadable": {},
        **parts,
    }


def kept(name: str, lines: list[str]) -> list[str]:
    """The screen of that name as it is kept."""
    path = SCREENS / f"{name}.txt"
    if os.environ.get("GPUCTL_UPDATE_SCREENS"):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path.read_text(encoding="utf-8").splitlines()


NOTEBOOK = job(
    1000,
    name="nb",
    kind="notebook",
    pods_wanted=1,
    gpu=0,
    ready="1/1",
    restarts=3,
    access_urls=["http://10.0.0.11:30088"],
)
SWEEP = [
    job(
        number, name=f"lr-{number}", namespace="team-a", sweep="lr-sweep", status="Running" if number < 3 else "Pending"
    )
    for number in range(30)
]
POD = {"job_id": "nb-0", "name": "nb", "namespace": "team-b", "kind": "notebook", "status": "Running", "ready": "1/1"}
SCREENS_OF_STATUS = {
    "status-few": status([job(1), job(3), NOTEBOOK, *SWEEP]),
    "status-pods": status([NOTEBOOK], pods=[{**POD, "node": "gpu-node-1", "ip": "10.244.1.7", "age": "3h"}]),
    "status-60": status([job(number) for number in range(60)]),
    "status-510": status([job(number) for number in range(510)]),
    "status-none": status([], quotas=[]),
    "status-level-submit": status(
        [job(1), job(3)],
        nodes=[
            {
                "node_name": f"gpu-node-{number}",
                "status": "active" if number else "maintaining",
                "gpu_type": None,
                "gpu_total": 8,
                "gpu_used": None,
                "gpu_free": None,
                "bound_pools": ["training-pool"],
            }
            for number in range(4)
        ],
        pools=[
            {
                "name": "training-pool",
                "status": "active",
                "gpu_total": 32,
                "gpu_used": None,
                "gpu_free": None,
                "node_count": 4,
                "description": None,
            }
        ],
        unreadable={"usage": "pods is forbidden: …", "pools": "configmaps is forbidden: …"},
    ),
    "status-one-namespace": status(
        [job(1)], nodes=[], pools=[], unreadable={"nodes": "403 Forbidden: nodes is forbidden."}
    ),
}


def finding(place: str, problem: str = "no exporter", level: str = "warning") -> Row:
    return {"level": level, "place": place, "problem": problem, "hint": "Install it."}


def check(
    title: str, status: str = "ok", *findings: Row, reason: str | None = None, missing: tuple[str, ...] = ()
) -> Row:
    return {
        "check": title,
        "title": title,
        "status": status,
        "reason": reason,
        "missing": list(missing),
        "findings": list(findings),
    }


CHECKED: Row = {
    "msg": "6 checks: 1 with errors, 1 with warnings; 3 not known.",
    "checks": [
        check("version of the API"),
        check("exporters", "warning", *(finding(f"node-{number}") for number in range(6))),
        check("healthy devices", "error", finding("node-1", "2 of 8 GPUs are unhealthy", "error")),
        check("storage classes", "unknown", reason="Missing permission: list a.", missing=("list a",)),
        check("priority classes", "unknown", reason="Missing permission: list b.", missing=("list b",)),
        check("Lease of the pools", "unknown", reason="The server does not have this API: /apis/x."),
    ],
    "hint": "Missing permissions: list a, b in the whole cluster. An administrator grants them with: ansible …",
}


def test_doctor() -> None:
    lines = doctor_screen(CHECKED, 80, everything=False, paint=plain)
    assert lines == kept("doctor", lines)
    assert max(map(text_width, lines)) <= 80


def test_doctor_with_everything() -> None:
    text = "\n".join(doctor_screen(CHECKED, 200, everything=True, paint=plain))
    assert "version of the API" in text
    assert "node-0, node-1, node-2, node-3, node-4, node-5: no exporter. Install it." in text


@pytest.mark.parametrize("name", SCREENS_OF_STATUS)
def test_status(name: str) -> None:
    lines = status_screen(SCREENS_OF_STATUS[name], 80, everything=False, paint=plain)
    assert lines == kept(name, lines)
    assert max(map(text_width, lines)) <= 80


def test_more_rows_than_fit_may_lack_an_action() -> None:
    rows = [{"name": f"row-{number}"} for number in range(30)]
    assert changes_screen(rows, None, 80, everything=False, paint=plain)[-1].startswith("… and 24 more: 24 other.")


LONG_SCHEDULER = "The scheduler says: " + ", ".join(
    f"{n} node(s) had untolerated taint {{pool-{n}: }}" for n in range(20)
)
LONG_CAUSE = "pod sft-x7k2p cannot be scheduled: " + "it needs 8 GPUs on one node of a pool of that type; " * 8
HINT = "Wait for other jobs to finish, or delete one."


@pytest.mark.parametrize(
    ("reason", "most"),
    [
        (f"pod sft-x7k2p cannot be scheduled: no GPU is free. {HINT} {LONG_SCHEDULER}.", 5),
        (f"{LONG_CAUSE}. {HINT} {LONG_SCHEDULER}.", 9),
        (f"admission webhook denied the request: {'no such volume; ' * 200}. {HINT}", 17),
    ],
    ids=["long words of the scheduler", "a long cause", "a long answer of the server"],
)
def test_a_hint_is_never_cut(reason: str, most: int) -> None:
    for lines in (
        status_screen(status([job(1, status="Pending", reason=reason)]), 80, everything=False, paint=plain),
        changes_screen([change(1, error=reason)], None, 80, everything=False, paint=plain),
    ):
        block = lines[next(n for n, line in enumerate(lines) if "/train-1" in line) :]
        assert HINT in " ".join(line.strip() for line in block)
        assert len(block) <= most
        assert max(map(text_width, lines)) <= 80
    everything = status_screen(status([job(1, status="Pending", reason=reason)]), 80, everything=True, paint=plain)
    assert reason.split()[-1] in everything[-1]
    assert "…" not in "".join(everything)


def test_what_an_account_may_not_read_is_not_known() -> None:
    lines = status_screen(SCREENS_OF_STATUS["status-level-submit"], 80, everything=True, paint=plain)
    assert [line.split()[2:6] for line in lines if line.startswith("training-pool ")] == [["32", "?", "?", "4"]]


@pytest.mark.parametrize(("name", "most"), [("status-60", 28), ("status-510", 28)])
def test_many_jobs_fit_a_screen(name: str, most: int) -> None:
    assert len(status_screen(SCREENS_OF_STATUS[name], 80, everything=False, paint=plain)) <= most


def test_many_of_everything_fits_a_screen() -> None:
    jobs = [job(number, reason=f"{'x ' * 30 * (number % 9)}reason {number % 9}") for number in range(60)]
    few = status([])
    result = status(
        jobs,
        nodes=[{**node, "status": "faulty"} for node in few["nodes"]],
        pools=[{**few["pools"][0], "name": f"pool-{number}"} for number in range(12)],
        quotas=[{**few["quotas"][0], "namespace": f"team-{number}"} for number in range(12)],
    )
    lines = status_screen(result, 80, everything=False, paint=plain)
    assert len(lines) <= 28
    assert [sum("Add -e gpuctl_all=true" in line for line in lines)] == [4]  # pools, quotas, jobs, reasons


def test_a_pool_that_only_a_job_names_is_no_table_without_rows() -> None:
    lines = status_screen(status([job(1)], pools=[], nodes=[]), 80, everything=True, paint=plain)
    assert lines[:3] == ["0 nodes; 0 GPUs: 0 used, 0 free", "No pools.", ""]


def test_of_many_pools_those_are_shown_that_need_a_person_or_have_room() -> None:
    (pool, *_), free = status([])["pools"], iter(range(12))
    pools = [{**pool, "name": f"room-{number}", "gpu_free": next(free), "gpu_total": 12} for number in range(12)]
    pools += [
        {**pool, "name": "faulty", "status": "faulty"},
        {**pool, "name": "lost", "node_count": 0, "gpu_total": 0, "gpu_free": 0},
        {**pool, "name": "cpus", "gpu_total": 0, "gpu_free": 0},
    ]
    lines = status_screen({**status([]), "pools": pools}, 80, everything=False, paint=plain)
    start = next(number for number, line in enumerate(lines) if line.startswith("POOL"))
    shown = [line.split()[0] for line in lines[start + 1 : start + 7]]
    assert shown == ["faulty", "lost", "room-11", "room-10", "room-9", "room-8"]


SERVICE = job(
    2,
    name="qwen2-7b-llamafactory-service",
    status="Partially Running",
    restarts=2,
    access_urls=["http://192.168.0.2:30087"],
)


@pytest.mark.parametrize(
    ("name", "url", "below"),
    [
        ("service", "http://10.0.0.2:30087", False),
        ("service", "http://a1b2c3d4e5f6-1234567890.eu-central-1.elb.amazonaws.com:8000", True),
        (SERVICE["name"], "http://10.0.0.2:30087", True),
    ],
    ids=["in its column", "below the table", "below the table instead of a name that is cut"],
)
def test_names_and_urls_are_kept_on_a_narrow_terminal(name: str, url: str, below: bool) -> None:
    lines = jobs_block([{**SERVICE, "name": name, "access_urls": [url]}, job(1)], 80, room=Room(), paint=plain)
    assert max(map(text_width, lines)) <= 80
    assert lines[1].endswith("URL") != below
    assert [line.split()[-1] for line in lines if "http" in line] == [url]
    assert name in [line.partition(" ")[0] for line in lines]


def test_the_age_is_that_of_the_job() -> None:
    lines = jobs_block([job(1, age="4h", running_for="3m")], 80, room=None, paint=plain)
    assert dict(zip(lines[1].split(), lines[2].split(), strict=True))["AGE"] == "4h"


def test_all_jobs_on_request() -> None:
    lines = status_screen(SCREENS_OF_STATUS["status-510"], 200, everything=True, paint=plain)
    assert {f"train-{number}" for number in range(510)} <= {line.split()[0] for line in lines if line}


def change(number: int, **fields: Any) -> Row:
    row = {
        "name": f"train-{number}",
        "namespace": "team-a",
        "kind": "training",
        "action": "create",
        "status": "Pending",
    }
    return {**row, "reason": None, "error": None, "access_urls": [], **fields}


def fit(name: str, verdict: str, reason: str, hint: str | None = None, **fields: Any) -> dict[str, Any]:
    """A job as gpuctl_fit_info returns it."""
    base = {"name": name, "namespace": "team-a", "verdict": verdict, "reason": reason, "hint": hint}
    return {**base, "pods_wanted": 1, "gpu": 8, "runs_at": None, **fields}


FAILED = [
    change(number, error="quota teams-team-a of the namespace is exhausted. Delete a job.") for number in range(60)
]
SCREENS_OF_CHANGES = {
    "submit-few": ([change(1), change(2, action="unchanged", status="Running")], "2 jobs: 1 create, 1 unchanged"),
    "submit-failed-60": (FAILED, None),
    "submit-failed-log": ([change(1, error="pod train-1-0 failed: exit code 1", log=["Traceback:", "OOM"])], None),
    "submit-refused": (
        [change(1, action="unchanged", status=None, error="namespace taem-a not found. Create it."), change(2)],
        None,
    ),
    "submit-many": (
        [change(n, action="unchanged") for n in range(60)] + [change(60)],
        "61 jobs: 1 create, 60 unchanged",
    ),
    "provision": (
        [
            {"what": "pool", "name": "a", "action": "create"},
            {"what": "labels", "node_name": "node-1", "action": "update"},
            {"what": "quota", "name": "q", "namespace": "team-a", "action": "create"},
        ],
        None,
    ),
}


@pytest.mark.parametrize("name", SCREENS_OF_CHANGES)
def test_changes(name: str) -> None:
    rows, summary = SCREENS_OF_CHANGES[name]
    lines = changes_screen(rows, summary, 80, everything=False, paint=plain)
    assert lines == kept(name, lines)
    assert max(map(text_width, lines)) <= 80
    assert len(lines) <= 20


def predicted(number: int, verdict: str, reason: str, **fields: Any) -> Row:
    """A job that check mode would create."""
    own = change(number, **{"status": None, "pods_wanted": 1, "gpu": 8, **fields})
    return {**own, "fit": fit(own["name"], verdict, reason)}


def test_check_mode_has_one_table_with_each_reason_once() -> None:
    full = "Quota teams-team-a has too little nvidia.com/gpu."
    rows = [
        predicted(0, "now", "It runs now: on gpu-1."),
        *(predicted(number, "after_quota", full, sweep="lr") for number in (1, 2, 3)),
        predicted(4, "after_quota", full, pods_wanted=4),
        predicted(5, "never", "It needs 8 GPUs on one node, but the largest node has 4."),
        change(6, action="unchanged", status="Running", pods_wanted=2, gpu=1),
    ]
    lines = changes_screen(rows, "7 jobs: 6 create, 1 unchanged", 80, everything=False, paint=plain, predicts=True)
    assert lines == kept("submit-check", lines)
    (title,) = [line.split() for line in lines if "NAME" in line]
    assert title == ["NAME", "NAMESPACE", "KIND", "GPUS", "ACTION", "RUNS"]
    assert [line.split()[0] for line in lines[1:6]] == ["train-5", "lr", "train-4", "train-0", "train-6"]
    assert "\n".join(lines).count("too little nvidia.com/gpu") == 1


def test_paused_jobs_are_explained_last() -> None:
    paused = [{"name": f"p{number}", "status": "Paused", "reason": "The job is suspended."} for number in range(3)]
    lines = reasons_block([*paused, {"name": "sft", "status": "Pending", "reason": "It needs 8 GPUs."}], 80, 1)
    assert lines[0] == "sft (Pending): It needs 8 GPUs."


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["x"], "To run, it preempts job team-b/x, which has a lower priority and starts again once there is room."),
        (
            ["x", "y"],
            "To run, it preempts jobs team-b/x and team-b/y, which have a lower priority and start again once ",
        ),
    ],
)
def test_a_report_names_the_jobs_that_are_preempted(names: list[str], text: str) -> None:
    row = predicted(0, "after_preemption", "It runs once it has preempted others.", action="create")
    row["fit"]["preempts"] = [{"namespace": "team-b", "name": name} for name in names]
    lines = changes_screen([row], "1 job: 1 create", 80, everything=False, paint=plain)
    assert lines[0].split() == ["NAME", "NAMESPACE", "KIND", "ACTION", "STATUS"][: len(lines[0].split())]
    assert f"team-a/train-0: {text}" in " ".join(line.strip() for line in lines)


def test_a_sweep_of_several_states_says_how_many_are_in_each() -> None:
    rows = [change(1, sweep="lr"), change(2, sweep="lr"), change(3, sweep="lr", action="unchanged", status="Running")]
    lines = changes_screen(rows, None, 80, everything=False, paint=plain)
    assert lines[1].split("  ")[-2:] == ["2 create, 1 unchanged", "2 Pending, 1 Running"]


@pytest.mark.parametrize(
    ("sweeps", "text"),
    [
        (["lr", "lr", None], "3 jobs: 3 create. Sweep lr is 2 of them."),
        (["lr", "lr", "wd", "wd"], "4 jobs: 4 create. Sweeps lr and wd are 4 of them."),
        ([None, None], "2 jobs: 2 create"),
    ],
)
def test_the_number_of_jobs_is_explained_where_rows_are_fewer(sweeps: list[str | None], text: str) -> None:
    rows = [change(number, sweep=sweep) for number, sweep in enumerate(sweeps)]
    total = len(rows)
    lines = changes_screen(rows, f"{total} jobs: {total} create", 80, everything=False, paint=plain)
    assert lines[-1] == text


def test_the_jobs_of_a_sweep_that_are_deleted_are_named() -> None:
    rows = [change(number, sweep="lr", action="delete", status=None) for number in (1, 2)]
    lines = changes_screen(rows, None, 80, everything=False, paint=plain)
    assert [line.split()[0] for line in lines[1:]] == ["train-1", "train-2"]


def test_what_is_in_no_namespace_may_fail() -> None:
    rows = [{"node_name": "node-1", "action": "update", "error": "forbidden."}]
    assert changes_screen(rows, None, 80, everything=False, paint=plain)[-1] == "node-1: forbidden."


def test_a_workload_that_cannot_be_read_has_a_row() -> None:
    odd = malformed_job_row(MalformedObject("Job", "team-a", "odd", "spec is no object"))
    rows = with_restarts([odd, job(1)], [], datetime.now(timezone.utc))
    lines = jobs_block(rows, 80, room=Room(), paint=plain)
    assert lines[0] == "2 jobs: 1 Unknown, 1 Running"
    assert lines[2].split() == ["odd", "team-a", "-", "-", "-", "Unknown", "-", "-"]


def test_only_lines_that_are_too_wide_are_broken() -> None:
    kept_as_it_is = '{\n    "msg":  "indented"\n}'
    assert fitting(kept_as_it_is, 80) == kept_as_it_is
    assert fitting("Error: 2 objects would change.\n  at  once", 20) == "Error: 2 objects\n  would change.\n  at  once"


def test_errors_of_manifests_fit_a_screen() -> None:
    message = "\n".join(f"manifests.yaml, document {number}, environment.imge: unknown key." for number in range(100))
    lines = error_screen(message, 80, everything=False)
    assert len(lines) == 21
    assert lines[-1] == "… and 80 more lines. Add -e gpuctl_all=true to list all."
    assert len(error_screen(message, 80, everything=True)) == 100


def test_that_nothing_was_changed_is_not_cut_off() -> None:
    message = "\n".join([*(f"training t-{number}: no." for number in range(30)), "Nothing was changed."])
    lines = error_screen(message, 80, everything=False)
    assert lines[-2:] == ["… and 10 more lines. Add -e gpuctl_all=true to list all.", "Nothing was changed."]


def test_a_mark_points_to_its_column() -> None:
    quoted = ["/work/sft.yaml, line 7: tab used for indentation.", "7 | →name: sft", "  | ^"]
    assert error_screen("\n".join(quoted), 80, everything=False) == quoted
    long = [f"7 |   command: {'x' * 90}", "  |            ^"]
    assert error_screen("\n".join(long), 80, everything=False) == [f"{long[0][:79]}…", long[1]]


# As gpuctl_job_log returns it.
LOG = list(map(printable, ["a  'b'", "\x1b[0;32mx\x1b[0m", "\x1b[2Jy"]))


def test_logs_are_text() -> None:
    row = {"pod": "p-0", "namespace": "team-a", "node": None, "status": "Running", "error": None, "lines": LOG}
    title = "==> team-a/p-0 on no node (Running) <=="
    assert logs_screen([row]) == [title, "a  'b'", "x", "y"]
    assert logs_screen([row], colors=True) == [title, "a  'b'", "\x1b[0;32mx\x1b[0m", "y"]
    failed = {**row, "pod": "p-1", "node": "node-1", "error": "no log yet"}
    assert logs_screen([{**row, "lines": ["a"]}, failed]) == [
        title,
        "a",
        "",
        "==> team-a/p-1 on node-1 (Running) <==",
        "no log yet",
    ]


def test_next_commands_are_complete() -> None:
    assert next_commands([change(1)], "default", 80) == [
        "status: ansible-playbook runwhere.gpuctl.status -e gpuctl_namespace=team-a",
        "logs:   ansible-playbook runwhere.gpuctl.logs -e gpuctl_name=train-1 \\",
        "        -e gpuctl_namespace=team-a",
    ]
    assert next_commands([change(1, action="delete")], "default", 80) == []


def test_next_commands_do_not_repeat_the_namespace_in_which_they_act() -> None:
    assert next_commands([change(1)], "team-a", 80) == [
        "status: ansible-playbook runwhere.gpuctl.status",
        "logs:   ansible-playbook runwhere.gpuctl.logs -e gpuctl_name=train-1",
    ]
    elsewhere = next_commands([change(1), change(2, namespace="team-b")], "team-a", 80)
    assert elsewhere[0] == "status: ansible-playbook runwhere.gpuctl.status -e gpuctl_all_namespaces=true"


def test_next_commands_fit_a_narrow_terminal() -> None:
    lines = next_commands([change(1, name="a-name-that-is-rather-long")], "default", 60)
    assert max(map(len, lines)) <= 60
    assert " ".join(line.removesuffix("\\").strip() for line in lines) == (
        "status: ansible-playbook runwhere.gpuctl.status -e gpuctl_namespace=team-a "
        "logs:   ansible-playbook runwhere.gpuctl.logs -e gpuctl_name=a-name-that-is-rather-long "
        "-e gpuctl_namespace=team-a"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("one", ["one"]),
        ("one two three", ["one two", "  three"]),
        ("研究团队 研究", ["研究团队", "  研究"]),
    ],
)
def test_wrapped(text: str, expected: list[str]) -> None:
    assert wrapped(text, 10, indent="  ") == expected


def test_fit() -> None:
    rows = [
        fit("sft", "now", "It runs now: on one of 3 nodes, such as gpu-1."),
        fit(
            "pretrain",
            "after_jobs",
            "1 of its 4 pods find room. For the next one, it needs 8 GPUs on one node, but the most free on one of the "
            "4 nodes of pool a100 is 4 GPUs (on gpu-2), 4 GPUs short. It runs after job team-b/eval (in 3 h at the "
            "latest) ends.",
            "With resources.gpu 4 instead of 8, it runs now.",
            pods_wanted=4,
            runs_at="2026-03-01T15:00:00Z",
        ),
        fit("big", "never", "It needs 16 GPUs on one node, but the largest node of pool a100 has 8 GPUs.", gpu=16),
        fit("waits", "unknown", "Not known: Kueue admits it, when queue gpuctl-a100 has room for it."),
    ]
    lines = screen_lines(fit_report({"results": rows}), View(80))
    assert lines == kept("fit", lines)
    assert max(map(text_width, lines)) <= 80


@pytest.mark.parametrize(
    ("left", "costs", "text"),
    [
        (
            790.0,
            [(96.0, 96), (None, 24)],
            "790 of 5,000 left until 2026-12-01. The jobs take up to 96 until their time limits and 24 a day without "
            "one.",
        ),
        (
            90.0,
            [(96.0, 96)],
            "90 of 5,000 left until 2026-12-01. The jobs take up to 96 until their time limits. That is more than is "
            "left.",
        ),
        (
            None,
            [(None, 48)],
            "5,000 until 2026-12-01, not counted yet. The jobs take 48 a day without one.",
        ),
    ],
    ids=["enough", "too much", "not counted"],
)
def test_what_jobs_take_of_a_budget(left: float | None, costs: list[tuple[float | None, int]], text: str) -> None:
    budget = {"left": left, "limit": 5000, "until": "2026-12-01T00:00:00Z"}
    hours = [{**budget, "cost": cost, "cost_per_day": daily} for cost, daily in costs]
    rows = [{"namespace": "a", "fit": {"gpu_hours": each}} for each in hours]
    others: list[dict[str, Any]] = [{"namespace": "b", "fit": {"gpu_hours": None}}, {"namespace": "b"}]
    assert list(gpu_hours_texts([*rows, *others])) == [f"GPU-hours of a: {text}"]


def test_what_jobs_take_of_the_budget_of_an_accelerator() -> None:
    """Of those that no job uses, nothing is said."""
    budget = {"left": 790.0, "limit": 5000, "until": "2026-12-01T00:00:00Z", "cost": 96.0, "cost_per_day": 96}
    parts = {
        "amd": {"limit": 100, "left": 20.0, "cost": 24.0, "cost_per_day": 24},
        "ascend": {"limit": 70, "left": 0.0, "cost": 0.0, "cost_per_day": 0},
        "nvidia": {"limit": 4000, "left": 770.0, "cost": 72.0, "cost_per_day": 72},
    }
    (text,) = gpu_hours_texts([{"namespace": "a", "fit": {"gpu_hours": {**budget, "accelerators": parts}}}])
    assert text == (
        "GPU-hours of a: 790 of 5,000 left until 2026-12-01, 20 of 100 for amd, 770 of 4,000 for nvidia. The jobs take "
        "up to 96 until their time limits. That is more than is left for amd."
    )


def test_status_says_what_was_used_by_accelerator() -> None:
    part = {"limit": 1000, "used": 900.0, "percent": 90.0}
    hours = {"limit": 5000, "used": 4210.0, "percent": 84.2, "until": "2026-12-01T00:00:00Z"}
    budget = {**hours, "accelerators": {"amd": part, "nvidia": {**part, "used": None, "percent": None}}}
    lines = quotas_block([{"name": "q", "namespace": "team-a", "gpu_hours": budget}], {}, 100, None)
    assert lines[-1] == "GPU-hours of team-a until 2026-12-01: 900 of 1,000 for amd, ? of 1,000 for nvidia"
