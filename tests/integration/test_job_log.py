# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_log: the logs of a job.

Of a real cluster's kubelets the tests only ask for ten lines per container and for ``tailLines``.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import pytest

from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .recorder import Recorder


def log(ansible: Ansible, namespace: str, name: str, **options: Any) -> TaskResult:
    return ansible.module("gpuctl_job_log", name=name, namespace=namespace, **options)


def several(ansible: Ansible, namespace: str, *tasks: dict[str, Any]) -> list[TaskResult]:
    """Tasks of one play."""
    module = "runwhere.gpuctl.gpuctl_job_log"
    return ansible.play([{"name": "log", module: {"namespace": namespace, **options}} for options in tasks]).tasks


def submit(ansible: Ansible, namespace: str, *jobs: dict[str, Any]) -> None:
    result = ansible.job(definition=list(jobs), namespace=namespace, wait=True, wait_timeout=120)
    assert not result.failed, result.message


def lines(api: Api, namespace: str, pod: str, **query: str) -> list[str]:
    """What the server itself gives."""
    fields = {"container": "main", **query}
    response = api.pool.request(
        "GET", f"{api.server}/api/v1/namespaces/{namespace}/pods/{pod}/log", fields=fields, headers=api.headers
    )
    assert response.status == 200, response.data
    return list(response.data.decode().splitlines())


def pods(api: Api, namespace: str, job: str) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.list("pod", namespace, f"app={job}")]


def test_every_kind_is_read_by_the_name_of_the_job(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    submit(ansible, namespace, training(), inference(service={"replicas": 2}), notebook(), compute())
    for name, kind, number in (
        ("train", "training", 1),
        ("serve", "inference", 2),
        ("lab", "notebook", 1),
        ("web", "compute", 1),
    ):
        recorder.clear()
        result = log(ansible, namespace, name)
        assert not result.failed, result.message
        assert not result.changed
        assert len(recorder.requests) == 1 + number, "one list, and one request for each log"
        assert {row["pod"] for row in result.result["results"]} == set(pods(api, namespace, name))
        for row in result.result["results"]:
            assert row["lines"] == lines(api, namespace, row["pod"], tailLines="100")
            assert len(row["lines"]) >= 10
            assert (row["name"], row["namespace"], row["kind"]) == (name, namespace, kind)
            assert (row["node"] is not None, row["truncated"], row["error"]) == (True, False, None)


def rows_without_times(task: TaskResult) -> list[dict[str, Any]]:
    """Stand-ins for kubelets write their lines when they are asked for them."""
    return [
        {name: value for name, value in row.items() if not name.endswith("_timestamp")}
        for row in task.result["results"]
    ]


def test_the_ranks_of_a_distributed_training_are_distinguished(ansible: Ansible, namespace: str):
    submit(ansible, namespace, training("dist", resources={"node_count": 2}))
    everything = rows_without_times(log(ansible, namespace, "dist", tail=3))
    names = [row["pod"] for row in everything]
    assert [re.sub(r"-\w{5}$", "", name) for name in names] == ["dist-0", "dist-1"]
    assert [len(row["lines"]) for row in everything] == [3, 3]

    choices = [0, 1, *names, 2]
    *found, unknown = several(ansible, namespace, *({"name": "dist", "pod": pod, "tail": 3} for pod in choices))
    assert [rows_without_times(task) for task in found] == [[row] for row in everything * 2]
    assert unknown.failed
    assert unknown.message == f"job dist in namespace {namespace}: pod 2 not found. Pods: {', '.join(names)}."


def test_only_matching_lines_are_given_the_last_of_them(ansible: Ansible, api: Api, namespace: str):
    submit(ansible, namespace, compute())
    (pod,) = pods(api, namespace, "web")
    everything = lines(api, namespace, pod)
    word = re.escape(" ".join(everything).split()[-1][:3])
    matching = [line for line in everything if re.search(word, line)]
    greps = [{"grep": word, "tail": -1}, {"grep": word, "tail": 1}, {"grep": "^no such line$"}]
    found = several(ansible, namespace, *({"name": "web", **options} for options in greps))
    rows = [row for task in found for row in task.result["results"]]
    assert [row["lines"] for row in rows] == [matching, matching[-1:], []]
    assert {row["error"] for row in rows} == {None}


def test_the_limit_keeps_the_newest_lines(ansible: Ansible, api: Api, namespace: str):
    submit(ansible, namespace, compute())
    (pod,) = pods(api, namespace, "web")
    last = lines(api, namespace, pod)[-2:]
    (row,) = log(ansible, namespace, "web", limit_bytes=sum(len(line.encode()) + 1 for line in last)).result["results"]
    assert (row["lines"], row["truncated"]) == (last, True)


def test_into_a_file(ansible: Ansible, api: Api, namespace: str, tmp_path: Path):
    submit(ansible, namespace, compute(service={"replicas": 2}))
    dest = tmp_path / "web.log"
    options = {"dest": str(dest), "tail": 10}

    predicted = ansible.module("gpuctl_job_log", name="web", namespace=namespace, check=True, **options)
    assert predicted.changed
    assert not dest.exists()

    result = log(ansible, namespace, "web", **options)
    assert result.changed
    assert [row["lines"] for row in result.result["results"]] == [[], []]
    assert (result.result["dest"], result.message) == (str(dest), "20 lines of 2 pods")
    assert stat.S_IMODE(dest.stat().st_mode) == 0o600
    expected = [
        line
        for row in result.result["results"]
        for line in (f"==> {row['pod']} <==", *lines(api, namespace, row["pod"], tailLines="10"))
    ]
    assert dest.read_text().splitlines() == expected
    assert not log(ansible, namespace, "web", **options).changed
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".web.log")] == []


