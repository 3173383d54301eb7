# SPDX-License-Identifier: BSD-2-Clause
"""Which manifests are rejected, and with which errors, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from manifest_cases import FIXTURES, manifest_text, table


def errors_of(*, src: Sequence[str] = (), definition: Any = None, namespace: str = "default") -> list[str]:
    with pytest.raises(ManifestErrors) as raised:
        load(src, definition, namespace)
    return [str(error) for error in raised.value.errors]


@pytest.mark.parametrize("case", table("errors"), ids=lambda case: case["name"])
def test_a_manifest_is_rejected_with_these_errors(case: dict[str, Any]) -> None:
    errors = errors_of(definition=manifest_text(case))
    assert [error.replace("definition, document 1, ", "") for error in errors] == case["errors"]


@pytest.mark.parametrize("libyaml", [True, False], ids=["libyaml", "PyYAML alone"])
@pytest.mark.parametrize("case", table("syntax"), ids=lambda case: case["name"])
def test_yaml_syntax_errors_are_explained(case: dict[str, Any], libyaml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not libyaml:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    errors = errors_of(definition=case["text"])
    assert [error.replace("definition, ", "", 1) for error in errors] == case["errors"]


@pytest.mark.parametrize("case", [*table("errors"), *table("syntax")], ids=lambda case: case["name"])
def test_no_error_shows_a_secret(case: dict[str, Any]) -> None:
    text = "\n".join(errors_of(definition=manifest_text(case)))
    assert "s3c" not in text.replace("s3c: ********", "")
    assert "hunter2" not in text


@pytest.mark.parametrize("case", table("invalid_fixtures"), ids=lambda case: case["file"])
def test_an_invalid_example_of_the_source_documents_is_rejected_with_these_errors(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FIXTURES / "invalid")
    assert errors_of(src=[case["file"]]) == case["errors"]


def test_all_errors_are_reported_at_once_sorted_by_file_document_and_place() -> None:
    manifest = "kind: training\njob: {name: A}\nenvironment: {image: x}\nresources: {cpu: 1, memory: lots}\n"
    with pytest.raises(ManifestErrors) as raised:
        load(definition=[manifest, manifest.replace("name: A", "name: a")])
    assert str(raised.value).split("\n") == [
        "3 errors in the definition; nothing was sent to the cluster:",
        "definition, document 1, job.name: invalid name: A. Use lower case letters, digits and '-', "
        "with a letter or digit first and last, such as qwen2-7b-sft.",
        "definition, document 1, resources.memory: invalid quantity: lots. "
        "Use a number with a Kubernetes unit, such as 32Gi.",
        "definition, document 2, resources.memory: invalid quantity: lots. "
        "Use a number with a Kubernetes unit, such as 32Gi.",
    ]


def test_of_very_many_errors_a_hundred_are_shown() -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition="---\nkind: cake\n" * 1000)
    lines = str(raised.value).split("\n")
    assert len(lines) == 101
    assert lines[0] == "More than 100 errors in the definition; nothing was sent to the cluster:"


def test_an_error_is_one_line() -> None:
    quota = "kind: quota\nquota: {name: 'a\n\n  b'}\nusers: {team: {cpu: 1}}\n"
    for error in errors_of(src=["no\nfile"], definition=[quota, quota]):
        assert "\n" not in error


def test_reading_stops_after_20_syntax_errors() -> None:
    assert len(errors_of(definition="---\na: `\n" * 50_000)) == 20


def test_an_error_carries_its_place_for_programs() -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition="kind: pool\npool:\n  name: A\n")
    (error,) = raised.value.errors
    assert (error.file, error.document, error.path, error.value) == ("definition", 1, "pool.name", "A")
    assert (error.place.line, error.place.column) == (3, 9)


POOL = "kind: pool\npool: {{name: {name}}}\nnodes: [{nodes}]\n"
QUOTA = "kind: quota\nquota: {{name: {name}}}\nusers: {{{users}}}\n"
JOB = "kind: {kind}\njob: {{name: {name}{more}}}\nenvironment: {{image: x}}\nresources: {{cpu: 1, memory: 1Gi}}\n"
CROSS_DOCUMENT: list[tuple[str, list[str], str, list[str]]] = [
    (
        "a host in two pools",
        [POOL.format(name="a", nodes="gpu-1, gpu-2"), POOL.format(name="b", nodes="gpu-3, gpu-1")],
        "default",
        ["nodes[1]: node in several pools, also in document 1 (nodes[0]). Keep it in one of them."],
    ),
    (
        "a pool twice",
        [POOL.format(name="a", nodes="gpu-1"), POOL.format(name="a", nodes="gpu-2")],
        "default",
        ["pool.name: duplicate pool, also in document 1 (pool.name). Use different names."],
    ),
    (
        "a pool and a quota of one name",
        [POOL.format(name="a", nodes="gpu-1"), "kind: quota\nquota: {name: a}\n"],
        "default",
        [],
    ),
    (
        "a namespace in two quotas",
        [QUOTA.format(name="a", users="team: {cpu: 1}"), QUOTA.format(name="b", users="other: {}, team: {cpu: 1}")],
        "default",
        ["users.team: namespace in several quotas: in b, also in a, document 1 (users.team). "
         "Keep it in one of them."],
    ),
    (
        "a job twice",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="notebook", name="a", more="")],
        "default",
        ["job.name: duplicate job in namespace default, also in document 1 (job.name). Use different names."],
    ),
    (
        "a job in two namespaces",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="training", name="a", more=", namespace: b")],
        "default",
        [],
    ),
    (
        "a job in the module's namespace and in the same by name",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="training", name="a", more=", namespace: b")],
        "b",
        ["job.name: duplicate job in namespace b, also in document 1 (job.name). Use different names."],
    ),
    (
        "a job twice, the second with an error of its own",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="training", name="a", more=", priority: x")],
        "default",
        ["job.name: duplicate job in namespace default, also in document 1 (job.name). Use different names.",
         "job.priority: unsupported value: x. Use high, medium, low or opportunistic."],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "namespace", "expected"), [case[1:] for case in CROSS_DOCUMENT], ids=[case[0] for case in CROSS_DOCUMENT]
)
def test_cross_document_checks(texts: list[str], namespace: str, expected: list[str]) -> None:
    errors = [] if not expected else errors_of(definition=texts, namespace=namespace)
    assert [error.replace("definition, document 2, ", "") for error in errors] == expected
    if not expected:
        assert len(load(definition=texts, namespace=namespace)) == 2
