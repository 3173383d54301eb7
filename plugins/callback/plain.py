# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The callback plugin plain."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plain
type: stdout
short_description: Only what the playbooks of this collection print
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - For the playbooks of this collection, prints their tables, warnings, diffs and errors, each once, and a line that counts
    changes. It prints no banners and no line for each task.
  - For all other playbooks, and with C(-v), it is the callback plugin P(ansible.builtin.default#callback).
requirements:
  - Set as stdout callback, for example with the environment variable C(ANSIBLE_STDOUT_CALLBACK=runwhere.gpuctl.plain).
extends_documentation_fragment:
  - default_callback
  - result_format_callback
"""

from pathlib import Path
from typing import Any

from ansible import constants as C
from ansible.plugins.callback.default import CallbackModule as DefaultCallback
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import value_of_result
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import error_screen, fitting
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import prepare_output, terminal_width

_STATUS = "runwhere.gpuctl.gpuctl_status"
_PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


class CallbackModule(DefaultCallback):  # type: ignore[misc]
    """The default callback, silent about the plays of this collection."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "runwhere.gpuctl.plain"

    def __init__(self) -> None:
        super().__init__()
        prepare_output()
        self._only_ours = True
        self._is_silent = False
        self._prints_data = False  # as JSON or YAML, which another line would end
        self._errors: set[str] = set()
        self._warnings: set[str] = set()

    def v2_playbook_on_play_start(self, play: Any) -> None:
        is_ours = _is_ours(play)
        self._only_ours = self._only_ours and is_ours
        self._is_silent = is_ours and not self._display.verbosity
        if self._is_silent:
            self._play = play
        else:
            super().v2_playbook_on_play_start(play)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if not self._is_silent:
            super().v2_playbook_on_include(included_file)

    def v2_runner_on_ok(self, result: Any) -> None:
        if not self._is_silent:
            super().v2_runner_on_ok(result)
            return
        self._print_warnings(result)
        if result._task.action == _STATUS and value_of_result(result, "format") not in (None, "table"):
            self._prints_data = True
        if value_of_result(result, "_ansible_verbose_always"):  # of ansible.builtin.debug
            self._print_messages(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if not self._is_silent:
            super().v2_runner_item_on_ok(result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        if not self._is_silent:
            super().v2_runner_on_skipped(result)

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        if not self._is_silent:
            super().v2_runner_item_on_skipped(result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not self._is_silent:
            super().v2_runner_on_failed(result, ignore_errors)
            return
        # A task over several items has reported each of them.
        if "results" in _result_data(result) and result._task.loop:
            self._print_warnings(result)
        elif not self._fail(result):
            return
        if ignore_errors:
            self._display.display("The run goes on.", color=C.COLOR_SKIP)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        if self._is_silent:
            self._fail(result)
        else:
            super().v2_runner_item_on_failed(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        if not self._only_ours or self._display.verbosity:
            super().v2_playbook_on_stats(stats)
            return
        for host in sorted(stats.processed) if not self._prints_data else ():
            counts = stats.summarize(host)
            self._display.display(
                f"\n{host}: changed={counts['changed']} failed={counts['failures']} unreachable={counts['unreachable']}"
            )

    def _print_task_banner(self, task: Any) -> None:
        if not self._is_silent:
            super()._print_task_banner(task)

    def _fail(self, result: Any) -> bool:
        """Print the warnings and the error. False: that was printed before, as several roles read the same manifests."""
        self._print_warnings(result)
        found = _result_data(result)
        message = found.get("msg") or found.get("censored") or self._dump_results(found)
        new = set(str(message).splitlines())
        if new <= self._errors:
            return False
        self._errors |= new
        is_shown = result._task.action == "runwhere.gpuctl.gpuctl_show"
        everything = not is_shown or bool(found.get("all"))
        # The table of the task has shown the rest.
        text = found.get("short_msg", message) if is_shown else message
        lines = error_screen(f"Error: {text}", terminal_width(), everything=everything)
        self._display.display("\n".join(lines), color=C.COLOR_ERROR)
        return True

    def _print_messages(self, result: Any) -> None:
        """Print a message, or each of a list."""
        message = _result_data(result).get("msg")
        texts = message if isinstance(message, list) else [message]
        if all(isinstance(text, str) for text in texts):
            for text in texts:
                self._display.display(fitting(str(text), terminal_width()))
        else:
            super().v2_runner_on_ok(result)

    def _print_warnings(self, result: Any) -> None:
        """Print the warnings of a result that are new, broken between words: since ansible-core 2.19, Ansible leaves
        that to the terminal."""
        texts = (
            [_warning_text(warning) for warning in value_of_result(result, "warnings") or ()]
            if C.ACTION_WARNINGS
            else []
        )
        for text in texts:
            if text not in self._warnings:
                self._warnings.add(text)
                shown = fitting(f"[WARNING]: {text}", terminal_width())
                self._display.display(shown, color=C.COLOR_WARN, stderr=True)


def _is_ours(play: Any) -> bool:
    path = str(play.get_path() or "")
    return bool(path) and Path(path.rpartition(":")[0]).resolve().is_relative_to(_PLAYBOOKS)


def _result_data(result: Any) -> dict[str, Any]:
    """The result's data; an attribute became public in ansible-core 2.19."""
    data: dict[str, Any] = result.result if hasattr(result, "result") else result._result
    return data


def _warning_text(warning: Any) -> str:
    """A warning is text, and an object with an event since ansible-core 2.19."""
    return str(getattr(getattr(warning, "event", warning), "msg", warning))
