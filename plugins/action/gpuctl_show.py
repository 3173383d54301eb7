# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable_data
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import hide_origin, shows_messages
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.awx import is_awx_job
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import (
    cluster_of_several,
    registered_by_clusters,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.merged_reports import (
    UnfitResults,
    limit_texts,
    merged_result,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.option_names import with_option_names
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import preload
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_file import unfit_report, write_report
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.report_screen import View, screen_lines
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.reports import report_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import (
    changes_screen,
    doctor_screen,
    error_screen,
    logs_screen,
    next_commands,
    place_of,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.sparkline import levels_for
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import (
    ENCODING,
    TaskScreen,
    colored,
    print_lines,
    print_screen,
    terminal_width,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.text_table import wrapped

if any(str(name).startswith("runwhere.gpuctl.") for name in context.CLIARGS.get("args") or ()):
    preload()


class ActionModule(ActionBase):  # type: ignore[misc]
    """Print the result of another task; fail if that has failed."""

    # So Ansible makes no temporary directory on the host.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        hide_origin(self._task)
        _facts, options = self.validate_argument_spec(
            {
                "result": {"type": "dict"},
                "clusters": {"type": "raw"},
                "all": {"type": "bool", "default": False},
                "next_commands": {"type": "bool", "default": False},
                "output": {"type": "path"},
            },
            mutually_exclusive=[("result", "clusters")],
            required_one_of=[("result", "clusters")],
        )
        everything, clusters = options["all"], options["clusters"]
        if isinstance(clusters, str):
            registered = registered_by_clusters(clusters, task_vars or {})
            if len(registered) == 1:
                none = {"msg": f"O(clusters): the host has not registered {clusters}."}
                options["result"] = next(iter(registered.values())) or none
            clusters = registered if len(registered) > 1 else None
        try:
            given = printable_data(options["result"] if clusters is None else merged_result(clusters))
        except UnfitResults as unfit:
            return {"failed": True, "changed": False, "msg": with_option_names(str(unfit), self._task, task_vars)}
        rows = given.get("results") or []
        errors = [row for row in rows if row.get("error")]
        failed = bool(errors) or "results" not in given
        message = str(given.get("msg") or "")
        output = options["output"] or None
        if output and (problem := unfit_report(given, output)):
            return {"failed": True, "changed": False, "msg": with_option_names(problem, self._task, task_vars)}
        if self._task.no_log:
            lines = []
        elif report := report_of(given):
            lines = screen_lines(report, View(terminal_width(), everything, colored, levels_for(ENCODING)))
        elif given.get("report") == "doctor":
            lines = doctor_screen(given, terminal_width(), everything=everything, paint=colored)
            lines += [line for text in limit_texts(given) for line in ["", *wrapped(text, terminal_width())]]
        elif rows and given.get("report") == "logs":
            lines = logs_screen(rows, colors=TaskScreen().colors)
        elif rows:
            summary = None if failed else message
            check = self._task.check_mode
            lines = changes_screen(
                rows, summary, terminal_width(), everything=everything, paint=colored, predicts=check
            )
            # A command line is no next step for the user of AWX.
            if options["next_commands"] and not self._task.check_mode and not is_awx_job(task_vars or {}):
                lines += ["", *next_commands(rows, given.get("default_namespace"), terminal_width())]
        elif failed:
            is_shown = shows_messages() or "\n" not in message
            lines = [] if is_shown else error_screen(message, terminal_width(), everything=everything)
        else:
            lines = wrapped(message, terminal_width()) if message else []
        if lines:
            print_screen(lines, None if "clusters" in given else cluster_of_several(task_vars or {}))
        if not failed:
            return {"changed": self._write_report(given, output, task_vars) if output else False}
        result = {"failed": True, "changed": False, "msg": _failure_message(message, errors)}
        if lines and rows:
            result["short_msg"] = f"{len(errors)} of {len(rows)} failed."
        return {**result, "all": True} if everything else result

    def _write_report(self, result: dict[str, Any], output: str, variables: dict[str, Any] | None) -> bool:
        """Whether the file was another one before; in check mode, it stays that. Raises AnsibleActionFail."""
        try:
            written = write_report(result, output, check_mode=self._task.check_mode)
        except OSError as problem:
            cause = problem.strerror or problem
            text = f"O(output): cannot write {output}: {cause}. Name a file in a directory that exists."
            raise AnsibleActionFail(with_option_names(text, self._task, variables)) from None
        done = "Unchanged" if not written else "Not written in check mode" if self._task.check_mode else "Written"
        if not self._task.no_log:
            print_lines(["", f"{done}: {output}"])
        return written


def _failure_message(message: str, errors: Sequence[Mapping[str, Any]]) -> str:
    """The message of the task with each error: all that AWX, ansible-runner and other callback plugins show of it."""
    texts = {str(row["error"]): place_of(row) for row in errors}
    if all(text in message for text in texts):
        return message
    return "\n".join(f"{place}: {text}" if place else text for text, place in texts.items())
