# SPDX-License-Identifier: BSD-2-Clause
"""A request that has been understood, and its answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubesim.auth import User
from kubesim.media import Form
from kubesim.options import Query
from kubesim.request_info import RequestInfo
from kubesim.resources import Resource


@dataclass
class Call:
    """A request for a resource."""

    info: RequestInfo
    resource: Resource
    query: Query
    form: Form
    user: User
    user_agent: str = ""
    body: bytes = b""
    content_type: str = ""
    #: Texts of Warning headers, sent whatever the answer is, each once (apiserver pkg/endpoints/filters/warning.go).
    warnings: list[str] = field(default_factory=list)


@dataclass
class Answer:
    """`body`: data to be written in the wanted form, or JSON that is ready, or a watch to be streamed."""

    body: Any
    status: int = 200
    content_type: str = ""
    watch_seconds: float = 0.0
