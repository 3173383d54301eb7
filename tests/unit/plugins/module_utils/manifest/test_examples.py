# SPDX-License-Identifier: BSD-2-Clause
"""The examples that newcomers copy load, without a warning, each and all together."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_blocks import JobManifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import ADMINISTRATORS, KINDS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.pool_model import Pool

EXAMPLES = Path(__file__).parents[5] / "examples"
FOLDERS = [EXAMPLES / "cluster", EXAMPLES / "manifests"]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda file: file.name)
def test_an_example_loads_without_a_warning(file: Path) -> None:
    documents = load([str(file)])
    assert [document.warnings for document in documents] == [()] * len(documents)


@pytest.mark.parametrize(
    "file", sorted(file for folder in FOLDERS for file in folder.iterdir()), ids=lambda file: file.name
)
def test_an_example_of_one_kind_is_named_after_it(file: Path) -> None:
    assert {document.model.kind for document in load([str(file)])} == {file.stem.split("-")[0]}


def test_the_examples_pass_the_cross_document_checks() -> None:
    models = [document.model for document in load([str(folder) for folder in FOLDERS])]
    assert {model.kind for model in models} == set(KINDS) - set(ADMINISTRATORS)
    pools = {model.pool.name for model in models if isinstance(model, Pool)}
    assert {model.resources.pool for model in models if isinstance(model, JobManifest)} <= pools
