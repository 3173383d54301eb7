# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A task's options as a module would receive them: plain data, without what Ansible keeps about them.

On the controller, texts know where they were written and whether they may be templated. Were they returned like that in
a result, a text from a manifest could be taken for a template. A module's options went through JSON; so do these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

try:
    from ansible.module_utils.common.json import Direction, get_module_encoder

    _ENCODER: dict[str, Any] = {"cls": get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE)}
except ImportError:  # before ansible-core 2.19
    from ansible.module_utils.common.json import AnsibleJSONEncoder

    _ENCODER = {"cls": AnsibleJSONEncoder, "vault_to_text": True}


def module_params(options: Mapping[str, Any]) -> dict[str, Any]:
    received: dict[str, Any] = json.loads(json.dumps(options, **_ENCODER))
    return received
