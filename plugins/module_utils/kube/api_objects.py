# SPDX-License-Identifier: BSD-2-Clause
"""Objects of the Kubernetes API as they are built: plain data without empty fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def sparse(fields: Mapping[str, Any]) -> Object:
    """The fields that are not empty; 0 is not.

    Kubernetes drops empty values when it decodes an object (Go's omitempty): if sent, they would differ at every run.
    """
    return {name: value for name, value in fields.items() if value or type(value) in (int, float)}
