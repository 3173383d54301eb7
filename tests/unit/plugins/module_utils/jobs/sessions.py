# SPDX-License-Identifier: BSD-2-Clause
"""Tasks of modules one after the other, as in a play."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import ModuleSpec, Task, run_task
from kubesim import Cluster


class Session:
    """Tasks against a cluster, each on a connection of its own, as in a play."""

    def __init__(self, cluster: Cluster, **environ: str) -> None:
        self.cluster, self.environ, self.warnings = cluster, environ, list[str]()
        self.token = cluster.token

    def run(self, module: ModuleSpec[Any], **options: Any) -> dict[str, Any]:
        defaults = {name: option.get("default") for name, option in module.arguments()["argument_spec"].items()}
        params = {**defaults, "host": self.cluster.url, "api_key": self.token, **options}
        self.warnings.clear()
        self.cluster.requests.reset()
        task = Task(
            module.options.from_params(params),
            params,
            False,
            self.warnings.append,
            lambda values: None,
            environ=self.environ,
        )
        try:
            return run_task(task, module)
        finally:
            if task.opened_client is not None:
                task.abort()

    def read(self) -> Counter[str]:
        """The lists of the last task, by path without its query."""
        return Counter(entry.path.partition("?")[0] for entry in self.cluster.requests if entry.verb == "list")
