# SPDX-License-Identifier: BSD-2-Clause
"""Lists: at which version, which piece of it.

Source: apiserver pkg/storage/etcd3/store.go (GetList), pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kubesim import errors
from kubesim.options import ListOptions
from kubesim.store import Store, Stored

#: The version in a token that goes on with whatever is there now (etcd3 handleCompactedErrorForPaging).
INCONSISTENT = -1


@dataclass(frozen=True)
class Page:
    items: list[Stored]
    version: int
    token: str
    remaining: int | None

    @property
    def metadata(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.token:
            meta["continue"] = self.token
        if self.remaining:
            meta["remainingItemCount"] = self.remaining
        return meta


def page(
    store: Store, kind: str, namespace: str | None, options: ListOptions, selected: Callable[[Stored], bool] | None
) -> Page:
    """One piece of a list (the whole of it without a limit). `selected` None: everything."""
    version = parse_version(options.version)
    start = ""
    if options.token:
        if options.version:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        version, start = _read_token(options.token)
    elif version > store.version:
        raise errors.too_large_resource_version(version, store.version)
    exact = options.token or options.match == "Exact" or (options.limit and version > 0 and not options.match)
    if version == INCONSISTENT:
        version = store.version
    limit = 0 if options.version == "0" and not options.match else options.limit
    if not exact or version == store.version:
        version = store.version
        candidates = store.scan(kind, namespace, start)
    else:
        candidates = (stored for stored in _at(store, version, kind, namespace, start) if stored.key >= start)
    if selected is not None:
        # One more than asked for tells that there are more; how many, a server does not count when it selects.
        candidates = islice(filter(selected, candidates), limit + 1 if limit else None)
    found = list(candidates)
    rest = len(found) - limit if limit else 0
    if rest <= 0:
        return Page(found, version, "", None)
    items = found[:limit]
    # the piece after this one starts right behind its last key
    return Page(items, version, _token(version, items[-1].key + "\0"), None if selected is not None else rest)


def parse_version(text: str) -> int:
    """A resourceVersion; none and "0" are 0. ApiError 400 for anything but digits."""
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        syntax = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {syntax}')
    return int(text)


def _at(store: Store, version: int, kind: str, namespace: str | None, start: str) -> list[Stored]:
    """The objects at a version; 410 when that is too old (with a token to go on regardless, when this is a piece)."""
    try:
        return store.at(version, kind, namespace)
    except errors.ApiError:
        if not start:
            raise errors.expired("The resourceVersion for the provided list is too old.") from None
        error = errors.expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new "
            "list without the continue parameter, or use the continue token in this response to retrieve the "
            "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
            "that were created, modified, or deleted between the time the first chunk was returned and now may show "
            "up in the list."
        )
        error.metadata = {"continue": _token(INCONSISTENT, start)}
        raise error from None


def _token(version: int, start: str) -> str:
    content = {"v": "meta.k8s.io/v1", "rv": version, "start": start}
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(content["rv"]), str(content["start"])
    except (binascii.Error, ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
