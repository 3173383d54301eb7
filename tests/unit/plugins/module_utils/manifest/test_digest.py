# SPDX-License-Identifier: BSD-2-Clause
"""Which manifests ask for the same run."""

from __future__ import annotations

import hashlib

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from manifest_cases import manifest_text

BASE = {"environment": "{image: x, env: {A: 1}}", "resources": "{cpu: 1, memory: 1Gi, gpu-type: A100}"}


def digest(blocks: dict[str, str]) -> str:
    (document,) = load(definition=manifest_text({"set": {**BASE, **blocks}}))
    return digest_of(document.model)


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
    assert digest({"environment": "{image: x, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}"})


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
