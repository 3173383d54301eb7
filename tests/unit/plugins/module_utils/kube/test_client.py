# SPDX-License-Identifier: BSD-2-Clause
"""The requests that the client sends to the server."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import transport
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.container_log import read_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import (
    ApiError,
    ConnectionProblem,
    InvalidResponse,
    KubeError,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import (
    DEPLOYMENT,
    DEVICE_CLASS,
    JOB,
    NODE,
    POD,
)

from .conversation import Exchange, conversation

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
SUCCESS = {"kind": "Status", "status": "Success", "details": {"name": "train"}}
TRAIN = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml", "uid": "u-1"}}
APPLY = {"fieldManager": "runwhere.gpuctl", "force": "false", "fieldValidation": "Strict"}


def client(url: str, slept: list[float] | None = None, **options: object) -> Client:
    """A client for which only sleeping takes time."""
    connection = Connection(url, authorization=lambda: {"Authorization": "Bearer t"}, **options)  # type: ignore[arg-type]
    naps = slept if slept is not None else []
    return Client(connection, sleep=naps.append, clock=lambda: sum(naps))


def failure(status: int, reason: str, message: str = "no", causes: list[dict[str, str]] | None = None) -> dict:
    return {"kind": "Status", "code": status, "reason": reason, "message": message, "details": {"causes": causes or []}}


def listed(kind: str, *names: str, **metadata: str) -> dict:
    """A list of objects with no more than their kind requires."""
    template = {"spec": {"containers": [{"name": "main"}]}}
    common = {"namespace": "ml", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    items = [{"metadata": {"name": name, **common}, "spec": {"template": template}} for name in names]
    return {"kind": f"{kind}List", "metadata": metadata, "items": items}


def test_a_list_is_read_in_pages_and_its_items_get_their_kind():
    first, second = listed("Job", "a", **{"continue": "more"}), listed("Job", "b")
    selector = "app in (a,b)"
    with conversation(
        Exchange("GET", JOBS, {"limit": "500", "labelSelector": selector}, answer=first),
        Exchange("GET", JOBS, {"limit": "500", "labelSelector": selector, "continue": "more"}, answer=second),
    ) as url:
        jobs = client(url).list_objects(JOB, "ml", labels=selector)
    assert [(job["apiVersion"], job["kind"], job["metadata"]["name"]) for job in jobs] == [
        ("batch/v1", "Job", "a"),
        ("batch/v1", "Job", "b"),
    ]


def test_the_next_page_is_requested_while_the_caller_processes_one():
    """The first page's only object waits for the request of the second page."""
    page = listed("Node", "a", **{"continue": "more"})
    first = Exchange("GET", "/api/v1/nodes", {"limit": "500"}, answer=page)
    second = Exchange("GET", "/api/v1/nodes", {"limit": "500", "continue": "more"}, answer=listed("Node"))
    with conversation(first, second) as url:
        assert client(url).list_slim(NODE, lambda node: second.arrived.wait(10)) == [True]


def test_a_list_whose_continue_token_expired_is_read_from_the_start():
    page, whole = listed("Node", "a", **{"continue": "old"}), listed("Node", "a", "b")
    with conversation(
        Exchange("GET", "/api/v1/nodes", {"limit": "500"}, answer=page),
        Exchange(
            "GET", "/api/v1/nodes", {"limit": "500", "continue": "old"}, status=410, answer=failure(410, "Expired")
        ),
        Exchange("GET", "/api/v1/nodes", {"limit": "500"}, answer=whole),
    ) as url:
        assert len(client(url).list_objects(NODE)) == 2


def test_metadata_only_requests_partial_objects():
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    query = {"limit": "500", "fieldSelector": "metadata.name=train"}
    answer = listed("PartialObjectMetadata")
    with conversation(Exchange("GET", JOBS, query, answer=answer, expect_headers=accept)) as url:
        assert client(url).list_objects(JOB, "ml", fields="metadata.name=train", metadata_only=True) == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_apply_is_a_patch_with_our_field_manager(dry_run):
    query = {**APPLY, **({"dryRun": "All"} if dry_run else {})}
    headers = {"Content-Type": "application/apply-patch+yaml", "Authorization": "Bearer t"}
    with conversation(
        Exchange("PATCH", f"{JOBS}/train", query, sent=TRAIN, status=201, answer=TRAIN, expect_headers=headers)
    ) as url:
        assert client(url).apply(TRAIN, dry_run=dry_run) == TRAIN


