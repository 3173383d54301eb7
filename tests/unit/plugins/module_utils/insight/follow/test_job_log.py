# SPDX-License-Identifier: BSD-2-Clause
"""What the task asks of the server for a log, and what it makes of each answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.follow import job_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed

from ...cluster.live_objects import event, pod, unscheduled, with_container, workload
from ...kube.conversation import Exchange, conversation

OURS = "app.kubernetes.io/managed-by=runwhere.gpuctl,app in (x)"
TIME = "2026-01-31T08:00:00.123456789Z"
ASKED = {"container": "main", "timestamps": "true"}


def task(url: str, *, check_mode: bool = False, **options: Any) -> Task[job_log.JobLogOptions]:
    given = job_log.JobLogOptions(**{"name": "x", "namespace": "ml", **options})
    # The lists of workloads one after the other, so that their order is known.
    client = Client(Connection(url, authorization=dict, concurrency=1), sleep=lambda seconds: None)
    warned: list[str] = []
    made = Task(given, {}, check_mode, warned.append, list, opened_client=client)
    made.warned = warned  # type: ignore[attr-defined]
    return made


def a_list(plural: str, *items: dict[str, Any], group: str = "/api/v1", **query: str) -> Exchange:
    query = query or {"labelSelector": OURS}
    return Exchange("GET", f"{group}/namespaces/ml/{plural}", {"limit": "500", **query}, answer={"items": list(items)})


def the_log(name: str = "x-1", text: Any = "", status: int = 200, cut: bool = False, **query: str) -> Exchange:
    path, asked = f"/api/v1/namespaces/ml/pods/{name}/log", {**ASKED, **(query or {"tailLines": "100"})}
    return Exchange("GET", path, asked, status=status, answer=text, cut=cut)


def refusal(reason: str, message: str, status: int) -> dict[str, Any]:
    return {"kind": "Status", "code": status, "reason": reason, "message": message}


def running(name: str = "x-1", **spec: Any) -> dict[str, Any]:
    status = with_container("Running", ready=True, state={"running": {}})
    return pod(name, status=status, nodeName="node-1", **spec)


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the order of the requests is known."""
    monkeypatch.setattr(job_log, "_AT_ONCE", 1)


QUERIES = {
    "the last lines": ({"tail": 5}, {"tailLines": "5"}),
    "lines of the last minutes": ({"since": "10m", "tail": 5}, {"sinceSeconds": "600", "tailLines": "5"}),
    "before the restart": ({"previous": True}, {"tailLines": "100", "previous": "true"}),
    "matching lines, which the server cannot count": (
        {"grep": "a", "tail": 5, "since": "1h"},
        {"sinceSeconds": "3600"},
    ),
}


@pytest.mark.parametrize(("options", "query"), QUERIES.values(), ids=QUERIES)
def test_one_list_and_one_request_for_each_log(options, query):
    with conversation(a_list("pods", running()), the_log("x-1", f"{TIME} a\n", **query)) as url:
        result = job_log.run(task(url, **options))
    assert result == {
        "changed": False,
        "msg": "1 line of 1 pod",
        "results": [
            {
                "pod": "x-1",
                "name": "x",
                "namespace": "ml",
                "kind": "training",
                "node": "node-1",
                "status": "Running",
                "lines": ["a"],
                "truncated": False,
                "first_timestamp": TIME,
                "last_timestamp": TIME,
                "error": None,
            }
        ],
    }


def test_the_secrets_are_those_of_the_pods_themselves():
    env = [{"name": "HF_TOKEN", "value": "hf_secret"}, {"name": "EPOCHS", "value": "three"}]
    speaking = running()
    speaking["spec"]["containers"][0]["env"] = env
    log = f"{TIME} hf_secret three\n{TIME} begins with hf_s"
    with conversation(a_list("pods", speaking), the_log("x-1", log)) as url:
        asked = task(url)
        (row,) = job_log.run(asked)["results"]
    assert row["lines"] == ["******** three", "begins with hf_s"]
    assert asked.masked == set(), "Ansible would replace it in names and statuses, too"


MARKS = {"metadata": {"name": "x", "annotations": {"runwhere.ai/secret-env": '["VENDOR"]'}}, "kind": "Job"}
WORKLOADS: dict[str, tuple[int, dict[str, Any], str]] = {
    "a mark": (200, MARKS, "********"),
    "no mark": (200, {**MARKS, "metadata": {"name": "x"}}, "licence"),
    "no workload any more": (404, refusal("NotFound", 'jobs.batch "x" not found', 404), "licence"),
    "no permission": (403, refusal("Forbidden", 'jobs.batch "x" is forbidden: User "u"', 403), "licence"),
}


