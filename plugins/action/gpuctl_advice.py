# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import ManifestErrors, MissingLibrary
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.advised_manifests import (
    ADVICE_OPTIONS,
    patch_manifests,
    write_manifests,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import hide_origin, plain_options
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.option_names import with_option_names
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import print_lines


class ActionModule(ActionBase):  # type: ignore[misc]
    """Write advice into the manifests that declare the jobs."""

    # So Ansible makes no temporary directory on the host.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        hide_origin(self._task)
        _facts, given = self.validate_argument_spec(ADVICE_OPTIONS)
        options = plain_options(given)
        try:
            patch = patch_manifests(options)
            writes = options["write"] and bool(patch.files)
            if writes and not self._task.check_mode:
                write_manifests(patch.files)
        except (ManifestErrors, MissingLibrary) as problem:
            return {"failed": True, "changed": False, "msg": str(problem)}
        except OSError as problem:
            text = f"O(src): cannot write {problem.filename}: {problem.strerror or problem}. Check its permissions."
            return {"failed": True, "changed": False, "msg": with_option_names(text, self._task, task_vars)}
        result = patch.result(wrote=writes and not self._task.check_mode)
        result["notes"] = [with_option_names(note, self._task, task_vars) for note in result["notes"]]
        if self._task.diff and not writes and not self._task.no_log:
            print_lines(patch.diff_lines())
        return {**result, "changed": writes, **({"diff": patch.diffs()} if self._task.diff else {})}
