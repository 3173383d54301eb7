# SPDX-License-Identifier: BSD-2-Clause
"""The forms a definition may have: maps, lists of maps and texts, YAML text, and lists within documents."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load


def job(name: str, **blocks: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": name},
        "environment": {"image": "nginx"},
        "resources": {"cpu": 1, "memory": "1Gi"},
        **blocks,
    }


TEXT = "kind: training\njob: {name: NAME}\nenvironment: {image: x}\nresources: {cpu: 1, memory: 1Gi}\n"

FORMS: list[tuple[str, Any, list[tuple[str, int]]]] = [
    ("a map", job("a"), [("a", 1)]),
    ("a list of maps", [job("a"), job("b")], [("a", 1), ("b", 2)]),
    ("a text", TEXT.replace("NAME", "a"), [("a", 1)]),
    ("a text of two documents", TEXT.replace("NAME", "a") + "---\n" + TEXT.replace("NAME", "b"), [("a", 1), ("b", 2)]),
    (
        "empty documents count and hold nothing",
        "---\n# nothing\n---\n" + TEXT.replace("NAME", "a") + "---\n",
        [("a", 2)],
    ),
    (
        "a list of texts and maps counts on",
        [TEXT.replace("NAME", "a") + "---\n" + TEXT.replace("NAME", "b"), job("c"), TEXT.replace("NAME", "d")],
        [("a", 1), ("b", 2), ("c", 3), ("d", 4)],
    ),
    ("a Kubernetes List", {"kind": "List", "items": [job("a"), job("b")]}, [("a", 1), ("b", 1)]),
    ("a list as a document", "- " + TEXT.replace("NAME", "a").replace("\n", "\n  "), [("a", 1)]),
    ("no definition", None, []),
]


@pytest.mark.parametrize(("definition", "expected"), [form[1:] for form in FORMS], ids=[form[0] for form in FORMS])
def test_a_definition_holds_these_jobs(definition: Any, expected: list[tuple[str, int]]) -> None:
    documents = load(definition=definition)
    assert [(document.model.job.name, document.origin.number) for document in documents] == expected  # type: ignore[union-attr]
    assert {document.origin.file for document in documents} <= {"definition"}


def test_python_values_become_the_text_that_yaml_has_for_them() -> None:
    values = [1, 2e-5, 1.5, True, False, "NO", datetime.date(2024, 1, 1), ""]
    (document,) = load(definition=job("a", environment={"image": "x", "command": values}))
    command = document.model.environment.command  # type: ignore[union-attr]
    assert command == ["1", "2e-05", "1.5", "true", "false", "NO", "2024-01-01", ""]


@pytest.mark.parametrize("as_text", [False, True], ids=["data", "text"])
def test_the_halves_of_a_character_are_joined(as_text: bool) -> None:
    halves = "\ud83d\ude00"
    definition = (
        TEXT.replace("NAME", f"a, description: '{halves}'")
        if as_text
        else job("a", job={"name": "a", "description": halves})
    )
    (document,) = load(definition=definition)
    assert document.model.job.description == "\U0001f600"  # type: ignore[union-attr]


REJECTED: list[tuple[str, Any, list[str]]] = [
    ("an empty text", "", ["definition: no manifest found. Add one, or remove the empty source."]),
    ("an empty list", [], ["definition: no manifest found. Add one, or remove the empty source."]),
    ("a number", 42, ["definition, document 1: not a manifest. Write its keys, beginning with `kind:`."]),
    (
        "a type without a form in YAML",
        job("a", storage={"workdirs": {1, 2}}),
        ["definition, document 1, storage.workdirs: unsupported type: set. "
         "Use text, numbers, true, false, lists and maps."],
    ),
    (
        "an error in the item of a List",
        {"kind": "List", "items": [job("a"), job("B")]},
        ["definition, document 1, items[1].job.name: invalid name: \"B\". "
         "Use lower case letters, digits and '-', with a letter or digit first and last, such as qwen2-7b-sft."],
    ),
    (
        "a job twice in a List",
        {"kind": "List", "items": [job("a"), job("a")]},
        ["definition, document 1, items[1].job.name: duplicate job in namespace default, also in document 1 "
         "(items[0].job.name). Use different names."],
    ),
    (
        "an error in a later text",
        [job("a"), TEXT.replace("NAME", "b") + "---\nkind: cake\n", {"kind": "cookie"}],
        ["definition, document 3, kind: unknown kind: cake. "
         "Use training, inference, notebook, compute, pool or quota.",
         "definition, document 4, kind: unknown kind: \"cookie\". "
         "Use training, inference, notebook, compute, pool or quota."],
    ),
    (
        "half of a character in a value",
        [job("a"), job("b", environment={"image": "x", "env": [{"name": "TOKEN", "value": "s3cret \ud83d"}]})],
        ["definition, document 2, environment.env[0].value: half of a character: \\ud83d. "
         "Write the character itself, or both halves of it."],
    ),
    (
        "half of a character in a key",
        job("a", storage={"\ude00": 1}),
        ["definition, document 1, storage: half of a character: \\ude00. "
         "Write the character itself, or both halves of it."],
    ),
    (
        "half of a character in a text",
        "job: {name: a}\nkind: \ud83d\n",
        ["definition, document 1, line 2, column 7: half of a character: \\ud83d. "
         "Write the character itself, or both halves of it.\n    2 | kind: ?\n      |       ^"],
    ),
    (
        "a text too large",
        "# " + "x" * 1024 * 1024,
        ["definition: larger than 1024 KiB. Split it into several files."],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("definition", "expected"), [case[1:] for case in REJECTED], ids=[case[0] for case in REJECTED]
)
def test_a_definition_is_rejected_with_these_errors(definition: Any, expected: list[str]) -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition=definition)
    assert [str(error) for error in raised.value.errors] == expected


def test_a_definition_that_contains_itself_is_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ManifestErrors, match="nested more than 32 levels deep"):
        load(definition={"kind": "training", "storage": endless})
