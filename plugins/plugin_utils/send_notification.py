# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send a notification, by HTTP or by mail. What may pass by itself is tried again."""

from __future__ import annotations

import smtplib
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from datetime import datetime, timezone
from http.client import HTTPException
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.parse import SplitResult, urlsplit

from ansible.module_utils.urls import open_url

from ..module_utils.printable import one_line
from .notifications import SERVICES, WEBHOOK, Notification, Post, email_for, post_for, problem_of_answer

# Options that are unset are taken from these variables of the environment.
NOTIFY_SECRETS = {
    "url": "GPUCTL_NOTIFY_URL",
    "secret": "GPUCTL_NOTIFY_SECRET",
    "mail_password": "GPUCTL_NOTIFY_PASSWORD",
}
NOTIFY_OPTIONS: dict[str, Any] = {
    "service": {"type": "str", "choices": list(SERVICES), "default": WEBHOOK},
    "url": {"type": "str", "no_log": True},
    "secret": {"type": "str", "no_log": True},
    "event": {"type": "dict", "default": {}},
    "message": {"type": "str"},
    "title": {"type": "str"},
    "mail_host": {"type": "str", "default": "localhost"},
    "mail_port": {"type": "int"},
    "mail_security": {"type": "str", "choices": ["starttls", "tls", "none"], "default": "starttls"},
    "mail_username": {"type": "str"},
    "mail_password": {"type": "str", "no_log": True},
    "mail_from": {"type": "str"},
    "mail_to": {"type": "list", "elements": "str"},
    "ca_cert": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 10},
    "retries": {"type": "int", "default": 3},
}

_MOST_BYTES = 65_536  # of an answer
Answer = TypeVar("Answer")
_LONGEST_DELAY = 30.0


class NotSent(Exception):
    """The text says why; it may quote the URL."""

    def __init__(self, text: str, delay: float | None = None) -> None:
        super().__init__(text)
        self.delay = delay  # seconds after which it may be sent; None if it will not help


class RecipientsRefused(NotSent):
    """The mail server takes the mail for none of its recipients."""


class Mailbox(NamedTuple):
    """Where mail is given up, and for whom."""

    host: str
    port: int | None
    security: str
    username: str | None
    password: str | None
    sender: str
    recipients: list[str]


def send_post(
    service: str, url: str, secret: str | None, notification: Notification, options: Mapping[str, Any]
) -> None:
    """Raises NotSent."""
    if _url_parts(url).scheme not in ("http", "https"):
        raise NotSent("the URL is malformed, or does not begin with https:// or http://")
    _tls_context(options)
    _with_retries(options["retries"], lambda: _post(service, url, secret, notification, options))


def _post(service: str, url: str, secret: str | None, notification: Notification, options: Mapping[str, Any]) -> None:
    post = post_for(service, url, secret, notification, datetime.now(timezone.utc))
    try:
        status, body, delay = _answer_within(options["timeout"], lambda: _answer_to(post, options))
    except (OSError, HTTPException, ValueError) as error:
        # A broken connection may have delivered it: twice is better than never, and the event has an id.
        raise NotSent(_cause(getattr(error, "reason", error)), 1.0) from None
    if problem := problem_of_answer(service, status, body):
        raise NotSent(problem, delay)


def _answer_to(post: Post, options: Mapping[str, Any]) -> tuple[int, bytes, float | None]:
    """Status, body, and the seconds after which to send it again."""
    try:
        answer = open_url(
            post.url,
            method="POST",
            data=post.body,
            headers=post.headers,
            timeout=options["timeout"],
            validate_certs=options["validate_certs"],
            ca_path=options["ca_cert"],
            follow_redirects="none",  # Another place would get the secret that the URL of the first is.
            decompress=False,  # A few bytes may stand for very many, and none of the services compresses its answers.
        )
    except HTTPError as error:
        return error.code, error.read(_MOST_BYTES), _delay_of(error)
    return answer.status, answer.read(_MOST_BYTES), None


def _answer_within(seconds: float, send: Callable[[], Answer]) -> Answer:
    """The result of an attempt. Raises what it raises, or TimeoutError.

    The timeout of a socket starts again with each byte that arrives, and SIGALRM belongs to Ansible's task timeout. So
    an attempt has a thread, which ends with the worker process at the latest.
    """
    done: Future[Answer] = Future()

    def attempt() -> None:
        try:
            done.set_result(send())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    try:
        return done.result(seconds)
    except FutureTimeoutError:  # an alias of TimeoutError since Python 3.11
        pass
    except smtplib.SMTPServerDisconnected as error:  # smtplib says so of a read that timed out, too
        if not isinstance(error.__context__, TimeoutError):
            raise
    raise TimeoutError(f"no complete answer within {seconds:g} s") from None


