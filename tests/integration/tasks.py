# SPDX-License-Identifier: BSD-2-Clause
"""Tasks in the test's own process: as the action plugins run them, without a start of ansible for each."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task
from kubesim import Cluster


def perform(spec: ModuleSpec[Any], cluster: Cluster | None, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """The result of a task, with its warnings."""
    params = {name: option.get("default") for name, option in spec.arguments()["argument_spec"].items()}
    if cluster is not None:
        params |= {"host": cluster.url, "validate_certs": False, "api_key": cluster.token}
    params |= options
    warnings: list[str] = []
    task = Task(spec.options.from_params(params), params, check, warnings.append, list, environ={})
    return {**run_task(task, spec), "warnings": warnings}
