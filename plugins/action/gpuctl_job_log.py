# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.job_log import MODULE
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.preload import preload

preload("logs.absence", "logs.host_file", "logs.log_lines", "logs.log_pods")


class ActionModule(LocalAction):
    core = MODULE