def test_each_impersonated_group_is_a_header_of_its_own():
    impersonation = (("Impersonate-User", "ann"), ("Impersonate-Group", "ml"), ("Impersonate-Group", "ops"))
    headers = {"Impersonate-User": "ann", "Impersonate-Group": "ml, ops"}
    with conversation(
        Exchange("GET", "/api/v1/nodes", {"limit": "1"}, answer=listed("Node"), expect_headers=headers)
    ) as url:
        client(url, impersonation=impersonation).list_first(NODE)


def test_a_merge_patch_carries_the_resource_version_and_leaves_a_conflict_to_the_caller():
    node = {"metadata": {"name": "node-1", "resourceVersion": "7"}}
    sent = {"metadata": {"labels": {"a": "b", "c": None}, "resourceVersion": "7"}}
    query = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
    headers = {"Content-Type": "application/merge-patch+json"}
    stale = failure(409, "Conflict", "the object has been modified")
    with (
        conversation(
            Exchange(
                "PATCH", "/api/v1/nodes/node-1", query, sent=sent, expect_headers=headers, status=409, answer=stale
            )
        ) as url,
        pytest.raises(ApiError, match="has been modified"),
    ):
        client(url).merge_patch(NODE, node["metadata"], {"metadata": {"labels": {"a": "b", "c": None}}})


def test_a_patch_of_a_node_requests_only_its_metadata_in_return():
    """A whole node is twenty times as large, mostly the list of its images."""
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    query = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict"}
    answer = {"kind": "PartialObjectMetadata", "metadata": {"name": "node-1"}}
    with conversation(Exchange("PATCH", "/api/v1/nodes/node-1", query, answer=answer, expect_headers=accept)) as url:
        client(url).merge_patch(NODE, {"name": "node-1", "resourceVersion": "7"}, {}, metadata_only=True)


@pytest.mark.parametrize(
    ("status", "answer", "created"),
    [(201, TRAIN, TRAIN), (409, failure(409, "AlreadyExists"), None)],
    ids=["the name is free", "the name is taken"],
)
def test_a_valid_object_passes_the_dry_run_of_its_creation(status, answer, created):
    query = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict", "dryRun": "All"}
    with conversation(Exchange("POST", JOBS, query, sent=TRAIN, status=status, answer=answer)) as url:
        assert client(url).create(TRAIN, dry_run=True) == created


def test_deletion_names_the_uid_and_the_propagation():
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u-1"},
        "gracePeriodSeconds": 0,
    }
    with conversation(Exchange("DELETE", f"{JOBS}/train", sent=options, answer=SUCCESS)) as url:
        assert client(url).delete(JOB, TRAIN["metadata"], propagation="Foreground", grace_seconds=0) is True


def test_a_deletion_has_dry_run_in_the_body_where_the_server_looks():
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u-1"},
        "dryRun": ["All"],
    }
    with conversation(Exchange("DELETE", f"{JOBS}/train", sent=options, answer=SUCCESS)) as url:
        client(url).delete(JOB, TRAIN["metadata"], propagation="Background", dry_run=True)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, failure(404, "NotFound")),
        (409, failure(409, "Conflict", "the UID in the precondition (u-1) does not match the UID in record (u-2)")),
    ],
    ids=["deleted", "recreated"],
)
def test_deleting_a_deleted_object_is_not_an_error(status, body):
    with conversation(Exchange("DELETE", f"{JOBS}/train", status=status, answer=body)) as url:
        assert client(url).delete(JOB, TRAIN["metadata"], propagation="Background") is False


def test_get_returns_none_for_a_missing_object():
    with conversation(Exchange("GET", f"{JOBS}/train", status=404, answer=failure(404, "NotFound"))) as url:
        assert client(url).get(JOB, "ml", "train") is None


# -- what counts as an answer ------------------------------------------------------------------------------------------

