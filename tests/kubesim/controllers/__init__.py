# SPDX-License-Identifier: BSD-2-Clause
"""The controllers of a cluster: ALL, in the order in which they start."""

from __future__ import annotations

from kubesim.controllers.base import Controller

ALL: list[type[Controller]] = []
