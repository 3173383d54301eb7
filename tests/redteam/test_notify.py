# SPDX-License-Identifier: BSD-2-Clause
"""A service that takes notifications answers whatever it likes, and what is sent comes from tenants: each attempt ends
in a short reason, never in a bug."""

from __future__ import annotations

import gzip
import json
import smtplib
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils import send_notification
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.notifications import SERVICES, Notification
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.send_notification import (
    Mailbox,
    NotSent,
    send_mail,
    send_post,
)
from integration.ansible import Ansible

Visitor = Callable[[socket.socket], object]

NOTIFICATION = Notification("job.failed llm", "no room", {})
OPTIONS = {"retries": 0, "timeout": 1, "validate_certs": True, "ca_cert": None}
MAILBOX = Mailbox("127.0.0.1", 1, "none", None, None, "gpu@example.com", ["ml@example.com"])


@contextmanager
def serving(answer: Visitor) -> Iterator[int]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                answer(self.request)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def answer(body: bytes, head: bytes = b"") -> Visitor:
    def send(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))

    return send


def continues_for_ever(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


PACKED = gzip.compress(b'{"errcode":0}')
IN_GZIP = b"Content-Encoding: gzip\r\n"
ANSWERS: dict[str, Visitor] = {
    "half of a compressed answer": answer(PACKED[:-8], IN_GZIP),
    "a compressed answer that is none": answer(PACKED[:12] + b"\xff" * 30, IN_GZIP),
    "60,000 lists in each other": answer(b"[" * 60_000),
    "10,000 objects in each other": answer(b'{"errcode":' * 10_000),
    "a code of 5,000 digits": answer(b'{"errcode":' + b"9" * 5_000 + b"}"),
    "a code that is a list": answer(b'{"errcode":[[]]}'),
    "a code that acts on the terminal": answer(json.dumps({"errcode": "\x1b[2J" + "x" * 5_000}).encode()),
    "a message of half a character": answer(b'{"errcode":1,"errmsg":"\\ud800"}'),
    "a length that is no number": answer(b"x", b"Content-Length: many\r\n"),
    "chunks without a length": answer(b"zz\r\n", b"Transfer-Encoding: chunked\r\n"),
    "200 headers": answer(b"x", b"X-Y: z\r\n" * 200),
    "a header of 70,000 characters": answer(b"x", b"X-Y: " + b"z" * 70_000 + b"\r\n"),
    "interim answers without end": continues_for_ever,
}  # fmt: skip


def assert_is_short(text: str) -> None:
    assert text
    assert len(text) < 700
    assert text.isprintable()


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_a_service(name: str) -> None:
    began = time.monotonic()
    with serving(ANSWERS[name]) as port, pytest.raises(NotSent) as refused:
        send_post("wecom", f"http://127.0.0.1:{port}/hook", None, NOTIFICATION, OPTIONS)
    assert time.monotonic() - began < 10
    assert_is_short(str(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://\u2100.example.com/",  # a host that contains a slash once it is normalized
        "http://127.0.0.1:port/",
        "http://a b/",
        "http:///hook",
        "file:///etc/passwd",
        "http://127.0.0.1:1/\ud800",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(NotSent) as refused:
        send_post("slack", url, None, NOTIFICATION, OPTIONS)
    assert_is_short(str(refused.value))


def mail_server(challenge: bytes = b"235 ok", greeting: bytes = b"220 hello", farewell: bytes = b"") -> Visitor:
    """It takes every mail, and says what it says to QUIT."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(greeting + b"\r\n")
        in_mail = False
        for line in connection.makefile("rb"):
            verb = line[:4].upper()
            if in_mail:
                in_mail = line != b".\r\n"
                if in_mail:
                    continue
            elif verb == b"DATA":
                in_mail = True
            elif verb == b"QUIT" and not farewell:
                time.sleep(5)
            said = {
                b"EHLO": b"250-hello\r\n250 AUTH CRAM-MD5 LOGIN PLAIN",
                b"DATA": b"354 go",
                b"AUTH": challenge,
                b"QUIT": farewell,
            }
            connection.sendall(said.get(verb, b"250 ok") + b"\r\n")

    return serve


WITH_PASSWORD = MAILBOX._replace(username="gpu", password="hunter22")
MAILS: dict[str, tuple[Visitor, Mailbox, dict[str, Any]]] = {
    "a challenge that is not in Base64": (mail_server(b"334 a"), WITH_PASSWORD, {}),
    "a challenge that is no text": (mail_server(b"334 \xff\xfe\xfd"), WITH_PASSWORD, {}),
    "a password that is not in ASCII": (mail_server(b"334 YQ=="), WITH_PASSWORD._replace(password="p\u00e4ss"), {}),
    "a line of 20,000 characters": (mail_server(greeting=b"220 " + b"x" * 20_000), MAILBOX, {}),
    "a greeting without a code": (mail_server(greeting=b"hello"), MAILBOX, {}),
    "a refusal that acts on the terminal": (mail_server(greeting=b"554 \x1b[2J\xff"), MAILBOX, {}),
    "a sender of two lines": (mail_server(), MAILBOX._replace(sender="a@example.com\nBcc: b@example.com"), {}),
    "a recipient of half a character": (mail_server(), MAILBOX._replace(recipients=["\ud800@example.com"]), {}),
    "authorities that are not there": (mail_server(), MAILBOX, {"ca_cert": "/nowhere/ca.pem"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MAILS)
def test_a_mail_that_cannot_be_sent(name: str) -> None:
    server, mailbox, options = MAILS[name]
    with serving(server) as port, pytest.raises(NotSent) as refused:
        send_mail(mailbox._replace(port=port), NOTIFICATION, {**OPTIONS, **options})
    assert_is_short(str(refused.value))
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize("farewell", [b"250 ok", b"421 busy", b"221 bye", b""])
def test_a_mail_that_was_taken_is_sent_once(farewell: bytes) -> None:
    """However the server parts: with another code, or never."""
    visits: list[int] = []

    def count(connection: socket.socket) -> None:
        visits.append(1)
        mail_server(farewell=farewell)(connection)

    with serving(count) as port:
        assert send_mail(MAILBOX._replace(port=port), NOTIFICATION, {**OPTIONS, "retries": 1}) == {}
    assert visits == [1]


@pytest.mark.parametrize("service", SERVICES)
def test_text_of_half_a_character_is_sent(service: str) -> None:
    half = Notification("\ud800", "\ud800", {"job": "\ud800", "value": float("nan"), "\ud800": [{}]})
    if service == "email":
        with serving(mail_server(farewell=b"221 bye")) as port:
            assert send_mail(MAILBOX._replace(port=port), half, OPTIONS) == {}
        return
    with serving(answer(b'{"errcode": 0, "code": 0}')) as port:
        send_post(service, f"http://127.0.0.1:{port}/", "key", half, OPTIONS)


def test_a_mail_server_whose_answer_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """smtplib says of a read that timed out that the connection was closed."""

    def times_out(*_given: Any) -> None:
        try:
            raise TimeoutError("timed out")
        except OSError as error:
            raise smtplib.SMTPServerDisconnected(f"Connection unexpectedly closed: {error}")  # noqa: B904

    monkeypatch.setattr(send_notification, "_connected", times_out)
    with pytest.raises(NotSent, match=r"^no complete answer within [0-9]+ s$"):
        send_mail(MAILBOX, NOTIFICATION, {**OPTIONS, "retries": 0})


def test_a_malformed_url_ends_in_a_message(tmp_path: Path) -> None:
    told = Ansible(tmp_path, {}).module("gpuctl_notify", url="http://[::1", message="m")
    assert told.failed
    assert told.message == (
        "webhook did not take the notification: the URL is malformed, or does not begin with https:// or http://. "
        "Check url, and that the service is up."
    )
