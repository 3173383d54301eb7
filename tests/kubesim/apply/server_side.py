# SPDX-License-Identifier: BSD-2-Clause
"""Server-side apply."""

from __future__ import annotations

from typing import Any

from kubesim import errors

Object = dict[str, Any]


def read_configuration(body: bytes, resource: Any, validation: str) -> tuple[Object, list[str]]:
    raise errors.bad_request("apply: not yet")


def apply(live: Any, config: Any, strategy: Any, manager: str, force: bool, now: str, subresource: str) -> Object:
    raise errors.bad_request("apply: not yet")
