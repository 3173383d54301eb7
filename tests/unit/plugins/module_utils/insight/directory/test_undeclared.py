# SPDX-License-Identifier: BSD-2-Clause
"""What a directory declares, and what it does not declare any more."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory import directory_plan
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.directory_plan import (
    DirectoryOptions,
    DirectoryPlan,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.directory.undeclared import find_undeclared
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import TaskFailed


def test_a_policy_that_cannot_be_planned_does_not_make_the_next_one_undeclared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = []
    for name in ("first", "second"):
        files.append(str(tmp_path / f"{name}.yaml"))
        Path(files[-1]).write_text(f"kind: policy\npolicy: {{name: {name}}}\nteams: {{a: {{max_gpus_per_job: 1}}}}\n")

    def fail(*_given: Any) -> None:
        raise TaskFailed("no pool of that name")

    monkeypatch.setattr(directory_plan, "plan_policy", fail)
    found = DirectoryPlan(cast(Any, None))
    task = SimpleNamespace(with_options=lambda _options: None)
    with pytest.raises(TaskFailed):
        directory_plan._plan_policies(cast(Any, task), DirectoryOptions(src=[], policies=files), found)
    assert found.declared == {"policy": [("", "first"), ("", "second")]}


def test_of_a_kind_without_a_declaration_nothing_is_undeclared() -> None:
    client = cast(Any, None)  # is not asked
    assert list(find_undeclared(client, {"quota": [], "job": [], "node": [("", "n")]}, None)) == []