LOGIN = "<html><body>Please log in</body></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}
NOT_ANSWERS = {
    "a login page": ({"answer": LOGIN, "headers": HTML}, "an HTML page (HTTP 200)"),
    "a page that claims to be JSON": ({"answer": LOGIN}, "an HTML page (HTTP 200)"),
    "a redirect": (
        {"status": 302, "headers": {"Location": "https://sso.example/login?next=token"}},
        "a redirect to 'https://sso.example/login' (HTTP 302)",
    ),
    "nothing": ({"answer": ""}, "an empty body (HTTP 200)"),
    "half of an object": ({"answer": '{"kind": "Job", "meta'}, "incomplete or invalid JSON (HTTP 200)"),
    "a list": ({"answer": "[]"}, "the text '[]' (HTTP 200)"),
    "an object of another kind": (
        {"answer": {"kind": "Pod", "metadata": {"name": "train"}}},
        "'Pod train' instead of Job train (HTTP 200)",
    ),
    "another object": (
        {"answer": {"kind": "Job", "metadata": {"name": "other"}}},
        "'Job other' instead of Job train (HTTP 200)",
    ),
    "an object without metadata": ({"answer": {"kind": "Job", "metadata": 7}}, "instead of Job train (HTTP 200)"),
    "a load balancer's 404": ({"status": 404, "answer": "default backend - 404"}, "'default backend - 404' (HTTP 404)"),
    "a firewall's 403": ({"status": 403, "answer": LOGIN, "headers": HTML}, "an HTML page (HTTP 403)"),
}
SENDS = {
    "get": ("GET", {}, lambda api: api.get(JOB, "ml", "train")),
    "apply": ("PATCH", APPLY, lambda api: api.apply(TRAIN)),
    "delete": ("DELETE", {}, lambda api: api.delete(JOB, TRAIN["metadata"], propagation="Background")),
}


@pytest.mark.parametrize("send", SENDS.values(), ids=SENDS)
@pytest.mark.parametrize(("response", "found"), NOT_ANSWERS.values(), ids=NOT_ANSWERS)
def test_only_json_of_the_expected_object_is_an_answer(send, response, found):
    method, query, call = send
    exchange = Exchange(method, f"{JOBS}/train", query, **response)
    with conversation(exchange) as url, pytest.raises(InvalidResponse) as caught:
        call(client(url, retries=0))
    assert f"{method} {url}{JOBS}/train returned " in str(caught.value)
    assert found in str(caught.value)
    assert "<" not in str(caught.value)
    assert caught.value.may_be_written is (method != "GET" and response.get("status", 200) < 400)


NOT_FOUND = Exchange("GET", "/apis/resource.k8s.io/v1/deviceclasses", {"limit": "500"}, status=404,
                     answer="404 page not found\n", headers={"Content-Type": "text/plain; charset=utf-8"})  # fmt: skip
DEVICES = {"name": "resource.k8s.io", "preferredVersion": {"groupVersion": "resource.k8s.io/v1"},
           "versions": [{"groupVersion": "resource.k8s.io/v1"}]}  # fmt: skip


def groups(*found, status=200):
    return Exchange("GET", "/apis", status=status, answer={"kind": "APIGroupList", "groups": list(found)})


def test_an_api_that_the_server_does_not_list_is_not_served():
    """As in Kubernetes before 1.34. Discovery is asked once."""
    with conversation(NOT_FOUND, groups(), NOT_FOUND) as url:
        api = client(url, retries=0)
        for _ in range(2):
            with pytest.raises(ApiError, match=r"^API not served by this cluster: resource\.k8s\.io/v1 ") as caught:
                api.list_objects(DEVICE_CLASS)
            assert (caught.value.status, caught.value.reason) == (404, "NotFound")


@pytest.mark.parametrize("discovery", [groups(DEVICES), groups(status=503), replace(NOT_FOUND, path="/apis", query={})])
def test_a_page_for_an_api_that_may_be_served_is_a_proxys(discovery):
    with conversation(NOT_FOUND, discovery) as url, pytest.raises(InvalidResponse, match="A proxy, load balancer"):
        client(url, retries=0).list_objects(DEVICE_CLASS)


def test_what_is_not_an_answer_is_asked_for_again():
    page = Exchange("GET", f"{JOBS}/train", answer=LOGIN, headers=HTML)
    with conversation(page, Exchange("GET", f"{JOBS}/train", answer=TRAIN)) as url:
        assert client(url).get(JOB, "ml", "train") == TRAIN


@pytest.mark.parametrize("answer", [{"kind": "PodList", "items": []}, {"kind": "JobList", "items": "none"}])
def test_a_list_of_another_kind_is_not_an_empty_list(answer):
    with conversation(Exchange("GET", JOBS, {"limit": "500"}, answer=answer)) as url, pytest.raises(InvalidResponse):
        client(url, retries=0).list_objects(JOB, "ml")


def test_a_log_is_not_a_login_page():
    with (
        conversation(Exchange("GET", "/api/v1/namespaces/ml/pods/train-x/log", answer=LOGIN, headers=HTML)) as url,
        pytest.raises(InvalidResponse),
    ):
        read_log(client(url, retries=0), "ml", "train-x", {}, list)


