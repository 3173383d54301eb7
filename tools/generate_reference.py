# SPDX-License-Identifier: BSD-2-Clause
"""Write what documents the code: the pages of manifest fields, from the models, and those of the playbooks.

    python -m tools.generate_reference

The table of built-in accelerators goes into docs/docsite/rst/guide_accelerators.rst, below a mark; what is above it is
written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import (  # noqa: E402
    Profile,
    built_in_catalog,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest import rules  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_blocks import JobManifest  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.manifest_blocks import Block  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (  # noqa: E402
    BlockOf,
    Key,
    ListOf,
    MapOf,
    Scalar,
    Shape,
    keys_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.validation import KIND_ALIASES  # noqa: E402

from tools.generated_page import page_head  # noqa: E402
from tools.gpuctl_shell import files as shell_files  # noqa: E402
from tools.playbook_pages import pages  # noqa: E402

GUIDES = ROOT / "docs" / "docsite" / "rst"
ACCELERATORS = GUIDES / "guide_accelerators.rst"
ACCELERATORS_MARK = ".. Everything below is generated from accelerators/*.yml by tools/generate_reference.py\n"
FIELDS = GUIDES / "manifest_fields.rst"
PROFILE_FIELDS = GUIDES / "accelerator_fields.rst"
SOURCE = "plugins/module_utils/manifest/"
# A kind that few people write has a page of its own.
PROFILES = "accelerator"


def field_pages() -> dict[Path, str]:
    """Every field of every kind. {path: reStructuredText}."""
    kinds = [part for kind, model in KINDS.items() if kind != PROFILES for part in _kind(kind, model)]
    return {
        FIELDS: "\n".join(
            [
                page_head(FIELDS.stem, "All fields of manifests", SOURCE),
                f"{_reference('guide_manifests')} explains manifests, and shows the fields that most jobs need.\n",
                ".. contents::\n   :local:\n   :depth: 1\n",
                _heading("Fields of every job"),
                _table(JobManifest, ()),
                *kinds,
            ]
        ),
        PROFILE_FIELDS: "\n".join(
            [
                page_head(PROFILE_FIELDS.stem, "All fields of accelerator profiles", SOURCE),
                f"{_summary(KINDS[PROFILES])} {_reference('guide_accelerators')} explains profiles.\n",
                _table(KINDS[PROFILES], ()),
            ]
        ),
    }


def _reference(guide: str) -> str:
    return f":ref:`ansible_collections.runwhere.gpuctl.docsite.{guide}`"


def _kind(kind: str, model: type[Block]) -> Iterator[str]:
    yield _heading(f"Fields of {kind}")
    others = [f"``{alias}``" for alias, meant in KIND_ALIASES.items() if meant == kind]
    spelled = f" The value of ``kind`` can also be {' or '.join(others)}." if others else ""
    yield f"{_summary(model)}{spelled}\n"
    if issubclass(model, JobManifest):
        yield "In addition to the fields of every job:\n"
    yield _table(model, keys_of(JobManifest) if issubclass(model, JobManifest) else ())


def _summary(model: type[Block]) -> str:
    return (model.__doc__ or "").splitlines()[0]


def _table(model: type[Block], known: Iterable[Key]) -> str:
    rows = list(_rows(model, "", known))
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 30 25 15 30", ""]
    for cells in [("Field", "Value", "Default", "Meaning"), *rows]:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(cells)]
    return "\n".join([*lines, ""])


def _rows(model: type[Block], path: str, known: Iterable[Key]) -> Iterator[tuple[str, str, str, str]]:
    """A row for each key, followed by those of its block; for a known key, only what its block adds."""
    known_keys = {key.field: key for key in known}
    for key in keys_of(model):
        other = known_keys.get(key.field)
        if key.field == "kind" or (other is not None and other.shape == key.shape):
            continue
        place = f"{path}{key.documented}"
        is_value = not isinstance(key.shape, BlockOf) or key.mark(rules.ShortForm) is not None
        if other is None and is_value:
            yield f"``{place}``", _value(key), _default(key), key.description
        if key.block:
            ending = {ListOf: "[].", MapOf: ".<name>."}.get(type(key.shape), ".")
            yield from _rows(key.block, place + ending, keys_of(other.block) if other and other.block else ())


def _default(key: Key) -> str:
    if key.required:
        return "**required**"
    if isinstance(key.default, bool):
        return f"``{str(key.default).lower()}``"
    return f"``{key.default}``" if isinstance(key.default, (str, int)) and key.default != "" else ""


def _value(key: Key) -> str:
    """The valid values: type and rule of the field's own form, and its other forms."""
    forms = [_shape(key.shape)]
    if key.mark(rules.OneOrMany):
        forms.append("or a single item")
    if short := key.mark(rules.ShortForm):
        forms.append(f"or only its {short.field}")
    if form := key.mark(rules.MapForm):
        forms.append(f"or a map from {form.key} to {form.value}")
    if key.mark(rules.NamesForm):
        forms.append("or a list of names")
    if entry := key.mark(rules.DefaultEntry):
        forms.append(f"the entry ``{entry.name}`` can also be a top-level key")
    return ", ".join(forms)


