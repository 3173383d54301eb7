# SPDX-License-Identifier: BSD-2-Clause
"""What an event source has reported, in a file that outlives it: a line of JSON for each object.

A change is a line at the end of the file, which replaces what earlier lines say of the object. When most lines are
replaced ones, the file is written again, beside the old one, and takes its place. An incomplete line, left by a machine
that stopped while it was written, and one of another format are ignored: their objects are reported once more.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_FORMAT = 1
_MOST_BYTES = 64 * 1024 * 1024  # 100,000 jobs have a third of that
_SPARE_LINES = 1_000  # replaced lines, in addition to as many as there are objects


class StateFileError(Exception):
    """The text is for the user."""


class StateFile:
    """The records by their keys; None as ``path`` keeps them in memory only. A context manager: it locks the file.

    ``cluster`` says which cluster they come from, ``is_record`` whether a record fits its key. ``is_new``: nothing was
    recorded before. What is put is held until ``flush``, or the end of an orderly run: after a process was killed, an
    event is reported twice rather than not at all.
    """

    def __init__(
        self, path: str | None, cluster: str, is_record: Callable[[str, Any], bool] = lambda key, record: True
    ) -> None:
        self._path = Path(os.path.expanduser(path)).absolute() if path else None
        self._cluster = cluster
        self._is_record = is_record
        self._records: dict[str, Any] = {}
        self._lines = 0
        self._held: list[bytes] = []
        self._file = -1
        self._lock = -1
        self.is_new = True

    def __enter__(self) -> StateFile:
        if self._path:
            try:
                self._lock = self._locked(self._path)
                self._records, self.is_new = self._read_state(self._path)
                self._write_all(self._path)
            except OSError as problem:
                self.close()
                raise StateFileError(f"state_file: {self._path}: {problem.strerror}. Use another file.") from None
            except StateFileError:
                self.close()
                raise
        return self

    def __exit__(self, *unused: object) -> None:
        try:
            self.flush()
        finally:
            self.close()

    def close(self) -> None:
        for number in (self._file, self._lock):
            if number != -1:
                with suppress(OSError):
                    os.close(number)
        self._file = self._lock = -1

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._records))

    def get(self, key: str) -> Any:
        return self._records.get(key)

    def put(self, key: str, record: Any) -> None:
        """Record it, unless it is recorded already. Raises StateFileError."""
        plain = json.loads(json.dumps(record))
        if self._records.get(key) != plain:
            self._records[key] = plain
            self._append({"key": key, "record": plain})

    def remove(self, key: str) -> None:
        """Raises StateFileError."""
        if self._records.pop(key, None) is not None:
            self._append({"key": key})

    def begin(self) -> None:
        """From now on, the file says that there were no earlier records to wait for. Raises StateFileError."""
        if self.is_new:
            self.is_new = False
            self._append({"begun": True})
        self.flush()

    @property
    def holds(self) -> bool:
        """Whether something is held."""
        return bool(self._held)

    def flush(self) -> None:
        """Write what is held. Raises StateFileError."""
        held, self._held = self._held, []
        if not self._path or self._file == -1 or not held:
            return
        try:
            if self._lines > 2 * len(self._records) + _SPARE_LINES:
                self._write_all(self._path)
            else:
                _write_bytes(self._file, b"".join(held))
                self._lines += len(held)
        except OSError as problem:
            raise StateFileError(f"state_file: {self._path}: {problem.strerror}. Free space, or use another.") from None

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._path:
            self._held.append(_json_line(line))

    @staticmethod
    def _locked(path: Path) -> int:
        """Raises StateFileError if another source has the file: both would report everything."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(number)
            raise StateFileError(f"state_file: in use by another event source: {path}. Give each its own.") from None
        return number

    def _read_state(self, path: Path) -> tuple[dict[str, Any], bool]:
        """Raises OSError, and StateFileError for a file that is not one of this cluster."""
        try:
            number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return {}, True
        with os.fdopen(number, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise StateFileError(f"state_file: larger than {_MOST_BYTES // 2**20} MiB: {path}. Use another file.")
        lines = [found for text in content.split(b"\n") if (found := _read_line(text))]
        if not lines or lines[0].get("format") != _FORMAT:
            raise StateFileError(f"state_file: not the state of this event source: {path}. Use another file.")
        if lines[0].get("cluster") != self._cluster:
            raise StateFileError(
                f"state_file: {path} belongs to {lines[0].get('cluster')}, not to {self._cluster}. Use a file for each."
            )
        records: dict[str, Any] = {}
        begun = False
        for line in lines[1:]:
            begun = begun or bool(line.get("begun"))
            key = str(line.get("key"))
            if "record" not in line:
                records.pop(key, None)
            elif self._is_record(key, line["record"]):
                records[key] = line["record"]
        return records, not begun

    def _write_all(self, path: Path) -> None:
        """Raises OSError. The file is complete at every moment, and only its owner can read it."""
        temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
        with suppress(FileNotFoundError):
            temporary.unlink()
        number = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            lines: list[Mapping[str, Any]] = [{"format": _FORMAT, "cluster": self._cluster}]
            if not self.is_new:
                lines.append({"begun": True})
            lines += [{"key": key, "record": record} for key, record in self._records.items()]
            _write_bytes(number, b"".join(map(_json_line, lines)))
            os.fsync(number)
            os.replace(temporary, path)
        except OSError:
            os.close(number)
            raise
        if self._file != -1:
            os.close(self._file)
        self._file, self._lines = number, len(lines)


def _json_line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode() + b"\n"


def _read_line(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (RecursionError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write_bytes(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]
