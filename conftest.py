# SPDX-License-Identifier: BSD-2-Clause
"""Make the collection importable under its Ansible name, wherever the clone lies; `make collections-path` runs this.

At the end of a run, it lists the skipped tests by the reason for which they were skipped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
COLLECTIONS = ROOT / ".cache" / "collections"


def link_collection() -> None:
    """Lay .cache/collections/ansible_collections/runwhere/gpuctl -> the clone.

    The link is relative, so that a clone that was moved or copied does not look into the old place.
    """
    link = COLLECTIONS / "ansible_collections" / "runwhere" / "gpuctl"
    link.parent.mkdir(parents=True, exist_ok=True)
    target = os.path.relpath(ROOT, link.parent)
    if link.is_symlink() and os.readlink(link) == target:
        return
    fresh = link.with_name(f"{link.name}.{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(link)  # in one step: another process may be reading it


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--relevant", action="store_true", help="leave out tests whose subject has not changed since main")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    if not config.getoption("--relevant"):
        return
    from tools.relevant_tests import relevance  # yaml and git, which few runs need

    is_relevant = relevance()
    kept: list[Any] = []
    deselected: list[Any] = []
    for item in items:
        about = [path for mark in item.iter_markers("about") for path in mark.args]
        (kept if is_relevant(item.nodeid.partition("::")[0], about) else deselected).append(item)
    config.hook.pytest_deselected(items=deselected)
    items[:] = kept


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.stats.get("skipped", ())
    if reports:
        terminalreporter.section("skipped tests")
        for line in skipped_tests(reports):
            terminalreporter.write_line(line)


def skipped_tests(reports: Sequence[Any]) -> Iterator[str]:
    """A line for each reason, and below it one for each file with the names of its tests, parametrized ones once."""
    by_reason: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for report in reports:
        file, _, test = report.nodeid.partition("::")
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        by_reason[" ".join(reason.split())][file][test.partition("[")[0]] += 1
    for reason, files in sorted(by_reason.items()):
        yield reason
        for file, tests in sorted(files.items()):
            names = [f"{name} ({count} cases)" if count > 1 else name for name, count in sorted(tests.items())]
            yield f"  {file}{': ' if any(names) else ''}{', '.join(names)}"


link_collection()
# A run in the background of a script ignores Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))
