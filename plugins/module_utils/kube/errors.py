# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong between us and an API server, each as one sentence a person can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class KubeError(Exception):
    """Base of everything below; ``str()`` is the message for the user."""

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed in a while, without that anybody does something."""
        return False


class ConnectionProblem(KubeError):
    """The options do not lead to a server, or the server did not answer."""

    @property
    def is_transient(self) -> bool:
        return True  # An API server that is upgraded comes back.


class Unauthorized(ConnectionProblem):
    """The server answers, and does not know who we are."""

    @property
    def is_transient(self) -> bool:
        return False


class Cause(NamedTuple):
    """One entry of ``status.details.causes``."""

    field: str
    reason: str
    message: str


class ApiError(KubeError):
    """The server refused a request: its Status object, with the request that it answers."""

    def __init__(self, method: str, path: str, status: int, body: dict[str, Any]) -> None:
        self.method = method
        self.path = path
        self.status = status
        self.reason: str = body.get("reason") or ""
        details = body.get("details") or {}
        self.causes = tuple(
            Cause(cause.get("field", ""), cause.get("reason", ""), cause.get("message", ""))
            for cause in details.get("causes") or ()
        )
        self.message = _explanation(body.get("message") or "", self.causes)
        super().__init__(f"{self.message} (HTTP {status} to {method} {path})")

    @property
    def is_transient(self) -> bool:
        return self.status >= 500 or self.status == 429

    @property
    def is_forbidden(self) -> bool:
        """We may not do that; as opposed to a refusal by admission, such as an exhausted quota.

        An apply that would create, by who may only patch, is refused with no words at all (apiserver,
        handlers/update.go, ``withAuthorization``).
        """
        return self.status == 403 and bool(re.search(r"is forbidden: (User|RBAC:|$)", self.message))

    @property
    def is_missing_namespace(self) -> bool:
        """The namespace that an object is to be made in is not there (NamespaceLifecycle)."""
        return self.status == 404 and self.message.startswith('namespaces "')

    @property
    def is_field_conflict(self) -> bool:
        """Server-side apply: a field belongs to another manager (as opposed to a stale resourceVersion)."""
        return self.status == 409 and any(cause.reason == "FieldManagerConflict" for cause in self.causes)

    @property
    def is_immutable(self) -> bool:
        """The update was refused only because Kubernetes cannot make it in place.

        Every cause must say so: an update that is invalid as well must not count as one that a recreation would cure.
        The texts are those of apimachinery's ``ValidateImmutableField`` and of the validation of StatefulSets
        (``updates to statefulset spec for fields other than …``) and Services (``may not change once set``).
        """
        messages = [cause.message for cause in self.causes] or [self.message]
        return self.status == 422 and all(_IMMUTABLE.search(message) for message in messages)


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

# A refused object is quoted in full, as JSON or (before 1.33) as a Go literal: kilobytes, with users' environments.
_QUOTED_OBJECT = re.compile(r"""Invalid value: [^"'\s]*[{\[].*[}\]](?=: )""", re.DOTALL)


def _explanation(message: str, causes: tuple[Cause, ...]) -> str:
    """The server's text without the objects that it quotes, and each cause once."""
    if not any(_QUOTED_OBJECT.search(cause.message) for cause in causes):
        return _QUOTED_OBJECT.sub("Invalid value", message) or "no explanation was given"
    subject = message.partition(" is invalid")[0]
    parts = dict.fromkeys(f"{cause.field}: {_QUOTED_OBJECT.sub('Invalid value', cause.message)}" for cause in causes)
    return f"{subject} is invalid: {', '.join(parts)}"
