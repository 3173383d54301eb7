# SPDX-License-Identifier: BSD-2-Clause
"""Another tenant with kubectl plants objects in a namespace that both use; the victim's tasks must not care."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import SUBMIT
from integration.accounts import account
from integration.ansible import Ansible, TaskResult
from integration.api import Api
from integration.manifests import compute, notebook, training
from integration.recorder import Recorder

LEDGER = "gpuctl-ledger"
REVISIONS = "/apis/apps/v1/namespaces/{}/controllerrevisions"
IMAGE = "registry.example.com/ml:v1"


def labels_of(job: str, kind: str, namespace: str) -> dict[str, str]:
    """The labels of a job's objects, which anybody may give to theirs."""
    return {
        "app": job,
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": kind,
        "runwhere.ai/pool": "default",
        "runwhere.ai/namespace": namespace,
    }


def rows(task: TaskResult) -> dict[str, dict[str, Any]]:
    assert not task.failed, task.message
    return task.jobs


def on_one_line(task: TaskResult) -> str:
    """Everything printed: ansible-core 2.16 wraps warnings."""
    return " ".join(task.screen.split())


@pytest.fixture
def colleague(api: Api, namespace: str) -> Iterator[Api]:
    """Another account that may submit jobs to the same namespace."""
    with account(api, SUBMIT, [namespace]) as own:
        yield own


def external_name(name: str, job: str, kind: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": labels_of(job, kind, namespace)},
        "spec": {"type": "ExternalName", "externalName": "evil.example.com"},
    }


def test_a_service_without_ports_does_not_hide_jobs(ansible: Ansible, api: Api, submitter: Api, namespace: str):
    """A tenant labels a Service of type ExternalName as a job's; every other job stays visible."""
    ansible.job(definition=[compute(), training()], namespace=namespace)
    api.create("service", external_name("svc-ghost", "ghost", "compute", namespace), namespace)
    api.create("service", external_name("svc-train", "train", "training", namespace), namespace)
    found = rows(ansible.module("gpuctl_job_info", namespaces=[namespace], details=True))
    assert found.keys() == {"web", "train"}
    assert found["web"]["access_urls"]
    assert not ansible.job(definition=compute(), namespace=namespace).failed


def test_a_service_with_the_labels_of_a_notebook_does_not_get_its_token(ansible: Ansible, api: Api, namespace: str):
    """A tenant labels a Service as a colleague's notebook; its URL, with the token in it, is not shown."""
    ansible.job(definition=notebook(environment={"env": {"JUPYTER_TOKEN": "s3cr3t-token"}}), namespace=namespace)
    planted = {
        "metadata": {"name": "login", "labels": labels_of("lab", "notebook", namespace)},
        "spec": {"ports": [{"port": 80}], "selector": {"app": "phishing"}},
    }
    api.create("service", planted, namespace)
    found = rows(ansible.module("gpuctl_job_info", namespaces=[namespace], show_token=True))
    assert any("s3cr3t-token" in url for url in found["lab"]["access_urls"])
    assert not any("login" in url for url in found["lab"]["access_urls"])


@pytest.mark.parametrize("index", ["abc", "9" * 63])
def test_a_pod_with_a_malformed_index_hides_no_logs(ansible: Ansible, api: Api, namespace: str, index: str):
    """A tenant gives a pod the labels of a training and an index that is no number; info and logs still answer."""
    ansible.job(definition=training(), namespace=namespace)
    labels = {**labels_of("train", "training", namespace), "batch.kubernetes.io/job-completion-index": index}
    pod = {
        "metadata": {
            "name": "planted",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": "9" * 5000},
        },
        "spec": {"containers": [{"name": "main", "image": IMAGE}]},
    }
    api.create("pod", pod, namespace)
    assert "train" in rows(ansible.module("gpuctl_job_info", namespaces=[namespace], details=True, pods=True))
    log = ansible.module("gpuctl_job_log", name="train", namespace=namespace)
    assert "bug" not in log.message


def test_an_event_of_the_year_0_hides_no_jobs(ansible: Ansible, api: Api, namespace: str):
    """A tenant who may create events dates one to a year that few programs can read; the details still answer."""
    ansible.job(definition=training(resources={"gpu": 999}), namespace=namespace)
    job = api.get("job", "train", namespace)
    event = {
        "metadata": {"name": "old"},
        "type": "Warning",
        "reason": "Odd",
        "message": "exceeded quota: a,b=c, requested: x=1, used: x=1, limited: x=1",
        "involvedObject": {
            "kind": "Job",
            "name": "train",
            "namespace": namespace,
            "uid": job["metadata"]["uid"],
            "apiVersion": "batch/v1",
        },
        "lastTimestamp": "0000-01-01T00:00:00Z",
    }
    status, answer = api.call("POST", f"/api/v1/namespaces/{namespace}/events", event)
    assert status in (201, 400, 422), answer
    assert "train" in rows(ansible.module("gpuctl_job_info", namespaces=[namespace], details=True))
    waited = ansible.job(definition=training(resources={"gpu": 999}), namespace=namespace, wait=True, wait_timeout=3)
    assert "bug" not in waited.message


