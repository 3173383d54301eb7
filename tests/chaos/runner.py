# SPDX-License-Identifier: BSD-2-Clause
"""Run the collection's tasks in forks of a process that has imported everything, so that one takes milliseconds.

That is the fast path of the action plugins without ansible-playbook: the module's options are validated, its core runs,
and the result comes back by a pipe. A child can be killed at any time without that anything else is lost.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, ClassVar

PLUGINS = "ansible_collections.runwhere.gpuctl.plugins"
LONGEST = 240.0  # seconds; a task that takes longer hangs, however busy the machine is
# Times of the Lease, so that taking it over from a killed run does not take a quarter of a minute in each case.
SHORT_TIMES = {"pools.lease.ABANDONED_AFTER": 1.5, "pools.lease._RENEWED_EVERY": 0.4, "pools.lease._DELAY": 0.1}


@dataclass(frozen=True)
class TaskCall:
    """One task. ``skew`` is the number of seconds by which its clock is wrong."""

    module: str
    options: Mapping[str, Any]
    skew: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What a task returned. ``result`` is None for one that was killed; ``hung`` for one that had to be.

    ``starved``: the seconds in which it could have gone on, but others had the processors.
    """

    result: dict[str, Any] | None
    failed: bool = False
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    hung: bool = False
    starved: float = 0.0

    @property
    def killed(self) -> bool:
        return self.result is None

    @property
    def ok(self) -> bool:
        return self.result is not None and not self.failed

    @property
    def changed(self) -> bool:
        return bool((self.result or {}).get("changed"))

    @property
    def message(self) -> str:
        return str((self.result or {}).get("msg", ""))

    @property
    def text(self) -> str:
        """All that a person reads of it: the message, the warnings and what failed of each job."""
        entries = (self.result or {}).get("results") or ()
        errors = [str(entry["error"]) for entry in entries if isinstance(entry, dict) and entry.get("error")]
        return "\n".join([self.message, *self.warnings, *errors])


class Runner:
    """Does one task at a time. Make it before any thread is started: it forks."""

    _sockets: ClassVar[list[socket.socket]] = []

    def __init__(self) -> None:
        import_module(f"{PLUGINS}.plugin_utils.module_action")
        self._socket, other = socket.socketpair()
        Runner._sockets.append(self._socket)
        self._began = 0.0
        self._child = 0
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            for mine in Runner._sockets:  # so that each runner ends with this process
                mine.close()
            with suppress(BaseException):
                _serve(other, parent)
            os._exit(0)
        other.close()

    def start(self, task: TaskCall) -> int:
        """The pid of the process that is going to do the task; it waits for ``go``."""
        _send(self._socket, asdict(task))
        self._child = int(_receive(self._socket)["pid"])
        return self._child

    def go(self) -> None:
        self._began = time.monotonic()
        _send(self._socket, {})

    def wait(self) -> Outcome:
        hung = False
        if not wait_for([self._socket], LONGEST):  # Not select, which knows no more than 1,024 files.
            hung = True
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
        answer = _receive(self._socket)
        return Outcome(**answer, seconds=time.monotonic() - self._began, hung=hung)

    def run(self, task: TaskCall) -> Outcome:
        self.start(task)
        self.go()
        return self.wait()

    def close(self) -> None:
        self._socket.close()
        os.waitpid(self.pid, 0)


class PlaybookRunner:
    """The same by ansible-playbook. Its processes are Ansible's own, so no fault can strike them."""

    pid = 0

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._call = TaskCall("", {})

    def start(self, task: TaskCall) -> int:
        if task.skew:
            raise ValueError("ansible-playbook has the clock of its host")
        self._call = task
        return 0

    def go(self) -> None:
        pass

    def wait(self) -> Outcome:
        from integration.ansible import Ansible

        began = time.monotonic()
        done = Ansible(self._directory, {}).module(self._call.module, **self._call.options)
        result = {name: done.result[name] for name in done.result.keys() - {"invocation", "failed", "warnings"}}
        return Outcome(result, done.failed, done.result.get("warnings", []), time.monotonic() - began)

    def close(self) -> None:
        pass


