# SPDX-License-Identifier: BSD-2-Clause
"""What is refused, in which words, all at once."""

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
def test_a_manifest_is_refused_in_these_words(case: dict[str, Any]) -> None:
    errors = errors_of(definition=manifest_text(case))
    assert [error.replace("definition, document 1, ", "") for error in errors] == case["errors"]


@pytest.mark.parametrize("libyaml", [True, False], ids=["libyaml", "PyYAML alone"])
@pytest.mark.parametrize("case", table("syntax"), ids=lambda case: case["name"])
def test_text_that_is_no_yaml_is_explained(
    case: dict[str, Any], libyaml: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_an_invalid_example_of_the_source_documents_is_refused_in_these_words(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FIXTURES / "invalid")
    assert errors_of(src=[case["file"]]) == case["errors"]


def test_all_errors_are_told_together_sorted_by_file_document_and_place() -> None:
    manifest = "kind: training\njob: {name: A}\nenvironment: {image: x}\nresources: {cpu: 1, memory: lots}\n"
    with pytest.raises(ManifestErrors) as raised:
        load(definition=[manifest, manifest.replace("name: A", "name: a")])
    assert str(raised.value).split("\n") == [
        "3 errors in the definition; nothing was sent to the cluster:",
        "definition, document 1, job.name: A is not a valid name; use lower case letters, digits and '-', "
        "and begin and end with a letter or digit.",
        "definition, document 1, resources.memory: lots is not a quantity; "
        "write a number with a Kubernetes unit, such as 32Gi.",
        "definition, document 2, resources.memory: lots is not a quantity; "
        "write a number with a Kubernetes unit, such as 32Gi.",
    ]


def test_of_very_many_errors_a_hundred_are_shown() -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition="---\nkind: cake\n" * 1000)
    lines = str(raised.value).split("\n")
    assert (len(raised.value.errors), len(lines)) == (1000, 102)
    assert lines[0] == "1000 errors in the definition; nothing was sent to the cluster:"
    assert lines[-1] == "… and 900 more errors."


def test_a_text_full_of_faults_is_given_up() -> None:
    assert len(errors_of(definition="---\na: `\n" * 50_000)) == 20


def test_an_error_carries_its_place_for_programs() -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition="kind: pool\npool:\n  name: A\n")
    (error,) = raised.value.errors
    assert (error.file, error.document, error.path, error.value) == ("definition", 1, "pool.name", "A")
    assert (error.line, error.column) == (3, 9)


POOL = "kind: pool\npool: {{name: {name}}}\nnodes: [{nodes}]\n"
QUOTA = "kind: quota\nquota: {{name: {name}}}\nusers: {{{users}}}\n"
JOB = "kind: {kind}\njob: {{name: {name}{more}}}\nenvironment: {{image: x}}\nresources: {{cpu: 1, memory: 1Gi}}\n"
TOGETHER: list[tuple[str, list[str], str, list[str]]] = [
    (
        "a host in two pools",
        [POOL.format(name="a", nodes="gpu-1, gpu-2"), POOL.format(name="b", nodes="gpu-3, gpu-1")],
        "default",
        ["nodes[1]: this node is in a pool in document 1 (nodes[0]) already; keep it in one of them."],
    ),
    (
        "a pool twice",
        [POOL.format(name="a", nodes="gpu-1"), POOL.format(name="a", nodes="gpu-2")],
        "default",
        ["pool.name: a pool of this name is in document 1 (pool.name) already; give each its own name."],
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
        ["users.team: quota b limits this namespace, which is in quota a, document 1 (users.team) already; "
         "keep it in one of them."],
    ),
    (
        "a job twice",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="notebook", name="a", more="")],
        "default",
        ["job.name: a job of this name in namespace default is in document 1 (job.name) already; "
         "give each its own name."],
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
        ["job.name: a job of this name in namespace b is in document 1 (job.name) already; give each its own name."],
    ),
    (
        "a job twice, the second with an error of its own",
        [JOB.format(kind="training", name="a", more=""), JOB.format(kind="training", name="a", more=", priority: x")],
        "default",
        ["job.name: a job of this name in namespace default is in document 1 (job.name) already; "
         "give each its own name.",
         "job.priority: x is not allowed; give high, medium or low."],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "namespace", "expected"), [case[1:] for case in TOGETHER], ids=[case[0] for case in TOGETHER]
)
def test_manifests_that_do_not_go_together(texts: list[str], namespace: str, expected: list[str]) -> None:
    errors = [] if not expected else errors_of(definition=texts, namespace=namespace)
    assert [error.replace("definition, document 2, ", "") for error in errors] == expected
    if not expected:
        assert len(load(definition=texts, namespace=namespace)) == 2
