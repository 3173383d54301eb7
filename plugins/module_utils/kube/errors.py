# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong with an API server, each as one message for the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

NOT_SERVED = "API not served by this cluster"


class KubeError(Exception):
    """The base class; ``str()`` is the message for the user."""

    is_transient = False  # whether the same request may succeed later without any change
    may_be_written = False  # whether the failed request may have changed the cluster all the same
    is_refused = False  # nothing listens at the address, or there is no such address
    broke_off = False  # the connection broke while a response was read in pieces
    retry_after: float | None = None  # seconds, as the server asked for, or as many of them as are waited
    asks_to_wait = False  # the server, for longer than a task waits


class ConnectionProblem(KubeError):
    """The options do not describe a server, or the server did not respond."""

    is_transient = True  # An API server that is being upgraded comes back.


class InvalidResponse(ConnectionProblem):
    """Something other than a Kubernetes API server answered; ``found`` says what (see answer.py)."""

    def __init__(self, request: str, status: int, found: str) -> None:
        super().__init__(
            f"not an answer of the Kubernetes API: {request} returned {found} (HTTP {status}). A proxy, load balancer "
            f"or login page may answer in its place. Check host, proxy and the kubeconfig."
        )
        self.may_be_written = status < 400


class AnswerTooLarge(ConnectionProblem):
    """An answer exceeds what limits.py allows; ``limit`` is what it exceeds."""

    is_transient = False
    may_be_written = True

    def __init__(self, request: str, limit: str) -> None:
        super().__init__(
            f"too much data from the API server: {request} returned more than {limit}. Read fewer objects in one task, "
            f"by names, labels or namespaces. If there are not that many, something else answers: check host and proxy."
        )


class ListTooLarge(AnswerTooLarge):
    """All pages of a list together exceed what limits.py allows, so that smaller pages do not help."""


class Unauthorized(ConnectionProblem):
    """The server does not accept the credentials."""

    is_transient = False


@dataclass(frozen=True)
class StatusCause:
    """One of a Status object's ``details.causes`` (metav1.StatusCause)."""

    field: str
    reason: str
    message: str


class ApiError(KubeError):
    """The server rejected a request: its Status object, and the request. ``level`` is what the whole task needs."""

    def __init__(self, method: str, path: str, status: int, body: dict[str, Any], level: str = "read") -> None:
        self.method = method
        self.path = path
        self.status = status
        self.reason = _string_or_empty(body.get("reason"))
        self.is_transient = status >= 500 or status == 429
        self.may_be_written = status >= 500
        details = body.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        self.causes = tuple(
            StatusCause(*(_string_or_empty(cause.get(name)) for name in ("field", "reason", "message")))
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, dict)
        )
        self.message = _short_message(_string_or_empty(body.get("message")), self.causes)
        hint = _missing_permission(self.message, level) if self.is_forbidden else ""
        if self.is_not_served:
            hint = _missing_feature(path)
        super().__init__(f"{self.message} (HTTP {status} to {method} {path}){hint}")

    def note_wait(self, seconds: float) -> None:
        """Let the message say how long the server asks to wait."""
        shown = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        self.asks_to_wait = True
        self.args = (f"{as_sentence(self)} The server asks to wait {shown}. Run the task again then",)

    @property
    def is_forbidden(self) -> bool:
        """RBAC does not allow the request, as opposed to a rejection by admission such as an exceeded quota.

        The message is empty for an apply that would create, sent by a user who may only patch (apiserver,
        handlers/update.go, ``withAuthorization``).
        """
        return self.status == 403 and bool(re.search(r"is forbidden: (User|RBAC:|$)", self.message))

    @property
    def is_not_served(self) -> bool:
        """The server has no such API, as opposed to no such object (api/errors, NewGenericServerResponse)."""
        return self.status == 404 and self.message.startswith((NOT_SERVED, "the server could not find the requested"))

    @property
    def is_missing_namespace(self) -> bool:
        """The namespace of an object to create does not exist (admission plugin NamespaceLifecycle)."""
        return self.status == 404 and self.message.startswith('namespaces "')

    @property
    def is_field_conflict(self) -> bool:
        """Another field manager owns a field of an apply, as opposed to a stale resourceVersion."""
        return self.status == 409 and any(cause.reason == "FieldManagerConflict" for cause in self.causes)

    @property
    def is_immutable(self) -> bool:
        """The only reason for the rejection is that Kubernetes cannot make the update in place.

        Every cause must say so: recreating the object would not help an update that is also invalid. The texts are
        those of apimachinery's ``ValidateImmutableField`` and of the validation of StatefulSets (``updates to
        statefulset spec for fields other than …``) and Services (``may not change once set``).
        """
        messages = [cause.message for cause in self.causes] or [self.message]
        return self.status == 422 and all(_IMMUTABLE.search(message) for message in messages)


