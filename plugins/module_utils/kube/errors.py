# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong with an API server, each as one message for the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


class KubeError(Exception):
    """The base class; ``str()`` is the message for the user."""

    is_transient = False  # whether the same request may succeed later without any change
    may_be_written = False  # whether the failed request may have changed the cluster all the same
    retry_after: float | None = None  # seconds, as the server asked for


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
    """The server rejected a request: its Status object, and the request."""

    def __init__(self, method: str, path: str, status: int, body: dict[str, Any]) -> None:
        self.method = method
        self.path = path
        self.status = status
        self.reason: str = body.get("reason") or ""
        self.is_transient = status >= 500 or status == 429
        self.may_be_written = status >= 500
        self.causes = tuple(
            StatusCause(cause.get("field", ""), cause.get("reason", ""), cause.get("message", ""))
            for cause in (body.get("details") or {}).get("causes") or ()
        )
        self.message = _short_message(body.get("message") or "", self.causes)
        super().__init__(f"{self.message} (HTTP {status} to {method} {path})")

    @property
    def is_forbidden(self) -> bool:
        """RBAC does not allow the request, as opposed to a rejection by admission such as an exceeded quota.

        The message is empty for an apply that would create, sent by a user who may only patch (apiserver,
        handlers/update.go, ``withAuthorization``).
        """
        return self.status == 403 and bool(re.search(r"is forbidden: (User|RBAC:|$)", self.message))

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


class ConcurrentChange(KubeError):
    """Another run or person has changed what this run planned its writes on."""


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

# The server quotes a rejected object in full, as JSON or (before 1.33) as a Go literal: kilobytes, with the values of
# environment variables.
_QUOTED_OBJECT = re.compile(r"""Invalid value: [^"'\s]*[{\[].*[}\]](?=: )""", re.DOTALL)


def _short_message(message: str, causes: tuple[StatusCause, ...]) -> str:
    """The server's message without the objects that it quotes, and with each cause once."""
    if not any(_QUOTED_OBJECT.search(cause.message) for cause in causes):
        return _QUOTED_OBJECT.sub("Invalid value", message) or "no explanation given"
    subject = message.partition(" is invalid")[0]
    parts = dict.fromkeys(f"{cause.field}: {_QUOTED_OBJECT.sub('Invalid value', cause.message)}" for cause in causes)
    return f"{subject} is invalid: {', '.join(parts)}"
