# SPDX-License-Identifier: BSD-2-Clause
"""One training for each combination of a matrix: their names, their values, and errors reported once."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.matrix import names_of
from manifest_cases import manifest_text


def trainings(*definition: str) -> list[Training]:
    return [document.model for document in load(definition=list(definition))]


def sweep(matrix: str, environment: str, **blocks: str) -> str:
    return manifest_text({"set": {"matrix": matrix, "environment": environment, **blocks}})


def test_every_combination_is_a_training_in_the_order_of_the_matrix() -> None:
    command = "{image: x, command: [train, $(matrix.lr), $(matrix.seed)]}"
    found = trainings(sweep("{lr: [1e-4, 3e-5], seed: [1, 2]}", command))
    assert [(each.job.name, each.job.sweep, each.environment.command) for each in found] == [
        ("a-1e-4-1", "a", ["train", "1e-4", "1"]),
        ("a-1e-4-2", "a", ["train", "1e-4", "2"]),
        ("a-3e-5-1", "a", ["train", "3e-5", "1"]),
        ("a-3e-5-2", "a", ["train", "3e-5", "2"]),
    ]
    assert {len(each.matrix) for each in found} == {0}, "what comes out is an ordinary training"


PLACES = {
    "in an argument": ("environment", "{image: x, args: [--lr=$(matrix.v)]}", "environment.args.0", "--lr=2"),
    "in the environment": ("environment", "{image: x, env: {LR: $(matrix.v)}}", "environment.env.0.value", "2"),
    "several times": (
        "environment",
        "{image: 'x:$(matrix.v).$(matrix.v)', command: [a]}",
        "environment.image",
        "x:2.2",
    ),
    "as a number": ("resources", "{cpu: 1, memory: 1Gi, gpu: $(matrix.v)}", "resources.gpu", 2),
    "in a path": ("storage", "{workdirs: [{path: /out/$(matrix.v)}]}", "storage.workdirs.0.path", "/out/2"),
    "after a dollar that Kubernetes keeps": (
        "environment",
        "{image: x, args: [$$(matrix.v), $$$(matrix.v)]}",
        "environment.args",
        ["$$(matrix.v)", "$$2"],
    ),
    "beside a variable of Kubernetes": (
        "environment",
        "{image: x, args: [$(RANK) $(matrix.v)]}",
        "environment.args.0",
        "$(RANK) 2",
    ),
}


@pytest.mark.parametrize(("block", "text", "path", "value"), PLACES.values(), ids=PLACES)
def test_a_value_is_valid_in_any_field(block: str, text: str, path: str, value: object) -> None:
    found: object = trainings(manifest_text({"set": {"matrix": "{v: [2]}", block: text}}))[0]
    for step in path.split("."):
        found = found[int(step)] if isinstance(found, list) else getattr(found, step)
    assert found == value


NAMES = {
    "values": ([{"lr": "1e-4", "seed": "2"}], ["base-1e-4-2"]),
    "what cannot stand in a name": ([{"m": "Meta/Llama_3.1"}], ["base-meta-llama-3-1"]),
    "nothing that can": ([{"m": "---"}, {"m": "y"}], ["base-x", "base-y"]),
    "the same letters": (
        [{"v": "1.0"}, {"v": "1-0"}, {"v": "2"}],
        ["base-1-0-91aede93", "base-1-0-2b23fed8", "base-2"],
    ),
    "too long": ([{"v": "v" * 60}], ["base-vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv-df8544ee"]),
    "as long as can be": ([{"v": "v" * 47}], [f"base-{'v' * 47}"]),
}


@pytest.mark.parametrize(("combinations", "names"), NAMES.values(), ids=NAMES)
def test_names_come_from_the_values(combinations: list[dict[str, str]], names: list[str]) -> None:
    assert names_of("base", combinations) == names
    assert {len(name) <= 52 for name in names} == {True}


def test_a_hashed_name_does_not_depend_on_the_other_combinations() -> None:
    long = {"v": "v" * 60}
    assert names_of("base", [long])[0] == names_of("base", [{"v": "1"}, long])[1]


def test_a_sweep_in_the_manifest_is_kept() -> None:
    (found,) = trainings(sweep("{v: [1]}", "{image: 'x:$(matrix.v)'}", job="{name: a, sweep: mine}"))
    assert (found.job.name, found.job.sweep) == ("a-1", "mine")


def test_an_error_that_no_value_causes_is_reported_once_and_one_of_a_value_for_that_value() -> None:
    text = sweep("{gpu: [1, many], seed: [1, 2]}", "{image: 'x:$(matrix.seed)'}", queue="{name: Q}")
    resources = "{cpu: 1, memory: 1Gi, gpu: $(matrix.gpu)}"
    with pytest.raises(ManifestErrors) as raised:
        load(definition=sweep("{gpu: [1, many], seed: [1, 2]}", "{image: 'x:$(matrix.seed)'}", resources=resources))
    assert [(error.path, error.value) for error in raised.value.errors] == [("resources.gpu", "many")]
    with pytest.raises(ManifestErrors) as raised:
        load(definition=text.replace("memory: 1Gi", "memory: 1Gi, gpu: $(matrix.gpu)"))
    assert [error.path for error in raised.value.errors] == ["queue.name"]


def test_the_name_of_another_manifest_is_rejected() -> None:
    other = manifest_text({"set": {"job": "{name: a-2}"}})
    with pytest.raises(ManifestErrors, match="duplicate job in namespace default, also in document 1"):
        load(definition=[sweep("{v: [1, 2]}", "{image: 'x:$(matrix.v)'}"), other])


def test_a_secret_of_the_matrix_is_not_shown() -> None:
    environment = "{image: x, env: {API_TOKEN: $(matrix.token)}}"
    text = sweep("{token: [s3cr3t-1, s3cr3t-2]}", environment, resources="{cpu: 1}")
    with pytest.raises(ManifestErrors) as raised:
        load(definition=text)
    assert "s3cr3t" not in str(raised.value)
    assert raised.value.secrets >= {"s3cr3t-1", "s3cr3t-2"}
