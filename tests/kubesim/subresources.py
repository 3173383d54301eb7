# SPDX-License-Identifier: BSD-2-Clause
"""Subresources that are not simply a part of their object."""

from __future__ import annotations

from typing import Any

HANDLERS: dict[tuple[str, str], Any] = {}
