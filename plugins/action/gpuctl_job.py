# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils.job import CORE
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.preload import preload

preload(
    "build.compute",
    "build.inference",
    "build.job",
    "build.notebook",
    "build.training",
    "cluster.read",
    "cluster.reason",
    "jobs.carried_out",
    "jobs.planned",
    "jobs.planned_transitions",
    "jobs.waited_for",
    "manifest.digest",
    "manifest.load",
    "manifest.matrix",
    "manifest.sources",
    "manifest.together",
)


class ActionModule(LocalAction):
    core = CORE
