# SPDX-License-Identifier: BSD-2-Clause
"""What counts as an answer of the API server: JSON of the expected kind, or a Status that says why not.

Proxies, load balancers and login pages answer as well, with any HTTP status. If their pages counted, existing objects
would be missing, and deletions that never arrived would be done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import InvalidResponse

if TYPE_CHECKING:
    from collections.abc import Callable

Mask: TypeAlias = "Callable[[str], str]"

_QUOTED = 80  # characters of a text that is not an answer


@dataclass(frozen=True)
class Expected:
    """The kind of the object that answers a request, and its name.

    ``or_status``: the server may also answer a deletion with a Status that names the object (apiserver,
    registry/generic/registry/store.go, ``finalizeDelete``).
    """

    kind: str
    name: str | None = None
    or_status: bool = False

    def matches(self, answer: dict[str, Any]) -> bool:
        kind = answer.get("kind")
        if self.or_status and kind == "Status":
            return answer.get("status") == "Success" and (self.name is None or _name_of(answer, "details") == self.name)
        if kind != self.kind:
            return False
        if self.kind.endswith("List"):
            return isinstance(answer.get("items") or [], list)
        return self.name is None or _name_of(answer) == self.name

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


def read_answer(request: str, response: Any, expected: Expected, mask: Mask) -> dict[str, Any]:
    """The object in a response (urllib3's) with a 2xx status. Raises InvalidResponse quoting it through ``mask``."""
    answer = read_json(response.data)
    if answer is None:
        raise InvalidResponse(request, response.status, described(response, mask))
    if not expected.matches(answer):
        found = " ".join(str(part) for part in (answer.get("kind"), _name_of(answer)) if part) or "no kind"
        raise InvalidResponse(request, response.status, f"{_quoted(mask(found))} instead of {expected}")
    return answer


def read_status(response: Any) -> dict[str, Any] | None:
    """The Status object of a response with an error; None if the response is not from a Kubernetes API server."""
    answer = read_json(response.data)
    return answer if answer is not None and answer.get("kind") == "Status" else None


def is_page(response: Any) -> bool:
    """Whether a response is an HTML page, judged by its header: the body of a stream has not been read."""
    return "html" in (response.headers.get("Content-Type") or "").lower()


def described(response: Any, mask: Mask) -> str:
    """What a response is that is not an answer. Pages and binary data are not quoted, secrets masked before any cut."""
    location = response.headers.get("Location")
    if 300 <= response.status < 400 and location:
        return f"a redirect to {_quoted(mask(location).partition('?')[0])}"
    text = response.data.decode("utf-8", "replace").strip()
    if not text:
        return "an empty body"
    if is_page(response) or text.startswith("<"):
        return "an HTML page"
    return "incomplete JSON" if text.startswith("{") else f"the text {_quoted(mask(text))}"


def _name_of(answer: dict[str, Any], field: str = "metadata") -> Any:
    found = answer.get(field)
    return found.get("name") if isinstance(found, dict) else None


def read_json(data: bytes) -> dict[str, Any] | None:
    """The object that the data are in JSON; None for anything else."""
    try:
        decoded = json.loads(data)
    except ValueError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")
