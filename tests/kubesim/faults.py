# SPDX-License-Identifier: BSD-2-Clause
"""Faults that a test orders: slow answers, refusals, broken connections."""

from __future__ import annotations

from typing import Any


class Faults:
    async def strike(self, request: Any, info: Any) -> None:
        return None
