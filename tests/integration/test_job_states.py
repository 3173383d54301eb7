# SPDX-License-Identifier: BSD-2-Clause
"""The states of gpuctl_job: what each does to a running job of each kind, and what is left of it for the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .recorder import Recorder

# One job of each kind, by its name.
JOBS = {
    "train": training(),
    "serve": inference(service={"replicas": 2}),
    "lab": notebook(),
    "web": compute(),
}
STEPS = {"check": True, "run": False, "again": False, "check again": True}
TABLE = yaml.safe_load(Path(__file__).with_name("job_states.yaml").read_text())


def running(ansible: Ansible, namespace: str, *definition: dict[str, Any]) -> None:
    """Jobs that run; without any, one of each kind."""
    result = ansible.job(definition=list(definition or JOBS.values()), namespace=namespace, wait=True, wait_timeout=60)
    assert not result.failed, result.message


@pytest.mark.parametrize("state", TABLE)
def test_what_a_state_does_to_a_running_job(ansible: Ansible, recorder: Recorder, namespace: str, state: str):
    """Against job_states.yaml. Requests for /version, which only this test sends, separate the tasks."""
    running(ansible, namespace)
    recorder.clear()
    options = {"definition": list(JOBS.values()), "namespace": namespace, "state": state}
    tasks: list[dict[str, Any]] = []
    for step, check in STEPS.items():
        tasks.append({"name": "mark", "ansible.builtin.uri": {"url": f"{recorder.url}/version"}})
        tasks.append({"name": step, "check_mode": check, "runwhere.gpuctl.gpuctl_job": options})
    results = {task.task: task for task in ansible.play(tasks).tasks}

    seen = {job: {step: outcome(results[step], job) for step in STEPS} for job in JOBS}
    for step, requests in zip(STEPS, split(recorder.requests, "/version"), strict=True):
        for job in JOBS:
            seen[job][step] += sorted(described(request) for request in requests if concerns(request, job))
    assert seen == {
        job: {step: (row if isinstance(row, list) else [row]) for step, row in rows.items()}
        for job, rows in TABLE[state].items()
    }


def outcome(task: TaskResult, job: str) -> list[str]:
    assert not task.failed, task.message
    row = task.jobs[job]
    changed = any(resource["action"] != "unchanged" for resource in row["resources"])
    assert changed == (row["action"] != "unchanged")
    return [row["action"]]


def split(requests: list[Any], mark: str) -> list[list[Any]]:
    parts: list[list[Any]] = []
    for request in requests:
        if request.path == mark:
            parts.append([])
        else:
            parts[-1].append(request)
    return parts


def concerns(request: Any, job: str) -> bool:
    """A write of an object of the job. Only for the training the creation of another object is tried.

    A patch that is refused because a controller came between is sent again, and counts once.
    """
    last = request.path.rpartition("/")[2]
    if request.method == "GET" or (request.method == "PATCH" and request.status == 409):
        return False
    return job == ("train" if last == "jobs" else last.removeprefix("svc-"))


def described(request: Any) -> str:
    verb = {"POST": "create"}.get(request.method, request.method.lower())
    parts = request.path.split("/")
    return f"{'dry ' if request.dry_run else ''}{verb} {parts[-1] if verb == 'create' else parts[-2]}"


# -- paused and resumed ----------------------------------------------------------------------------------------------


def test_a_paused_training_releases_its_gpus_and_gets_them_back(ansible: Ansible, api: Api, namespace: str):
    running(ansible, namespace, training(resources={"gpu": 2, "node_count": 2}))

    predicted = ansible.job(name="train", namespace=namespace, state="paused", check=True)
    assert predicted.jobs["train"]["released_gpus"] == 4
    assert predicted.message == "1 job: 1 pause; 4 GPUs would be released"

    paused = ansible.job(name="train", namespace=namespace, state="paused", wait=True, wait_timeout=60)
    assert paused.jobs["train"]["status"] == "Paused"
    assert paused.jobs["train"]["released_gpus"] == 4
    assert paused.message == "1 job: 1 pause; 4 GPUs released"
    assert [part["before"] for part in paused.diff] == ["spec:\n  suspend: false\n"]
    assert [part["after"] for part in paused.diff] == ["spec:\n  suspend: true\n"]
    assert api.list("pod", namespace, "app=train") == []

    resumed = ansible.job(name="train", namespace=namespace, state="resumed", wait=True, wait_timeout=60)
    assert resumed.jobs["train"]["action"] == "resume"
    assert resumed.jobs["train"]["status"] == "Running"
    assert len(api.list("pod", namespace, "app=train")) == 2


def test_pausing_a_service_shows_its_replicas_and_no_bookkeeping(ansible: Ansible, namespace: str):
    running(ansible, namespace, compute(service={"replicas": 2}))
    paused = ansible.job(name="web", namespace=namespace, state="paused")
    (diff,) = paused.diff
    assert diff["before"] == "spec:\n  replicas: 2\n"
    assert diff["after"] == "spec:\n  replicas: 0\n"
    assert diff["after_header"] == f"Deployment {namespace}/web (pause)"


PAUSED = {
    "train": (training(), {"resources": {"gpu": 1, "memory": "2Gi"}}),
    "serve": (inference(service={"replicas": 2}), {"environment": {"image": "registry.example.com/ml:v2"}}),
    "lab": (notebook(), {"environment": {"image": "registry.example.com/ml:v2"}}),
}
KINDS = {"train": "job", "serve": "deployment", "lab": "statefulset", "web": "deployment"}


@pytest.mark.parametrize("name", PAUSED)
def test_a_paused_job_stays_paused_under_its_manifest_and_under_a_changed_one(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, name: str
):
    definition, change = PAUSED[name]
    running(ansible, namespace, definition)
    ansible.job(name=name, namespace=namespace, state="paused")

    recorder.clear()
    present = ansible.job(definition=definition, namespace=namespace)
    assert present.jobs[name]["action"] == "unchanged"
    assert present.jobs[name]["status"] == "Paused"
    assert recorder.writes == []

    block, fields = next(iter(change.items()))
    changed = {**definition, block: {**definition[block], **fields}}
    result = ansible.job(definition=changed, namespace=namespace)
    assert result.changed, result.message
    assert result.jobs[name]["status"] == "Paused"
    recorder.clear()
    assert not ansible.job(definition=changed, namespace=namespace).changed
    assert recorder.writes == []

    resumed = ansible.job(name=name, namespace=namespace, state="resumed", wait=True, wait_timeout=60)
    assert resumed.jobs[name]["status"] == "Running", resumed.message
    recorder.clear()
    assert not ansible.job(definition=changed, namespace=namespace).changed
    assert recorder.writes == []
    workload = api.get(KINDS[name], name, namespace)
    assert "runwhere.ai/paused-replicas" not in workload["metadata"].get("annotations", {})
    assert workload["spec"].get("replicas", 1) == definition.get("service", {}).get("replicas", 1)


def test_another_number_of_replicas_is_kept_for_the_resumption(ansible: Ansible, api: Api, namespace: str):
    running(ansible, namespace, compute(service={"replicas": 1}))
    ansible.job(name="web", namespace=namespace, state="paused")
    declared = ansible.job(definition=compute(service={"replicas": 2}), namespace=namespace)
    assert declared.changed, declared.message
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 0
    ansible.job(name="web", namespace=namespace, state="resumed")
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 2


def test_an_autoscaler_is_left_alone_by_pause_and_resumption(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    scaling = {"min_replicas": 2, "max_replicas": 4, "metric": "cpu", "target": 70}
    definition = inference(resources={"gpu": 0}, autoscaling=scaling)
    ansible.job(definition=definition, namespace=namespace)
    eventually(lambda: api.get("deployment", "serve", namespace)["spec"]["replicas"] == 2, 60)
    before = api.get("hpa", "serve", namespace)

    assert ansible.job(name="serve", namespace=namespace, state="paused", wait=True, wait_timeout=60).changed
    eventually(lambda: "ScalingDisabled" in reasons(api.get("hpa", "serve", namespace)), 60)
    recorder.clear()
    assert not ansible.job(definition=definition, namespace=namespace).changed
    assert recorder.writes == []
    assert api.get("deployment", "serve", namespace)["spec"]["replicas"] == 0

    assert ansible.job(name="serve", namespace=namespace, state="resumed", wait=True, wait_timeout=60).changed
    after = api.get("hpa", "serve", namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]
    eventually(lambda: "ScalingDisabled" not in reasons(api.get("hpa", "serve", namespace)), 60)
    assert api.get("deployment", "serve", namespace)["spec"]["replicas"] == 2
    recorder.clear()
    assert not ansible.job(definition=definition, namespace=namespace).changed
    assert recorder.writes == []


def reasons(hpa: dict[str, Any]) -> set[str]:
    return {condition["reason"] for condition in hpa.get("status", {}).get("conditions", ())}


def test_what_has_ended_is_neither_paused_nor_resumed(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    running(ansible, namespace, training())
    end(api, namespace)
    ansible.job(definition=training(), namespace=namespace)  # The first who sees the end writes it down.
    for state in ("paused", "resumed"):
        recorder.clear()
        result = ansible.job(name="train", namespace=namespace, state=state)
        assert result.jobs["train"]["action"] == "unchanged", result.message
        assert result.jobs["train"]["status"] == "TimedOut"
        assert "has ended" in result.screen
        assert recorder.writes == []


def end(api: Api, namespace: str) -> None:
    """Let the training fail for good: on any cluster a Job does that has run longer than its deadline."""
    api.patch("job", "train", {"spec": {"activeDeadlineSeconds": 1}}, namespace)
    eventually(
        lambda: any(
            condition["type"] == "Failed"
            for condition in api.get("job", "train", namespace)["status"].get("conditions", ())
        ),
        90,
    )


# -- restarted -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
def test_a_training_starts_over_as_it_was(ansible: Ansible, api: Api, namespace: str, ended: bool):
    """Also without its manifest, with what goes with it, and so that the manifest finds nothing to do after it."""
    definition = training(resources={"node_count": 2})
    running(ansible, namespace, definition)
    if ended:
        end(api, namespace)
    before = api.get("job", "train", namespace)

    result = ansible.job(name="train", namespace=namespace, state="restarted", force=True, wait=True, wait_timeout=60)
    assert result.jobs["train"]["action"] == "restart", result.message
    assert result.jobs["train"]["status"] == "Running"
    after = api.get("job", "train", namespace)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for kind, name in (("service", "svc-train"), ("configmap", "train-hostfile")):
        (owner,) = eventually(lambda kind=kind, name=name: api.get(kind, name, namespace))["metadata"][
            "ownerReferences"
        ]
        assert owner["uid"] == after["metadata"]["uid"]
    assert after["spec"]["template"]["spec"]["containers"] == before["spec"]["template"]["spec"]["containers"]
    again = ansible.job(definition=definition, namespace=namespace)
    assert not again.changed, again.diff


def test_new_pods_take_over_from_those_of_a_service_and_its_manifest_lets_them(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    running(ansible, namespace, compute())
    before = {pod["metadata"]["name"] for pod in api.list("pod", namespace, "app=web")}
    result = ansible.job(name="web", namespace=namespace, state="restarted", wait=True, wait_timeout=60)
    assert not result.failed, result.message
    eventually(lambda: before.isdisjoint(pod["metadata"]["name"] for pod in api.list("pod", namespace, "app=web")))
    recorder.clear()
    assert not ansible.job(definition=compute(), namespace=namespace).changed
    assert recorder.writes == []


@pytest.mark.parametrize("strategy", ["RollingUpdate", "OnDelete"])
def test_a_restarted_notebook_gets_another_pod_and_keeps_its_claim(
    ansible: Ansible, api: Api, namespace: str, strategy: str
):
    claim = {
        "metadata": {"name": "work"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    kept = api.create("persistentvolumeclaim", claim, namespace)["metadata"]["uid"]
    definition = notebook(storage={"workdirs": [{"path": "/work", "claim": "work"}]})
    ansible.job(definition=definition, namespace=namespace)
    pod = eventually(lambda: api.get("pod", "lab-0", namespace))
    api.patch("statefulset", "lab", {"spec": {"updateStrategy": {"type": strategy, "rollingUpdate": None}}}, namespace)

    result = ansible.job(name="lab", kind="notebook", namespace=namespace, state="restarted", force=True)
    assert result.jobs["lab"]["action"] == "restart", result.message
    eventually(lambda: (api.get("pod", "lab-0", namespace) or pod)["metadata"]["uid"] != pod["metadata"]["uid"], 60)
    assert api.get("persistentvolumeclaim", "work", namespace)["metadata"]["uid"] == kept


# -- replicas --------------------------------------------------------------------------------------------------------


def test_a_service_is_scaled_by_name_until_its_manifest_says_otherwise(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    running(ansible, namespace, compute(service={"replicas": 1}))
    scaled = ansible.job(name="web", namespace=namespace, replicas=3)
    assert scaled.jobs["web"]["action"] == "scale", scaled.message
    assert scaled.diff[0]["after"] == "spec:\n  replicas: 3\n"
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 3
    recorder.clear()
    assert not ansible.job(name="web", namespace=namespace, replicas=3).changed
    assert recorder.writes == []

    back = ansible.job(definition=compute(service={"replicas": 1}), namespace=namespace)
    assert back.jobs["web"]["action"] == "update", back.message
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 1
    assert not ansible.job(definition=compute(service={"replicas": 1}), namespace=namespace).changed


def test_the_option_replicas_wins_over_the_manifest_beside_it(ansible: Ansible, api: Api, namespace: str):
    both = {"definition": compute(service={"replicas": 1}), "namespace": namespace, "replicas": 2}
    assert ansible.job(**both).jobs["web"]["action"] == "create"
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 2
    assert not ansible.job(**both).changed


def test_a_paused_service_is_scaled_when_it_is_resumed(ansible: Ansible, api: Api, namespace: str):
    running(ansible, namespace, compute())
    ansible.job(name="web", namespace=namespace, state="paused")
    assert ansible.job(name="web", namespace=namespace, replicas=3).jobs["web"]["action"] == "scale"
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 0
    ansible.job(name="web", namespace=namespace, state="resumed")
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 3


# -- what is refused -------------------------------------------------------------------------------------------------

SCALING = {"min_replicas": 1, "max_replicas": 2, "metric": "cpu", "target": 70}
REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "jobs that are not there, all at once": (
        {"definition": [training("a"), compute("b"), compute("web")], "state": "paused"},
        ["training a in namespace", "compute b in namespace", "job not found"],
    ),
    "a job of another kind": ({"name": "web", "kind": "training", "state": "restarted"}, ["of kind compute"]),
    "copies of a training": ({"name": "train", "replicas": 2}, ["resources.node_count"]),
    "copies in the manifest of a notebook": ({"definition": notebook(), "replicas": 2}, ["state=paused"]),
    "copies of what is autoscaled": (
        {"definition": inference(autoscaling=SCALING), "replicas": 2},
        ["autoscaling.max_replicas"],
    ),
    "copies in another state": ({"name": "web", "replicas": 2, "state": "paused"}, ["state is paused"]),
    "a negative number of copies": ({"name": "web", "replicas": -1}, ["replicas: -1 is negative. Give 0 or more."]),
    "less than no time": (
        {"name": "web", "state": "paused", "wait_timeout": -1},
        ["wait_timeout: -1 is negative. Give 0 or more."],
    ),
    "a name without anything to do": ({"name": "web"}, ["src", "definition", "replicas"]),
}


def test_a_refusal_says_what_to_do_and_nothing_is_done(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    running(ansible, namespace, training(), compute())
    recorder.clear()
    tasks = [
        {"name": case, "runwhere.gpuctl.gpuctl_job": {"namespace": namespace, **options}}
        for case, (options, _words) in REFUSED.items()
    ]
    results = {task.task: task for task in ansible.play(tasks).tasks}
    for case, (_options, words) in REFUSED.items():
        assert results[case].failed, case
        assert [word for word in words if word not in results[case].message] == [], f"{case}: {results[case].message}"
    assert recorder.writes == []


def test_a_paused_job_is_not_restarted(ansible: Ansible, recorder: Recorder, namespace: str):
    running(ansible, namespace, training(), compute())
    ansible.job(name="web", namespace=namespace, state="paused")
    recorder.clear()
    result = ansible.job(definition=[training(), compute()], namespace=namespace, state="restarted")
    assert result.failed
    assert "compute web" in result.message
    assert "state=resumed" in result.message
    assert recorder.writes == [], "nor is the other job of the task"


def test_an_unmanaged_workload_is_not_paused(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    pod = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/x:v1"}]},
    }
    theirs = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}}, "template": pod},
    }
    api.create("deployment", theirs, namespace)
    recorder.clear()
    result = ansible.job(name="web", namespace=namespace, state="paused")
    assert result.failed
    assert "is not managed by gpuctl" in result.message
    assert recorder.writes == []


# -- in a queue of Kueue ---------------------------------------------------------------------------------------------

QUEUED = training(queue={"backend": "kueue", "name": "research"})


@pytest.fixture
def kueue(tmp_path: Path) -> Iterator[tuple[Ansible, Api]]:
    """A cluster that has Kueue."""
    if os.environ.get("GPUCTL_TEST_KUBECONFIG"):
        pytest.skip("Kueue runs nothing without queues, which an admin sets up")
    with Cluster(nodes=2, addons={"kueue"}).running() as cluster:
        path = tmp_path / "kueue.kubeconfig"
        cluster.kubeconfig(path)
        yield Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), Api(str(path))


def test_a_training_in_a_queue_is_paused_by_way_of_kueue(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    running(ansible, "default", QUEUED)

    for check in (True, False):
        paused = ansible.job(name="train", state="paused", check=check, wait=True, wait_timeout=60)
        assert paused.jobs["train"]["action"] == "pause", paused.message
        assert paused.jobs["train"]["resources"][0]["kind"] == "Workload"
        assert paused.jobs["train"]["released_gpus"] == 1
        assert paused.diff[0]["after"] == "spec:\n  active: false\n"
        assert admission(api)["spec"]["active"] is check
    assert paused.jobs["train"]["status"] == "Paused"
    managers = {entry["manager"] for entry in api.get("job", "train", "default")["metadata"]["managedFields"]}
    assert managers == {"runwhere.gpuctl", "kube-controller-manager", "kueue"}, "who has suspended the Job?"

    assert not ansible.job(name="train", state="paused").changed
    assert not ansible.job(definition=QUEUED).changed
    refused = ansible.job(name="train", state="restarted")
    assert refused.failed
    assert "state=resumed" in refused.message

    resumed = ansible.job(name="train", state="resumed", wait=True, wait_timeout=60)
    assert resumed.jobs["train"]["status"] == "Running", resumed.message
    assert not ansible.job(name="train", state="resumed").changed
    assert not ansible.job(definition=QUEUED).changed


def test_a_restarted_training_queues_again(kueue: tuple[Ansible, Api]):
    ansible, api = kueue
    running(ansible, "default", QUEUED)
    before = admission(api)["metadata"]["uid"]
    result = ansible.job(name="train", state="restarted", force=True, wait=True, wait_timeout=60)
    assert result.jobs["train"]["status"] == "Running", result.message
    assert admission(api)["metadata"]["uid"] != before


def admission(api: Api) -> dict[str, Any]:
    status, found = api.call("GET", "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
    assert status == 200
    (workload,) = found["items"]
    return dict(workload)


def test_a_kueue_queue_without_kueue_is_reported(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    if any(group["name"] == "kueue.x-k8s.io" for group in api.call("GET", "/apis")[1]["groups"]):
        pytest.skip("this cluster has Kueue")
    running(ansible, namespace, QUEUED)
    recorder.clear()
    result = ansible.job(name="train", namespace=namespace, state="paused")
    assert result.failed
    assert "Kueue is not installed" in result.message
    assert recorder.writes == []
