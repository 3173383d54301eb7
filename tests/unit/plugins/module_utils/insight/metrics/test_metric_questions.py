# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.measured_job import measured_job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.metrics.metric_questions import (
    METRICS,
    own_expression,
    questions,
    tokens_per_second,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import (
    PodSelection,
    Source,
    plain_queries,
)

CREATED = "2026-01-31T08:00:00Z"


def obj(kind: str, name: str, created: str = CREATED, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "creationTimestamp": created, "labels": {"app": "a.b"}}, **more}


def test_a_name_cannot_leave_its_string() -> None:
    selection = PodSelection('team"', "job\\")
    text = own_expression('x{namespace="$namespace",job="$job",pod=~"$pods"} + $other', selection, r"a\.b-[0-9]+")
    assert text == r'x{namespace="team\"",job="job\\",pod=~"a\\.b-[0-9]+"} + $other'


def test_tokens_of_a_job_and_of_its_pods() -> None:
    assert tokens_per_second("job", PodSelection("team", "a"), "a-[0-9]+") == (
        'sum by(namespace)(rate({namespace="team",'
        '__name__=~"vllm:generation_tokens_total|sglang:generation_tokens_total",pod=~"a-[0-9]+"}[300s]))'
    )
    assert tokens_per_second("pod", PodSelection("team", "a"), "").startswith("sum by(namespace,pod)(")


@pytest.mark.parametrize("source", Source)
@pytest.mark.parametrize("aggregate", ["job", "pod", "gpu"])
def test_every_metric_is_asked_for(source: Source, aggregate: str) -> None:
    selection = PodSelection("team", "a", "a-0" if source is Source.POD_NAMES else "")
    found = questions(METRICS, aggregate, plain_queries(catalog(), source), selection, "a-0", None)
    assert {question.metric for question in found} == set(METRICS)
    assert [question.direction for question in found if question.metric == "network"] == ["receive", "transmit"]


NAMES: dict[str, tuple[list[dict[str, Any]], list[str], list[str]]] = {
    "a training": ([obj("Job", "a.b"), obj("Pod", "a.b-0-x7k2p")], ["a.b-0-x7k2p"], ["a.b-1-x7k2p", "acb-0-x7k2p"]),
    "a training without pods": ([obj("Job", "a.b")], ["a.b-0-x7k2p", "a.b-x7k2p"], ["a.b-0", "acb-0-x7k2p"]),
    "a service": (
        [obj("Deployment", "a.b"), obj("Pod", "a.b-7d4f8b9c6d-abcde")],
        ["a.b-7d4f8b9c6d-abcde", "a.b-6b5c-zzzzz"],
        ["a.b-x-7d4f8b9c6d-abcde"],
    ),
    "a notebook": ([obj("StatefulSet", "a.b")], ["a.b-0"], ["a.b-0-x7k2p"]),
    "a job that is gone": ([], ["a.b-0", "a.b-0-x7k2p", "a.b-7d4f8b9c6d-abcde"], ["a.b", "b-0"]),
    "pods of a former job": ([obj("Job", "a.b"), obj("Pod", "a.b-0-old00", "2026-01-01T00:00:00Z")], ["a.b-x7k2p"], []),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_pods(name: str) -> None:
    objects, ours, others = NAMES[name]
    pattern = measured_job(("team", "a.b"), objects).pod_pattern
    assert [pod for pod in ours if not re.fullmatch(pattern, pod)] == []
    assert [pod for pod in others if re.fullmatch(pattern, pod)] == []


def test_a_job_that_was_created_again_has_a_life_of_its_own() -> None:
    status = {"completionTime": "2026-01-31T09:00:00Z"}
    job = measured_job(("team", "a.b"), [obj("Job", "a.b", status=status)])
    assert job.life is not None
    assert job.life.ended == job.life.created + 3600
    assert measured_job(("team", "a.b"), []).life is None
