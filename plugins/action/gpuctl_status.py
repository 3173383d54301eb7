# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.overview import TABLES, merged_tables
from ansible_collections.runwhere.gpuctl.plugins.module_utils.reporter import RARELY
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.action_plugin import action_plugin
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import (
    cluster_of_several,
    registered_by_clusters,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import status_screen
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.table_screen import data_lines, table_screen
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import (
    CLEAR_SCREEN,
    KEEPS_SCREENS,
    colored,
    print_lines,
    print_screen,
    terminal_width,
)


def _without_rows(result: Any) -> Any:
    if not isinstance(result, Mapping):
        return result
    return {key: [] if key in TABLES and isinstance(value, list) else value for key, value in result.items()}


class ActionModule(action_plugin(__name__)):  # type: ignore[misc]
    """Run the module, and print what it returns as tables; with ``watch`` again and again."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        registered = self._task.args.get("clusters")
        if isinstance(registered, str):
            found = registered_by_clusters(registered, task_vars or {})
            # Without rows, which the tasks of the clusters have made fit to be shown: that takes long with thousands.
            self._task.args["clusters"] = {name: _without_rows(each) for name, each in found.items()}
        result: dict[str, Any] = super().run(tmp, task_vars)
        if isinstance(registered, str) and "clusters" in result:
            result |= merged_tables(found)
        if "jobs" not in result or self._task.no_log or not boolean(self._task.args.get("show", True), strict=False):
            return result
        # As data, it is for a program, which a title would confuse; what is of several clusters names them.
        is_titled = result["format"] == "table" and "clusters" not in result
        cluster = cluster_of_several(task_vars or {}) if is_titled else None
        print_screen(self._screen(result), cluster)
        if self._task.args.get("watch"):
            self._watch(float(self._task.args["watch"]), tmp, task_vars)
        # Ansible copies what tasks return several times, and has got the rows of these from each cluster already.
        return {"changed": False, "clusters": result["clusters"]} if isinstance(registered, str) else result

    def _watch(self, seconds: float, tmp: str | None, task_vars: dict[str, Any] | None) -> None:
        """Print the tables again and again, without end. An error, such as a lost connection, is printed once."""
        pause, error = max(seconds, RARELY) if KEEPS_SCREENS else seconds, ""
        while True:
            time.sleep(pause)
            result = super().run(tmp, task_vars)
            now = time.strftime("%H:%M:%S")
            if "jobs" in result:
                print_lines([f"{CLEAR_SCREEN}{now}", "", *self._screen(result)])
                error = ""
            elif result.get("msg") != error:
                error = str(result.get("msg"))
                print_lines([f"{now} {error} Trying again."])

    def _screen(self, result: dict[str, Any]) -> list[str]:
        if result["format"] != "table":
            return data_lines(result, self._task.args.get("table"))
        everything = boolean(self._task.args.get("all") or False, strict=False)
        if table := self._task.args.get("table"):
            labels = bool(self._task.args.get("label_keys"))
            return table_screen(table, result, terminal_width(), everything=everything, paint=colored, labels=labels)
        return status_screen(result, terminal_width(), everything=everything, paint=colored)
