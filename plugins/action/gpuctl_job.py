# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.local_action import LocalAction
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.preload import preload

preload(
    "jobs.objects.deployments",
    "jobs.objects.notebook",
    "jobs.objects.training",
    "cluster.read",
    "cluster.reason",
    "jobs.apply_jobs",
    "jobs.job_plans",
    "jobs.states",
    "wait.job_wait",
    "manifest.digest",
    "manifest.load",
    "manifest.matrix",
    "manifest.sources",
    "manifest.cross_document",
)


class ActionModule(LocalAction):
    core = MODULE
