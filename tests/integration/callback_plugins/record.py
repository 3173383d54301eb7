# SPDX-License-Identifier: BSD-2-Clause
"""Write the result of every task to the file that GPUCTL_TEST_RESULTS names, one JSON object a line."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record
type: notification
short_description: Records the results of tasks for the integration tests
description: See above.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "record"

    def _record(self, outcome: str, result: Any) -> None:
        # Through the same dump as the console's, so that what is hidden there is hidden here.
        shown = json.loads(self._dump_results(result._result))
        line = {
            "task": result._task.get_name(),
            "outcome": outcome,
            "result": shown,
            "diff": result._result.get("diff"),
        }
        with open(os.environ["GPUCTL_TEST_RESULTS"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any, **kwargs: Any) -> None:
        self._record("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False, **kwargs: Any) -> None:
        self._record("failed", result)
