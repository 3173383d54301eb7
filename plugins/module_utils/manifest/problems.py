# SPDX-License-Identifier: BSD-2-Clause
"""The errors in manifests: all of them at once, one a line, as *what is wrong: value. What to do.*"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..kube.errors import cut
from ..redaction import redact
from .place import NO_PLACE, Place

if TYPE_CHECKING:
    from .tree import Location, Origin

DEFINITION = "definition"
"""The name in place of a file for the module's `definition`."""

MAX_SHOWN = 100
"""No more errors are looked for: a file of a megabyte can have a hundred thousand."""

# How many characters of a value an error shows. File names and keys can be as long as the file.
_LONGEST_WHERE = 300
_LONGEST_TEXT = 500
_LONGEST_MESSAGE = 20_000
# A path is kept for each value below a key, so a long key would be kept as often.
_LONGEST_STEP = 253
# Comparing words takes time, and the parameters of a matrix can be thousands.
_MOST_CANDIDATES = 200


@dataclass(frozen=True)
class ManifestError:
    """What is wrong in one place, what to do (`hint`), the value there, masked if secret, and the lines of YAML."""

    file: str
    problem: str
    hint: str = ""
    value: str | None = None
    document: int | None = None
    path: str = ""
    place: Place = NO_PLACE
    snippet: tuple[str, ...] = ()

    @classmethod
    def at(
        cls, origin: Origin, location: Location, problem: str, hint: str = "", value: str | None = None
    ) -> ManifestError:
        return cls(origin.file, problem, hint, value, origin.number, location.path, location.node.place)

    def without(self, secrets: Collection[str]) -> ManifestError:
        """The error, quoting the manifest without its secrets."""
        hint, value, snippet = redact([self.hint, self.value, self.snippet], secrets)
        return replace(self, hint=hint, value=value, snippet=tuple(snippet))

    def __str__(self) -> str:
        document = f"document {self.document}" if self.document is not None else ""
        where = ", ".join(_one_line(part, _LONGEST_WHERE) for part in (self.file, document, self.path) if part)
        value = f": {_one_line(self.value, _LONGEST_TEXT)}" if self.value is not None else ""
        problem, hint = _one_line(self.problem, _LONGEST_TEXT), _one_line(self.hint, _LONGEST_TEXT)
        hint = f" {hint}{'' if hint.endswith('?') else '.'}" if hint else ""
        return "\n".join((f"{where}: {problem}{value}.{hint}", *(f"    {line}" for line in self.snippet)))


class ManifestErrors(Exception):
    """All errors in the manifests of one call, sorted by place, and the secrets in them, which nothing may show."""

    def __init__(self, errors: Iterable[ManifestError], secrets: Iterable[str] = ()) -> None:
        self.secrets = frozenset(secrets)
        self.errors = tuple(sorted(errors, key=lambda at: (at.file, at.document or 0, at.place.rank, at.path)))
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [str(error) for error in self.errors[:MAX_SHOWN]]
        length = list(itertools.accumulate(map(len, lines)))
        shown = sum(end <= _LONGEST_MESSAGE for end in length)
        lines[shown:] = [f"… and {number_of(len(lines) - shown, 'more error')}."] if shown < len(lines) else []
        files = {error.file for error in self.errors}
        where = "the definition" if files == {DEFINITION} else number_of(len(files), "file")
        number = (
            number_of(len(self.errors), "error") if len(self.errors) <= MAX_SHOWN else f"More than {MAX_SHOWN} errors"
        )
        return "\n".join((f"{number} in {where}; nothing was sent to the cluster:", *lines))


class MissingLibrary(Exception):
    """A library that manifests need and this Python lacks, and the traceback of the attempt to import it."""

    def __init__(self, name: str, traceback: str) -> None:
        super().__init__(name)
        self.name = name
        self.traceback = traceback


def joined(path: str, name: str | int) -> str:
    """A path with a further step: resources.gpu, workdirs[0], nodes["gpu-1.example.com"]."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    name = cut(name, _LONGEST_STEP)
    if re.fullmatch(r"[\w-]+", name) is None:
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def _one_line(text: str, longest: int) -> str:
    """The text on one line: names and paths can have line ends."""
    return cut(text, longest).replace("\r", "\\r").replace("\n", "\\n")


def enumerated(words: Sequence[str], conjunction: str) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return f" {conjunction} ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def abridged(words: Sequence[str], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def qualified_name(*parts: str | None) -> str:
    """`team-a/chat`, of the parts that there are."""
    return "/".join(filter(None, parts))


def number_of(count: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    lower = {candidate.lower(): candidate for candidate in itertools.islice(known, _MOST_CANDIDATES)}
    # Two letters of three the same, and in the same order: cup for cpu.
    cutoff = 0.66 if len(word) <= 3 else 0.7
    matches = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=cutoff)
    return lower[matches[0]] if matches else None
