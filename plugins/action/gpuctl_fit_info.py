# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.action_plugin import action_plugin
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fit_report import fit_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import colored, print_lines, terminal_width


class ActionModule(action_plugin(__name__)):  # type: ignore[misc]
    """Run the module, and print its answers."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("results") and not self._task.no_log and boolean(self._task.args.get("show", True), strict=False):
            print_lines(screen_lines(fit_report(result), View(terminal_width(), True, colored)))
        return result