@pytest.mark.parametrize(("status", "answer", "line"), WORKLOADS.values(), ids=WORKLOADS)
def test_which_variables_are_marked_only_the_workload_knows(status: int, answer: dict[str, Any], line: str):
    speaking = owned([{"name": "VENDOR", "value": "licence"}])
    marks = Exchange("GET", "/apis/batch/v1/namespaces/ml/jobs/x", status=status, answer=answer)
    with conversation(a_list("pods", speaking), marks, the_log("x-1", f"{TIME} licence")) as url:
        (row,) = job_log.run(task(url))["results"]
    assert row["lines"] == [line]


def test_without_other_variables_no_workload_is_read():
    speaking = owned([{"name": "HF_TOKEN", "value": "hf_secret"}, {"name": "RANK", "value": "0"}])
    with conversation(a_list("pods", speaking), the_log("x-1", f"{TIME} hf_secret")) as url:
        (row,) = job_log.run(task(url))["results"]
    assert row["lines"] == ["********"]


def owned(env: list[dict[str, str]]) -> dict[str, Any]:
    """A pod of a Job."""
    speaking = running()
    speaking["spec"]["containers"][0]["env"] = env
    speaking["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u"}]
    return speaking


# -- pods without a log ----------------------------------------------------------------------------------------------

CREATING = with_container(state={"waiting": {"reason": "ContainerCreating"}})
PULLING = with_container(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})
WAITING = refusal("BadRequest", 'container "main" in pod "x-1" is waiting to start: ContainerCreating', 400)
REASONS = (
    a_list("jobs", workload(), group="/apis/batch/v1"),
    a_list("deployments", group="/apis/apps/v1"),
    a_list("statefulsets", group="/apis/apps/v1"),
)
NODE = Exchange("GET", "/api/v1/nodes", {"limit": "500", "fieldSelector": "metadata.name=node-1"}, answer={"items": []})
NOT_STARTED = {
    "being created": (
        pod(status=CREATING, nodeName="node-1"),
        [NODE],
        "container main of pod x-1 has not started yet (ContainerCreating)",
    ),
    "no image": (
        pod(status=PULLING, nodeName="node-1"),
        [],
        "image reg/ml:v1 of pod x-1 cannot be pulled: no such host. "
        "Check environment.image, and environment.imagePullSecret for a private registry.",
    ),
}


