# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terminal as Ansible sees it: its width and colours, and printing to it from a task."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ansible.utils.color import ANSIBLE_COLOR, stringc
from ansible.utils.display import Display
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.screens import STATUS_COLORS

_UNKNOWN = 80

# Ansible uses colours on a terminal only, so that elsewhere the screens follow each other.
CLEAR_SCREEN = "\x1b[2J\x1b[H" if ANSIBLE_COLOR else ""


def terminal_width() -> int:
    """The columns to fill: those of the variable COLUMNS, of the terminal, or 80.

    Ansible has measured the terminal, and left a column free; workers have none.
    """
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else max(_UNKNOWN, Display().columns + 1)


def colored(key: str, cell: str) -> str:
    """The cell in the colour of its status; unchanged where Ansible uses no colours."""
    color = STATUS_COLORS.get(cell.strip()) if key in ("status", "shown_status") else None
    return stringc(cell, color) if color else cell


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines as they are, whichever callback plugin is in use."""
    Display().display("\n".join(lines))
