# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with manifests: one problem a line, all of them at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

DEFINITION = "definition"
"""Stands for the file where the manifest came as the module's `definition`."""

MAX_SHOWN = 100


def joined(path: str, name: str | int) -> str:
    """A path with a further step: resources.gpu, workdirs[0], nodes["gpu-1.example.com"]."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    if re.fullmatch(r"[\w-]+", name) is None:
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


@dataclass(frozen=True)
class ManifestError:
    """One thing wrong in one place. `value` is what the user wrote there, masked if it is a secret."""

    file: str
    document: int | None
    path: str
    message: str
    value: str | None = None
    line: int | None = None
    column: int | None = None
    rank: int = 0
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        document = f"document {self.document}" if self.document is not None else ""
        where = ", ".join(part for part in (self.file, document, self.path) if part)
        shown = f"{self.value} " if self.value is not None else ""
        end = "" if self.message.endswith("?") else "."
        return "\n".join((f"{where}: {shown}{self.message}{end}", *(f"    {line}" for line in self.excerpt)))

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        return self.file, self.document or 0, self.rank, self.path


class ManifestErrors(Exception):
    """Everything wrong with the manifests of one call, sorted by file, document and place.

    ``secrets`` are the values in those manifests that nothing may show.
    """

    def __init__(self, errors: Iterable[ManifestError], secrets: Iterable[str] = ()) -> None:
        self.secrets = frozenset(secrets)
        self.errors = tuple(sorted(errors, key=lambda error: error.sort_key))
        super().__init__(str(self))

    def __str__(self) -> str:
        shown = [str(error) for error in self.errors[:MAX_SHOWN]]
        if len(self.errors) > MAX_SHOWN:
            shown.append(f"… and {_counted(len(self.errors) - MAX_SHOWN, 'more error')}.")
        return "\n".join((f"{self._summary()}; nothing was sent to the cluster:", *shown))

    def _summary(self) -> str:
        files = {error.file for error in self.errors}
        where = "the definition" if files == {DEFINITION} else _counted(len(files), "file")
        return f"{_counted(len(self.errors), 'error')} in {where}"


class MissingLibrary(Exception):
    """A library that manifests need and this Python lacks, and the traceback of the attempt to import it."""

    def __init__(self, name: str, traceback: str) -> None:
        super().__init__(name)
        self.name = name
        self.traceback = traceback


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
