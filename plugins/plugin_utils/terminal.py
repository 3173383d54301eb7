# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terminal as Ansible sees it: its width and colours, and printing to it from a task.

A task runs in a worker, which has no terminal: what it prints goes through a queue to ansible-playbook, which imported
this module and knows.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from threading import RLock
from typing import Any

from ansible.utils.color import ANSIBLE_COLOR, stringc
from ansible.utils.display import Display

from ..module_utils.reporter import RARELY
from .report import LEVELS, STATUS_KEYS
from .text_table import cut

_UNKNOWN = 80
_COLORS = {"good": "green", "warning": "yellow", "bad": "red"}

# Of what ansible-playbook prints; in a worker, its standard output is another one.
ENCODING = getattr(sys.stdout, "encoding", None)

# Ansible uses colours on a terminal only, so that elsewhere the screens follow each other.
CLEAR_SCREEN = "\x1b[2J\x1b[H" if ANSIBLE_COLOR else ""


# ansible-runner keeps whatever is printed at once as an event, for AWX in its database.
KEEPS_SCREENS = "AWX_ISOLATED_DATA_DIR" in os.environ


def _terminal() -> str:
    """The path of the terminal that a person looks at; "" if there is none.

    ansible-runner, and AWX with it, gives ansible-playbook a terminal of its own and keeps what it prints.
    """
    if KEEPS_SCREENS or os.environ.get("TERM") == "dumb":
        return ""
    with suppress(OSError):
        return os.ttyname(1)
    return ""


_TERMINAL = _terminal()
_ERASE_LINE = "\r\x1b[K"
_CHANGED_EVERY = 1.0  # seconds, on a terminal


def prepare_output() -> None:
    """Let ansible-playbook write each line at once, also to a pipe: it only flushes at its end (utils/display.py).

    And let it go on if the reader of the pipe leaves, as ``head`` does: an error would end half of a run.
    """
    for name in ("stdout", "stderr"):
        former = getattr(sys, name)
        if former is not getattr(sys, f"__{name}__") or not isinstance(former, TextIOWrapper):
            continue  # Done before, or not its own, as in a worker.
        output = BufferedWriter(_Output(former.fileno(), "w", closefd=False))
        setattr(sys, name, TextIOWrapper(output, former.encoding, former.errors, line_buffering=True))
        try:
            former.flush()
        except BrokenPipeError:
            _discard_output(former.fileno())


class _Output(FileIO):
    """A file whose reader may leave."""

    def write(self, text: Any) -> Any:
        try:
            return super().write(text)
        except BrokenPipeError:
            _discard_output(self.fileno())
            return super().write(text)


def _discard_output(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


class TaskScreen:
    """A LiveScreen (reporter.py). ``prefix`` names the task where its lines stay among those of others."""

    def __init__(self, prefix: str = "") -> None:
        self.changes = bool(_TERMINAL)
        self.colors = bool(ANSIBLE_COLOR)
        self.interval = _CHANGED_EVERY if self.changes else RARELY
        self._prefix = prefix
        self._visible_line = ""
        self._printing = RLock()
        self._interrupted = False
        self._busy = 0

    def print(self, lines: Iterable[str]) -> None:
        with self._uninterrupted():
            self.erase()
            print_lines(lines)

    def show(self, line: str) -> None:
        with self._uninterrupted():
            self._show(line)

    def _show(self, line: str) -> None:
        if not self.changes:
            Display().display(f"[{self._prefix}] {line}" if self._prefix else line)
            return
        # The return makes Python flush a line that has not ended. A line as wide as the terminal would break.
        width = terminal_width() - 1
        if (shown := cut(line[: width + 1], width)) != self._visible_line:
            Display().display(f"{_ERASE_LINE}{shown}", newline=False, screen_only=True)
            self._visible_line = shown

    def erase(self) -> None:
        """Remove the line that is shown, before anything else is printed."""
        with self._uninterrupted():
            if self._visible_line:
                Display().display(_ERASE_LINE, newline=False, screen_only=True)
                self._visible_line = ""

    @contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """A worker that ends while it writes to the queue leaves it locked, and ansible-playbook waits for ever."""
        with self._printing:
            self._busy += 1
            try:
                yield
            finally:
                self._busy -= 1
        if self._interrupted and not self._busy:
            os.kill(os.getpid(), signal.SIGINT)

    @contextmanager
    def said_on_interrupt(self, text: str = "") -> Iterator[None]:
        """Print the text if Ctrl-C ends the task, directly: by then ansible-playbook prints nothing for its workers."""

        def interrupted(number: int, frame: Any) -> None:
            self._interrupted = True
            if self._busy:  # It ends once that is printed.
                return
            if text or self._visible_line:
                _write_to_terminal(f"\n{text}\n" if text else "\n")
            if callable(former):
                former(number, frame)
            raise KeyboardInterrupt

        try:
            former = signal.signal(signal.SIGINT, interrupted)
        except ValueError:  # Some strategies run tasks in threads.
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, former)


def _write_to_terminal(text: str) -> None:
    if _TERMINAL:
        with suppress(OSError), open(_TERMINAL, "w", encoding="utf-8", opener=_without_control) as terminal:
            terminal.write(text)


def _without_control(path: str, flags: int) -> int:
    return os.open(path, flags & ~os.O_CREAT & ~os.O_TRUNC | os.O_NOCTTY)


def terminal_width() -> int:
    """The columns to fill: those of the variable COLUMNS, of the terminal, or 80.

    Ansible has measured the terminal, and left a column free; workers have none.
    """
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) else max(_UNKNOWN, Display().columns + 1)


def colored(key: str, cell: str) -> str:
    """The cell in the colour of its status; unchanged where Ansible uses no colours."""
    level = LEVELS.get(cell.strip()) if key in STATUS_KEYS else None
    return stringc(cell, _COLORS[level]) if level else cell


def print_screen(lines: Iterable[str], cluster: str | None) -> None:
    """Print the lines below the name of the cluster that they are about, if it is one of several."""
    print_lines([*([f"==== {cluster} ===="] if cluster else []), *lines])


def print_lines(lines: Iterable[str]) -> None:
    """Print the lines as they are, whichever callback plugin is in use."""
    Display().display("\n".join(lines))
