# SPDX-License-Identifier: BSD-2-Clause
"""Report which sections of README.md have changed since README.zh-CN.md was last updated from it.

    python -m tools.translation_lag             exit status 1 if the translation is behind
    python -m tools.translation_lag --update    record README.md as translated

A comment at the end of the translation lists the sections of README.md that it covers, each with a digest of its text.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE, TRANSLATION = ROOT / "README.md", ROOT / "README.zh-CN.md"
COMMAND = "python -m tools.translation_lag"

_BEGIN, _END = "<!-- Translated sections of README.md, recorded by tools/translation_lag.py:\n", "-->\n"
_TOP = "(before the first heading)"
_FENCE = re.compile(r" *```")
_HEADING = re.compile(r"#+ +(.+)")


def main(arguments: list[str] | None = None, source: Path = SOURCE, translation: Path = TRANSLATION) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description="Report which sections of README.md need a translation.")
    parser.add_argument("--update", action="store_true", help="record README.md as translated")
    update: bool = parser.parse_args(arguments).update
    digests = digests_of(source.read_text(encoding="utf-8"))
    text = translation.read_text(encoding="utf-8")
    if update:
        translation.write_text(with_record(text, digests), encoding="utf-8")
        return 0
    changes = lag(recorded_in(text), digests)
    for change in changes:
        print(f"{source.name}: {change}")
    if changes:
        print(f"Update {translation.name}, then run: {COMMAND} --update")
    return 1 if changes else 0


def lag(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """What has happened to each section since it was recorded, in the order of the current text."""
    added_or_changed = [
        f"section {'changed' if name in recorded else 'added'}: {name}"
        for name, digest in current.items()
        if recorded.get(name) != digest
    ]
    return added_or_changed + [f"section removed: {name}" for name in recorded if name not in current]


def digests_of(markdown: str) -> dict[str, str]:
    """Heading -> digest of the section's own text. A repeated heading gets a number: ``Example``, ``Example (2)``."""
    digests: dict[str, str] = {}
    for heading, text in _sections(markdown):
        name, number = heading, 1
        while name in digests:
            number += 1
            name = f"{heading} ({number})"
        digests[name] = hashlib.sha256(text.strip().encode()).hexdigest()[:12]
    return digests


def _sections(markdown: str) -> list[tuple[str, str]]:
    sections = [(_TOP, "")]
    in_code = False
    for line in markdown.splitlines(keepends=True):
        if _FENCE.match(line):
            in_code = not in_code
        heading = None if in_code else _HEADING.match(line)
        if heading:
            sections.append((heading[1].strip(), line))
        else:
            name, text = sections[-1]
            sections[-1] = (name, text + line)
    return sections


def recorded_in(translation: str) -> dict[str, str]:
    """The digests in the comment at the end of the translation."""
    record = translation.partition(_BEGIN)[2].partition(_END)[0]
    return {name: digest for digest, _space, name in (line.partition(" ") for line in record.splitlines())}


def with_record(translation: str, digests: Mapping[str, str]) -> str:
    """The translation with the digests in its comment."""
    record = "".join(f"{digest} {name}\n" for name, digest in digests.items())
    return f"{translation.partition(_BEGIN)[0].rstrip()}\n\n{_BEGIN}{record}{_END}"


if __name__ == "__main__":
    raise SystemExit(main())
