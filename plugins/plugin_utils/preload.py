# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Import once, in ansible-playbook itself, what the core of a module imports only when it needs it.

Ansible loads an action plugin in the process that it forks each task's worker from (strategy plugins do, to look at its
class), and a worker has all that its parent had. Only imports: a socket, thread or TLS context would not survive.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.fast_path import switched_off, unfit_library

_MODULE_UTILS = "ansible_collections.runwhere.gpuctl.plugins.module_utils"


def preload(*parts: str) -> None:
    """``parts`` are names below module_utils. Every core but those that fail early talks to a cluster besides."""
    if switched_off(os.environ):
        return
    for part in ("kube.kubeconfig", "kube.client_cache", "kube.tls", "manifest.problems", *parts):
        import_module(f"{_MODULE_UTILS}.{part}")
    unfit_library()  # Its answer is kept.
    with suppress(ImportError):  # Tasks that need it say so.
        import_module("yaml")
        import_module("urllib3.util.ssl_")
