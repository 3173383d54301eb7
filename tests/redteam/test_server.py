# SPDX-License-Identifier: BSD-2-Clause
"""A malicious server, or another one that answers in the place of the API server."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import zlib
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube import exec, limits
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.container_log import read_log
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.discovery import preferred_versions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import AnswerTooLarge, ConnectionProblem
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import JOB as JOB_RESOURCE
from integration.certificates import pem_files
from integration.manifests import training

from .hostile import JSON, Hostile, Outcome, Visitor, hostile, run

MIB = 1024**2
MEBIBYTES = 200  # of a process that is a task alone; Ansible adds some 60
SECONDS = 60  # of a task that waits 2 s for a silent server; most need one

JOB = (
    b'{"metadata":{"name":"a","namespace":"n","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z",'
    b'"labels":{"app":"a","runwhere.ai/job-type":"training"}},"spec":{"template":{"spec":{"containers":[{"name":"main"}]}}}}'
)

INFO: tuple[str, dict[str, Any]] = ("insight.jobs.job_info", {"all_namespaces": True})
PRESENT: tuple[str, dict[str, Any]] = ("jobs.job", {"definition": training(), "namespace": "ml"})
ABSENT: tuple[str, dict[str, Any]] = ("jobs.job", {**PRESENT[1], "state": "absent"})
LOG: tuple[str, dict[str, Any]] = ("insight.follow.follow_log", {"name": "train", "namespace": "ml"})
COPY: tuple[str, dict[str, Any]] = (
    "insight.copy.copy",
    {"name": "train", "namespace": "ml", "local_path": "/tmp", "remote_path": "/x", "state": "from_pod"},
)
FIT: tuple[str, dict[str, Any]] = ("insight.fit.fit_info", {"definition": training(), "namespace": "ml"})
USAGE: tuple[str, dict[str, Any]] = ("insight.usage.usage_info", {"use_prometheus": "never"})
ACCESS: tuple[str, dict[str, Any]] = ("access.access_info", {"namespaces": ["ml"]})
TASKS = {
    "list": INFO, "apply": PRESENT, "delete": ABSENT, "log": LOG, "copy": COPY,
    "fit": FIT, "usage": USAGE, "access": ACCESS,
}  # fmt: skip


def attacked(server: Hostile, task: tuple[str, dict[str, Any]] = INFO, **more: Any) -> Outcome:
    """The task fails, soon, in little memory (in a process of its own), and with a message that is one."""
    place, options = task
    outcome = run(place, server.url, **{"retries": 0, **options, **more})
    assert outcome.result.get("failed"), outcome
    assert not outcome.result.get("changed"), outcome
    assert "bug in runwhere.gpuctl" not in outcome.message, outcome.result["exception"]
    assert "very-secret" not in str(outcome)
    assert len(outcome.message) < 6_000
    assert outcome.errors == ""
    assert outcome.mebibytes < MEBIBYTES
    assert outcome.seconds < SECONDS
    return outcome


# -- what is no answer -------------------------------------------------------------------------------------------------

PAGE = b"<html>Sign in</html>"
NO_ANSWERS: dict[str, tuple[Callable[[Visitor], object], str]] = {
    "an HTML page": (lambda request: request.answer(PAGE, headers="Content-Type: text/html\r\n"), "an HTML page"),
    "an HTML page called JSON": (lambda request: request.answer(PAGE), "an HTML page"),
    "nothing": (lambda request: request.answer(b"", "204 No Content"), "an empty body"),
    "an empty object": (lambda request: request.answer(b"{}"), "'no kind' instead of"),
    "Success": (lambda request: request.answer(b'{"kind":"Status","status":"Success"}'), "'Status' instead of"),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
@pytest.mark.parametrize(("answer", "words"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_is_no_answer_is_not_taken_for_an_empty_cluster(
    answer: Callable[[Visitor], object], words: str, task: tuple[str, dict[str, Any]]
) -> None:
    """A login page answers every request with 200: nothing is unchanged, deleted or written because of it."""
    with hostile(answer) as server:
        assert words in attacked(server, task).message


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_redirects_are_not_followed(status: str) -> None:
    """A server sends the task elsewhere: the token does not go there."""
    with (
        hostile(lambda request: request.list()) as elsewhere,
        hostile(lambda request: request.answer(b"", status, f"Location: {elsewhere.url}/x?secret\r\n")) as server,
    ):
        for task in (INFO, PRESENT):
            assert f"a redirect to '{elsewhere.url}/x' (HTTP {status[:3]})" in attacked(server, task).message
    assert elsewhere.heads == []


DIGITS = b"9" * 100_000
INCOMPLETE = {
    "a list without a place for objects": (INFO, lambda request: request.answer(b'{"kind":"JobList"}')),
    "objects that are none": (INFO, lambda request: request.list(b'[[], 3, "x"]')),
    "an object without a name": (INFO, lambda request: request.list(b'[{"metadata":{}}]')),
    "a name that is none": (INFO, lambda request: request.list(b'[{"metadata":{"name":{"a":1}}}]')),
    "labels that are none": (INFO, lambda request: request.list(b'[{"metadata":{"name":"a","labels":[1]}}]')),
    "metadata that are none": (INFO, lambda request: request.answer(b'{"kind":"JobList","items":[],"metadata":[1]}')),
    "NaN": (INFO, lambda request: request.answer(b'{"kind":"JobList","items":[],"metadata":{"a":NaN}}')),
    "an infinite number": (INFO, lambda request: request.answer(b'{"kind":"JobList","items":[],"x":1e999}')),
    "a number of 100,000 digits": (INFO, lambda request: request.answer(b'{"kind":"JobList","x":%b}' % DIGITS)),
    "endless nesting": (INFO, lambda request: request.list(b"[" * 1_000_000)),
    "bytes that are no text": (INFO, lambda request: request.answer(b'{"kind":"JobList","items":[],"x":"\xff"}')),
}  # fmt: skip


@pytest.mark.parametrize(("task", "answer"), INCOMPLETE.values(), ids=INCOMPLETE)
def test_what_is_not_whole_is_no_answer(task: tuple[str, dict[str, Any]], answer: Callable[[Visitor], object]) -> None:
    """A server sends JSON that looks like a list: the task says so, and does not trip over it."""
    with hostile(answer) as server:
        assert "not an answer of the Kubernetes API" in attacked(server, task).message


# -- too much ----------------------------------------------------------------------------------------------------------


def compressed(pieces: Callable[[], object]) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(compressor.compress(piece) for piece in pieces())  # type: ignore[attr-defined]
    return data + compressor.flush()


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """256 MiB in a quarter of one."""
    return compressed(lambda: (b'{"kind":"JobList","items":[', *[b'"%b",' % (b" " * MIB)] * 256, b'""]}'))


def chunks(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_a_decompression_bomb(bomb: bytes) -> None:
    """A server sends a thousand times what it has sent: no more than an answer may have is decompressed."""
    with hostile(lambda request: request.answer(bomb, headers=f"{JSON}Content-Encoding: gzip\r\n")) as server:
        assert "returned more than 20 MiB after decompression" in attacked(server, own_process=True).message


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "x" * 10_000])
def test_other_encodings_are_refused(encoding: str, bomb: bytes) -> None:
    """A server compresses a bomb twice, or in a way that was not asked for."""
    with hostile(lambda request: request.answer(bomb, headers=f"{JSON}Content-Encoding: {encoding}\r\n")) as server:
        assert f"a body encoded as '{encoding[:50]}" in attacked(server).message


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BLANKS = b" " * 65_536
FLOODS: dict[str, tuple[bytes, bytes, str]] = {
    "a body of petabytes": (HEAD + b"Content-Length: 999999999999999\r\n\r\n{", BLANKS, "returned more than 20 MiB."),
    "a body until the connection ends": (HEAD + b"\r\n{", BLANKS, "returned more than 20 MiB."),
    "chunks without end": (CHUNKED, chunks(BLANKS), "returned more than 20 MiB."),
    "a chunk of petabytes": (CHUNKED + b"fffffffffffff\r\n{", BLANKS, "returned more than 20 MiB."),
    "chunks with long extensions": (CHUNKED, b"1;" + b"x" * 9_000 + b"\r\n \r\n", "returned more than 20 MiB."),
    "trailers without end": (CHUNKED + chunks(b"{}") + b"0\r\n", b"X: y\r\n" * 9_000, "returned more than 20 MiB."),
    "a header without end": (HEAD + b"X: ", b"y" * 65_536, "got more than 65536 bytes"),
    "headers without end": (HEAD, b"X: y\r\n" * 99, "got more than 100 headers"),
    "large headers": (HEAD, b"X: " + b"y" * 60_000 + b"\r\n", "returned more than 256 KiB."),
    "an answer that is announced for ever": (b"", b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" * 999, "more than 256 KiB."),
    "no protocol at all": (b"", b"x" * 65_536, "cannot reach the API server"),
}


@pytest.mark.parametrize(("first", "then", "words"), FLOODS.values(), ids=FLOODS)
def test_an_answer_without_end(first: bytes, then: bytes, words: str) -> None:
    """A server sends until the memory is full: the task stops it before."""
    with hostile(lambda request: request.flood(then, first)) as server:
        assert words in attacked(server, own_process=True).message


LARGE = {
    "brackets, which take twenty times the memory": b"[" + b"[]," * 6 * MIB + b"[]]",
    "characters that take four bytes each": b'["' + "\U0001f600".encode() + b"x" * 19 * MIB + b'"]',
}


@pytest.mark.parametrize("items", LARGE.values(), ids=LARGE)
def test_a_small_answer_that_is_large_in_memory(items: bytes) -> None:
    """A server sends what takes many times as much memory as it has bytes."""
    with hostile(lambda request: request.list(items)) as server:
        assert "returned more than 96 MiB of objects." in attacked(server, request_timeout=20, own_process=True).message


def test_a_list_without_end() -> None:
    """A server has always another page: the task ends after so many."""
    numbers = count()
    with hostile(lambda request: request.list(**{"continue": f"page-{next(numbers)}"})) as server:
        assert "returned more than 1000 pages" in attacked(server).message


@pytest.mark.parametrize(
    ("token", "words"),
    [("again", "one page for the same continue token"), ("x" * 100_000, "4096 characters of a continue token")],
)
def test_a_continue_token_that_is_none(token: str, words: str) -> None:
    """A server sends the same page again and again, or a token that does not fit in a URL."""
    with hostile(lambda request: request.list(**{"continue": token})) as server:
        assert f"returned more than {words}" in attacked(server).message
        assert len(server.heads) < 5


def test_whole_objects_without_end() -> None:
    """A server sends page after page of jobs, which the task keeps: it stops before the memory is full."""
    numbers, page = count(), b"[" + b",".join([JOB] * 5_000) + b"]"

    def answer(request: Visitor) -> None:
        if "/jobs" in request.path:
            request.list(page, **{"continue": f"{next(numbers)}"})
        else:
            request.list()

    with hostile(answer) as server:
        assert "returned more than 128 MiB of objects" in attacked(server, PRESENT, own_process=True).message


def test_a_hundred_thousand_objects() -> None:
    """A server ignores the limit of a page: what it sends takes as much memory as that many objects do."""
    page = b"[" + b",".join([JOB] * 100_000) + b"]"
    with hostile(lambda request: request.list(page if "/jobs" in request.path else b"[]")) as server:
        outcome = run("insight.jobs.job_info", server.url, all_namespaces=True, request_timeout=30, own_process=True)
    assert outcome.mebibytes < MEBIBYTES
    assert outcome.seconds < SECONDS


PLACED_POD = (
    b'{"metadata":{"name":"p","namespace":"n","labels":{"app":"a"},"creationTimestamp":"2026-01-01T00:00:00Z"},'
    b'"spec":{"nodeName":"x","containers":[{"name":"m","resources":{"requests":{"cpu":"1"}}}]},"status":{"phase":"Running"}}'
)


@pytest.mark.parametrize("task", [FIT, USAGE], ids=["fit", "usage"])
def test_fifty_thousand_pods(task: tuple[str, dict[str, Any]]) -> None:
    """A server has as many pods as the largest clusters, and does not page."""
    place, options = task
    page = b"[" + b",".join([PLACED_POD] * 50_000) + b"]"
    with hostile(lambda request: request.list(page if "/pods" in request.path else b"[]")) as server:
        outcome = run(place, server.url, **options, request_timeout=60, retries=0, own_process=True)
    assert "bug in runwhere.gpuctl" not in str(outcome.result.get("msg"))
    assert outcome.mebibytes < 2 * MEBIBYTES
    assert outcome.seconds < 2 * SECONDS


def test_a_key_that_comes_twice() -> None:
    """A server sends two lists in one: the last one counts, as in Kubernetes."""
    twice = '{"kind":"%s","items":[%s],"metadata":{},"items":[]}'
    with hostile(lambda request: request.answer((twice % (request.kind, JOB.decode())).encode())) as server:
        assert run("insight.jobs.job_info", server.url, all_namespaces=True).result["results"] == []


# -- too slow ----------------------------------------------------------------------------------------------------------

SLOW = {
    "nothing": lambda request: request.stopped.wait(),
    "a head, byte by byte": lambda request: request.drip(b"HTTP/1.1 200 OK\r\nX: y"),
    "a body, byte by byte": lambda request: (
        request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"),
        request.drip(b'{"kind":"JobList" '),
    ),
    "a chunk, byte by byte": lambda request: (request.begin(), request.send(b"ffff\r\n"), request.drip(b"{ ")),
    "an error, byte by byte": lambda request: (
        request.send(b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n"),
        request.drip(b"{ "),
    ),
}


@pytest.mark.parametrize("answer", SLOW.values(), ids=SLOW)
def test_a_server_that_takes_its_time(answer: Callable[[Visitor], object]) -> None:
    """A server sends a byte from time to time, so that no timeout is ever reached: the task ends all the same."""
    with hostile(answer) as server:
        outcome = attacked(server, retries=1)
    assert "no answer within 2 s (request_timeout)" in outcome.message
    assert outcome.seconds < 20


@pytest.mark.parametrize("value", ["999999", "9" * 1000, "²", "-1", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_retry_after_of_days(value: str) -> None:
    """A server asks to come back in eleven days, or with a number that is none: the task fails at once or soon."""
    busy = b'{"kind":"Status","message":"busy","code":429}'
    with hostile(lambda request: request.answer(busy, "429 No", f"Retry-After: {value}\r\n")) as server:
        outcome = attacked(server, retries=5)
    assert "busy (HTTP 429" in outcome.message
    assert outcome.seconds < 20


# -- errors ------------------------------------------------------------------------------------------------------------


def status(**fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": 422, "reason": "Invalid", **fields}).encode()


OBJECT = "Invalid value: " + '{"env":[{"value":"hunter2"}]}' * 20_000
ERRORS = {
    "a message of 300 kB": status(message="x" * 300_000),
    "a thousand causes": status(details={"causes": [{"field": f"f{n}", "message": "m" * 300} for n in range(1000)]}),
    "a quoted object": status(details={"causes": [{"field": "f", "message": f"{OBJECT}: field is immutable"}]}),
    "a quoted object without its end": status(message=OBJECT[:-5]),
    "quoted objects that are slow to find": status(message="Invalid value: {" * 60_000),
    "details that are none": status(message="no", details=[1], reason={"a": 1}),
    "causes that are none": status(message="no", details={"causes": [1, {"field": 3, "message": ["x"]}]}),
    "a message that is none": status(message={"a": ["b"]}),
}


@pytest.mark.parametrize("body", ERRORS.values(), ids=ERRORS)
def test_an_error_that_fills_the_screen(body: bytes) -> None:
    """A server rejects a request with a message of megabytes: it is cut, and quotes no secrets."""
    with hostile(lambda request: request.answer(body, "422 No")) as server:
        outcome = attacked(server)
    assert "(HTTP 422 to GET" in outcome.message
    assert "hunter2" not in outcome.message
    assert outcome.seconds < 20


# -- watches, logs, discovery ------------------------------------------------------------------------------------------


MAIN = {"name": "main", "image": "registry.example.com/ml:v1"}


def waiting(events: Callable[[Visitor], object]) -> Callable[[Visitor], object]:
    """A cluster in which a job is found and never completes, and whose watches bring ``events``."""

    def answer(request: Visitor) -> None:
        if "watch=true" in request.path:
            request.begin()
            events(request)
        elif "/jobs" in request.path:
            job = json.loads(JOB)
            job["metadata"] |= {"name": "train", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
            job["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
            job["metadata"]["labels"]["app"] = "train"
            job["spec"] = {"parallelism": 1, "template": {"metadata": {}, "spec": {"containers": [MAIN]}}}
            request.list(json.dumps([job]).encode())
        else:
            request.list()

    return answer


def event(name: str, size: int = 10) -> bytes:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ml",
        "uid": name,
        "resourceVersion": "2",
        "labels": {"app": name},
    }
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"containers": [{"name": "x" * size, "image": "i"}]}
    return json.dumps({"type": "ADDED", "object": {"metadata": metadata, "spec": spec}}).encode() + b"\n"


def flood_of_pods(request: Visitor) -> None:
    for number in count():
        request.send(chunks(b"".join(event(f"{number}-{index}", 1000) for index in range(50))))


WAIT = ("jobs.job", {"name": "train", "namespace": "ml", "state": "resumed", "wait": True, "wait_timeout": 4})
WATCHES = {
    "the same event for ever": lambda request: request.flood(chunks(event("a") * 50)),
    "other objects for ever": flood_of_pods,
    "an event without end": lambda request: request.flood(chunks(b" " * 65_536)),
    "an event, byte by byte": lambda request: request.drip(chunks(b"x")),
    "an error that is none": lambda request: request.send(chunks(b'{"type":"ERROR","object":{"code":"x"}}\n')),
    "a nested event": lambda request: request.send(chunks(b'{"type":' + b"[" * 500_000 + b"\n")),
    "an object that is none": lambda request: request.send(
        chunks(b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"2"},"spec":3}}\n')
    ),
}


def test_a_list_without_a_version_cannot_be_watched() -> None:
    """A server sends a list without resourceVersion to a task that waits: it says so."""
    with hostile(lambda request: request.answer(b'{"kind":"JobList","items":[]}')) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=2))
        with pytest.raises(ConnectionProblem, match="an incomplete 'JobList'"):
            client.list_with_version(JOB_RESOURCE)


@pytest.mark.parametrize("events", WATCHES.values(), ids=WATCHES)
def test_a_watch_that_floods(events: Callable[[Visitor], object]) -> None:
    """A server sends events until the memory is full, or the task never looks at its clock again."""
    with hostile(waiting(events)) as server:
        outcome = attacked(server, WAIT, own_process=True)
    assert outcome.seconds < 40


@pytest.mark.parametrize("groups", ["", ', "groups": 3', ', "groups": [1]', ', "groups": [{"name": "kueue.x-k8s.io"}]'])
def test_discovery_without_groups(groups: str) -> None:
    """A server that is asked for Kueue answers with half a list of groups: the task says so."""
    with hostile(lambda request: request.answer(b'{"kind": "APIGroupList"%b}' % groups.encode())) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=2))
        with pytest.raises(Exception, match=r"not an answer of the Kubernetes API: .* an incomplete 'APIGroupList'"):
            preferred_versions(client)


def test_a_log_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node sends lines for ever: the task ends at a limit, and its memory is that of what it keeps."""
    monkeypatch.setattr(
        "ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.container_log.LOG", limits.Allowance(MIB)
    )
    with hostile(lambda request: (request.begin(), request.flood(chunks(b"x\n" * 1000)))) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=5))
        with pytest.raises(AnswerTooLarge, match="more than 1 MiB"):
            read_log(client, "ml", "a", {}, lambda pieces: sum(map(len, pieces)))