def entry(uid: str = "11111111-2222-3333-4444-555555555555", **fields: Any) -> str:
    known = {"manifest": "", "uid": uid, "submitted_at": "2026-01-01T00:00:00Z", "ttl_seconds": 60}
    return json.dumps({**known, **fields})


def write_ledger(api: Api, namespace: str, **entries: str) -> None:
    if not api.patch("configmap", LEDGER, {"data": entries}, namespace, missing_ok=True):
        metadata = {"name": LEDGER, "labels": {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}}
        api.create("configmap", {"metadata": metadata, "data": entries}, namespace)


@pytest.mark.parametrize("value", ["[" * 100_000, '{"uid": []}', "null", entry(result=5), entry(ttl_seconds=1e308)])
def test_a_broken_entry_of_the_ledger_stops_no_training(
    ansible: Ansible, colleague: Api, submitter: Api, namespace: str, value: str
):
    """A tenant writes nonsense into the ledger; trainings run, and the task names the entry."""
    write_ledger(colleague, namespace, train=value, another=value)
    task = ansible.job(definition=[training(), training("second")], namespace=namespace)
    assert {name: row["action"] for name, row in rows(task).items()} == {"train": "create", "second": "create"}
    assert "entry of training train" in on_one_line(task)


def test_a_forged_entry_of_the_ledger_is_no_success(
    ansible: Ansible, colleague: Api, submitter: Api, api: Api, namespace: str
):
    """A tenant records a training as succeeded that never ran; the message says that there is no evidence."""
    write_ledger(colleague, namespace, train=entry(result="Succeeded", finished_at="2026-01-01T01:00:00Z"))
    task = ansible.job(definition=training(), namespace=namespace, rerun="never")
    row = rows(task)["train"]
    assert row["status"] is None
    assert "nothing proves" in row["reason"]
    assert "runwhere.gpuctl did not write that entry: field manager" in on_one_line(task)
    assert rows(ansible.job(definition=training(), namespace=namespace, rerun="always"))["train"]["action"] == "create"


def test_a_forged_entry_does_not_speak_for_a_live_job(
    ansible: Ansible, colleague: Api, submitter: Api, api: Api, namespace: str
):
    """A tenant records a running training as succeeded; what its Job says counts."""
    ansible.job(definition=training(), namespace=namespace)
    uid = api.get("job", "train", namespace)["metadata"]["uid"]
    write_ledger(colleague, namespace, train=entry(uid, result="Succeeded", finished_at="2026-01-01T01:00:00Z"))
    row = rows(ansible.job(definition=training(), namespace=namespace))["train"]
    assert row["status"] in ("Pending", "Running")


def revision(namespace: str, name: str, data: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/restart-of": "train"}
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "revision": 0, "data": data}


