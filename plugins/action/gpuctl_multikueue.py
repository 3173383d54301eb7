# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.action_plugin import action_plugin

ActionModule = action_plugin(__name__)
