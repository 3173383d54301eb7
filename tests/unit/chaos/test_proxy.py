# SPDX-License-Identifier: BSD-2-Clause
"""The proxy: what a client sees of each fault, and what the server gets."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3
from chaos import proxy as proxying
from chaos.faults import FAULTS
from chaos.proxy import Lane, Plan, Proxy

OBJECT = {"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y" * 100}}
EVENTS = [{"type": "ADDED", "object": {"metadata": {"name": name}}} for name in ("a", "b", "c")]
URL = "/api/v1/namespaces/n/configmaps"
WATCH = f"{URL}?watch=true"


class Upstream(ThreadingHTTPServer):
    """Answers each request with OBJECT, and each watch with EVENTS; ``got`` is what has arrived."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.delay = 0.0
        got, upstream = self.got, self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                got.append(f"{self.command} {self.path}")
                time.sleep(upstream.delay)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                if "watch" in self.path:
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    for event in EVENTS:
                        line = json.dumps(event).encode() + b"\n"
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                    self.wfile.write(b"0\r\n\r\n")
                    return
                body = json.dumps(OBJECT).encode()
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PATCH = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture(scope="module")
def _lane(proxy: Proxy) -> Lane:
    return proxy.lane()


@pytest.fixture
def upstream(proxy: Proxy) -> Iterator[Upstream]:
    server = Upstream()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    proxy.target = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def lane(_lane: Lane, upstream: Upstream) -> Lane:
    _lane.begin()
    return _lane


def ask(
    lane: Lane, method: str = "PATCH", path: str = f"{URL}/a", body: str = "{}", timeout: float = 2
) -> urllib3.BaseHTTPResponse:
    pool = urllib3.connection_from_url(lane.url, retries=False)
    try:
        return pool.request(method, path, body=body, redirect=False, timeout=timeout)
    finally:
        pool.close()


def strike(lane: Lane, fault: str, k: int = 1, always: bool = False) -> None:
    lane.begin(Plan(FAULTS[fault], k, always))


def test_requests_are_numbered_and_described(lane: Lane, upstream: Upstream):
    ask(lane, "GET")
    ask(lane, "PATCH", f"{URL}/a?dryRun=All")
    ask(lane, "DELETE", body=json.dumps({"dryRun": ["All"]}))
    ask(lane, "DELETE")
    assert [(request.number, str(request)) for request in lane.requests] == [
        (1, f"GET {URL}/a"),
        (2, f"PATCH {URL}/a (dry run)"),
        (3, f"DELETE {URL}/a (dry run)"),
        (4, f"DELETE {URL}/a"),
    ]
    assert [request.written for request in lane.requests] == [False, False, False, True]
    assert len(upstream.got) == 4


@pytest.mark.parametrize(
    ("fault", "status", "arrives"),
    [
        ("429", 429, False),
        ("500", 500, False),
        ("503", 503, False),
        ("504-after", 504, True),
        ("409", 409, False),
        ("410", 410, False),
        ("401", 401, False),
    ],
)
def test_an_error_of_the_server(lane: Lane, upstream: Upstream, fault: str, status: int, arrives: bool):
    strike(lane, fault)
    answer = ask(lane)
    assert (answer.status, answer.json()["kind"], answer.json()["code"]) == (status, "Status", status)
    assert bool(upstream.got) == arrives
    assert lane.requests[0].written == arrives


@pytest.mark.parametrize(
    ("fault", "status", "text", "arrives"),
    [
        ("html", 200, "<!DOCTYPE html>", False),
        ("html-after", 200, "<!DOCTYPE html>", True),
        ("html-404", 404, "<!DOCTYPE html>", False),
        ("redirect", 302, "<!DOCTYPE html>", False),
        ("empty", 200, "", False),
        ("other", 200, '{"kind": "Status"', False),
    ],
)
def test_an_answer_of_another_server(lane: Lane, upstream: Upstream, fault: str, status: int, text: str, arrives: bool):
    strike(lane, fault)
    answer = ask(lane)
    assert answer.status == status
    assert answer.data.decode().startswith(text)
    assert bool(answer.data) == bool(text)
    assert bool(upstream.got) == arrives


@pytest.mark.parametrize(
    ("fault", "arrives"), [("reset", False), ("reset-after", True), ("truncated", True), ("down", False)]
)
def test_a_connection_that_breaks(lane: Lane, upstream: Upstream, fault: str, arrives: bool):
    strike(lane, fault)
    with pytest.raises(urllib3.exceptions.ProtocolError):
        ask(lane)
    assert bool(upstream.got) == arrives


