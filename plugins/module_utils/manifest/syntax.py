# SPDX-License-Identifier: BSD-2-Clause
"""Errors of the YAML parser in plain words: what is wrong, what to do, and the line with a caret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..printable import half_of_a_character
from ..redaction import MASK, looks_secret, mask_spans, merged_spans, secret_spans
from .full_width import slip
from .tree import HALF_HINT, MAX_DEPTH

_WIDTH = 96
# The line ends of YAML 1.1, so that lines count as the parser counts them.
_LINE = re.compile(r"[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029]|\Z)")
_CONFLICT_MARK = re.compile(r"^(<{7}|>{7}|={7})(\s|$)")
_ENTRY = re.compile(r"^(?P<head>\s*(?:- +)*(?P<key>[\w.\-\"']+)\s*:\s+)(?P<value>\S.*)$")
_FLAG_VALUE = re.compile(
    r"(?P<head>--?(?P<flag>[A-Za-z][\w.\-]{0,63})(?:=[\"']?|[\"']?(?:\s*,)?\s+[\"']?))(?P<value>[^\s,\]\"']+)"
)
# Patterns for PyYAML's problem and its context, what is wrong and what to do; the first match counts. The block or key
# that the error is about began on {line}.
_INDENT = "Indent it as the lines above, or begin with ---"
_COLON = "Quote a string with ': ' in it, or correct the indentation of this line or the one above"
_BLOCK = "block (mapping|collection)"
_EXPLANATIONS = (
    # libyaml 0.2.6 has a limit of its own, which it meets while it looks ahead of what it has reported.
    ("maximum nesting depth", "", f"nested more than {MAX_DEPTH} levels deep", "Use fewer levels"),
    ("escape", "quoted scalar", "invalid escape sequence in double quotes", "Use single quotes"),
    ("", "quoted scalar", "unclosed quote", "Close it"),
    ("expected alphabetic or numeric", "", "& or * without a name", "Quote a string that begins with one of them"),
    ("mapping keys are not", "", "unexpected '?', which begins a key in YAML", "Quote a string that begins with it"),
    ("", "flow sequence", "unclosed list, opened by [ on line {line}", "Add a ',' or the closing ']'"),
    ("", "flow mapping", "unclosed map, opened by { on line {line}", "Add a ',' or the closing '}'"),
    ("mapping values", "", "unexpected ':'", _COLON),
    ("could not find expected ':'", "", "missing ':' after the key on line {line}", "Write `key: value`"),
    ("sequence entries", "", "unexpected list item", "Begin the list on a line of its own below the key"),
    ("'-'|block sequence", _BLOCK, "unexpected list item", "Indent it as the block that begins on line {line}"),
    ("'<block mapping", _BLOCK, "indentation differs from the block that begins on line {line}", "Align its keys"),
    ("", _BLOCK, "unexpected text after the end of a value", "Remove it, or quote the whole value"),
    ("<document start>", "", "unexpected content after the end of the document", _INDENT),
    ("", "block scalar", "unexpected text after | or >", "Write the text on the lines below"),
)


@dataclass(eq=False)
class YamlSyntaxError(Exception):
    """A place (line and column from 0) at which a text is not a manifest, and the `problem` and `hint` of the error."""

    problem: str
    hint: str
    line: int
    column: int


def source_lines(text: str) -> list[str]:
    """The lines of a text with their ends, as YAML 1.1 counts them."""
    return [line for line in _LINE.findall(text) if line]


def explain(error: Any, lines: list[str], first_line: int) -> YamlSyntaxError:
    """An error of PyYAML in the lines, the first of which is the file's `first_line` (from 0)."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        text, position = "".join(lines), getattr(error, "position", 0)
        *above, line = source_lines(text[:position] + ".")
        found = text[position : position + 1]
        problem, hint = half_of_a_character(found), HALF_HINT
        if problem is None:
            problem, hint = f"control character in YAML{f': U+{ord(found):04X}' if found else ''}", "Remove it"
        return YamlSyntaxError(problem, hint, first_line + len(above), len(line) - 1)
    conflict = next((number for number, line in enumerate(lines) if _CONFLICT_MARK.match(line)), None)
    if conflict is not None and conflict <= mark.line + 1:
        hint = "Keep one side and delete the conflict markers"
        return YamlSyntaxError("unresolved merge conflict", hint, first_line + conflict, 0)
    marks = (mark, getattr(error, "context_mark", None) or mark)
    if typo := slip(lines, (each.line for each in marks)):
        number, column, (problem, hint) = typo
        return YamlSyntaxError(problem, hint, first_line + number, column)
    problem, hint = _explanation(error, mark, lines, first_line)
    if "quoted scalar" in (error.context or "") and "escape" not in (error.problem or ""):
        # The parser notices an unclosed quote at the end of the text; the quote is where it began.
        mark = error.context_mark
    if mark.line >= len(lines):
        return YamlSyntaxError(problem, hint, first_line + len(lines) - 1, len(lines[-1].rstrip()))
    return YamlSyntaxError(problem, hint, first_line + mark.line, mark.column)


