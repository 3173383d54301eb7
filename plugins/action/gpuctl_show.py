# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable_data
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wording import worded
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import role_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.idle_report import idle_screen, is_idle_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.job_report import description_screen, is_description
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.option_names import option_names
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_file import unfit_report, write_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import (
    changes_screen,
    error_screen,
    logs_screen,
    next_commands,
    wrapped,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.sparkline import levels_for
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import (
    ENCODING,
    TaskScreen,
    colored,
    print_lines,
    terminal_width,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.usage_report import (
    history_screen,
    is_history,
    is_recorded,
    is_usage,
    recorded_screen,
    usage_screen,
)


class ActionModule(ActionBase):  # type: ignore[misc]
    """Print the result of another task; fail if that has failed."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _facts, options = self.validate_argument_spec(
            {
                "result": {"type": "dict", "required": True},
                "all": {"type": "bool", "default": False},
                "next_commands": {"type": "bool", "default": False},
                "output": {"type": "path"},
            }
        )
        given, everything = printable_data(options["result"]), options["all"]
        rows = given.get("results") or []
        errors = [row for row in rows if row.get("error")]
        failed = bool(errors) or "results" not in given
        message = str(given.get("msg") or "")
        output = options["output"] or None
        if output and (problem := unfit_report(given, output)):
            return {"failed": True, "changed": False, "msg": self._worded(problem, task_vars)}
        if self._task.no_log:
            lines = []
        elif is_usage(given):
            lines = usage_screen(given, terminal_width(), everything=everything)
        elif is_history(given):
            lines = history_screen(given, terminal_width(), everything=everything, paint=colored)
        elif is_recorded(given):
            lines = recorded_screen(given, terminal_width())
        elif is_idle_report(given):
            lines = idle_screen(given, terminal_width(), everything=everything)
        elif is_description(given):
            lines = description_screen(
                given, terminal_width(), everything=everything, paint=colored, levels=levels_for(ENCODING)
            )
        elif any("lines" in row for row in rows):
            lines = logs_screen(rows, colors=TaskScreen().colors)
        elif rows:
            summary = None if failed else message
            lines = changes_screen(rows, summary, terminal_width(), everything=everything, paint=colored)
            # A command line is no next step for the user of AWX.
            if options["next_commands"] and not self._task.check_mode and not is_awx_job(task_vars or {}):
                lines += ["", *next_commands(rows)]
        elif failed:
            lines = error_screen(message, terminal_width(), everything=everything) if "\n" in message else []
        else:
            lines = wrapped(message, terminal_width()) if message else []
        if lines:
            print_lines(lines)
        if not failed:
            return {"changed": self._written(given, output, task_vars) if output else False}
        if lines:
            message = f"{len(errors)} of {len(rows)} failed." if rows else "The errors are listed above."
        return {"failed": True, "changed": False, "msg": message}

    def _written(self, result: dict[str, Any], output: str, variables: dict[str, Any] | None) -> bool:
        """Whether the file was another one before; in check mode, it stays that. Raises AnsibleActionFail."""
        try:
            written = write_report(result, output, check_mode=self._task.check_mode)
        except OSError as problem:
            cause = problem.strerror or problem
            text = f"O(output): cannot write {output}: {cause}. Name a file in a directory that exists."
            raise AnsibleActionFail(self._worded(text, variables)) from None
        done = "Unchanged" if not written else "Not written in check mode" if self._task.check_mode else "Written"
        if not self._task.no_log:
            print_lines(["", f"{done}: {output}"])
        return written

    def _worded(self, text: str, variables: dict[str, Any] | None) -> str:
        """The text with the names that the options have where the user sets them."""
        return worded(text, lambda: option_names("gpuctl_show", role_of(self._task), variables or {}))
