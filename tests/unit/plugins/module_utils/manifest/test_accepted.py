# SPDX-License-Identifier: BSD-2-Clause
"""What is accepted, and what it means."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from manifest_cases import FIXTURES, manifest_text, table


def at(model: Any, path: str) -> Any:
    """The attribute, list item or map entry at a path; map entries may have dots in their names."""
    for step in path.split("."):
        if isinstance(model, list):
            model = model[int(step)]
        else:
            model = model[step] if isinstance(model, dict) else getattr(model, step)
    return model


@pytest.mark.parametrize("libyaml", [True, False], ids=["libyaml", "PyYAML alone"])
@pytest.mark.parametrize("case", table("accepted"), ids=lambda case: case["name"])
def test_a_manifest_means_this(case: dict[str, Any], libyaml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not libyaml:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    (document,) = load(definition=manifest_text(case))
    assert {path: at(document.model, path) for path in case["gives"]} == case["gives"]


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("valid/*.yaml")), ids=lambda file: file.name)
def test_an_example_of_the_source_documents_loads_verbatim(file: Any) -> None:
    (document,) = load([str(file)])
    assert document.model.kind in file.stem
    assert (document.origin.file, document.origin.number) == (str(file), 1)


WARNINGS = [
    (
        "gpu-share beside whole GPUs",
        {"set": {"resources": "{cpu: 1, memory: 1Gi, gpu: 2, gpuShare: 2Gi}"}},
        ["resources.gpuShare: ignored: 2Gi. The job gets 2 whole GPU(s). Remove it, or set gpu to 0."],
    ),
    ("gpu-share alone", {"set": {"resources": "{cpu: 1, memory: 1Gi, gpu: 0, gpu-share: 2Gi}"}}, []),
    (
        "replicas beside autoscaling",
        {"kind": "inference", "set": {"service": "{replicas: 2}", "autoscaling": "{max_replicas: 3}"}},
        ["service.replicas: ignored: 2. autoscaling sets the number of replicas. Remove it."],
    ),
    (
        "the timeout of the former command line, which ignored it",
        {"kind": "inference", "set": {"service": "{timeout: 600}"}},
        ["service.timeout: ignored: 600. Remove it. Startup takes startup_timeout seconds at most."],
    ),
    ("autoscaling alone", {"kind": "inference", "set": {"autoscaling": "{max_replicas: 3}"}}, []),
]


@pytest.mark.parametrize(("case", "expected"), [case[1:] for case in WARNINGS], ids=[case[0] for case in WARNINGS])
def test_an_ignored_field_is_a_warning(case: dict[str, Any], expected: list[str]) -> None:
    (document,) = load(definition=manifest_text(case))
    assert [warning.replace("definition, document 1, ", "") for warning in document.warnings] == expected


def test_models_are_frozen() -> None:
    (document,) = load(definition=manifest_text({}))
    with pytest.raises(ValueError, match="frozen"):
        document.model.kind = "notebook"  # type: ignore[misc, assignment]
