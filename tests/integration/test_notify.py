# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_notify posts what each service documents, to a server that checks it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib
import json
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from .ansible import Ansible, TaskResult
from .manifests import compute
from .receivers import Received, Receiver, http_receiver, mail_receiver
from .test_playbooks import recap, run

SECRET = "SEC-of-the-robot"
EVENT = {
    "type": "job.failed",
    "id": "6f6c/failed",
    "job": "llm",
    "namespace": "ml",
    "message": "Training llm in namespace ml failed: <@U1> *& co* exit code 3.",
    "last_lines": ['\uff5b"step": 1}', "CUDA out of memory"],
}
FOR_PROGRAMS = f'{EVENT["message"]}\nThe log ends with:\n  \uff5b"step": 1}}\n  CUDA out of memory'
TEXT = FOR_PROGRAMS.replace("\uff5b", "{")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with http_receiver() as receiver:
        yield receiver


@pytest.fixture
def offline(tmp_path: Path) -> Ansible:
    """Ansible without a cluster."""
    return Ansible(tmp_path, {})


def digest(key: str, message: str | bytes) -> bytes:
    data = message.encode() if isinstance(message, str) else message
    return hmac.new(key.encode(), data, hashlib.sha256).digest()


def check_webhook(request: Received) -> None:
    assert request.headers["X-Signature"] == f"sha256={digest(SECRET, request.body).hex()}"
    assert request.headers["X-Hub-Signature-256"] == request.headers["X-Signature"]
    assert request.headers["Content-Type"] == "application/json; charset=utf-8"
    body = request.json
    assert (body["title"], body["message"], body["event"]) == ("job.failed llm", FOR_PROGRAMS, EVENT)
    assert set(body) == {"title", "message", "sent_at", "event"}


def check_slack(request: Received) -> None:
    """https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""
    body = request.json
    assert body["text"].startswith("job.failed llm: Training llm in namespace ml failed: &lt;@U1&gt; *&amp; co*")
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    assert all(block["text"]["type"] == "plain_text" for block in body["blocks"])
    assert [block["text"]["text"] for block in body["blocks"]] == ["job.failed llm", TEXT]


def check_dingtalk(request: Received) -> None:
    """https://open.dingtalk.com/document/orgapp/custom-robot-access"""
    query = parse_qs(urlsplit(request.path).query)
    (milliseconds,), (sign,) = query["timestamp"], query["sign"]
    assert query["access_token"] == ["T"]
    assert abs(time.time() * 1000 - int(milliseconds)) < 60_000
    assert base64.b64decode(sign) == digest(SECRET, f"{milliseconds}\n{SECRET}")
    assert request.json == {
        "msgtype": "text",
        "text": {"content": f"job.failed llm\n{TEXT}"},
        "at": {"isAtAll": False},
    }


def check_feishu(request: Received) -> None:
    """https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot"""
    body = request.json
    assert abs(time.time() - int(body["timestamp"])) < 60
    assert base64.b64decode(body["sign"]) == digest(f"{body['timestamp']}\n{SECRET}", "")
    assert body["msg_type"] == "post"
    assert body["content"]["post"]["en_us"] == {
        "title": "job.failed llm",
        "content": [[{"tag": "text", "text": TEXT}]],
    }


def check_wecom(request: Received) -> None:
    """https://developer.work.weixin.qq.com/document/path/91770"""
    assert urlsplit(request.path).query == "access_token=T"
    content = f"job.failed llm\n{TEXT}".replace("<@", "< @")
    assert request.json == {"msgtype": "text", "text": {"content": content}}