def test_a_planted_copy_of_a_restart_is_not_created(ansible: Ansible, colleague: Api, api: Api, namespace: str):
    """A tenant plants a ControllerRevision as an interrupted restart leaves it; a restart does not run it."""
    labels = labels_of("train", "training", namespace)
    pod = {"containers": [{"name": "main", "image": "evil"}], "restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace, "labels": labels},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    planted = revision(namespace, "planted", {"uid": "1", "objects": [job]})
    status, answer = colleague.call("POST", REVISIONS.format(namespace), planted)
    assert status == 201, answer
    task = ansible.job(name="train", namespace=namespace, state="restarted")
    assert "job not found" in task.message
    assert api.get("job", "train", namespace) is None


def test_deeply_nested_data_end_no_restart(ansible: Ansible, colleague: Api, namespace: str):
    """A tenant plants a ControllerRevision that is nested deeper than Python reads; a restart still answers."""
    nested: Any = {}
    for _level in range(400):
        nested = {"a": nested}
    for name, data in (("deep", nested), ("wrong", {"uid": [], "objects": [{"metadata": 5}]})):
        status, answer = colleague.call("POST", REVISIONS.format(namespace), revision(namespace, name, data))
        assert status == 201, answer
    task = ansible.job(name="train", namespace=namespace, state="restarted")
    assert "job not found" in task.message


def test_a_second_workload_with_the_labels_of_a_job_is_not_taken_for_it(
    ansible: Ansible, api: Api, colleague: Api, namespace: str
):
    """A tenant labels a Job as a colleague's service; pausing the service does not pause that Job instead."""
    ansible.job(definition=compute(), namespace=namespace)
    labels = labels_of("web", "compute", namespace)
    pod = {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": "Never"}
    decoy = {"metadata": {"name": "decoy", "labels": labels}, "spec": {"template": {"spec": pod}}}
    colleague.create("job", decoy, namespace)
    paused = ansible.job(name="web", namespace=namespace, state="paused")
    assert rows(paused)["web"]["action"] == "pause"
    assert api.get("deployment", "web", namespace)["spec"]["replicas"] == 0
    assert not api.get("job", "decoy", namespace)["spec"].get("suspend")


def as_account(recorder: Recorder, own: Api) -> None:
    """Run the next tasks in the name of another account."""
    recorder.identity = own


@pytest.mark.parametrize(
    "change",
    [
        {"definition": compute(environment={"image": "registry.example.com/mine:v1"})},
        {"name": "web", "state": "paused"},
        {"name": "web", "state": "restarted"},
        {"name": "web", "state": "absent"},
        {"name": "web", "replicas": 3},
    ],
    ids=lambda change: str(change.get("state", "scaled" if "replicas" in change else "present")),
)
def test_a_manifest_of_the_same_name_does_not_replace_a_colleagues_job(
    ansible: Ansible, api: Api, colleague: Api, submitter: Api, recorder: Recorder, namespace: str, change: dict
):
    """A tenant uses the name of a colleague's job; nothing changes, and the message says whose job it is."""
    if colleague.headers == submitter.headers:
        pytest.skip("this cluster has no accounts")
    as_account(recorder, colleague)
    assert not ansible.job(definition=compute(), namespace=namespace).failed
    before = api.get("deployment", "web", namespace)
    as_account(recorder, submitter)
    refused = ansible.job(**change, namespace=namespace)
    assert refused.failed
    assert "it belongs to another user: Kubernetes user system:serviceaccount:" in refused.message
    assert "use takeover=true" in refused.message
    assert "Nothing was changed." in refused.message
    after = api.get("deployment", "web", namespace)
    assert after["spec"] == before["spec"]
    assert not ansible.job(**change, namespace=namespace, takeover=True).failed
    assert recorder.writes


def test_nonsense_in_the_annotation_of_the_submitter_hides_no_jobs(ansible: Ansible, api: Api, namespace: str):
    """A tenant writes nonsense over who submitted a job; the job has no known submitter, and all jobs stay visible."""
    ansible.job(definition=[compute(), training()], namespace=namespace)
    for text in ("[" * 100_000, "{", '{"user": 5, "host": []}'):
        annotations = {"runwhere.ai/submitted-by": text, "runwhere.ai/paused-replicas": "9" * 5000}
        api.patch("deployment", "web", {"metadata": {"annotations": annotations}}, namespace)
        found = rows(ansible.module("gpuctl_job_info", namespaces=[namespace]))
        assert found.keys() == {"web", "train"}
        refused = ansible.job(name="web", namespace=namespace, state="paused")
        assert "a user that its annotation does not name" in refused.message
    assert not ansible.job(definition=compute(), namespace=namespace).changed


def planted_history(name: str, data: dict[str, str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/history": "runs"}
    return {"metadata": {"name": name, "labels": labels}, "data": data}


def test_a_planted_history_stops_no_accounts(ansible: Ansible, colleague: Api, namespace: str):
    """A number that no clock has, and data nested deeper than a program can follow: each is named, the others count."""
    deep = json.loads('{"a":' * 900 + "1" + "}" * 900)
    data = {
        "run-1.job": json.dumps({"name": "honest", "kind": "training", "submitted_at": "2026-08-01T10:00:00Z"}),
        "run-1.was": json.dumps({"seen": 10**400}),
        "run-2.was": json.dumps({"name": "deep", "manifest": deep, "seen": 1}),
    }
    colleague.create("configmap", planted_history("gpuctl-history-1", data), namespace)
    history = ansible.module("gpuctl_job_history_info", namespaces=[namespace])
    assert [run["name"] for run in history.result["results"]] == ["honest"], history.message
    usage = ansible.module("gpuctl_usage_info", namespaces=[namespace])
    assert not usage.failed, usage.message
    for task in (history, usage):
        assert "2 entries are malformed, run-2.was the last" in on_one_line(task)


def test_much_data_of_a_tenant_hides_no_data_of_others(ansible: Ansible, colleague: Api, namespace: str):
    """A list is read in smaller pages where a page would exceed what is read of one answer."""
    for number in range(22):
        planted = planted_history(f"gpuctl-history-{number}", {f"k{part}": "x" * 100_000 for part in range(10)})
        colleague.create("configmap", planted, namespace)
    usage = ansible.module("gpuctl_usage_info", namespaces=[namespace])
    assert not usage.failed, usage.message
    assert "history may not be read" not in on_one_line(usage)


def test_a_flood_of_planted_copies_is_not_read(ansible: Ansible, colleague: Api, namespace: str, recorder: Recorder):
    """A tenant plants forty ControllerRevisions, each of which may have a megabyte: a restart reads the newest few."""
    for number in range(40):
        planted = revision(namespace, f"planted-{number}", {"uid": "1", "objects": []})
        assert colleague.call("POST", REVISIONS.format(namespace), planted)[0] == 201
    recorder.clear()
    task = ansible.job(name="train", namespace=namespace, state="restarted")
    assert "job not found" in task.message
    whole = [one for one in recorder.requests if "planted-" in one.query]
    assert len(whole) == 10
