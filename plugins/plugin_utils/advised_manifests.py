# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the manifests on the controller that declare advised jobs, and write the advice into them."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

from ..module_utils.insight.advice.manifest_patch import (
    AFTER_SUBMITTING,
    DeclaredJob,
    Edit,
    JobKey,
    NotPatched,
    checked_manifests,
    declared_jobs,
    edit_of,
    with_edits,
)
from ..module_utils.manifest.load import load
from ..module_utils.manifest.matrix import source_secrets
from ..module_utils.manifest.problems import ManifestError, ManifestErrors, number_of, qualified_name
from ..module_utils.manifest.sources import read_files
from ..module_utils.redaction import MASK, line_masker
from .report_file import replace_file

ADVICE_OPTIONS: dict[str, Any] = {
    "src": {"type": "list", "elements": "path", "required": True},
    "advice": {"type": "list", "elements": "dict", "required": True},
    "namespace": {"type": "str"},
    "running": {"type": "dict"},
    "fits": {"type": "dict"},
    "write": {"type": "bool", "default": False},
}
_BOM = b"\xef\xbb\xbf"
_KEPT = ("name", "namespace", "kind", "what", "asked", "advised")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class PatchedFile:
    """``secrets`` of its jobs, which a diff would show around what it changes."""

    path: str
    before: str
    after: str
    secrets: frozenset[str]

    def masked(self, text: str) -> str:
        return line_masker(self.secrets)(text)


@dataclass
class Patch:
    """``rows`` say where each advised job is declared, and why the advice is refused; ``files`` are those to change."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    files: list[PatchedFile] = field(default_factory=list)
    undeclared: set[str] = field(default_factory=set)

    def result(self, *, wrote: bool) -> dict[str, Any]:
        """The rows, what there is to say of them, and the manifests, for tasks that judge them."""
        refused = [row for row in self.rows if row["refused"]]
        where = f"{number_of(len(self.rows) - len(refused), 'value')} in {number_of(len(self.files), 'file')}"
        notes = [f"{where} {'written.' if wrote else 'to change: --diff shows them, and O(write=true) writes them.'}"]
        notes = notes if self.files else []
        notes += [
            f"{row['file']}, line {row['line']}: {row['what']} of job {row['name']} in namespace {row['namespace']} "
            f"stays as it is: {row['refused']}"
            for row in refused
        ]
        if self.undeclared:
            notes.append(f"These manifests do not declare {number_of(len(self.undeclared), 'advised job')}.")
        return {
            "results": self.rows,
            "undeclared": sorted(self.undeclared),
            "notes": notes,
            "paths": [file.path for file in self.files],
            # To be judged. An asterisk would be an alias.
            "patched": [file.masked(file.after).replace(MASK, "masked") for file in self.files],
        }

    def diff_lines(self) -> list[str]:
        """As callback plugins show a diff, but only of a task that has changed something."""
        return [
            line.rstrip("\r\n")
            for each in self.diffs()
            for line in unified_diff(
                each["before"].splitlines(), each["after"].splitlines(), each["before_header"], each["after_header"]
            )
        ]

    def diffs(self) -> list[dict[str, str]]:
        return [
            {
                **dict.fromkeys(("before_header", "after_header"), file.path),
                "before": file.masked(file.before),
                "after": file.masked(file.after),
            }
            for file in self.files
        ]


def patch_manifests(options: Mapping[str, Any]) -> Patch:
    """Put the advice into the texts that declare the jobs. Raises ManifestErrors if any manifest is wrong."""
    src, namespace = options["src"], options["namespace"] or ""
    load(src, namespace=namespace)
    texts = dict(each for each in read_files(src) if not isinstance(each, ManifestError))
    declared: dict[JobKey, DeclaredJob] = {}
    for file, text in texts.items():
        declared |= declared_jobs(file, text, namespace)
    patch = Patch()
    edits: dict[str, list[tuple[dict[str, Any], Edit]]] = defaultdict(list)
    for row in options["advice"]:
        job = declared.get((row["kind"], row["namespace"], row["name"]))
        if job is None:
            patch.undeclared.add(qualified_name(row["namespace"], row["name"]))
            continue
        own = {**{name: row[name] for name in _KEPT}, "file": job.file, "line": job.line_of(row["what"])}
        patch.rows.append({**own, "document": job.source.origin.number, "refused": None})
        try:
            _require_own_file(job.file)
            _require_fit(row, options)
            edits[job.file].append((patch.rows[-1], edit_of(job, row)))
        except NotPatched as reason:
            patch.rows[-1]["refused"] = str(reason)
    for file, found in edits.items():
        after = _valid_text(file, texts[file], found)
        if after != texts[file]:
            nodes = (job.source.location.node for job in declared.values() if job.file == file)
            secrets = frozenset(secret for node in nodes for secret in source_secrets(node))
            patch.files.append(PatchedFile(file, texts[file], after, secrets))
    return patch


def _require_own_file(file: str) -> None:
    """A link in a checkout must not make the controller write elsewhere."""
    folder = os.path.realpath(os.path.dirname(file))
    if os.path.commonpath([os.path.realpath(file), folder]) != folder:
        raise NotPatched("the file is a symbolic link out of its directory. Name the file that it leads to.")


def _require_fit(row: Row, options: Mapping[str, Any]) -> None:
    """That the manifest is what runs, and would run with less, where that was looked at."""
    running = _result_of(row, options["running"], "it could not be compared with what runs")
    if running and (running.get("error") or running["action"] != "unchanged"):
        raise NotPatched(f"the manifest is not what runs. {AFTER_SUBMITTING}")
    fit = _result_of(row, options["fits"], "whether it would run was not judged")
    if fit and fit["verdict"] == "never":
        raise NotPatched(f"with less, it would not run: {fit['reason']}")


def _result_of(row: Row, result: Row | None, what: str) -> Row:
    for each in (result or {}).get("results") or ():
        if (each["namespace"], each["name"]) == (row["namespace"], row["name"]):
            return dict(each)
    if result:
        raise NotPatched(f"{what}: {result.get('msg') or 'no answer'}")
    return {}


def _valid_text(file: str, text: str, found: Sequence[tuple[dict[str, Any], Edit]]) -> str:
    """The text with the edits, but those of documents that would be wrong then, of which the rows say why."""
    after = with_edits(text, (edit for _row, edit in found))
    wrong = {error.document: error for _source, each in checked_manifests(file, after) for error in each.errors}
    for row, _edit in found:
        if error := wrong.get(row["document"]):
            row["refused"] = f"it would be wrong. {error.path}: {error.problem}. {error.hint}".strip()
    return with_edits(text, (edit for row, edit in found if not row["refused"]))


def write_manifests(files: Sequence[PatchedFile]) -> None:
    """Replace each file in one step; none, if one is no longer what was read. Raises OSError, and ManifestErrors."""
    present = [(file, target, target.read_bytes()) for file in files for target in [Path(os.path.realpath(file.path))]]
    for file, _target, data in present:
        if data.removeprefix(_BOM) != file.before.encode():
            raise ManifestErrors([ManifestError(file.path, "changed meanwhile", "Run this again")])
    for file, target, data in present:
        mark = _BOM if data.startswith(_BOM) else b""
        replace_file(target, mark + file.after.encode(), stat.S_IMODE(target.stat().st_mode))
