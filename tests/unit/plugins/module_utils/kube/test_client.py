# SPDX-License-Identifier: BSD-2-Clause
"""The requests that the client sends to the server."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError, ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import DEPLOYMENT, JOB, NODE, POD

from .conversation import Exchange, conversation

JOBS = "/apis/batch/v1/namespaces/ml/jobs"
TRAIN = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml", "uid": "u-1"}}
APPLY = {"fieldManager": "runwhere.gpuctl", "force": "false", "fieldValidation": "Strict"}


def client(url: str, slept: list[float] | None = None, **options: object) -> Client:
    """A client for which only sleeping takes time."""
    connection = Connection(url, authorization=lambda: {"Authorization": "Bearer t"}, **options)  # type: ignore[arg-type]
    naps = slept if slept is not None else []
    return Client(connection, sleep=naps.append, clock=lambda: sum(naps))


def failure(status: int, reason: str, message: str = "no", causes: list[dict[str, str]] | None = None) -> dict:
    return {"kind": "Status", "code": status, "reason": reason, "message": message, "details": {"causes": causes or []}}


def test_a_list_is_read_in_pages_and_its_items_get_their_kind():
    first = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    second = {"metadata": {}, "items": [{"metadata": {"name": "b"}}]}
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
    page = {"metadata": {"continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    first = Exchange("GET", "/api/v1/nodes", {"limit": "500"}, answer=page)
    second = Exchange("GET", "/api/v1/nodes", {"limit": "500", "continue": "more"})
    with conversation(first, second) as url:
        assert client(url).list_slim(NODE, lambda node: second.arrived.wait(10)) == [True]


def test_a_list_whose_continue_token_expired_is_read_from_the_start():
    page = {"metadata": {"continue": "old"}, "items": [{"metadata": {"name": "a"}}]}
    whole = {"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}
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
    with conversation(Exchange("GET", JOBS, query, expect_headers=accept)) as url:
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
    with conversation(Exchange("GET", "/api/v1/nodes", {"limit": "1"}, expect_headers=headers)) as url:
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
    with conversation(Exchange("PATCH", "/api/v1/nodes/node-1", query, expect_headers=accept)) as url:
        client(url).merge_patch(NODE, {"name": "node-1", "resourceVersion": "7"}, {}, metadata_only=True)


@pytest.mark.parametrize(
    ("status", "answer", "created"),
    [(201, TRAIN, True), (409, failure(409, "AlreadyExists"), False)],
    ids=["the name is free", "the name is taken"],
)
def test_a_valid_object_passes_the_dry_run_of_its_creation(status, answer, created):
    query = {"fieldManager": "runwhere.gpuctl", "fieldValidation": "Strict", "dryRun": "All"}
    with conversation(Exchange("POST", JOBS, query, sent=TRAIN, status=status, answer=answer)) as url:
        assert client(url).create(TRAIN, dry_run=True) is created


def test_deletion_names_the_uid_and_the_propagation():
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u-1"},
        "gracePeriodSeconds": 0,
    }
    with conversation(Exchange("DELETE", f"{JOBS}/train", sent=options)) as url:
        assert client(url).delete(JOB, TRAIN["metadata"], propagation="Foreground", grace_seconds=0) is True


def test_a_deletion_has_dry_run_in_the_body_where_the_server_looks():
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u-1"},
        "dryRun": ["All"],
    }
    with conversation(Exchange("DELETE", f"{JOBS}/train", sent=options)) as url:
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


def test_get_distinguishes_a_missing_object_from_a_missing_path():
    missing = failure(404, "NotFound")
    with conversation(
        Exchange("GET", f"{JOBS}/train", status=404, answer=missing),
        Exchange("GET", f"{JOBS}/train", status=404, answer="404 page not found"),
    ) as url:
        api = client(url)
        assert api.get(JOB, "ml", "train") is None
        with pytest.raises(ApiError, match="404 page not found"):
            api.get(JOB, "ml", "train")


# -- logs ------------------------------------------------------------------------------------------------------------

LOG = "/api/v1/namespaces/ml/pods/train-x/log"


def test_a_log_comes_in_chunks_and_is_not_json():
    query = {"container": "main", "tailLines": "2"}
    headers = {"Accept": "application/json, */*"}
    text = "x" * 150_000 + "\n"
    with conversation(Exchange("GET", LOG, query, answer=text, expect_headers=headers)) as url:
        pieces = client(url).read_log("ml", "train-x", query, list)
    assert b"".join(pieces) == text.encode()
    assert max(map(len, pieces)) == 65_536


def test_a_log_that_breaks_off_is_read_from_its_start_again():
    slept: list[float] = []
    with conversation(
        Exchange("GET", LOG, answer="one\ntw", cut=True), Exchange("GET", LOG, answer="one\ntwo\n")
    ) as url:
        text = client(url, slept).read_log("ml", "train-x", {}, lambda pieces: b"".join(pieces))
    assert text == b"one\ntwo\n"
    assert len(slept) == 1


def test_a_partly_read_log_does_not_disturb_the_next_request():
    with conversation(
        Exchange("GET", LOG, answer="x" * 1_000_000), Exchange("GET", "/api/v1/nodes", {"limit": "1"})
    ) as url:
        api = client(url)
        assert len(api.read_log("ml", "train-x", {}, next)) == 65_536
        assert api.list_first(NODE) == []


def test_a_rejected_log_request_keeps_the_reason():
    waiting = 'container "main" in pod "train-x" is waiting to start: ContainerCreating'
    refusal = Exchange("GET", LOG, status=400, answer=failure(400, "BadRequest", waiting))
    with conversation(refusal) as url, pytest.raises(ApiError) as caught:
        client(url).read_log("ml", "train-x", {}, list)
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
    slept: list[float] = []
    with conversation(Exchange(method, path, query, status=failing), Exchange(method, path, query)) as url:
        send(client(url, slept))
    assert len(slept) == 1


def test_retry_after_sets_the_delay():
    slept: list[float] = []
    busy = Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=429, headers={"Retry-After": "7"})
    with conversation(busy, Exchange("GET", "/api/v1/nodes", {"limit": "1"})) as url:
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
        Exchange("GET", "/api/v1/nodes", query),
        Exchange("GET", "/api/v1/nodes", query),
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
    broken = [Exchange("GET", "/api/v1/nodes", {"limit": "1"}, status=503) for _ in range(4)]
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
    with pytest.raises(ConnectionProblem, match=r"^cannot reach the API server http://127.*Connection refused"):
        client(url, retries=0).list_objects(DEPLOYMENT)


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
ADDED = {"type": "ADDED", "object": TRAIN}
DELETED = {"type": "DELETED", "object": TRAIN}


def test_a_list_has_the_version_from_which_a_watch_continues():
    first = {"metadata": {"resourceVersion": "7", "continue": "more"}, "items": [{"metadata": {"name": "a"}}]}
    second = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "b"}}]}
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


def test_a_proxy_that_loses_the_server_ends_a_watch():
    lines = f"{json.dumps(ADDED)}\n<html>Bad Gateway</html>\n{json.dumps(DELETED)}\n"
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