def test_secrets_of_the_manifest_are_masked(ansible: Ansible, namespace: str, tmp_path: Path):
    """The simulated kubelet logs the environment of a container; other kubelets need not."""
    secret = "hf_0123456789abcdef"
    submit(ansible, namespace, compute(environment={"env": {"HF_TOKEN": secret}}))
    dest = tmp_path / "web.log"
    tasks = ({"tail": -1}, {"tail": -1, "dest": str(dest)}, {"grep": secret})
    shown, written, guessed = several(ansible, namespace, *({"name": "web", **options} for options in tasks))
    assert not written.failed, written.message
    for text in ("\n".join(shown.result["results"][0]["lines"]), dest.read_text()):
        assert secret not in text
        assert "HF_TOKEN=" not in text or "HF_TOKEN=********" in text
    assert [line for line in guessed.result["results"][0]["lines"] if "HF_TOKEN" in line] == []


def test_a_pod_that_has_not_started_says_why(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(resources={"gpu": 9999}), namespace=namespace)
    eventually(lambda: any("status" in pod and pod["status"].get("conditions") for pod in api.list("pod", namespace)))
    result = log(ansible, namespace, "train")
    (row,) = result.result["results"]
    assert (row["lines"], row["node"], row["status"]) == ([], None, "Pending")
    assert row["error"].startswith(f"pod {row['pod']} cannot be scheduled"), row
    assert "GPU" in row["error"]


MISSING = {
    "an unknown job": ("nobody", r"^job nobody not found in namespace {namespace}\. .* A finished training"),
    "an unmanaged workload": (
        "theirs",
        r"^Deployment theirs in namespace {namespace} is not managed by this collection",
    ),
    "no pods yet": (
        "refused",
        r"^job refused in namespace {namespace} has no pods yet: quota none .*too small",
    ),
    "scaled to nothing": (
        "resting",
        r"^job resting in namespace {namespace} is paused, and its pods are deleted with their logs and files",
    ),
}


