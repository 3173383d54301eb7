# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The container's environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from ...manifest.models import EnvVar
from .job_objects import Object, sparse

Provided = Mapping[str, "str | Object"]
"""Name to value, or to ``valueFrom``."""


def environment(provided: Provided, given: list[EnvVar]) -> tuple[list[Object], list[str]]:
    """Ours, then the user's, which may refer to ours as $(NAME); what the user gives wins, with a warning."""
    theirs = {variable.name for variable in given}
    ours = [_provided(name, value) for name, value in provided.items() if name not in theirs]
    warnings = [
        f"environment.env sets {name}; the value that this job would have been given is not used."
        for name in provided
        if name in theirs
    ]
    return [*ours, *(_given(variable) for variable in given)], warnings


def _provided(name: str, value: str | Object) -> Object:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}


def _given(variable: EnvVar) -> Object:
    return sparse({"name": variable.name, "value": variable.value, "valueFrom": variable.value_from})
