# SPDX-License-Identifier: BSD-2-Clause
"""The number of requests of a task with hundreds of jobs, which determines its time on a real cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import ADVISERS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job_options import JobOptions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from kubesim import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, controllers=False).running() as running:
        yield running


def service(number: int) -> dict[str, Any]:
    return {
        "kind": "compute",
        "job": {"name": f"web-{number}"},
        "environment": {"image": "registry.example.com/ml:v1"},
        "resources": {"cpu": 1, "memory": "1Gi"},
        "service": {"type": "ClusterIP"},
    }


def sent(
    cluster: Cluster, jobs: int, warn: Callable[[str], Any] = pytest.fail, **options: Any
) -> tuple[Counter[str], str]:
    """The requests of one task with so many jobs, by verb, and what the task says."""
    defaults = {name: option.get("default") for name, option in MODULE.arguments()["argument_spec"].items()}
    params = {**defaults, "host": cluster.url, "api_key": cluster.token}
    wanted = JobOptions(**{"definition": [service(number) for number in range(jobs)], **options})
    cluster.requests.reset()
    result = MODULE.run(Task(wanted, params, False, warn, lambda values: None, advisers=ADVISERS))
    return Counter(entry.verb for entry in cluster.requests), result["msg"]


def test_unchanged_jobs_cost_a_list_for_every_500_objects_of_a_kind(cluster: Cluster) -> None:
    sent(cluster, 1)
    one, said = sent(cluster, 1)
    assert said == "1 job: 1 unchanged"
    assert set(one) == {"list"}
    sent(cluster, 501)
    many, said = sent(cluster, 501)
    assert said == "501 jobs: 501 unchanged"
    # The second pages are those of the deployments and of the services.
    assert many == {"list": one["list"] + 2}


def test_one_changed_job_of_many_costs_one_write_and_one_of_the_history(cluster: Cluster) -> None:
    jobs = [service(number) for number in range(50)]
    sent(cluster, 50)
    unchanged, _said = sent(cluster, 50)
    jobs[7]["environment"]["image"] = "registry.example.com/ml:v2"
    changed, said = sent(cluster, 50, definition=jobs)
    assert said == "50 jobs: 49 unchanged, 1 update"
    # Its pods are replaced: which Pod Security level does the namespace enforce, and do nodes and quotas suffice.
    assert changed == {"list": unchanged["list"] + 2, "get": 1, "patch": 1 + 1}


def test_new_jobs_cost_a_write_per_object_and_no_question_per_job(cluster: Cluster) -> None:
    sent(cluster, 1)  # with the PriorityClass
    unchanged, _said = sent(cluster, 1)
    created, said = sent(cluster, 41)
    assert said == "41 jobs: 40 create, 1 unchanged"
    # Are the names taken by others, of each of two kinds; is the namespace open (a dry run); two objects for each job;
    # has another run changed the deployments meanwhile; which Pod Security level does the namespace enforce; nodes and
    # quotas, and the history, whatever the number of jobs.
    assert created == {"list": unchanged["list"] + 3 + 2, "get": 1, "patch": 1 + 2 * 40 + 1}


def test_a_new_job_costs_a_write_per_object_and_six_questions(cluster: Cluster) -> None:
    sent(cluster, 1)  # with the PriorityClass
    created, said = sent(cluster, 1, definition=[service(7)])
    assert said == "1 job: 1 create"
    # Six kinds of objects and the PriorityClasses; the two names, and whether another run has changed the deployment;
    # which Pod Security level the namespace enforces; nodes and quotas; the history.
    assert created == {"list": 7 + 3 + 2, "get": 1, "patch": 2 + 1}


def test_amounts_that_the_server_rounds_up_settle(cluster: Cluster) -> None:
    tiny = {**service(0), "resources": {"cpu": "500u", "memory": "1.5Gi"}}
    assert sent(cluster, 1, definition=[tiny])[1] == "1 job: 1 create"
    again, said = sent(cluster, 1, definition=[tiny])
    assert (said, set(again)) == ("1 job: 1 unchanged", {"list"})


TRAINING = {
    "kind": "training",
    "job": {"name": "web-0"},
    "environment": {"image": "registry.example.com/ml:v1", "command": ["train"]},
    "resources": {"cpu": 1, "memory": "1Gi"},
}


@pytest.mark.parametrize(
    "options",
    [
        {"definition": None, "name": "web-0", "namespace": "default", "state": "paused"},
        {"definition": None, "name": "web-0", "namespace": "default", "state": "restarted"},
        {"definition": [{**TRAINING, "resources": {"cpu": 2, "memory": "1Gi"}}]},
    ],
)
def test_the_pods_of_what_is_stopped_are_listed_once(options: dict[str, Any]) -> None:
    with Cluster(nodes=1).running() as cluster:
        sent(cluster, 1, definition=[TRAINING])
        _counts, said = sent(cluster, 1, list, **options, wait_timeout=20)
    assert "unchanged" not in said
    assert len([entry for entry in cluster.requests if (entry.verb, entry.resource) == ("list", "pods")]) == 1