def test_a_log_byte_by_byte() -> None:
    """A node sends a byte of a log from time to time: the task ends all the same."""
    with hostile(lambda request: (request.begin(), request.drip(b"1\r\nx\r\n"))) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=2))
        with pytest.raises(Exception, match=r"no answer within 2 s"):
            read_log(client, "ml", "a", {}, lambda pieces: sum(map(len, pieces)))


# -- commands over a WebSocket -----------------------------------------------------------------------------------------

LABELS = {"app": "train", "app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/job-type": "training"}
RUNNING = {"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
POD: dict[str, Any] = {
    "metadata": {
        "name": "train-x",
        "namespace": "ml",
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": LABELS,
    },
    "spec": {"nodeName": "node-1", "containers": [MAIN]},
    "status": {"phase": "Running", "containerStatuses": [RUNNING]},
}
SWITCHING = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: {}\r\n\r\n"
)


def frame(data: bytes, opcode: int = 2) -> bytes:
    """Of a server: unmasked (RFC 6455, 5.2)."""
    return bytes([0x80 | opcode, 127]) + len(data).to_bytes(8, "big") + data


def with_pod(then: Callable[[Visitor], object], part: str) -> Callable[[Visitor], object]:
    """A cluster with a running pod, whose subresource is answered by ``then``."""

    def answer(request: Visitor) -> None:
        if f"/{part}?" in request.path:
            then(request)
        else:
            request.list(json.dumps([POD] if "/pods" in request.path else []).encode())

    return answer