@pytest.mark.parametrize("other", [{"status": "Failure"}, {"details": {"name": "other"}}, {"details": None}])
def test_the_status_of_something_else_is_no_deletion(other):
    status = {**SUCCESS, **other}
    with conversation(Exchange("DELETE", f"{JOBS}/train", answer=status)) as url, pytest.raises(InvalidResponse):
        client(url, retries=0).delete(JOB, TRAIN["metadata"], propagation="Background")


def test_a_page_of_a_failing_load_balancer_is_not_shown():
    down = Exchange("GET", f"{JOBS}/train", status=503, answer=LOGIN, headers=HTML)
    with conversation(down) as url, pytest.raises(ApiError) as caught:
        client(url, retries=0).get(JOB, "ml", "train")
    assert str(caught.value) == f"an HTML page (HTTP 503 to GET {JOBS}/train)"


def test_objects_are_sent_as_utf_8():
    """The server's parser for apply patches rejects the surrogate pairs by which JSON escapes an emoji."""
    job = {**TRAIN, "metadata": {**TRAIN["metadata"], "annotations": {"note": "\U0001f600"}}}
    received = Exchange("PATCH", f"{JOBS}/train", APPLY, sent_bytes="\U0001f600".encode(), answer=job)
    with conversation(received) as url:
        client(url).apply(job)


def test_what_yaml_does_not_allow_is_escaped():
    """The server parses apply patches as YAML, and rejects or changes such characters even in a string of JSON."""
    job = {**TRAIN, "metadata": {**TRAIN["metadata"], "annotations": {"note": "\x9b\x7f\x85\u4f60"}}}
    sent = rb'"\u009b\u007f\u0085' + "\u4f60".encode()
    with conversation(Exchange("PATCH", f"{JOBS}/train", APPLY, sent_bytes=sent, answer=job)) as url:
        client(url).apply(job)


def test_half_of_a_surrogate_pair_is_refused():
    job = {**TRAIN, "metadata": {**TRAIN["metadata"], "annotations": {"note": "\ud83d"}}}
    with pytest.raises(KubeError, match=r"^not valid Unicode: '\\ud83d'"):
        client("http://127.0.0.1:1").apply(job)


# -- logs --------------------------------------------------------------------------------------------------------------

LOG = "/api/v1/namespaces/ml/pods/train-x/log"


def test_a_log_comes_in_chunks_and_is_not_json():
    query = {"container": "main", "tailLines": "2"}
    headers = {"Accept": "application/json, */*"}
    text = "x" * 150_000 + "\n"
    with conversation(Exchange("GET", LOG, query, answer=text, expect_headers=headers)) as url:
        pieces = read_log(client(url), "ml", "train-x", query, list)
    assert b"".join(pieces) == text.encode()
    assert max(map(len, pieces)) == 65_536


def test_a_log_that_breaks_off_is_read_from_its_start_again():
    slept: list[float] = []
    with conversation(
        Exchange("GET", LOG, answer="one\ntw", cut=True), Exchange("GET", LOG, answer="one\ntwo\n")
    ) as url:
        text = read_log(client(url, slept), "ml", "train-x", {}, lambda pieces: b"".join(pieces))
    assert text == b"one\ntwo\n"
    assert len(slept) == 1


def test_a_partly_read_log_does_not_disturb_the_next_request():
    with conversation(
        Exchange("GET", LOG, answer="x" * 1_000_000),
        Exchange("GET", "/api/v1/nodes", {"limit": "1"}, answer=listed("Node")),
    ) as url:
        api = client(url)
        assert len(read_log(api, "ml", "train-x", {}, next)) == 65_536
        assert api.list_first(NODE) == []


def test_a_rejected_log_request_keeps_the_reason():
    waiting = 'container "main" in pod "train-x" is waiting to start: ContainerCreating'
    refusal = Exchange("GET", LOG, status=400, answer=failure(400, "BadRequest", waiting))
    with conversation(refusal) as url, pytest.raises(ApiError) as caught:
        read_log(client(url), "ml", "train-x", {}, list)
    assert caught.value.message == waiting


# -- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [429, 500, 502, 503, 504, 0], ids=lambda status: f"{status or 'reset'}")
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_every_request_is_retried_while_the_server_fails(method, failing):
    query = {"GET": {"limit": "500"}, "PATCH": APPLY, "DELETE": {}}[method]
    path = JOBS if method == "GET" else f"{JOBS}/train"
    send = {
        "GET": lambda api: api.list_objects(JOB, "ml"),
        "PATCH": lambda api: api.apply(TRAIN),
        "DELETE": lambda api: api.delete(JOB, TRAIN["metadata"], propagation="Background"),
    }[method]
    answer = {"GET": listed("Job"), "PATCH": TRAIN, "DELETE": SUCCESS}[method]
    slept: list[float] = []
    with conversation(
        Exchange(method, path, query, status=failing), Exchange(method, path, query, answer=answer)
    ) as url:
        send(client(url, slept))
    assert len(slept) == 1


