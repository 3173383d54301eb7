# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each file of plugins/action/ has: the class of its action plugin."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from .bytecode import keep_bytecode

if TYPE_CHECKING:
    from ansible.plugins.action import ActionBase


def action_plugin(name: str) -> type[ActionBase]:
    """The class for the action plugin of that name, with what its workers need imported into ansible-playbook.

    Strategy plugins load an action plugin in the process that they fork each worker from. Only imports help here: a
    socket, thread or TLS context would not survive the fork.
    """
    keep_bytecode()
    from .fast_path import switched_off, unfit_library
    from .module_action import ActionModule, module_spec, preload
    from .terminal import prepare_output

    prepare_output()
    module = name.rpartition(".")[2]
    if switched_off(os.environ) or unfit_library():
        module_spec(module)  # The options of a task are looked at in any case.
    else:
        with suppress(ImportError):  # The task reports a missing library.
            preload(module)
    return ActionModule
