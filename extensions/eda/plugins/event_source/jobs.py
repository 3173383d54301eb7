# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-rulebook runs this file by its path, without Ansible's import of collections."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

# Of the collections root: ansible_collections/runwhere/gpuctl/extensions/eda/plugins/event_source/jobs.py
_COLLECTIONS = str(Path(__file__).parents[7])


async def main(queue: asyncio.Queue[Any], args: dict[str, Any]) -> None:
    if _COLLECTIONS not in sys.path:
        sys.path.append(_COLLECTIONS)
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.events.asyncio_bridge import run_source

    await run_source(queue, args)
