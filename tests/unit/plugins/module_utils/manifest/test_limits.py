# SPDX-License-Identifier: BSD-2-Clause
"""How large manifests may be, alone and together. tests/redteam/test_input.py measures what that takes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.rules import MAX_NODE_COUNT

JOB: dict[str, Any] = {
    "kind": "training",
    "job": {"name": "a"},
    "environment": {"image": "x"},
    "resources": {"cpu": 1, "memory": "1Gi"},
}


def named(number: int, **blocks: Any) -> dict[str, Any]:
    return {**JOB, "job": {"name": f"a{number}"}, **blocks}


def swept(trainings: int, **blocks: Any) -> dict[str, Any]:
    environment = {"image": "x$(matrix.a)", **blocks.pop("environment", {})}
    return {**JOB, "matrix": {"a": list(range(trainings))}, "environment": environment, **blocks}


WIDE = {"cpu": 1, "memory": "1Gi", "node_count": MAX_NODE_COUNT}
TOO_MUCH: dict[str, tuple[Any, str]] = {
    "documents": ([named(number) for number in range(2_001)], "more than 2000 manifests"),
    "documents and trainings": ([swept(500), *(named(number) for number in range(1_501))], "more than 2000 manifests"),
    "documents of text": ("---\na: b\n" * 2_001, "more than 2000 manifests"),
    "values": ({"a": ["x"] * 99_999}, "more than 100000 values"),
    "values of text": ("[" + "x," * 100_000 + "]", "more than 100000 values"),
    "values of all trainings": (
        swept(500, environment={"env": {f"A{number}": "b" for number in range(200)}}),
        "more than 100000 values",
    ),
    "text of all trainings": (swept(500, environment={"command": ["x" * 100_000]}), "more than 100000 values"),
    "nodes": ([named(number, resources=WIDE) for number in range(14)], "more than 100000 nodes in trainings"),
    "nodes of all trainings": (swept(14, resources=WIDE), "more than 100000 nodes in trainings"),
    "entries of a list": ({**JOB, "environment": {"image": "x", "args": ["a"] * 5_001}}, "too many entries: 5001"),
    "entries of a map": (
        {**JOB, "environment": {"image": "x", "env": {f"A{number}": "b" for number in range(5_001)}}},
        "too many entries: 5001",
    ),
    "variables that do not fit into an object": (
        {**JOB, "environment": {"image": "x", "env": {f"{'A' * 100}{number}": "b" * 80 for number in range(4_000)}}},
        "command, args, env and workdirs of more than 768 KiB",
    ),
    "control characters that JSON makes longer": (
        {**JOB, "environment": {"image": "x", "command": ["\x01" * 140_000]}},
        "command, args, env and workdirs of more than 768 KiB",
    ),
    "volumes that do not fit into an object": (
        {**JOB, "storage": {"workdirs": [{"path": f"/data/{number}"} for number in range(4_000)]}},
        "command, args, env and workdirs of more than 768 KiB",
    ),
    "a description": ({**JOB, "job": {"name": "a", "description": "x" * 60_001}}, "too long (60001 characters)"),
}
ENOUGH: dict[str, Any] = {
    "documents": [named(number) for number in range(2_000)],
    "trainings": swept(500),
    "nodes": [named(number, resources=WIDE) for number in range(13)],
    "entries": {**JOB, "environment": {"image": "x", "env": {f"A{number}": "b" for number in range(5_000)}}},
    "a description": {**JOB, "job": {"name": "a", "description": "\U0001f600" * 60_000}},
}


@pytest.mark.parametrize(("definition", "message"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_too_much_is_one_error(definition: Any, message: str) -> None:
    with pytest.raises(ManifestErrors) as raised:
        load(definition=definition)
    (error,) = raised.value.errors
    assert str(error).startswith("definition")
    assert message in str(error)


@pytest.mark.parametrize("definition", ENOUGH.values(), ids=ENOUGH)
def test_enough_is_accepted(definition: Any) -> None:
    assert load(definition=definition)


def test_the_limit_of_texts_counts_all_files(tmp_path: Any) -> None:
    for number in range(17):
        (tmp_path / f"{number}.yaml").write_text(f"kind: pool\npool: {{name: a{number}}}\n#" + "x" * (2**20 - 100))
    with pytest.raises(ManifestErrors, match=r"more than 16384 KiB of text. Use several tasks"):
        load([str(tmp_path)])


def test_the_hostfile_of_the_largest_training_fits_into_a_config_map() -> None:
    resources = {**WIDE, "gpu": 2**31 - 1}
    (document,) = load(definition={**JOB, "job": {"name": "a" * 52}, "resources": resources})
    (hostfile,) = [each for each in build(document.model, "b").dependents if each["kind"] == "ConfigMap"]
    assert 0.9 * 2**20 < sum(len(name) + len(text) for name, text in hostfile["data"].items()) <= 2**20


def test_a_message_is_cut() -> None:
    definition = [{**JOB, "job": {"name": "A" * 10_000}, "x" * 10_000: 1} for _number in range(60)]
    with pytest.raises(ManifestErrors) as raised:
        load(["/" + "x" * 10_000], definition)
    assert 10_000 < len(str(raised.value)) < 21_000
    assert "more errors." in str(raised.value).split("\n")[-1]


def test_the_secrets_of_a_sweep_that_is_too_large_are_known() -> None:
    definition = swept(
        500,
        environment={
            "image": "x",
            "env": {"TOKEN": "$(matrix.a)-secret", **{f"A{number}": "b" for number in range(300)}},
        },
    )
    definition["matrix"]["a"] = [f"hunter2-{number}" for number in range(500)]
    with pytest.raises(ManifestErrors) as raised:
        load(definition=definition)
    assert {"hunter2-0", "hunter2-499"} <= raised.value.secrets