def test_retry_after_sets_the_delay():
    slept: list[float] = []
    busy = Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=429, headers={"Retry-After": "7"})
    with conversation(busy, Exchange("GET", "/api/v1/nodes", {"limit": "1"}, answer=listed("Node"))) as url:
        client(url, slept).list_first(NODE)
    assert slept == [7.0]


def test_a_429_holds_back_all_requests_of_the_client():
    """The second thread waits because of the first one's response, before it has sent anything."""
    rejected, both, slept, now = threading.Event(), threading.Barrier(2), [], [0.0]
    query = {"limit": "1"}

    def sleep(seconds: float) -> None:
        slept.append((threading.current_thread().name, seconds))
        rejected.set()
        both.wait(10)  # The hold lasts until both threads wait for it.
        now[0] = 7.0

    with conversation(
        Exchange("GET", "/api/v1/nodes", query, status=429, headers={"Retry-After": "7"}),
        Exchange("GET", "/api/v1/nodes", query, answer=listed("Node")),
        Exchange("GET", "/api/v1/nodes", query, answer=listed("Node")),
    ) as url:
        api = Client(Connection(url, authorization=dict), sleep=sleep, clock=lambda: now[0])
        first = threading.Thread(target=api.list_first, args=(NODE,), name="first")
        first.start()
        assert rejected.wait(10)
        second = threading.Thread(target=api.list_first, args=(NODE,), name="second")
        second.start()
        first.join(10)
        second.join(10)
    assert slept == [("first", 7.0), ("second", 7.0)]


def test_the_delay_doubles_until_the_last_attempt():
    slept: list[float] = []
    failing = failure(503, "ServiceUnavailable")
    broken = [Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=503, answer=failing) for _ in range(4)]
    with conversation(*broken) as url, pytest.raises(ApiError):
        client(url, slept, retries=3).list_first(NODE)
    assert len(slept) == 3
    for delay, ceiling in zip(slept, (0.2, 0.4, 0.8), strict=True):
        assert ceiling / 2 <= delay <= ceiling


def test_an_apply_that_lost_a_race_is_retried_but_a_field_conflict_is_not():
    race = failure(409, "Conflict", "the object has been modified")
    owned = failure(409, "Conflict", causes=[{"reason": "FieldManagerConflict", "field": ".spec.replicas"}])
    with (
        conversation(
            Exchange("PATCH", f"{JOBS}/train", APPLY, status=409, answer=race),
            Exchange("PATCH", f"{JOBS}/train", APPLY, status=409, answer=owned),
        ) as url,
        pytest.raises(ApiError) as caught,
    ):
        client(url).apply(TRAIN)
    assert caught.value.is_field_conflict


@pytest.mark.parametrize("status", [400, 403, 404, 422])
def test_a_rejected_request_is_not_retried(status):
    with (
        conversation(
            Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=status, answer=failure(status, "No"))
        ) as url,
        pytest.raises(ApiError) as caught,
    ):
        client(url).list_first(NODE)
    assert caught.value.status == status


def test_rejected_credentials_are_not_retried():
    refusal = Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=401, answer=failure(401, "Unauthorized"))
    with (
        conversation(refusal) as url,
        pytest.raises(ConnectionProblem, match=r"^credentials rejected by the API server.*api_key"),
    ):
        client(url).list_first(NODE)


# -- writes whose outcome is not known -------------------------------------------------------------------------------

LOST = {"status": 0}
OUTCOMES = {
    "the response is lost": ([LOST, LOST], True),
    "lost, then rejected": ([LOST, {"status": 422, "answer": failure(422, "Invalid")}], True),
    "the server failed": ([{"status": 500, "answer": failure(500, "InternalError")}] * 2, True),
    "timed out in the server": ([{"status": 504, "answer": failure(504, "Timeout")}] * 2, True),
    "rejected": ([{"status": 422, "answer": failure(422, "Invalid")}], False),
    "too many requests": ([{"status": 429, "answer": failure(429, "TooManyRequests")}] * 2, False),
}


