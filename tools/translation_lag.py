# SPDX-License-Identifier: BSD-2-Clause
"""Report which sections of README.md and of guides have changed since their Chinese translations were updated.

    python -m tools.translation_lag             exit status 1 if a translation is behind
    python -m tools.translation_lag --update    record all sources as translated

A comment at the end of a translation lists the sections of its source that it covers, each with a digest of its text.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDES = ROOT / "docs" / "docsite" / "rst"
PAIRS = [
    (ROOT / "README.md", ROOT / "README.zh-CN.md"),
    *((GUIDES / path.name.replace("_zh.", "."), path) for path in sorted(GUIDES.glob("*_zh.rst"))),
]
COMMAND = "python -m tools.translation_lag"

_RECORD = "Translated sections of {source}, recorded by tools/translation_lag.py:\n"
# Around the record, and before each of its lines.
_COMMENTS = {".md": ("<!-- ", "-->\n", ""), ".rst": (".. ", "", "   ")}
# What tools/generate_reference.py writes is in English only.
_GENERATED = ".. Everything below is generated"
_TOP = "(before the first heading)"
_FENCE = re.compile(r" *```")
_HEADING = re.compile(r"#+ +(.+)")
_UNDERLINE = re.compile(r"([=\-~^])\1{2,}\n?")


def main(arguments: list[str] | None = None, *pair: Path) -> int:
    """``pair``: a source and its translation, instead of all."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Report which sections need a translation.")
    parser.add_argument("--update", action="store_true", help="record the sources as translated")
    update: bool = parser.parse_args(arguments).update
    behind = [_check(source, translation, update=update) for source, translation in ([pair] if pair else PAIRS)]
    return 1 if any(behind) else 0


def _check(source: Path, translation: Path, *, update: bool) -> bool:
    """Whether the translation is behind."""
    digests = digests_of(source.read_text(encoding="utf-8"), source.suffix)
    text = translation.read_text(encoding="utf-8")
    if update:
        translation.write_text(with_record(text, digests, source), encoding="utf-8")
        return False
    changes = lag(recorded_in(text, source), digests)
    for change in changes:
        print(f"{source.name}: {change}")
    if changes:
        print(f"Update {translation.name}, then run: {COMMAND} --update")
    return bool(changes)


def lag(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """What has happened to each section since it was recorded, in the order of the current text."""
    added_or_changed = [
        f"section {'changed' if name in recorded else 'added'}: {name}"
        for name, digest in current.items()
        if recorded.get(name) != digest
    ]
    return added_or_changed + [f"section removed: {name}" for name in recorded if name not in current]


def digests_of(text: str, suffix: str = ".md") -> dict[str, str]:
    """Heading -> digest of the section's own text. A repeated heading gets a number: ``Example``, ``Example (2)``."""
    digests: dict[str, str] = {}
    for heading, body in (_sections if suffix == ".md" else _rst_sections)(text.partition(_GENERATED)[0]):
        name, number = heading, 1
        while name in digests:
            number += 1
            name = f"{heading} ({number})"
        digests[name] = hashlib.sha256(body.strip().encode()).hexdigest()[:12]
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


def _rst_sections(text: str) -> list[tuple[str, str]]:
    """A heading is a line that is underlined."""
    sections = [(_TOP, "")]
    lines = text.splitlines(keepends=True)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.strip() and not line.startswith(" ") and _UNDERLINE.fullmatch(following):
            sections.append((line.strip(), ""))
        name, body = sections[-1]
        sections[-1] = (name, body + line)
    return sections


def recorded_in(translation: str, source: Path) -> dict[str, str]:
    """The digests in the comment at the end of the translation."""
    begin, end = _comment(source)
    record = translation.partition(begin)[2]
    lines = (record.partition(end)[0] if end else record).splitlines()
    return {name: digest for digest, _space, name in (line.strip().partition(" ") for line in lines)}


def with_record(translation: str, digests: Mapping[str, str], source: Path) -> str:
    """The translation with the digests in its comment."""
    begin, end = _comment(source)
    indent = _COMMENTS[source.suffix][2]
    record = "".join(f"{indent}{digest} {name}\n" for name, digest in digests.items())
    return f"{translation.partition(begin)[0].rstrip()}\n\n{begin}{record}{end}"


def _comment(source: Path) -> tuple[str, str]:
    opening, closing, _indent = _COMMENTS[source.suffix]
    return opening + _RECORD.format(source=source.name), closing


if __name__ == "__main__":
    raise SystemExit(main())