def _shape(shape: Shape) -> str:
    if isinstance(shape, BlockOf):
        return "block"
    if isinstance(shape, ListOf):
        return f"list of {_several(shape.item)}"
    if isinstance(shape, MapOf):
        return f"map from {_noun(shape.name)} to {_several(shape.item)}"
    if shape.choices:
        return " ".join(f"``{choice}``" for choice in shape.choices)
    return _words(shape.rule) if shape.rule else "text"


def _several(item: Shape) -> str:
    if isinstance(item, BlockOf):
        return "blocks"
    return _noun(item, "s") if isinstance(item, Scalar) else _shape(item).replace("list", "lists", 1)


def _noun(scalar: Scalar, plural: str = "") -> str:
    return f"{scalar.rule.noun}{plural} ({_words(scalar.rule)})" if scalar.rule else f"text{plural}"


def _words(rule: rules.Rule) -> str:
    return re.sub(r"'([^' ]+)'", r"``\1``", rule.words) + rule.length


def _heading(words: str) -> str:
    return f"{words}\n{'-' * len(words)}\n"


def accelerators() -> str:
    """The table of built-in profiles, in reStructuredText."""
    rows = [_accelerator(profile) for profile in built_in_catalog().profiles.values()]
    head = ("Accelerator", "Resources", "Shares", "Labels of nodes", "Library", "Metrics", "Frameworks")
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 14 22 20 22 8 14 20", ""]
    for cells in [head, *rows]:
        lines += [f"   {'*' if number == 0 else ' '} - {cell}".rstrip() for number, cell in enumerate(cells)]
    notes = [
        f"- ``{profile.name}``: {', '.join(f'``{field}``' for field in profile.data['unconfirmed'])}"
        for profile in built_in_catalog().profiles.values()
        if profile.data.get("unconfirmed")
    ]
    unconfirmed = "These fields come from third parties, or no source confirms them. Check them on your nodes:"
    return "\n".join([*lines, "", unconfirmed, "", *notes, ""])


def _accelerator(profile: Profile) -> tuple[str, ...]:
    data, labels = profile.data, profile.part("labels")
    memory = (labels.get("memory") or {}).get("label")
    parts = [data["resource"], profile.part("partitions").get("resource"), data.get("slices")]
    shares = [
        f"{name}: {', '.join(f'``{row.resource}``' for row in backend.resources)}"
        for name, backend in profile.backends.items()
    ]
    known = [labels.get("product"), memory, labels.get("domain")]
    whole = [exporter for exporter in profile.exporters if not exporter.backend]
    names = [
        series.name
        for exporter in whole
        for quantity in ("utilization", "memory_used", "temperature")
        for series in exporter.series(quantity)
    ]
    return (
        f"``{profile.name}`` ({data['vendor']}): {data['accelerator']['description']}",
        _code(parts),
        "; ".join(shares),
        _code(known),
        profile.part("library").get("name", ""),
        _code(names),
        ", ".join(data.get("frameworks", ())),
    )


def _code(words: Iterable[str | None]) -> str:
    return ", ".join(f"``{word}``" for word in words if word)


def main() -> None:
    written, _mark, _old = ACCELERATORS.read_text(encoding="utf-8").partition(ACCELERATORS_MARK)
    ACCELERATORS.write_text(f"{written}{ACCELERATORS_MARK}\n{accelerators()}", encoding="utf-8")
    for path, text in {**field_pages(), **pages(), **shell_files()}.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