@pytest.mark.parametrize(("responses", "may_be_written"), OUTCOMES.values(), ids=OUTCOMES)
@pytest.mark.parametrize("dry_run", [False, True])
def test_an_error_says_whether_the_write_may_have_been_made(responses, may_be_written, dry_run):
    query = {**APPLY, **({"dryRun": "All"} if dry_run else {})}
    exchanges = [Exchange("PATCH", f"{JOBS}/train", query, **response) for response in responses]
    with conversation(*exchanges) as url, pytest.raises(KubeError) as caught:
        client(url, retries=1).apply(TRAIN, dry_run=dry_run)
    assert caught.value.may_be_written is (may_be_written and not dry_run)


def test_a_read_is_never_written():
    with conversation(Exchange("GET", JOBS, {"limit": "500"}, **LOST)) as url, pytest.raises(KubeError) as caught:
        client(url, retries=0).list_objects(JOB, "ml")
    assert not caught.value.may_be_written


def test_a_server_that_was_not_reached_has_written_nothing():
    with conversation() as url:
        pass
    with pytest.raises(ConnectionProblem) as caught:
        client(url, retries=0).apply(TRAIN)
    assert not caught.value.may_be_written


# -- the time that a task may lose on a silent server ----------------------------------------------------------------


class Clock:
    """Time that passes while the client sleeps or waits for a response, and is counted in ``spent``."""

    def __init__(self) -> None:
        self.spent = 0.0

    def __call__(self) -> float:
        return self.spent

    def sleep(self, seconds: float) -> None:
        self.spent += seconds


class SilentPool:
    """urllib3's pool on a server that answers ``answered`` requests and is silent from then on."""

    def __init__(self, clock: Clock, answered: int = 0) -> None:
        self.clock, self.answered, self.requests = clock, answered, 0

    def request(self, method, url, *, timeout, **options):
        self.requests += 1
        if self.requests <= self.answered:
            body = io.BytesIO(json.dumps(listed("Node")).encode())
            return urllib3.HTTPResponse(body=body, status=200, preload_content=False)
        self.clock.sleep(timeout.read_timeout)
        raise urllib3.exceptions.ReadTimeoutError(None, url, "Read timed out.")


@pytest.mark.parametrize("answered", [0, 1], ids=["never reached", "reached before"])
@pytest.mark.parametrize("retries", [0, 2, 5])
def test_a_silent_server_costs_a_task_request_timeout_once(answered, retries, monkeypatch):
    clock = Clock()
    pool = SilentPool(clock, answered)
    monkeypatch.setattr(transport, "_open_pool", lambda connection: (pool, ""))
    api = Client(Connection("http://silent", request_timeout=60, retries=retries), clock.sleep, clock)
    for _request in range(answered):
        api.list_first(NODE)
    for _request in range(3):  # The later ones are those of a rollback and of a report.
        with pytest.raises(ConnectionProblem, match=r"no answer within 60 s|not answered for 60 s"):
            api.list_first(NODE)
    # Of a server that has answered before, two more requests ask whether it answers again, for a second each.
    assert clock.spent < 61 + 2 * answered
    api.begin_task()
    before = pool.requests
    with pytest.raises(ConnectionProblem):
        api.list_first(NODE)
    assert pool.requests > before


@pytest.mark.parametrize("error", [urllib3.exceptions.ConnectTimeoutError, urllib3.exceptions.ReadTimeoutError])
def test_a_server_to_which_there_is_no_connection_costs_connect_timeout(error, monkeypatch):
    """urllib3 calls it a timeout of reading if TCP connects and TLS does not."""

    class UnconnectedPool(SilentPool):
        def request(self, method, url, *, timeout, **options):
            self.clock.sleep(timeout.connect_timeout)
            raise error(*([None, url, "timed out"] if error is urllib3.exceptions.ReadTimeoutError else ["timed out"]))

    clock = Clock()
    monkeypatch.setattr(transport, "_open_pool", lambda connection: (UnconnectedPool(clock), ""))
    api = Client(Connection("https://down", request_timeout=60, connect_timeout=4), clock.sleep, clock)
    for _request in range(3):
        with pytest.raises(ConnectionProblem, match=r"https://down: no connection"):
            api.list_first(NODE)
    assert clock.spent == 4


