# SPDX-License-Identifier: BSD-2-Clause
"""The warnings that the API server sends with an answer (RFC 7234, section 5.5: ``299 - "text"``)."""

from __future__ import annotations

import re
from typing import Any

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


def warnings_of(response: Any) -> list[str]:
    """The texts of all Warning headers of a response (urllib3's)."""
    lines = response.headers.getlist("Warning")
    return [_ESCAPED.sub(r"\1", text) for line in lines for text in _WARNING.findall(line)]
