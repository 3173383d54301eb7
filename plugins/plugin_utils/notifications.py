# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A notification as each service wants it: the body, the signature, and what its answer means. Pure.

All texts are sent as plain text, which no service reads as markup: names of jobs and lines of logs come from others.
People get the characters that events replace; a webhook does not, since a program may evaluate what it gets.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any, NamedTuple
from urllib.parse import quote_plus

from ..module_utils.insight.events.inert_text import readable
from ..module_utils.kube.errors import cut
from ..module_utils.kube.times import time_as_text
from ..module_utils.printable import one_line, printable

WEBHOOK, SLACK, DINGTALK, FEISHU, WECOM, EMAIL = "webhook", "slack", "dingtalk", "feishu", "wecom", "email"
SERVICES = (WEBHOOK, SLACK, DINGTALK, FEISHU, WECOM, EMAIL)

_LONGEST_TITLE = 150  # characters of a header block of Slack, the shortest of all
_LINES = 10
# Bytes of a text. Slack: 3,000 characters of a section. WeCom: 2,048 bytes. Feishu: 20 KiB of a request. DingTalk:
# 20,000 bytes.
_LONGEST_TEXT = {SLACK: 2_900, WECOM: 2_000, FEISHU: 15_000, DINGTALK: 15_000, EMAIL: 100_000}


class Notification(NamedTuple):
    """What is sent: a line, a text, and the event that it is about."""

    title: str
    text: str
    event: Mapping[str, Any]


class Post(NamedTuple):
    """An HTTP POST of JSON."""

    url: str
    headers: dict[str, str]
    body: bytes


def notification_of(event: Mapping[str, Any], message: str | None, title: str | None) -> Notification:
    """What an event of our source or filter says, unless ``message`` and ``title`` say something else."""
    text = message or str(event.get("message") or event.get("msg") or "")
    lines = event.get("last_lines")
    if isinstance(lines, Sequence) and not isinstance(lines, str) and lines and not message:
        text = "\n".join([text, "The log ends with:", *(f"  {line}" for line in lines[-_LINES:])])
    subject = event.get("job") or event.get("node") or event.get("quota") or event.get("alert")
    what = " ".join(str(part) for part in (event.get("type"), subject) if part)
    return Notification(cut(one_line(title or what or "runwhere.gpuctl"), _LONGEST_TITLE), printable(text), event)


def post_for(service: str, url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """The request that tells a service."""
    return _POSTS[service](url, secret, notification if service == WEBHOOK else _for_people(notification), now)


def problem_of_answer(service: str, status: int, body: bytes) -> str | None:
    """Why a service did not take a notification; None if it did. Some say so in an answer with status 200."""
    if not 200 <= status < 300:
        return f"HTTP status {status}: {_quoted_body(body)}" if body.strip() else f"HTTP status {status}"
    names = _CODES.get(service)
    if names is None:
        return None
    try:
        answer = json.loads(body)
        code = next(answer[name] for name in names[0] if name in answer)
        message = next((str(answer[name]) for name in names[1] if answer.get(name)), "")
    except (ValueError, TypeError, StopIteration, RecursionError):
        return f"not an answer of {service}: {_quoted_body(body)}"
    shown_code = cut(printable(str(code)), 20)
    return None if code == 0 else f"{service} answered with code {shown_code}: {cut(printable(message), 300)}"


def email_for(sender: str, recipients: Sequence[str], notification: Notification, now: datetime) -> EmailMessage:
    """The same as a mail of plain text."""
    notification, mail = _for_people(notification), EmailMessage()
    mail["Subject"] = _valid_text(notification.title)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Date"] = format_datetime(now)
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply
    mail.set_content(_bounded_text(EMAIL, notification.text))
    return mail


def _for_people(notification: Notification) -> Notification:
    return notification._replace(title=readable(notification.title), text=readable(notification.text))


def _webhook(url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """The receiver can check the signature of the body with the secret, and its age by ``sent_at``."""
    sent_at = time_as_text(now)
    body = _json(
        {"title": notification.title, "message": notification.text, "sent_at": sent_at, "event": notification.event}
    )
    signature = f"sha256={_hmac(secret.encode(), body).hex()}" if secret else ""
    # The second is what GitHub sends, and eda.builtin.webhook checks.
    signed = {"X-Signature": signature, "X-Hub-Signature-256": signature} if secret else {}
    return Post(url, {**_HEADERS, **signed}, body)


def _slack(url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """docs.slack.dev, "Sending messages using incoming webhooks", "Formatting message text" (what to escape)."""
    text = _bounded_text(SLACK, notification.text) or notification.title
    fallback = f"{notification.title}: {text}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": notification.title, "emoji": False}},
        {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}},
    ]
    return Post(url, dict(_HEADERS), _json({"text": fallback, "blocks": blocks}))