def _missing_permission(message: str, level: str) -> str:
    from ..permissions import missing_permission  # Here: few requests are forbidden.

    missing = missing_permission(message, level)
    return f". {missing.sentences}" if missing else ""


def _missing_feature(path: str) -> str:
    from .features import of_api, since  # Here: most clusters have all.

    feature = of_api(path.removeprefix("/apis/"))
    return f". {since(feature)}" if feature else ""


class ConcurrentChange(KubeError):
    """Another run or person has changed what this run planned its writes on."""


def cut(text: str, most: int = 500) -> str:
    """At most so many characters of a text from outside, with an ellipsis for the end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def quoted_start(text: str, most: int) -> str:
    """The same, in quotes and in ASCII: a terminal obeys control characters."""
    return ascii(text if len(text) <= most else f"{text[:most]}...")


def as_sentence(text: object) -> str:
    """A message with its full stop, so that another sentence can follow."""
    return f"{str(text).rstrip('.')}."


def if_allowed(read: Callable[[], T], otherwise: T) -> T:
    """What ``read`` returns, or ``otherwise`` if the server forbids it."""
    try:
        return read()
    except ApiError as error:
        if error.is_forbidden:
            return otherwise
        raise


_IMMUTABLE = re.compile(
    r"field is immutable|may not change once set|updates to statefulset spec for fields other than"
    r"|may not be (unset|set to 'None')|cannot be (changed|updated)"
)

_LONGEST_MESSAGE = 4_000  # characters: those of webhooks with a dozen violations have half of it
_MOST_CAUSES = 20
_INVALID = "Invalid value"


def _string_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _short_message(message: str, causes: tuple[StatusCause, ...]) -> str:
    """The server's message without the objects that it quotes, and with each cause once."""
    short = {cause.message: without_object(cause.message) for cause in causes}
    if all(before == after for before, after in short.items()):
        return cut(without_object(message), _LONGEST_MESSAGE) or "no explanation given"
    subject = message.partition(" is invalid")[0]
    parts = list(dict.fromkeys(f"{cause.field}: {short[cause.message]}" for cause in causes))
    more = f" and {len(parts) - _MOST_CAUSES} more" if len(parts) > _MOST_CAUSES else ""
    text = f"{cut(subject)} is invalid: {', '.join(cut(part) for part in parts[:_MOST_CAUSES])}"
    return f"{cut(text, _LONGEST_MESSAGE)}{more}"


def without_object(message: str) -> str:
    """Without the rejected object, which the server quotes in full, as JSON or (before 1.33) as a Go literal.

    That is kilobytes, with the values of environment variables: ``Invalid value: {...}: field is immutable``. An object
    without an end reaches to the end of the message.
    """
    begin = message.find(f"{_INVALID}: ")
    while begin != -1:
        value = begin + len(_INVALID) + 2
        word = _WORD.match(message, value)
        if word and ("{" in word[0] or "[" in word[0]):
            end = max(message.rfind("}: "), message.rfind("]: "))
            return message[: begin + len(_INVALID)] + (message[end + 1 :] if end > value else ": ...")
        begin = message.find(f"{_INVALID}: ", value)
    return message


_WORD = re.compile(r"""[^"'\s]+""")
