# SPDX-License-Identifier: BSD-2-Clause
"""What counts as an answer of the API server: JSON of the expected kind, or a Status that says why not.

Proxies, load balancers and login pages answer as well, with any HTTP status. If their pages counted, existing objects
would be missing, and deletions that never arrived would be done.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from .errors import InvalidResponse, quoted_start
from .limits import ANSWER, ANSWER_MEMORY, LARGE_ANSWER, TooMuchData, size_text

if TYPE_CHECKING:
    from collections.abc import Callable

    Mask: TypeAlias = "Callable[[str], str]"

_PIECE = 65_536  # bytes
_QUOTED = 80  # characters of a text that is not an answer
_MASKED = 65_536  # bytes of it, so that a secret is not cut before it is masked


@dataclass(frozen=True)
class Expected:
    """The kind of the object that answers a request, and its name.

    ``or_status``: the server may also answer a deletion with a Status that names the object (apiserver,
    registry/generic/registry/store.go, ``finalizeDelete``). ``watchable``: a list with the version that it was read at.
    """

    kind: str
    name: str | None = None
    or_status: bool = False
    watchable: bool = False

    def matches(self, answer: dict[str, Any]) -> bool:
        kind = answer.get("kind")
        if self.or_status and kind == "Status":
            return answer.get("status") == "Success" and (self.name is None or _name_of(answer, "details") == self.name)
        if kind != self.kind:
            return False
        if self.kind == "APIGroupList":
            return _all_are(_is_group, answer.get("groups", ""))
        if self.kind == "APIResourceList":
            return _all_are(lambda one: isinstance(one, dict), answer.get("resources", ""))
        if self.kind.endswith("ValueList"):  # Values of metrics are no objects.
            return _all_are(lambda one: isinstance(one, dict), answer.get("items", ""))
        if self.kind.endswith("List"):
            return self._matches_list(answer)
        if self.kind.endswith("Review"):
            return isinstance(answer.get("status"), dict)  # It is no object that is kept, and has no name.
        return is_object(answer) and (self.name is None or _name_of(answer) == self.name)

    def _matches_list(self, answer: dict[str, Any]) -> bool:
        """Objects, of which there may be none, but not a list without a place for them."""
        metadata = answer.get("metadata") or {}
        if not isinstance(metadata, dict) or not isinstance(metadata.get("continue") or "", str):
            return False
        versioned = isinstance(metadata.get("resourceVersion"), str) and metadata["resourceVersion"]
        return _all_are(is_object, answer.get("items", "")) and bool(versioned or not self.watchable)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


def group_versions_in(groups: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """All versions of the groups of an APIGroupList."""
    return frozenset(one["groupVersion"] for group in groups for one in group.get("versions") or ())


@dataclass(frozen=True)
class Answer:
    """A response with its whole body, decompressed. ``encoding``: how it was compressed, unasked."""

    status: int
    headers: Mapping[str, str]
    body: bytes | bytearray
    encoding: str = ""


@contextmanager
def received(response: Any, one_at_a_time: Lock) -> Iterator[Answer]:
    """The answer in a response (urllib3's). A large one holds the lock until the end of the block, which decodes it.

    Raises TooMuchData.
    """
    encoding = encoding_of(response)
    with ExitStack() as held:
        body = bytearray()
        for piece in response.stream(_PIECE, decode_content=False):
            if len(body) <= LARGE_ANSWER < len(body) + len(piece):
                held.enter_context(one_at_a_time)
            body += piece
        if encoding and len(body) <= LARGE_ANSWER:
            held.enter_context(one_at_a_time)
        yield Answer(response.status, response.headers, _decompressed(body, encoding), encoding)


def encoding_of(response: Any) -> str:
    encoding = (response.headers.get("Content-Encoding") or "").strip().lower()
    return "" if encoding == "identity" else encoding


def read_answer(request: str, answer: Answer, expected: Expected, mask: Mask) -> dict[str, Any]:
    """The object in an answer with a 2xx status. Raises TooMuchData, and InvalidResponse, quoting through ``mask``."""
    if len(answer.body) > LARGE_ANSWER and estimated_memory(answer.body) > ANSWER_MEMORY:
        raise TooMuchData(f"{size_text(ANSWER_MEMORY)} of objects")
    found = read_json(answer.body)
    if found is None:
        raise InvalidResponse(request, answer.status, described(answer, mask))
    if not expected.matches(found):
        words = (found.get("kind"), _name_of(found))
        text = " ".join(word for word in words if word and isinstance(word, str)) or "no kind"
        shown = quoted_start(mask(text), _QUOTED)
        what = f"an incomplete {shown}" if text == str(expected) else f"{shown} instead of {expected}"
        raise InvalidResponse(request, answer.status, what)
    return found


def read_status(answer: Answer) -> dict[str, Any] | None:
    """The Status object of an answer with an error; None if it is not from a Kubernetes API server."""
    found = read_json(answer.body)
    return found if found is not None and found.get("kind") == "Status" else None


def is_page(response: Any) -> bool:
    """Whether a response is an HTML page, judged by its header: the body of a stream has not been read."""
    return "html" in (response.headers.get("Content-Type") or "").lower()


def described(answer: Answer, mask: Mask) -> str:
    """What an answer is that is none. Pages and binary data are not quoted, secrets are masked before any cut."""
    location = answer.headers.get("Location")
    if 300 <= answer.status < 400 and location:
        return f"a redirect to {quoted_start(mask(location).partition('?')[0], _QUOTED)}"
    if answer.encoding:
        return f"a body encoded as {quoted_start(answer.encoding, _QUOTED)}"
    text = mask(answer.body[:_MASKED].decode("utf-8", "replace")).strip()
    if not text:
        return "an empty body"
    if is_page(answer) or text.startswith("<"):
        return "an HTML page"
    return "incomplete or invalid JSON" if text.startswith("{") else f"the text {quoted_start(text, _QUOTED)}"


def read_json(data: bytes | bytearray) -> dict[str, Any] | None:
    """The object that the data are in JSON; None for anything else, such as infinite numbers and endless nesting."""
    try:
        decoded = _DECODER.decode(data.decode())
        if b"\\ud" in data or b"\\uD" in data:  # Half of a surrogate pair is replaced, as the API server does.
            decoded = json.loads(json.dumps(decoded, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def estimated_memory(data: bytes | bytearray) -> int:
    """The bytes that an object takes as Python data, of which brackets take twenty times as many as in JSON."""
    values = data.count(b",") + data.count(b"{") + data.count(b"[")
    characters = 1 if data.isascii() else 8 if _BEYOND_BMP.search(data) else 3  # as read, and as decoded
    return values * _VALUE + len(data) * characters


# {"a": 1} and its place in a list take 192 bytes, and have two of the characters that are counted.
_VALUE = 96
# One such character makes Python use four bytes for each of the text.
_BEYOND_BMP = re.compile(rb"[\xf0-\xf7]")


def _decompressed(body: bytearray, encoding: str) -> bytes | bytearray:
    """Nothing for what is no gzip. Raises TooMuchData before more than an answer may have is in memory."""
    if not encoding:
        return body
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)  # a header of gzip or zlib
    try:
        text = decoder.decompress(body, ANSWER.bytes) if encoding in ("gzip", "x-gzip", "deflate") else b""
    except zlib.error:
        return b""
    if decoder.unconsumed_tail:
        raise TooMuchData(f"{size_text(ANSWER.bytes)} after decompression")
    return text


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _reject(constant: str) -> NoReturn:
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_reject)  # Python's own accepts NaN and 1e999.


def _all_are(is_one: Any, values: Any) -> bool:
    """Go writes an empty list as ``null`` or ``[]``."""
    return values is None or (isinstance(values, list) and all(map(is_one, values)))


def is_object(value: Any) -> bool:
    """What every object has, and every reader relies on. Each costs some 0.2 µs."""
    if not isinstance(value, dict):
        return False
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return False
    maps = (value.get("spec"), value.get("status"), metadata.get("labels"), metadata.get("annotations"))
    return all(part is None or isinstance(part, dict) for part in maps)


def _is_group(value: Any) -> bool:
    preferred = value.get("preferredVersion") if isinstance(value, dict) else None
    version = preferred.get("groupVersion") if isinstance(preferred, dict) else None
    served = value.get("versions") if isinstance(value, dict) else None
    if not _all_are(lambda one: isinstance(one, dict) and isinstance(one.get("groupVersion"), str), served):
        return False
    return isinstance(version, str) and version.startswith(f"{value.get('name')}/")


def _name_of(answer: dict[str, Any], field: str = "metadata") -> Any:
    found = answer.get(field)
    return found.get("name") if isinstance(found, dict) else None