@pytest.fixture
def without_pods(ansible: Ansible, api: Api, namespace: str) -> None:
    theirs = {"app": "theirs"}
    pod = {"containers": [{"name": "main", "image": "registry.example.com/x:v1"}]}
    api.create(
        "deployment",
        {
            "metadata": {"name": "theirs"},
            "spec": {
                "selector": {"matchLabels": theirs},
                "template": {"metadata": {"labels": theirs}, "spec": pod},
            },
        },
        namespace,
    )
    api.create("resourcequota", {"metadata": {"name": "none"}, "spec": {"hard": {"limits.cpu": "1m"}}}, namespace)
    eventually(lambda: api.get("resourcequota", "none", namespace).get("status", {}).get("hard"))
    ansible.job(definition=[compute("refused"), compute("resting", service={"replicas": 0})], namespace=namespace)


def test_a_job_without_pods_says_why(ansible: Ansible, namespace: str, without_pods: None):
    tasks = [{"name": name} for name, text in MISSING.values()]

    def all_explained() -> bool:
        tasks_run = several(ansible, namespace, *tasks)
        assert all(task.failed for task in tasks_run)
        patterns = [text.format(namespace=namespace) for name, text in MISSING.values()]
        return all(re.search(pattern, task.message) for pattern, task in zip(patterns, tasks_run, strict=True))

    eventually(all_explained)


def test_the_namespace_of_a_job_is_found_where_it_was_not_given(ansible: Ansible, namespace: str):
    name = f"only-{namespace[-8:]}"
    submit(ansible, namespace, compute(name))
    result = ansible.module("gpuctl_job_log", name=name)
    assert result.message == f"job {name} not found in namespace default. It exists in {namespace}: set namespace."


BAD = {
    "since": ({"since": "yesterday"}, "since: 'yesterday' is invalid. Give seconds (600), a duration (10m,"),
    "grep": ({"grep": "["}, "grep: '[' is not a regular expression"),
    "tail": ({"tail": 0}, "tail: 0 is too small. Give 1 or more, or -1 for all lines."),
    "limit_bytes": ({"limit_bytes": 0}, "limit_bytes: 0 is too small. Give 1 or more."),
    "a directory": ({"dest": "/tmp"}, "dest: /tmp is a directory"),
    "no directory": (
        {"dest": "/no/such/x.log"},
        "dest: /no/such/x.log cannot be written. Create the directory /no/such",
    ),
}


def test_all_wrong_options_are_reported_before_any_request(ansible: Ansible, recorder: Recorder):
    everything: dict[str, Any] = {"since": "yesterday", "grep": "[", "tail": 0, "limit_bytes": 0}
    tasks = [*(options for options, text in BAD.values()), everything]
    *alone, together = several(ansible, "default", *({"name": "web", **options} for options in tasks))
    for task, (_options, text) in zip(alone, BAD.values(), strict=True):
        assert text in task.message
    assert [text for option in everything for text in [BAD[option][1]] if text not in together.message] == []
    assert recorder.requests == []


def test_an_unknown_container_is_reported_with_the_existing_ones(ansible: Ansible, namespace: str):
    submit(ansible, namespace, compute())
    result = log(ansible, namespace, "web", container="sidecar")
    assert result.failed
    assert result.message == f"job web in namespace {namespace}: container sidecar not found. Containers: main."


def test_the_playbook_shows_the_lines(ansible: Ansible, api: Api, namespace: str):
    submit(ansible, namespace, compute())
    (pod,) = pods(api, namespace, "web")
    last = lines(api, namespace, pod, tailLines="2")
    run = ansible.run(
        "ansible-playbook",
        "runwhere.gpuctl.logs",
        *("-e", "gpuctl_name=web", "-e", f"gpuctl_namespace={namespace}", "-e", "gpuctl_tail=2", "-e", "gpuctl_grep="),
    )
    assert run.status == 0, run.output
    assert set(last) <= set(run.output.splitlines()), "as text, without quotes"


def test_the_playbook_says_what_it_needs(ansible: Ansible):
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.logs")
    assert run.status == 2
    assert "Missing variable: gpuctl_name. Add -e gpuctl_name=sft." in run.output