def _dingtalk(url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """open.dingtalk.com, "Custom robot access": the signature is part of the URL."""
    if secret:
        milliseconds = str(int(now.timestamp() * 1000))
        sign = base64.b64encode(_hmac(secret.encode(), f"{milliseconds}\n{secret}".encode())).decode()
        url = f"{url}{'&' if '?' in url else '?'}timestamp={milliseconds}&sign={quote_plus(sign)}"
    text = _bounded_text(DINGTALK, f"{notification.title}\n{notification.text}")
    return Post(url, dict(_HEADERS), _json({"msgtype": "text", "text": {"content": text}, "at": {"isAtAll": False}}))


def _feishu(url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """open.feishu.cn, "Custom bot usage guide": what is signed is empty, and the text is the key."""
    signed: dict[str, str] = {}
    if secret:
        seconds = str(int(now.timestamp()))
        sign = base64.b64encode(_hmac(f"{seconds}\n{secret}".encode(), b"")).decode()
        signed = {"timestamp": seconds, "sign": sign}
    line = {"tag": "text", "text": _bounded_text(FEISHU, notification.text)}
    post = {"en_us": {"title": notification.title, "content": [[line]]}}
    return Post(url, dict(_HEADERS), _json({**signed, "msg_type": "post", "content": {"post": post}}))


def _wecom(url: str, secret: str | None, notification: Notification, now: datetime) -> Post:
    """developer.work.weixin.qq.com, "Group robot configuration": the key is part of the URL. ``<@name>`` mentions."""
    text = _bounded_text(WECOM, f"{notification.title}\n{notification.text}".replace("<@", "< @"))
    return Post(url, dict(_HEADERS), _json({"msgtype": "text", "text": {"content": text}}))


_HEADERS = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "runwhere.gpuctl"}
_POSTS: Mapping[str, Callable[[str, str | None, Notification, datetime], Post]] = {
    WEBHOOK: _webhook,
    SLACK: _slack,
    DINGTALK: _dingtalk,
    FEISHU: _feishu,
    WECOM: _wecom,
}
# Where the answers have their code and their message.
_CODES = {
    DINGTALK: (("errcode",), ("errmsg",)),
    WECOM: (("errcode",), ("errmsg",)),
    FEISHU: (("code", "StatusCode"), ("msg", "StatusMessage")),
}


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _json(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False, default=str).encode("utf-8", "replace")


def _bounded_text(service: str, text: str) -> str:
    """The text in at most so many bytes of UTF-8, whole characters of it."""
    longest = _LONGEST_TEXT[service]
    data = text.encode("utf-8", "replace")
    return _valid_text(text) if len(data) <= longest else f"{data[: longest - 3].decode('utf-8', 'ignore')}…"


def _valid_text(text: str) -> str:
    """Without halves of surrogate pairs, which no encoding has."""
    return text.encode("utf-8", "replace").decode()


def _quoted_body(body: bytes) -> str:
    return repr(cut(printable(body.decode("utf-8", "replace").strip()), 200))
