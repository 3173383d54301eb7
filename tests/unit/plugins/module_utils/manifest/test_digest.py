# SPDX-License-Identifier: BSD-2-Clause
"""Which manifests ask for the same run."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of, former_digests_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from manifest_cases import manifest_text

BASE = {"environment": "{image: x, env: {A: 1}}", "resources": "{cpu: 1, memory: 1Gi, gpu-type: A100}"}


def model(blocks: dict[str, str]) -> Any:
    (document,) = load(definition=manifest_text({"set": {**BASE, **blocks}}))
    return document.model


def digest(blocks: dict[str, str]) -> str:
    return digest_of(model(blocks))


SAME = {
    "another spelling of a key": {"resources": "{cpu: 1, memory: 1Gi, gpu_type: A100}"},
    "another unit": {"resources": "{cpu: 1000m, memory: 1024Mi, gpu-type: A100}"},
    "a default written out": {
        "resources": "{cpu: 1, memory: 1Gi, gpu-type: A100, pool: default, node_count: 1}",
        "distributed": "{backend: torchrun}",
        "storage": "{}",
    },
    "another form of the environment": {"environment": "{image: x, env: [{name: A, value: '1'}]}"},
    "a value marked as secret": {"environment": "{image: x, env: [{name: A, value: '1', secret: true}]}"},
    "another version": {"version": "v1"},
    "another description, priority and sweep": {"job": "{name: a, description: b, priority: high, sweep: c}"},
    "another place": {"placement": "{clusters: [lyon], order: cheapest}"},
    "another job": {"job": "{name: other, namespace: other}"},
}
OTHER = {
    "another image": {"environment": "{image: y, env: {A: 1}}"},
    "another value": {"environment": "{image: x, env: {A: 2}}"},
    "an empty value": {"environment": "{image: x, env: {A: ''}}"},
    "another size": {"resources": "{cpu: 1, memory: 2Gi, gpu-type: A100}"},
    "more shared memory": {"storage": "{shm: 1Gi}"},
    "another order of arguments": {"environment": "{image: x, env: {A: 1}, args: [a, b]}"},
}


@pytest.mark.parametrize("blocks", SAME.values(), ids=SAME)
def test_the_same_run(blocks: dict[str, str]) -> None:
    assert digest(blocks) == digest({})


@pytest.mark.filterwarnings("error")
def test_a_reference_to_a_secret_causes_no_warning() -> None:
    """pydantic would print it to the screen of every task."""
    found = model({"environment": "{image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}"})
    assert former_digests_of(found) == (digest_of(found),)


# Each line is one value. The first spelling is that of most manifests, and has the digest that 1.0.0 gave it.
SPELLINGS = {
    "cpu: {}": [
        ("1", "1.0", "1e0", "+1", "01", "1000m", "1000000u", "10e-1", "0.001k"),
        ("500m", "0.5", ".5", "5e-1", "500000u", "0.50", "500e-3"),
        ("1500m", "1.5", "15e-1", "1.500"),
        ("1k", "1000", "1e3", "1.0E3", "1000000m"),
        ("1024", "1Ki", "1.024k"),
        ("1m", "0.001", "1e-3", "1000u"),
    ],
    "memory: {}": [
        ("1Gi", "1024Mi", "1048576Ki", "1073741824", "1.0Gi", "1073741824000m", "1.073741824G", "1073741824e0"),
        ("1536Mi", "1.5Gi", "1610612736"),
        ("1G", "1000M", "1e9", "1000000000", "0.001T", "1E9", "1000e6"),
        ("100", "100.0", "1e2", "0.1k", "100000m"),
    ],
    "gpu-share: {}": [("2Gi", "2048Mi", "2147483648", "2147483648e0")],
    "shm: {}": [("16Gi", "16384Mi", "17179869184")],
}
CASES = [(field, *spellings) for field, lines in SPELLINGS.items() for spellings in lines]


def spelled(field: str, text: str) -> Any:
    given = field.format(text)
    if field.startswith("shm"):
        return model({"storage": f"{{{given}}}"})
    others = [other for other in ("cpu: 2", "memory: 2Gi") if not field.startswith(other.partition(":")[0])]
    return model({"resources": f"{{{', '.join([*others, given])}}}"})


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_value_has_one_digest_however_it_is_spelled(case: tuple[str, ...]) -> None:
    field, *spellings = case
    assert {digest_of(spelled(field, text)) for text in spellings} == {digest_of(spelled(field, spellings[0]))}


@pytest.mark.parametrize("field", SPELLINGS)
def test_another_value_has_another_digest(field: str) -> None:
    values = [spellings[0] for spellings in SPELLINGS[field]]
    assert len({digest_of(spelled(field, text)) for text in [*values, "7", "7m", "7Mi", "7M"]}) == len(values) + 4


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_usual_spelling_has_the_digest_of_former_versions(case: tuple[str, ...]) -> None:
    """So that two versions that run side by side run nothing again."""
    written = spelled(*case[:2])
    assert former_digests_of(written) == (digest_of(written),)


def test_the_digest_of_former_versions_stays_as_it_was() -> None:
    """Recorded with 1.0.0; the ledgers have it."""
    assert former_digests_of(model({"resources": "{cpu: 1e0, memory: 1073741824, gpu_share: 1.5Gi}"})) == (
        "625f37c0c3f375f86ec733c14b906224",
    )


@pytest.mark.parametrize("blocks", OTHER.values(), ids=OTHER)
def test_another_run(blocks: dict[str, str]) -> None:
    assert digest(blocks) != digest({})


def test_a_digest_is_the_same_tomorrow() -> None:
    """A version of the collection that reads manifests otherwise must not run every finished training again."""
    text = (
        '{"environment": {"env": [{"name": "A", "value": "1"}], "image": "x"}, "kind": "training", '
        '"resources": {"cpu": "1", "gpu_type": "A100", "memory": "1Gi"}}'
    )
    assert digest({}) == hashlib.sha256(text.encode()).hexdigest()[:32]