def test_a_server_that_has_answered_has_longer_than_connect_timeout(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(transport, "_open_pool", lambda connection: (SilentPool(clock, 1), ""))
    api = Client(Connection("https://slow", request_timeout=60, connect_timeout=4), clock.sleep, clock)
    api.list_first(NODE)
    with pytest.raises(ConnectionProblem, match="no answer within 60 s"):
        api.list_first(NODE)
    assert clock.spent > 50


class PartlySilentPool(SilentPool):
    """One that answers whatever is not about pods."""

    def request(self, method, url, *, timeout, **options):
        self.answered = self.requests + 1 if "/pods" not in url else 0
        return super().request(method, url, timeout=timeout, **options)


def test_one_request_without_an_answer_leaves_time_for_the_others(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(transport, "_open_pool", lambda connection: (PartlySilentPool(clock), ""))
    api = Client(Connection("http://slow", request_timeout=60, retries=5), clock.sleep, clock)
    api.list_first(NODE)
    spent = []
    for _round in range(8):
        before = clock.spent
        with pytest.raises(ConnectionProblem, match="no answer within 60 s"):
            api.list_first(POD)
        spent.append(clock.spent - before)
        assert api.list_first(NODE) == []
    assert spent[0] == pytest.approx(60, abs=6)
    assert sum(spent) < 60 * 2 + 16, "each time half of the time before, and a second at least"


def test_an_address_that_refuses_connections_is_reported_within_five_seconds():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    clock = Clock()
    api = Client(Connection(url), clock.sleep, clock)
    with pytest.raises(ConnectionProblem, match="Connection refused"):
        api.list_first(NODE)
    assert 1 < clock.spent < 5
    spent = clock.spent
    with pytest.raises(
        ConnectionProblem, match=rf"cannot reach the API server {url}: connection refused\. Check that the cluster"
    ):
        api.list_first(POD)
    assert clock.spent == spent
    api.begin_task()
    with pytest.raises(ConnectionProblem, match="Connection refused"):
        api.list_first(NODE)


def test_a_server_that_has_answered_is_waited_for():
    """An API server takes longer to restart than five attempts do."""
    slept: list[float] = []
    path, query = "/api/v1/nodes", {"limit": "1"}
    restarting = [Exchange("GET", path, query, status=0) for _attempt in range(8)]
    first, last = (Exchange("GET", path, query, answer=listed("Node")) for _request in range(2))
    with conversation(first, *restarting, last) as url:
        api = client(url, slept)
        api.list_first(NODE)
        api.list_first(NODE)
    assert 10 < sum(slept) < 60


# -- messages --------------------------------------------------------------------------------------------------------


def test_an_error_has_the_servers_message_and_the_request():
    body = failure(403, "Forbidden", 'pods is forbidden: User "ann" cannot list resource "pods"')
    refusal = Exchange("GET", "/api/v1/pods", {"limit": "500"}, status=403, answer=body)
    with conversation(refusal) as url, pytest.raises(ApiError) as caught:
        client(url).list_objects(POD)
    assert str(caught.value) == (
        'pods is forbidden: User "ann" cannot list resource "pods" (HTTP 403 to GET /api/v1/pods)'
    )


def test_an_unreachable_server():
    with conversation() as url:
        pass
    with pytest.raises(ConnectionProblem) as caught:
        client(url, retries=0).list_objects(DEPLOYMENT)
    assert str(caught.value) == (
        f"cannot reach the API server {url}: Connection refused. Check that the cluster is up and that host or context "
        f"is right."
    )


def test_an_unreachable_proxy():
    with conversation() as proxy:
        pass
    with pytest.raises(ConnectionProblem) as caught:
        client("http://api.invalid", retries=0, proxy=proxy).list_objects(DEPLOYMENT)
    assert f"http://api.invalid through the proxy {proxy}: Unable to connect to proxy: Connection refused. " in str(
        caught.value
    )


def test_a_port_that_does_not_speak_tls():
    with conversation() as url, pytest.raises(ConnectionProblem) as caught:
        client(url.replace("http", "https"), retries=0).list_objects(DEPLOYMENT)
    assert "no TLS on this port. Check the port, and whether the URL must start with http://." in str(caught.value)


AS_JSON = '{"containers":[{"env":[{"name":"TOKEN","value":"hunter2"}]}]}'
AS_GO = 'core.PodTemplateSpec{Env:[]core.EnvVar{core.EnvVar{Value:"hunter2"}}}'
REJECTIONS = {
    "immutable, the object quoted as JSON": (
        [("spec.template", f"Invalid value: {AS_JSON}: field is immutable")],
        True,
    ),
    "immutable, the object quoted as Go": ([("spec.template", f"Invalid value: {AS_GO}: field is immutable")], True),
    "immutable and invalid as well": (
        [
            ("spec.template", f"Invalid value: {AS_JSON}: field is immutable"),
            ("spec.template.spec.containers[0].image", "Required value"),
        ],
        False,
    ),
    "may not change once set": (
        [("spec.clusterIPs[0]", 'Invalid value: ["10.0.77.77"]: may not change once set')],
        True,
    ),
    "only invalid": ([("spec.replicas", "Invalid value: -1: must be greater than or equal to 0")], False),
}


@pytest.mark.parametrize(("causes", "immutable"), REJECTIONS.values(), ids=REJECTIONS)
def test_a_rejected_update(causes, immutable):
    message = 'Job.batch "train" is invalid: ' + ", ".join(f"{field}: {cause}" for field, cause in causes)
    listed = [{"reason": "FieldValueInvalid", "field": field, "message": cause} for field, cause in causes]
    error = ApiError("PATCH", "/x", 422, failure(422, "Invalid", message, listed))
    assert error.is_immutable is immutable
    for field, cause in causes:
        assert f"{field}: " in str(error)
        assert cause.rpartition(": ")[2] in str(error)
    assert "hunter2" not in str(error)


# -- watches ---------------------------------------------------------------------------------------------------------

WATCH = {"watch": "true", "resourceVersion": "7", "allowWatchBookmarks": "true", "timeoutSeconds": "60"}
WATCHED = {**TRAIN, "metadata": {**TRAIN["metadata"], "resourceVersion": "8"}}
ADDED = {"type": "ADDED", "object": WATCHED}
DELETED = {"type": "DELETED", "object": WATCHED}


def test_a_list_has_the_version_from_which_a_watch_continues():
    first = listed("Job", "a", **{"resourceVersion": "7", "continue": "more"})
    second = listed("Job", "b", resourceVersion="7")
    with conversation(
        Exchange("GET", JOBS, {"limit": "500", "fieldSelector": "x=y"}, answer=first),
        Exchange("GET", JOBS, {"limit": "500", "fieldSelector": "x=y", "continue": "more"}, answer=second),
    ) as url:
        jobs, version = client(url).list_with_version(JOB, "ml", fields="x=y")
    assert ([job["metadata"]["name"] for job in jobs], version) == (["a", "b"], "7")


def test_a_watch_yields_its_events():
    lines = "".join(f"{json.dumps(event)}\n" for event in (ADDED, DELETED))
    query = {**WATCH, "labelSelector": "app=a", "fieldSelector": "x=y"}
    with conversation(Exchange("GET", JOBS, query, answer=lines)) as url:
        assert list(client(url).watch(JOB, "ml", "7", labels="app=a", fields="x=y", seconds=60)) == [ADDED, DELETED]


def test_a_watch_from_an_expired_version_is_an_error_in_the_stream():
    line = json.dumps({"type": "ERROR", "object": failure(410, "Expired", "too old resource version")})
    with conversation(Exchange("GET", JOBS, WATCH, answer=f"{line}\n")) as url:
        with pytest.raises(ApiError, match="too old") as caught:
            list(client(url).watch(JOB, "ml", "7", seconds=60))
        assert caught.value.status == 410


@pytest.mark.parametrize(
    "line",
    [
        "<html>Bad Gateway</html>",
        '{"kind":"Status"}',
        '{"object":{}}',
        '{"type":"ADDED","object":null}',
        '{"type":"ADDED","object":{"metadata":{}}}',
        '{"type":"ERROR","object":"x"}',
        "[]",
        "3",
    ],
)
def test_anything_but_an_event_ends_a_watch(line: str):
    lines = f"{json.dumps(ADDED)}\n{line}\n{json.dumps(DELETED)}\n"
    with conversation(Exchange("GET", JOBS, WATCH, answer=lines)) as url:
        assert list(client(url).watch(JOB, "ml", "7", seconds=60)) == [ADDED]


def test_a_forbidden_watch_is_an_error_at_once():
    refused = Exchange("GET", JOBS, WATCH, status=403, answer=failure(403, "Forbidden"))
    with conversation(refused) as url, pytest.raises(ApiError):
        client(url).watch(JOB, "ml", "7", seconds=60)


def test_a_watch_is_stopped_from_another_thread():
    class Silent(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            line = f"{json.dumps(ADDED)}\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.connection.recv(1)  # until the client disconnects

    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        watch = client(f"http://127.0.0.1:{server.server_port}").watch(JOB, "ml", "7", seconds=60)
        events = iter(watch)
        assert next(events) == ADDED
        threading.Timer(0.3, watch.stop).start()
        began = time.monotonic()
        assert list(events) == []
        assert time.monotonic() - began < 10
        watch.stop()
    finally:
        server.shutdown()
        server.server_close()
