# SPDX-License-Identifier: BSD-2-Clause
"""The event source in a process of its own, as ansible-rulebook runs it; each event is a line of its output."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from .api import eventually

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / ".cache/collections/ansible_collections/runwhere/gpuctl/extensions/eda/plugins/event_source/jobs.py"

# With -S -E and without the collections on its path, as in a rulebook's process; cancelled by a line on stdin.
_PROGRAM = """
import asyncio, json, logging, os, runpy, sys

logging.basicConfig(level=logging.INFO)

async def run():
    main = runpy.run_path(sys.argv[1])["main"]
    queue = asyncio.Queue(1)
    source = asyncio.create_task(main(queue, json.loads(sys.argv[2])))

    async def show():
        while True:
            print(json.dumps(await queue.get()), flush=True)

    showing = asyncio.create_task(show())
    stop = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await asyncio.wait([source, stop], return_when=asyncio.FIRST_COMPLETED)
    source.cancel()
    showing.cancel()
    await asyncio.gather(source, showing, return_exceptions=True)
    if not source.cancelled() and source.exception():
        print(f"{type(source.exception()).__name__}: {source.exception()}", file=sys.stderr, flush=True)
        os._exit(1)  # A thread still reads stdin.
    os._exit(0)  # Freeing what Python has loaded takes seconds on a busy machine.

asyncio.run(run())
"""


class EventWatcher:
    """What the source reports, over several runs of it."""

    def __init__(self, **args: Any) -> None:
        self.args = args
        self.events: list[dict[str, Any]] = []
        self.errors = ""
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []

    def start(self) -> None:
        self._process = process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(PLUGIN), json.dumps(self.args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def read() -> None:
            for line in process.stdout or ():
                self.events.append(json.loads(line))

        def read_errors() -> None:
            for line in process.stderr or ():
                self.errors += line

        self._readers = [threading.Thread(target=each, daemon=True) for each in (read, read_errors)]
        for reader in self._readers:
            reader.start()

    def is_watching(self) -> bool:
        return "INFO:runwhere.gpuctl.jobs:watching" in self.errors

    def stop(self, kill: bool = False) -> int:
        """End the process, by cancellation or at once."""
        process = self._process
        assert process
        if kill:
            process.kill()
        elif process.stdin and process.poll() is None:
            process.stdin.write("stop\n")
            process.stdin.flush()
        code = process.wait(60)
        for reader in self._readers:
            reader.join(5)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
        self._process = None
        return code

    def exit_code(self, seconds: float = 60) -> int:
        assert self._process
        return self._process.wait(seconds)

    def seen(self, job: str = "") -> list[str]:
        """The types of the events, of a job, in their order."""
        return [event["type"] for event in list(self.events) if not job or event.get("job") == job]

    def counts(self) -> Counter[tuple[str, str]]:
        return Counter((event["type"], event.get("job") or "") for event in list(self.events))

    def one(self, kind: str, job: str = "", seconds: float = 30) -> dict[str, Any]:
        """The first event of a type, as soon as it is there."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for event in list(self.events):
                if event["type"] == kind and (not job or event.get("job") == job):
                    return event
            assert self._process is None or self._process.poll() is None, self.errors
            time.sleep(0.05)
        raise AssertionError(f"no {kind} of {job} in {self.seen(job)}\n{self.errors}")

    def __enter__(self) -> EventWatcher:
        self.errors = ""
        self.start()
        eventually(lambda: self.is_watching() or (self._process and self._process.poll() is not None))
        assert self.is_watching(), self.errors
        return self

    def __exit__(self, *unused: object) -> None:
        if self._process:
            self.stop()