@pytest.mark.parametrize(("waiting", "nodes", "error"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_a_pod_that_has_not_started_says_why(waiting, nodes, error):
    with conversation(
        a_list("pods", waiting),
        the_log("x-1", WAITING, 400),
        *REASONS,
        a_list("events", fieldSelector="type=Warning"),
        *nodes,
    ) as url:
        asked = task(url)
        (row,) = job_log.run(asked)["results"]
    assert (row["lines"], row["error"]) == ([], error)
    assert asked.warned == []  # type: ignore[attr-defined]


def test_a_pod_without_a_node_is_not_asked_and_other_pods_problems_are_not_its_own():
    message = "0/2 nodes are available."
    refused = event("FailedCreate", "exceeded quota", kind="Job", name="x")
    nodes = Exchange("GET", "/api/v1/nodes", {"limit": "500"}, status=403, answer=FORBIDDEN)
    everywhere = Exchange(
        "GET",
        "/api/v1/pods",
        {"limit": "500", "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"},
        answer={"items": []},
    )
    gated = pod("x-2", status={"phase": "Pending"})
    with conversation(
        a_list("pods", pod(status=unscheduled(message)), gated),
        *REASONS,
        a_list("events", refused, fieldSelector="type=Warning"),
        everywhere,
        nodes,
    ) as url:
        rows = job_log.run(task(url))["results"]
    assert [row["error"] for row in rows] == [
        "pod x-1 cannot be scheduled. The scheduler says: 0/2 nodes are available.",
        "container main of pod x-2 has not started yet (Pending)",
    ]


FORBIDDEN = refusal("Forbidden", 'x is forbidden: User "ann" cannot list resource "x"', 403)


def test_without_permission_to_read_reasons_the_state_is_shown():
    events = a_list("events", fieldSelector="type=Warning")
    events.status, events.answer = 403, FORBIDDEN
    waiting = pod(status=CREATING, nodeName="node-1")
    with conversation(a_list("pods", waiting), the_log("x-1", WAITING, 400), *REASONS, events) as url:
        (row,) = job_log.run(task(url))["results"]
    assert row["error"] == "container main of pod x-1 has not started yet (ContainerCreating)"


PREVIOUS = refusal("BadRequest", 'previous terminated container "main" in pod "x-1" not found', 400)
BROKEN = refusal("BadRequest", "the node is on fire", 400)
DELETED = refusal("NotFound", 'pods "x-1" not found', 404)
REFUSED = {
    "never restarted": (
        {"previous": True},
        PREVIOUS,
        "container main of pod x-1 was never restarted, so it has no previous log",
    ),
    "gone since": ({}, DELETED, "pod x-1 was deleted, and its log with it"),
    "anything else": (
        {},
        BROKEN,
        "the node is on fire (HTTP 400 to GET /api/v1/namespaces/ml/pods/x-1/log)",
    ),
}


@pytest.mark.parametrize(("options", "answer", "error"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_fails_the_task_only_when_every_pod_gives_it(options, answer, error):
    query = {"tailLines": "100", **({"previous": "true"} if options else {})}
    with (
        conversation(a_list("pods", running()), the_log("x-1", answer, answer["code"], **query)) as url,
        pytest.raises(TaskFailed) as caught,
    ):
        job_log.run(task(url, **options))
    assert str(caught.value) == f"no log could be read: {error}"
    assert [row["error"] for row in caught.value.result["results"]] == [error]

    with conversation(
        a_list("pods", running(), running("x-2")),
        the_log("x-1", answer, answer["code"], **query),
        the_log("x-2", "fine\n", **query),
    ) as url:
        asked = task(url, **options)
        result = job_log.run(asked)
    assert [(row["lines"], row["error"]) for row in result["results"]] == [([], error), (["fine"], None)]
    assert asked.warned == [error]  # type: ignore[attr-defined]


def test_a_missing_permission_to_read_logs_is_an_error():
    body = refusal("Forbidden", 'pods "x-1" is forbidden: User "ann" cannot get resource "pods/log"', 403)
    with (
        conversation(a_list("pods", running()), the_log("x-1", body, 403)) as url,
        pytest.raises(ApiError, match="cannot get resource"),
    ):
        job_log.run(task(url))


# -- no pods ---------------------------------------------------------------------------------------------------------

ENDED = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
WITHOUT_PODS = {
    "ended": (
        workload(status=ENDED),
        "job x in namespace ml has ended (Succeeded), and its pods are deleted with their logs and files.",
    ),
    "paused": (
        workload(suspend=True),
        "job x in namespace ml is paused, and its pods are deleted with their logs and files: the job is suspended "
        "(spec.suspend). Resume it with O(state=resumed).",
    ),
    "not begun": (workload(), "job x in namespace ml has no pods yet."),
}


@pytest.mark.parametrize(("job", "message"), WITHOUT_PODS.values(), ids=WITHOUT_PODS)
def test_a_job_without_pods(job, message):
    with (
        conversation(
            a_list("pods"),
            a_list("pods", fieldSelector="metadata.name=x", labelSelector="runwhere.ai/job-type"),
            a_list("jobs", job, group="/apis/batch/v1"),
            *REASONS[1:],
            a_list("pods"),
            a_list("events", fieldSelector="type=Warning"),
        ) as url,
        pytest.raises(TaskFailed) as caught,
    ):
        job_log.run(task(url))
    assert str(caught.value) == message


# -- into a file -----------------------------------------------------------------------------------------------------


def test_a_log_that_broke_off_leaves_nothing_in_the_file(tmp_path: Path):
    dest = tmp_path / "x.log"
    with conversation(
        a_list("pods", running()),
        the_log("x-1", f"{TIME} one\n{TIME} two\n", cut=True),
        the_log("x-1", f"{TIME} one\n{TIME} two\n{TIME} three\n"),
    ) as url:
        result = job_log.run(task(url, dest=str(dest)))
    assert dest.read_text() == "one\ntwo\nthree\n"
    assert (result["changed"], result["dest"], result["results"][0]["lines"]) == (True, str(dest), [])
    assert result["results"][0]["last_timestamp"] == TIME


FILES = {
    "the limit does not count for lines that pass": ({"tail": -1}, {}, "one\ntwo\nthr\n", True),
    "it cuts lines": ({"tail": 100}, {"tailLines": "100"}, "one\ntwo\nthr\n", True),
    "it counts for lines that are held": ({"grep": "e|o", "tail": 2}, {}, "two\n", True),
    "matching lines pass when all are wanted": ({"grep": "e", "tail": -1}, {}, "one\n", False),
}


@pytest.mark.parametrize(("options", "query", "text", "truncated"), FILES.values(), ids=FILES)
def test_what_goes_into_a_file(tmp_path, options, query, text, truncated):
    dest = tmp_path / "x.log"
    asked = the_log("x-1", "one\ntwo\nthree\n", **query)
    asked.query = {**ASKED, **query}
    with conversation(a_list("pods", running()), asked) as url:
        (row,) = job_log.run(task(url, dest=str(dest), limit_bytes=3, **options))["results"]
    assert (dest.read_text(), row["truncated"]) == (text, truncated)


def test_a_file_is_left_alone_when_no_pod_has_a_log(tmp_path):
    dest = tmp_path / "x.log"
    dest.write_text("before")
    waiting = pod(status=CREATING, nodeName="node-1")
    with conversation(
        a_list("pods", waiting),
        the_log("x-1", WAITING, 400),
        *REASONS,
        a_list("events", fieldSelector="type=Warning"),
        NODE,
    ) as url:
        result = job_log.run(task(url, dest=str(dest)))
    assert (result["changed"], dest.read_text()) == (False, "before")