def after_handshake(then: Callable[[Visitor], object]) -> Callable[[Visitor], object]:
    def answer(request: Visitor) -> None:
        (key,) = re.findall(r"(?i)sec-websocket-key: (\S+)", request.head)
        digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        request.send(SWITCHING.format(b64encode(digest).decode()).encode())
        then(request)

    return answer


ENTRY = b"s 81a4 12 ./some/file/of/the/directory\n"
ELSEWHERE = "Location: http://localhost:1/\r\n"
FAILURE = json.dumps({"status": "Failure", "message": "x" * 60_000}).encode()
HANDSHAKES: dict[str, tuple[Callable[[Visitor], object], str]] = {
    "a redirect": (lambda request: request.answer(b"", "302 Found", ELSEWHERE), "no WebSocket"),
    "a page": (lambda request: request.answer(PAGE), "no WebSocket"),
    "a header without end": (lambda request: request.flood(BLANKS, HEAD + b"X: "), "more than 64 KiB of headers"),
    "headers without end": (lambda request: request.flood(b"X: y\r\n" * 999, HEAD), "more than 64 KiB of headers"),
    "headers, byte by byte": (lambda request: request.drip(HEAD + b"X: y"), "no answer within 2 s"),
    "a line of noise": (lambda request: request.send(b"\xff" * 50_000 + b"\r\n\r\n"), "no WebSocket"),
}
CONVERSATIONS: dict[str, tuple[Callable[[Visitor], object], str]] = {
    "a message of petabytes": (
        lambda request: request.flood(BLANKS, b"\x82\x7f\x00\x0f" + b"\xff" * 6),
        "a message of more than 1 MiB",
    ),
    "a message, byte by byte": (lambda request: request.drip(b"\x82\x7e\xff\xff\x01"), "lost the connection"),
    "files without end": (
        lambda request: request.flood(frame(b"\x01" + ENTRY * 500), frame(b"\x01directory\n")),
        "too many files in container main of pod train-x",
    ),
    "a nested status": (lambda request: request.send(frame(b"\x03" + b"[" * 60_000)), "cannot be read"),
    "a failure that fills the screen": (
        lambda request: request.send(frame(b"\x03" + FAILURE)),
        "cannot run commands: xxx",
    ),
}