SERVICES = {
    "webhook": (check_webhook, ""),
    "slack": (check_slack, "ok"),
    "dingtalk": (check_dingtalk, '{"errcode":0,"errmsg":"ok"}'),
    "feishu": (check_feishu, '{"code":0,"data":{},"msg":"success"}'),
    "wecom": (check_wecom, '{"errcode":0,"errmsg":"ok"}'),
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_gets_what_it_documents(offline: Ansible, receiver: Receiver, service: str) -> None:
    check, answer = SERVICES[service]
    receiver.answers = [(200, answer, {})]
    result = offline.module(
        "gpuctl_notify", service=service, url=f"{receiver.url}/robot?access_token=T", secret=SECRET, event=EVENT
    ).result
    assert not result.get("failed"), result
    (request,) = receiver.requests
    check(request)


@pytest.mark.parametrize(
    ("service", "answer", "message"),
    [
        ("dingtalk", (200, '{"errcode":310000,"errmsg":"sign not match"}', {}), "code 310000: sign not match"),
        ("feishu", (200, '{"code":19021,"msg":"sign match fail"}', {}), "feishu answered with code 19021: sign match"),
        ("wecom", (200, '{"errcode":93000,"errmsg":"invalid webhook url"}', {}), "wecom answered with code 93000"),
        ("wecom", (200, "<html>log in</html>", {}), "not an answer of wecom: '<html>log in</html>'"),
        ("slack", (404, "no_service", {}), "HTTP status 404: 'no_service'"),
        ("webhook", (302, "", {"Location": "https://elsewhere.example.com"}), "HTTP status 302"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_failure_and_shows_no_secret(
    offline: Ansible, receiver: Receiver, service: str, answer: tuple[int, str, dict[str, str]], message: str
) -> None:
    receiver.answers = [answer]
    url = f"{receiver.url}/robot/send/of-the-hook-xyz"
    done = offline.module("gpuctl_notify", service=service, url=url, secret=SECRET, event=EVENT)
    assert done.failed
    assert done.result["msg"].startswith(f"{service} did not take the notification: ")
    assert message in done.result["msg"]
    assert len(receiver.requests) == 1
    assert SECRET not in str(done.result)
    assert "of-the-hook-xyz" not in str(done.result)


def test_what_is_refused_for_now_is_sent_again(offline: Ansible, receiver: Receiver) -> None:
    receiver.answers = [(503, "", {"Retry-After": "0"}), (429, "", {"Retry-After": "0"}), (200, "", {})]
    result = offline.module("gpuctl_notify", url=receiver.url, event=EVENT).result
    assert not result.get("failed"), result
    assert len(receiver.requests) == 3


def test_a_server_that_is_not_there(offline: Ansible) -> None:
    result = offline.module("gpuctl_notify", url="http://127.0.0.1:1/hook", event=EVENT, retries=0).result
    text = "webhook did not take the notification: Connection refused. Check url, and that the service is up."
    assert result["msg"] == text


@pytest.mark.parametrize(
    ("head", "body", "problem"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", b"x" * 5000, "no complete answer within 1 s"),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x" * 5000, "no complete answer within 1 s"),
        (b"HTTP/1.1 503 Later\r\nTransfer-Encoding: chunked\r\n\r\n", b"", "IncompleteRead(0 bytes read)"),
        (b"", b"", "Remote end closed connection without response"),
    ],
    ids=["body, byte by byte", "header, byte by byte", "no body", "no answer"],
)
def test_an_answer_that_never_ends_or_breaks_off(offline: Ansible, head: bytes, body: bytes, problem: str) -> None:
    with dripping(head, body) as (url, requests):
        before = time.monotonic()
        told = offline.module("gpuctl_notify", service="wecom", url=url, message="m", timeout=1, retries=1)
        assert time.monotonic() - before < 20, "5,000 bytes would take more than 8 minutes"
    assert told.failed
    assert told.message == f"wecom did not take the notification: {problem}. Check url, and that the service is up."
    assert len(requests) == 2, "it was tried again"


@contextmanager
def dripping(head: bytes, body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that sends the head, then ten bytes of the body each second, and closes the connection."""
    requests: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            requests.append(self.request.recv(65_536))
            self.request.sendall(head)
            with suppress(OSError):
                for number in range(len(body)):
                    self.request.sendall(body[number : number + 1])
                    time.sleep(0.1)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()


def test_a_mail_server_that_never_answers(offline: Ansible) -> None:
    with dripping(b"", b"220-wait\r\n" * 500) as (url, _):
        mail = {"mail_from": "a@example.com", "mail_to": ["b@example.com"], "mail_port": int(url.rpartition(":")[2])}
        told = offline.module(
            "gpuctl_notify", service="email", mail_host="127.0.0.1", message="m", timeout=1, retries=0, **mail
        )
    assert told.message.startswith(
        "email did not take the notification: no complete answer within 1 s. Check mail_host"
    )


def test_a_password_is_not_mailed_without_encryption(offline: Ansible) -> None:
    mail = {
        "mail_from": "a@example.com",
        "mail_to": ["b@example.com"],
        "mail_username": "a",
        "mail_password": "hunter22",
    }
    told = offline.module(
        "gpuctl_notify", service="email", mail_host="mail.invalid", mail_security="none", message="m", **mail
    )
    assert told.failed
    assert told.message.endswith(
        "mail_password would be sent without encryption. Set mail_security=starttls or mail_security=tls."
    )


def test_a_mail_server_that_is_not_there(offline: Ansible) -> None:
    given = {"mail_host": "127.0.0.1", "mail_port": 1, "mail_from": "a@example.com", "mail_to": ["b@example.com"]}
    result = offline.module("gpuctl_notify", service="email", event=EVENT, retries=0, **given).result
    text = "email did not take the notification: Connection refused. Check mail_host, mail_port and mail_security, and "
    assert result["msg"] == f"{text}that the server is up."


def test_nothing_is_sent_in_check_mode(offline: Ansible, receiver: Receiver) -> None:
    offline.module("gpuctl_notify", url=receiver.url, event=EVENT, check=True)
    assert receiver.requests == []


def test_a_long_text_is_cut_to_what_the_service_takes(offline: Ansible, receiver: Receiver) -> None:
    receiver.answers = [(200, '{"errcode":0}', {})]
    offline.module("gpuctl_notify", service="wecom", url=receiver.url, message="文" * 5000)
    content = receiver.requests[0].json["text"]["content"]
    assert 1990 < len(content.encode()) <= 2048
    assert content.endswith("文…")


def test_a_mail(offline: Ansible) -> None:
    with mail_receiver() as mails:
        result = offline.module(
            "gpuctl_notify",
            service="email", mail_host="127.0.0.1", mail_port=mails.port, mail_security="none",
            mail_from="gpu@example.com", mail_to=["ml@example.com", "ops@example.com"], event=EVENT,
            title="first\nBcc: all@example.com",
        ).result  # fmt: skip
    assert not result.get("failed"), result
    head, _blank, text = mails.texts[0].partition("\n\n")
    assert "Subject: first\\x0aBcc: all@example.com" in head
    assert "To: ml@example.com, ops@example.com" in head
    assert "\nBcc:" not in head
    assert text.splitlines() == TEXT.splitlines()


def mail(offline: Ansible, port: int, *recipients: str, **options: Any) -> TaskResult:
    return offline.module(
        "gpuctl_notify",
        service="email", mail_host="127.0.0.1", mail_port=port, mail_security="none", retries=0,
        mail_from="gpu@example.com", mail_to=list(recipients), event=EVENT, **options,
    )  # fmt: skip


def test_recipients_that_the_server_refuses_are_said(offline: Ansible) -> None:
    with mail_receiver() as mails:
        mails.refused = {"gone@": "550 no such user", "full@": "452 mailbox full"}
        done = mail(offline, mails.port, "ml@example.com", "gone@example.com", "full@example.com")
        assert len(mails.texts) == 1
        refused = {"gone@example.com": "550 no such user", "full@example.com": "452 mailbox full"}
        assert done.result["refused"] == refused
        text = "not for gone@example.com (550 no such user), full@example.com (452 mailbox full). Correct mail_to."
        assert text in " ".join(done.screen.split())
        done = mail(offline, mails.port, "gone@example.com")
    assert done.failed
    assert done.message.endswith("recipients refused: gone@example.com (550 no such user). Correct mail_to.")


def test_a_url_that_anybody_can_read_underway_is_warned_of(offline: Ansible, receiver: Receiver) -> None:
    done = offline.module("gpuctl_notify", url="http://hooks.example.com/t0ken", event=EVENT, check=True)
    assert "url begins with http://, so the message is not encrypted" in " ".join(done.screen.split())
    assert "t0ken" not in done.screen
    for url in (receiver.url, "http://localhost/x", "http://[::1]/x", "https://hooks.example.com/t0ken"):
        assert "http://," not in offline.module("gpuctl_notify", url=url, event=EVENT, check=True).screen


def test_the_examples_run(offline: Ansible, receiver: Receiver) -> None:
    receiver.answers = [(200, "ok", {}), (200, "ok", {})]
    text = importlib.import_module("ansible_collections.runwhere.gpuctl.plugins.modules.gpuctl_notify").EXAMPLES
    variables = {"slack_webhook": receiver.url, "hook_secret": SECRET, "ansible_eda": {"event": EVENT}}
    with mail_receiver() as mails:
        there = f"mail_host: 127.0.0.1\n    mail_port: {mails.port}\n    mail_security: none"
        text = text.replace("https://hooks.example.com/gpu", receiver.url)
        text = text.replace("mail_host: smtp.example.com\n    mail_username: gpu", there)
        done = offline.play(yaml.safe_load(text), arguments=("-e", json.dumps(variables)))
    assert [task.failed for task in done.tasks] == [False] * 3, done.output
    assert (len(receiver.requests), len(mails.texts)) == (2, 1)


def test_the_playbook_takes_its_secrets_from_the_environment(offline: Ansible, receiver: Receiver) -> None:
    offline.environment.update({"GPUCTL_NOTIFY_URL": receiver.url, "GPUCTL_NOTIFY_SECRET": SECRET})
    done = run(offline, "notify", event=EVENT)
    assert done.status == 0, done.output
    check_webhook(receiver.requests[0])
    assert SECRET not in done.output


@pytest.mark.parametrize("works", [True, False])
def test_submit_posts_at_the_end_of_its_wait(ansible: Ansible, namespace: str, receiver: Receiver, works: bool) -> None:
    cpu = "1" if works else "9999"  # on no node
    manifest = compute("web", job={"namespace": namespace}, resources={"cpu": cpu})
    (ansible.directory / "web.yaml").write_text(yaml.safe_dump(manifest))
    done = run(
        ansible, "submit", src="web.yaml", wait=True, wait_timeout=30,
        notify_url=receiver.url, notify_secret=SECRET,
    )  # fmt: skip
    assert (done.status == 0) is works, done.output
    (request,) = receiver.requests
    assert request.headers["X-Signature"] == f"sha256={digest(SECRET, request.body).hex()}"
    body = request.json
    assert body["title"] == ("Jobs are done" if works else "Jobs failed")
    assert body["event"]["status"] == ("Succeeded" if works else "Failed")
    assert body["event"]["jobs"][0]["name"] == "web"
    assert body["message"]
    assert SECRET not in done.output
    assert recap(done)["failed"] == (0 if works else 1)