def _cause(error: Any) -> str:
    """``Connection refused`` without the number of the error."""
    return getattr(error, "strerror", None) or str(error)


def is_readable_underway(url: str) -> bool:
    """Whether the URL, and the token that it may be, pass over a network without encryption."""
    parts = _url_parts(url)
    return parts.scheme == "http" and not is_this_host(parts.hostname or "")


def _url_parts(url: str) -> SplitResult:
    """Those of no URL for text that is none, such as ``http://[::1``."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def is_this_host(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def send_mail(mailbox: Mailbox, notification: Notification, options: Mapping[str, Any]) -> dict[str, str]:
    """The recipients that the server refused while it took others, and why. Raises NotSent."""
    try:
        mail = email_for(mailbox.sender, mailbox.recipients, notification, datetime.now(timezone.utc))
    except ValueError:  # of a line break or half of a surrogate pair
        raise NotSent("O(mail_from) or O(mail_to) has characters that no address has") from None
    context = _tls_context(options)

    def attempt() -> dict[str, str]:
        server = _connected(mailbox, context, options["timeout"])
        try:
            if mailbox.security == "starttls":
                server.starttls(context=context)
            if mailbox.username:
                server.login(mailbox.username, mailbox.password or "")
            return _answers(server.send_message(mail))
        finally:
            _quit_smtp(server)

    def send() -> dict[str, str]:
        try:
            return _answer_within(options["timeout"], attempt)
        except smtplib.SMTPResponseException as error:
            text = _answer_text(error.smtp_code, error.smtp_error)
            raise NotSent(text, 1.0 if 400 <= error.smtp_code < 500 else None) from None
        except smtplib.SMTPRecipientsRefused as error:
            answers = _answers(error.recipients)
            delay = 1.0 if any(text.startswith("4") for text in answers.values()) else None
            raise RecipientsRefused(f"recipients refused: {listed_answers(answers)}", delay) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            # ValueError: of a challenge that is not in Base64, or of a password that is not in ASCII.
            raise NotSent(_cause(error), 1.0 if isinstance(error, OSError) else None) from None

    return _with_retries(options["retries"], send)


def _tls_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    """Raises NotSent for authorities that cannot be read."""
    try:
        context = ssl.create_default_context(cafile=options["ca_cert"])
    except OSError as error:  # SSLError is one.
        raise NotSent(f"O(ca_cert) cannot be read: {_cause(error)}") from None
    if not options["validate_certs"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def listed_answers(refused: Mapping[str, str]) -> str:
    """``a@example.com (550 no such user), …``"""
    return ", ".join(f"{recipient} ({answer})" for recipient, answer in refused.items())


def _answers(refused: Mapping[str, tuple[int, bytes | str]]) -> dict[str, str]:
    return {recipient: _answer_text(code, said) for recipient, (code, said) in refused.items()}


def _answer_text(code: int, said: bytes | str) -> str:
    return one_line(f"{code} {said if isinstance(said, str) else said.decode(errors='replace')}")


def _quit_smtp(server: smtplib.SMTP) -> None:
    """Whatever the server would answer, or if it never did: a mail that it has taken is not sent again for that."""
    with suppress(smtplib.SMTPException, OSError):
        server.putcmd("quit")
    server.close()


def _connected(mailbox: Mailbox, context: ssl.SSLContext, timeout: int) -> smtplib.SMTP:
    if mailbox.security == "tls":
        return smtplib.SMTP_SSL(mailbox.host, mailbox.port or 465, timeout=timeout, context=context)
    default = 587 if mailbox.security == "starttls" else 25
    return smtplib.SMTP(mailbox.host, mailbox.port or default, timeout=timeout)


def _with_retries(retries: int, send: Callable[[], Answer]) -> Answer:
    """Raises the last NotSent."""
    attempt = 0
    while True:
        try:
            return send()
        except NotSent as problem:
            if problem.delay is None or attempt >= retries:
                raise
            time.sleep(min(_LONGEST_DELAY, problem.delay * 2**attempt))
            attempt += 1


def _delay_of(error: HTTPError) -> float | None:
    """When to send again what was not taken for now."""
    if error.code != 429 and error.code < 500:
        return None
    asked = error.headers.get("Retry-After", "") if error.headers else ""
    return float(asked) if asked.isdecimal() and len(asked) < 6 else 1.0