@pytest.mark.parametrize(("then", "words"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_what_is_no_websocket(then: Callable[[Visitor], object], words: str) -> None:
    """A server answers the request for a WebSocket with anything else, or never to its end."""
    with hostile(with_pod(then, "exec")) as server:
        assert words in attacked(server, COPY).message


@pytest.mark.parametrize(("then", "words"), CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_a_command_that_never_ends(then: Callable[[Visitor], object], words: str) -> None:
    """A server, or a container, says more than any command has to say."""
    with hostile(with_pod(after_handshake(then), "exec")) as server:
        assert words in attacked(server, COPY, own_process=True).message


@pytest.mark.parametrize("message", [frame(b"", 9), frame(b""), frame(b"\x02no")], ids=["pings", "nothing", "errors"])
def test_messages_without_output(message: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container says something for ever, and never what was asked for."""
    monkeypatch.setattr(exec, "MESSAGES", 1_000)
    with hostile(after_handshake(lambda request: request.flood(message * 100))) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=2))
        with pytest.raises(ConnectionProblem, match="more than 1000 messages without output"):
            exec.run_command(client, "ml", "train-x", "main", ["true"])


def test_a_command_has_a_last_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container keeps a command running, and the connection alive, for ever."""
    monkeypatch.setattr(exec, "COMMAND_SECONDS", 0.5)
    with hostile(after_handshake(lambda request: request.drip(frame(b"", 9) * 1000, 0.001))) as server:
        client = Client(Connection(server.url, retries=0, request_timeout=2))
        with pytest.raises(ConnectionProblem, match=r"the command has not ended within 0\.5 s"):
            exec.run_command(client, "ml", "train-x", "main", ["true"])


# -- options of a task -------------------------------------------------------------------------------------------------


def test_a_regular_expression_that_takes_for_ever() -> None:
    """An author of a log writes a line in which an expression finds more ways to match than there is time to try."""
    line = b"2026-01-31T08:00:01.123456789Z " + b"a" * 60 + b"!\n"
    with hostile(with_pod(lambda request: request.answer(line, headers=""), "log")) as server:
        outcome = attacked(server, LOG, grep="(a+)+$", request_timeout=20)
    assert "grep: '(a+)+$' takes too long to search the log." in outcome.message


@pytest.mark.parametrize("option", ["concurrency", "request_timeout", "retries"])
def test_a_number_that_no_machine_has(option: str) -> None:
    """An author of a playbook asks for 2147483647 connections, seconds or attempts: a sentence says how many."""
    with hostile(lambda request: request.list()) as server:
        assert f"{option} is too large: 2147483647." in attacked(server, PRESENT, **{option: 2147483647}).message
        assert server.heads == []


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of the server: a good one, one for another name, and one that has expired."""
    directory = tmp_path_factory.mktemp("pki")
    pem_files(directory, "good", host="localhost")
    pem_files(directory, "stranger", host="localhost")
    pem_files(directory, "elsewhere", host="elsewhere.example.com")
    pem_files(directory, "expired", host="localhost", expires=timedelta(hours=-1))
    return directory


def speaking(authority: Path, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / f"{name}.crt", authority / f"{name}.key")
    return context


@pytest.mark.parametrize(
    ("shown", "trusted", "words"),
    [
        ("good", "stranger", "cannot verify the certificate"),
        ("elsewhere", "elsewhere", "cannot verify the certificate"),
        ("expired", "expired", "cannot verify the certificate"),
    ],
)
def test_a_certificate_of_another_server(authority: Path, shown: str, trusted: str, words: str) -> None:
    """A server between the task and its API server shows a certificate of its own: it gets no token."""
    with hostile(lambda request: request.list(), speaking(authority, shown)) as server:
        assert words in attacked(server, ca_cert=str(authority / f"{trusted}.crt")).message
        assert server.heads == []


@pytest.mark.filterwarnings("ignore:.*TLSv1")
def test_an_old_version_of_tls(authority: Path) -> None:
    """Somebody in between offers nothing but TLS 1.1, which can be read: the task does not agree."""
    context = speaking(authority, "good")
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with hostile(lambda request: request.list(), context) as server:
        assert "cannot reach the API server" in attacked(server, ca_cert=str(authority / "good.crt")).message
        assert server.heads == []


def test_the_good_certificate_is_accepted(authority: Path) -> None:
    """The tests above would also pass if nothing worked."""
    with hostile(lambda request: request.list(), speaking(authority, "good")) as server:
        assert (
            run("insight.jobs.job_info", server.url, all_namespaces=True, ca_cert=str(authority / "good.crt")).result[
                "results"
            ]
            == []
        )
        assert server.heads