def _serve(orders: socket.socket, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent:
        task = TaskCall(**_receive(orders))
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _receive(orders)  # go
            orders.close()
            _do(task, writing)
        os.close(writing)
        _send(orders, {"pid": pid})
        with os.fdopen(reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(pid, 0)
        try:
            answer = json.loads(text)
        except ValueError:  # killed before it had an answer
            answer = {"result": None}
        _send(orders, answer)


def _do(task: TaskCall, writing: int) -> None:
    """In the child: never returns. Ctrl-C ends the task as SIGKILL does, but for what it does on its way out."""
    answer = b""
    with suppress(KeyboardInterrupt):
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.stdout = sys.stderr = io.StringIO()
            answer = json.dumps({**perform(task), "starved": _starved()}, default=str).encode()
        except Exception as problem:
            answer = json.dumps({"result": {"msg": f"the runner has failed: {problem!r}"}, "failed": True}).encode()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)


def _starved() -> float:
    """The seconds that this process has waited for a processor: the second number (proc(5), sched-stats.rst)."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # not Linux, or a kernel without these figures
        return 0.0


def perform(task: TaskCall) -> dict[str, Any]:
    """What plugin_utils/module_action.py does with a task, without Ansible."""
    action = import_module(f"{PLUGINS}.plugin_utils.module_action")
    core = import_module(f"{PLUGINS}.plugin_utils.ansible_core")
    tasks = import_module(f"{PLUGINS}.module_utils.task")
    with _knobs({**SHORT_TIMES}), _clock(task.skew):
        spec = action.module_spec(task.module)
        options = core.validate_options(spec.arguments(), task.options, task.module)
        if options.error:
            return {"result": {"msg": options.error}, "failed": True, "warnings": []}
        warnings: list[str] = list(options.warnings)
        module_options = spec.options.from_params(options.params)
        task = tasks.Task(module_options, options.params, False, warnings.append, list, environ={})
        result = tasks.run_task(task, spec)
    failed = bool(result.pop("failed", False))
    return {"result": result, "failed": failed, "warnings": list(dict.fromkeys(warnings))}


@contextmanager
def _knobs(values: Mapping[str, float]) -> Iterator[None]:
    for path, value in values.items():
        module, _, name = path.rpartition(".")
        owner = import_module(f"{PLUGINS}.module_utils.{module}")
        if not hasattr(owner, name):
            raise LookupError(f"{path}: not found. Correct SHORT_TIMES in {Path(__file__).name}.")
        setattr(owner, name, value)
    yield


@contextmanager
def _clock(skew: float) -> Iterator[None]:
    """A wall clock that is wrong; the monotonic one is right on every host. The process does no other task."""
    if skew:
        right, moment = time.time, datetime.datetime

        class AnyDatetime(type):
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, moment)

        class Wrong(moment, metaclass=AnyDatetime):  # type: ignore[misc, valid-type]
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return moment.now(tz) + datetime.timedelta(seconds=skew)

        for name, module in list(sys.modules.items()):
            if name.startswith(PLUGINS) and getattr(module, "datetime", None) is moment:
                module.datetime = Wrong  # type: ignore[attr-defined]
        datetime.datetime = Wrong  # type: ignore[misc]  # for those that are imported later
        time.time = lambda: right() + skew
    yield


def _send(to: socket.socket, message: Mapping[str, Any]) -> None:
    data = json.dumps(message).encode()
    to.sendall(struct.pack("!I", len(data)) + data)


def _receive(sender: socket.socket) -> dict[str, Any]:
    (length,) = struct.unpack("!I", _exactly(sender, 4))
    message: dict[str, Any] = json.loads(_exactly(sender, length))
    return message


def _exactly(sender: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sender.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
