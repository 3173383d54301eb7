# SPDX-License-Identifier: BSD-2-Clause
"""Advisers add to a task of jobs: it works without them, and none of them fails it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.advisers import Adviser, MakeAdviser
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from kubesim import Cluster

from tests.integration.manifests import training


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1).running() as running:
        yield running


def submit(cluster: Cluster, *advisers: MakeAdviser, check_mode: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The result of a training, and the warnings that are not about its manifest."""
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    warnings: list[str] = []
    options = JobOptions(definition=[training("train")])
    task = Task(options, params, check_mode, warnings.append, lambda values: None, advisers=advisers)
    return MODULE.run(task), [text for text in warnings if not text.startswith("definition")]


def failing(hook: str) -> MakeAdviser:
    def fail(*_arguments: Any) -> Any:
        raise KeyError("a secret")

    return lambda advised: type("Failing", (Adviser,), {"unknown": "the weather is not known", hook: fail})()


def test_a_task_without_advisers_does_its_work(cluster: Cluster) -> None:
    done, warnings = submit(cluster)
    assert [(row["action"], row["error"], row["fit"]) for row in done["results"]] == [("create", None, None)]
    assert warnings == []


@pytest.mark.parametrize("hook", ["before", "fits"])
def test_an_adviser_that_fails_is_a_warning(cluster: Cluster, hook: str) -> None:
    done, warnings = submit(cluster, failing(hook))
    assert [(row["action"], row["error"]) for row in done["results"]] == [("create", None)]
    assert warnings == ["the weather is not known. This is a bug; please report it: KeyError"]


def test_advisers_that_cannot_be_made_are_one_warning(cluster: Cluster) -> None:
    def fail(_advised: Any) -> Adviser:
        raise KeyError("a secret")

    done, warnings = submit(cluster, fail)
    assert [(row["action"], row["error"]) for row in done["results"]] == [("create", None)]
    assert warnings == [f"{Adviser.unknown}. This is a bug; please report it: KeyError"]


def test_advisers_are_not_even_made_for_jobs_that_are_as_they_should_be(cluster: Cluster) -> None:
    submit(cluster)
    made = []
    done, _warnings = submit(cluster, made.append)
    assert (done["changed"], made) == (False, [])