def test_half_of_the_json_as_if_that_were_all(lane: Lane):
    strike(lane, "half-json")
    answer = ask(lane)
    whole = json.dumps(OBJECT).encode()
    assert answer.data == whole[: len(whole) // 2]


@pytest.mark.parametrize(("fault", "arrives"), [("silent", False), ("silent-after", True)])
def test_a_server_that_says_nothing(lane: Lane, upstream: Upstream, fault: str, arrives: bool):
    strike(lane, fault)
    with pytest.raises(urllib3.exceptions.TimeoutError):
        ask(lane)
    assert bool(upstream.got) == arrives
    deadline = time.monotonic() + 5
    while not lane.requests[0].silence and time.monotonic() < deadline:
        time.sleep(0.01)
    assert lane.requests[0].silence > 0, "the proxy notices that the client has gone"


def test_an_answer_that_comes_too_late_is_told_from_one_that_is_read(lane: Lane, upstream: Upstream):
    """A machine that does too much is a fault that nobody has injected."""
    assert ask(lane).status == 200
    upstream.delay = 0.5
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(lane, timeout=0.1)
    deadline = time.monotonic() + 20
    while not lane.requests[-1].unread and time.monotonic() < deadline:
        time.sleep(0.02)
    in_time, late = lane.requests[-2:]
    assert (in_time.unread, late.unread) == (False, True)
    assert late.served >= 0.4 > in_time.served


def test_a_slow_answer_is_the_right_one(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proxying, "SLOW_SECONDS", 0.05)
    strike(lane, "slow")
    assert ask(lane).json() == OBJECT


def test_only_the_request_with_the_number_is_struck(lane: Lane, upstream: Upstream):
    strike(lane, "500", k=2)
    assert [ask(lane).status for _ in range(3)] == [200, 500, 200]
    assert lane.fired
    assert len(upstream.got) == 2


def test_its_repetitions_too_if_asked_to_but_nothing_else(lane: Lane):
    strike(lane, "500", k=2, always=True)
    other = f"{URL}/b"
    answers = [
        ask(lane),
        ask(lane, path=other),
        ask(lane),
        ask(lane, path=other),
        ask(lane, path=f"{other}?dryRun=All"),
    ]
    assert [answer.status for answer in answers] == [200, 500, 200, 500, 200]


def test_a_server_that_has_gone_stays_away(lane: Lane):
    strike(lane, "down", k=2)
    assert ask(lane).status == 200
    for path in (f"{URL}/a", f"{URL}/b"):
        with pytest.raises(urllib3.exceptions.ProtocolError):
            ask(lane, path=path)


def test_an_outage_has_an_end(lane: Lane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proxying, "OUTAGE_SECONDS", 0.2)
    strike(lane, "outage")
    with pytest.raises(urllib3.exceptions.ProtocolError):
        ask(lane)
    assert lane.fired
    while True:
        try:
            assert ask(lane).status == 200
        except urllib3.exceptions.ProtocolError:
            continue
        break


@pytest.mark.parametrize(("fault", "arrives"), [("kill", False), ("kill-after", True)])
def test_the_process_that_asks_is_killed(lane: Lane, upstream: Upstream, fault: str, arrives: bool):
    strike(lane, fault)
    asking = f"import urllib.request; urllib.request.urlopen({lane.url + URL!r})"
    process = subprocess.Popen([sys.executable, "-c", f"input(); {asking}"], stdin=subprocess.PIPE)
    lane.pid = process.pid
    process.communicate(b"\n", timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert bool(upstream.got) == arrives


def test_others_act_while_a_request_is_held(lane: Lane, upstream: Upstream):
    seen: list[int] = []
    lane.begin(Plan(FAULTS["race"], 1, meanwhile=lambda: seen.append(len(upstream.got))))
    assert ask(lane).status == 200
    assert (seen, len(upstream.got)) == ([0], 1)


def lines(answer: urllib3.BaseHTTPResponse) -> list[bytes]:
    return answer.data.splitlines()


def test_a_watch_flows(lane: Lane):
    assert [json.loads(line) for line in lines(ask(lane, "GET", WATCH, ""))] == EVENTS


def test_a_fault_of_watches_strikes_the_first_watch_from_its_number_on(lane: Lane):
    strike(lane, "watch-410", k=1)
    assert ask(lane, "GET", URL, "").json() == OBJECT
    (event,) = [json.loads(line) for line in lines(ask(lane, "GET", WATCH, ""))]
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert len(lines(ask(lane, "GET", WATCH, ""))) == len(EVENTS)


def test_a_watch_is_cut_in_the_middle_of_an_event(lane: Lane):
    strike(lane, "watch-cut")
    whole, half = lines(ask(lane, "GET", WATCH, ""))
    assert json.loads(whole) == EVENTS[0]
    assert json.dumps(EVENTS[1]).encode().startswith(half)


@pytest.mark.parametrize(("fault", "data"), [("watch-end", b""), ("watch-html", proxying.PAGE)])
def test_a_watch_that_is_none(lane: Lane, fault: str, data: bytes):
    strike(lane, fault)
    assert ask(lane, "GET", WATCH, "").data == data


def test_a_silent_watch(lane: Lane):
    strike(lane, "watch-silent")
    with pytest.raises(urllib3.exceptions.TimeoutError):
        ask(lane, "GET", WATCH, "")


def test_a_server_that_is_away_resets(lane: Lane, upstream: Upstream, proxy: Proxy):
    proxy.target = "http://127.0.0.1:9"  # discard: not listening
    with pytest.raises(urllib3.exceptions.ProtocolError):
        ask(lane)


def test_every_fault_of_requests_is_tested_here():
    text = Path(__file__).read_text()
    groups = {"race", "race3", "freeze", "skew"}  # all of which hold a request while others act
    assert [name for name in FAULTS if name not in groups | {"none"} and f'"{name}"' not in text] == []
