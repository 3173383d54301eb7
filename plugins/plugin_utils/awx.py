# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who launched the job of AWX that runs this playbook. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..module_utils.jobs.submitter import AWX_JOB, AWX_USER

# AWX gives each job these extra variables under both prefixes (awx/main/models/unified_jobs.py, awx_meta_vars). A job
# that a schedule launched has no user.
_PREFIXES = ("awx", "tower")
_NAMES = {AWX_USER: "user_name", AWX_JOB: "job_id"}
_VALUE = re.compile(r"[\w.@+][\w.@+ -]{0,149}")  # what Django accepts as a name; nothing that is a template


def is_awx_job(variables: Mapping[str, Any]) -> bool:
    return any(f"{prefix}_job_id" in variables for prefix in _PREFIXES)


def awx_environment(variables: Mapping[str, Any]) -> dict[str, str]:
    """The variables of the environment that name the user and the job; none outside of AWX."""
    found = {
        name: str(variables[f"{prefix}_{field}"])
        for name, field in _NAMES.items()
        for prefix in reversed(_PREFIXES)
        if f"{prefix}_{field}" in variables
    }
    return {name: value for name, value in found.items() if _VALUE.fullmatch(value)}