def snippet(lines: list[str], line: int, column: int) -> tuple[str, ...]:
    """The line with a caret under the column (both from 0), secrets masked, long lines cut around the caret."""
    shown, column = _without_secrets(lines, line, column)
    shown = "".join(character if character.isprintable() else "?" for character in shown.replace("\t", "→"))
    if len(shown) > _WIDTH:
        begin = max(0, min(column - _WIDTH // 2, len(shown) - _WIDTH))
        cut = shown[begin : begin + _WIDTH]
        shown = ("…" if begin else "") + cut + ("…" if begin + _WIDTH < len(shown) else "")
        column += (1 if begin else 0) - begin
    return f"{line + 1} | {shown}", f"{' ' * len(str(line + 1))} | {' ' * column}^"


def _explanation(error: Any, mark: Any, lines: list[str], first_line: int) -> tuple[str, str]:
    problem, context = error.problem or "", error.context or ""
    line = lines[mark.line] if mark.line < len(lines) else ""
    opened = first_line + error.context_mark.line + 1 if error.context_mark is not None else None
    before = line[: mark.column]
    if "\\t" in problem or "\t" in problem or ("\t" in before and not before.strip()):
        return "tab used for indentation", "Replace it with spaces"
    if unstartable := re.search(r"found character '(.)' that cannot start any token", problem):
        character = "a backtick" if unstartable[1] == "`" else unstartable[1]
        return f"a value cannot begin with {character}", "Remove it, or quote the text"
    if unexpected := re.search(r"expected the node content, but found '(.*)'", problem):
        if unexpected[1].startswith("<"):
            return "expected a value, got the end of the document", "Complete it"
        return f"expected a value, got '{unexpected[1]}'", "Write one, or quote the text"
    for in_problem, in_context, what, hint in _EXPLANATIONS:
        if re.search(in_problem, problem) and re.search(in_context, context):
            return what.replace("{line}", str(opened)), hint.replace("{line}", str(opened))
    return f"invalid YAML: {problem or context}", "Correct the line"


def _without_secrets(lines: list[str], line: int, column: int) -> tuple[str, int]:
    """The line with values masked that may be secrets: below `env:`, under a key or after a flag that names one."""
    shown = lines[line].rstrip("\n\r\x85\u2028\u2029")
    entry = _ENTRY.match(shown)
    if entry and (_is_in_env(lines, line) or looks_secret(entry["key"].strip("\"'"))):
        return entry["head"] + MASK, min(column, len(entry["head"]) + len(MASK))
    if entry is None and _is_in_env(lines, line):
        return MASK, 0
    flagged = [match.span("value") for match in _FLAG_VALUE.finditer(shown) if looks_secret(match["flag"])]
    spans = merged_spans([*flagged, *secret_spans(shown)])
    for begin, end in reversed(spans):
        if column >= end:
            column += len(MASK) - (end - begin)
        elif column > begin:
            column = begin
    return mask_spans(shown, spans), column


def _is_in_env(lines: list[str], line: int) -> bool:
    """Whether a line is below a key `env`, by its indentation."""
    indent = _inner_indent(lines[line])
    for above in reversed(lines[:line]):
        if above.startswith("---"):
            return False
        if not above.strip() or above.lstrip().startswith("#") or _indent(above) >= indent:
            continue
        if re.match(r"\s*[\"']?env[\"']?\s*:", above):
            return True
        indent = _inner_indent(above)
    return False


def _inner_indent(line: str) -> int:
    """The indentation of a line; a list item counts as deeper, because it can be as far left as its key."""
    return _indent(line) + line.lstrip().startswith("-")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
