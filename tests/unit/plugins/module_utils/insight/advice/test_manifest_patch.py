# SPDX-License-Identifier: BSD-2-Clause
"""A scalar of a manifest is replaced where it stands, or not at all; nothing else of the text changes."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advice.manifest_patch import (
    NotPatched,
    declared_jobs,
    edit_of,
    with_edits,
)

HEAD = "kind: training\nversion: v0.1\njob: {name: sft}\nenvironment: {image: a, command: [x]}\n"
GPUS = {"what": "resources.gpu", "asked": 8, "advised": 6}
MEMORY = {"what": "resources.memory", "asked": "64Gi", "advised": "20Gi"}
SHARE = {"what": "resources.gpu-share", "asked": 1, "advised": "20Gi"}
CPU = {"what": "resources.cpu", "asked": "8", "advised": "500m"}


def patched(text: str, *rows: dict[str, Any], name: str = "sft") -> str:
    job = declared_jobs("a.yaml", text, "team-a")["training", "team-a", name]
    return with_edits(text, [edit_of(job, row) for row in rows])


def of(resources: str) -> str:
    return f"{HEAD}resources: {resources}\n"


@pytest.mark.parametrize(
    ("before", "row", "after"),
    [
        ("{gpu: 8, cpu: 8, memory: 64Gi}", GPUS, "{gpu: 6, cpu: 8, memory: 64Gi}"),
        ("{cpu: 8, memory: 64Gi, gpu: 8}", GPUS, "{cpu: 8, memory: 64Gi, gpu: 6}"),
        ("{gpu: 8, cpu: '8', memory: 64Gi}", CPU, "{gpu: 8, cpu: '500m', memory: 64Gi}"),
        ('{"gpu": 8, "cpu": 8, "memory": "64Gi"}', MEMORY, '{"gpu": 8, "cpu": 8, "memory": "20Gi"}'),
        ("{gpu: 8, cpu: 8, memory: 65536Mi}", MEMORY, "{gpu: 8, cpu: 8, memory: 20Gi}"),
        (
            "\n  gpu: 8 # é, 字, 😀\n  cpu: 8\n  memory:\n    64Gi",
            MEMORY,
            "\n  gpu: 8 # é, 字, 😀\n  cpu: 8\n  memory:\n    20Gi",
        ),
        ("{gpu: 1, cpu: 8, memory: 64Gi}", SHARE, "{gpu-share: 20Gi, cpu: 8, memory: 64Gi}"),
        ('{"cpu": 8, "memory": "64Gi", "gpu":   1}', SHARE, '{"cpu": 8, "memory": "64Gi", "gpu-share":   20Gi}'),
        (
            "\n  # one H100\n  gpu:  1  # 字\n  cpu: 8\n  memory: 64Gi",
            SHARE,
            "\n  # one H100\n  gpu-share:  20Gi  # 字\n  cpu: 8\n  memory: 64Gi",
        ),
        ("\n  cpu: 8\n  memory: 64Gi\n  ? gpu\n  : 8", GPUS, "\n  cpu: 8\n  memory: 64Gi\n  ? gpu\n  : 6"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_only_the_value_changes(before: str, row: dict[str, Any], after: str, end: str) -> None:
    assert patched(of(before).replace("\n", end), row) == of(after).replace("\n", end)


def test_all_values_of_a_job_at_once_in_the_document_that_declares_it() -> None:
    one = of("{gpu: 8, cpu: 8, memory: 64Gi} # 8, 64Gi")
    text = f"# 😀\n---\n{one}---\n{one.replace('sft', 'other')}...\n---\n# the end\n"
    expected = text.replace("{gpu: 8, cpu: 8, memory: 64Gi}", "{gpu: 6, cpu: 500m, memory: 20Gi}", 1)
    assert patched(text, MEMORY, GPUS, CPU) == expected
    changed = patched(text, GPUS, name="other")
    assert changed.count("gpu: 8") == 1
    assert changed.index("gpu: 8") < changed.index("name: other") < changed.index("gpu: 6")


@pytest.mark.parametrize(
    ("resources", "row", "reason"),
    [
        ("{gpu: &n 8, cpu: 8, memory: 64Gi}", GPUS, "an anchor"),
        ("&r {gpu: 8, cpu: 8, memory: 64Gi}", GPUS, "an anchor"),
        ("&r\n  gpu: 8\n  cpu: 8\n  memory: 64Gi", GPUS, "an anchor"),
        ("{gpu: &n 8, cpu: *n, memory: 64Gi}", CPU, "an anchor"),
        ("{gpu: !!int 8, cpu: 8, memory: 64Gi}", GPUS, "a tag"),
        ('{gpu: 8, cpu: 8, memory: "\\x364Gi"}', MEMORY, "not written as it is read"),
        ("\n  gpu: 8\n  cpu: 8\n  memory: >-\n    64Gi", MEMORY, "not written as it is read"),
        ("{gpu: &n 1, cpu: 8, memory: 64Gi}", SHARE, "an anchor"),
        ("{gpu: 1, gpu-share: 4Gi, cpu: 8, memory: 64Gi}", SHARE, "sets gpu-share beside gpu"),
        ('{"\\x67pu": 1, cpu: 8, memory: 64Gi}', SHARE, "in another spelling"),
        ("{gpu: 2, cpu: 8, memory: 64Gi}", SHARE, "the manifest asks for 2, and what runs for 1"),
        ("{cpu: 8, memory: 64Gi}", SHARE, "the manifest does not set it"),
        ("{gpu: 1, cpu: 8, memory: 64Gi}", {**SHARE, "advised": "20Gi}"}, "no smaller amount"),
        ("{gpu: 4, cpu: 8, memory: 64Gi}", GPUS, "the manifest asks for 4, and what runs for 8"),
        ("{cpu: 8, memory: 64Gi}", GPUS, "the manifest does not set it, so it is a default. Add gpu: 6."),
        ("{gpu: 8, cpu: 8, memory: 64Gi}", {**GPUS, "advised": 9}, "no smaller amount"),
        ("{gpu: 8, cpu: 8, memory: 64Gi}", {**GPUS, "advised": "6}\nkind: policy"}, "no smaller amount"),
        ("{gpu: 8, cpu: 8, memory: 64Gi}", {**GPUS, "what": "environment.image"}, "the manifest asks for a"),
        ("{gpu: 8, cpu: 8, memory: 64Gi}", {**GPUS, "what": "resources"}, "the manifest does not set it"),
    ],
)
def test_what_cannot_be_replaced_is_refused(resources: str, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotPatched, match=reason):
        patched(of(resources), row)


def test_a_training_of_a_matrix_is_refused() -> None:
    text = of("{gpu: 8, cpu: 8, memory: 64Gi}").replace("[x]", '["$(matrix.a)"]') + "matrix: {a: [1]}\n"
    with pytest.raises(NotPatched, match="one of a sweep"):
        patched(text, GPUS, name="sft-1")


def test_replicas_of_a_service() -> None:
    text = of("{gpu: 1, cpu: 8, memory: 64Gi}").replace("training", "inference") + "service: {port: 80, replicas: 6}\n"
    job = declared_jobs("a.yaml", text, "team-a")["inference", "team-a", "sft"]
    edit = edit_of(job, {"what": "service.replicas", "asked": 6, "advised": 3})
    assert with_edits(text, [edit]) == text.replace("replicas: 6", "replicas: 3")
