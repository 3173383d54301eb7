# SPDX-License-Identifier: BSD-2-Clause
"""API errors and their Status bodies.

Source: apimachinery pkg/api/errors/errors.go (messages, reasons, details). What is wrong with a field: field.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kubesim.field import FieldError


@dataclass
class ApiError(Exception):
    """What the API answers with a Status body. `reason` may be empty (the key is left out then); details None too."""

    status: int
    reason: str
    message: str
    details: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.message)

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": self.metadata, "status": "Failure"}
        body["message"] = self.message
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.status
        return body


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    return {k: v for k, v in (("name", name), ("group", group), ("kind", kind)) if v}


def qualified(group: str, name: str) -> str:
    """GroupResource.String / GroupKind.String: "jobs.batch", "pods"."""
    return f"{name}.{group}" if group else name


def not_found(group: str, plural: str, name: str) -> ApiError:
    text = f'{qualified(group, plural)} "{name}" not found'
    return ApiError(404, "NotFound", text, _details(name, group, plural))


def already_exists(group: str, plural: str, name: str) -> ApiError:
    text = f'{qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(name, group, plural))


#: registry.OptimisticLockErrorMsg
STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = STALE) -> ApiError:
    text = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", text, _details(name, group, plural))


def invalid(kind: str, name: str, errors: Sequence[FieldError], group: str = "") -> ApiError:
    """errors.NewInvalid: the causes are all listed, equal messages are said once (utilerrors.NewAggregate)."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(name, group, kind) | {"causes": [error.cause for error in errors]}
    return ApiError(422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {text}', details)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """errors.NewForbidden, as admission and authorization answer."""
    about = qualified(group, plural)
    subject = f'{about} "{name}" is forbidden' if name else f"{about} is forbidden"
    return ApiError(
        403, "Forbidden", f"{subject}: {why}" if about else f"forbidden: {why}", _details(name, group, plural)
    )


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def no_such_path() -> ApiError:
    """errors.NewGenericServerResponse for a path that routes to nothing within a served group version."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def rejected() -> ApiError:
    """errors.NewGenericServerResponse(422): a JSON patch that cannot be applied."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def unsupported_media_type(accepted: str) -> ApiError:
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return ApiError(415, "UnsupportedMediaType", text)


def too_large_resource_version(asked: int, current: int) -> ApiError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, details, {"Retry-After": "1"})


def too_many_requests(message: str, retry_after: int, causes: list[dict[str, str]] | None = None) -> ApiError:
    """errors.NewTooManyRequests (evictions, faults); retry_after in seconds, 0 leaves header and detail out."""
    details: dict[str, Any] = {"retryAfterSeconds": retry_after} if retry_after else {}
    if causes:
        details["causes"] = causes
    return ApiError(429, "TooManyRequests", message, details, {"Retry-After": str(retry_after)} if retry_after else {})


def internal(message: str) -> ApiError:
    text = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", text, {"causes": [{"message": message}]})
