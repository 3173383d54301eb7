# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.action_plugin import action_plugin
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import fit_screen
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import colored, print_lines, terminal_width


class ActionModule(action_plugin(__name__)):  # type: ignore[misc]
    """Run the module, and print its answers."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("results") and not self._task.no_log:
            width, others = terminal_width(), result.get("not_judged") or ()
            print_lines(fit_screen(result["results"], width, others, everything=True, paint=colored))
        return result
