# SPDX-License-Identifier: BSD-2-Clause
"""A finished training does not run again unless requested, even after Kubernetes has removed it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from . import kubelet
from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import training
from .recorder import Recorder

LEDGER = "gpuctl-ledger"
OTHER_IMAGE = {"image": "registry.example.com/ml:v2"}
WRONG_USAGE = 2  # an exit code that ends a training at once


def end(api: Api, namespace: str, name: str = "train", exit_code: int = 0) -> None:
    kubelet.ended(api, namespace, name, exit_code)
    eventually(lambda: ("Failed" if exit_code else "Complete") in conditions(api, namespace, name))


def conditions(api: Api, namespace: str, name: str) -> set[str]:
    job = api.get("job", name, namespace) or {}
    return {entry["type"] for entry in job.get("status", {}).get("conditions") or () if entry["status"] == "True"}


def outlive(api: Api, namespace: str, name: str = "train") -> None:
    """Let the time to live of a finished training pass: a second instead of a day."""
    api.patch("job", name, {"spec": {"ttlSecondsAfterFinished": 1}}, namespace)
    eventually(lambda: api.get("job", name, namespace) is None)


def ledger_entries(api: Api, namespace: str) -> dict[str, Any]:
    return dict((api.get("configmap", LEDGER, namespace) or {}).get("data") or {})


def test_a_finished_training_is_not_run_again_after_its_time_to_live(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    options = {"definition": training(), "namespace": namespace}
    assert ansible.job(**options, wait=True, wait_timeout=90).jobs["train"]["action"] == "create"
    end(api, namespace)
    finished = ansible.job(**options)
    assert not finished.changed
    assert finished.jobs["train"]["status"] == "Succeeded"
    outlive(api, namespace)

    recorder.clear()
    again = ansible.job(**options)
    assert not again.changed
    assert (again.jobs["train"]["action"], again.jobs["train"]["status"]) == ("unchanged", "Succeeded")
    assert "is not run again: its manifest is the same" in again.jobs["train"]["reason"]
    assert "rerun=always runs it again" in again.jobs["train"]["reason"]
    assert recorder.writes == []
    assert api.list("job", namespace) == []
    assert not ansible.job(**options, wait=True, wait_for="complete", wait_timeout=5).failed

    predicted = ansible.job(**options, rerun="always", check=True)
    assert predicted.jobs["train"]["action"] == "create"
    assert recorder.writes == []
    assert ansible.job(**options, rerun="always").jobs["train"]["action"] == "create"


def test_a_finished_training_is_run_again_when_its_manifest_changes(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training("dist", resources={"node_count": 2}), namespace=namespace)
    end(api, namespace, "dist")
    before = api.get("job", "dist", namespace)
    changed = {
        "definition": training("dist", environment=OTHER_IMAGE, resources={"node_count": 2}),
        "namespace": namespace,
        "on_immutable": "fail",
    }
    kept = ansible.job(**changed, rerun="never")
    assert (kept.jobs["dist"]["action"], kept.changed) == ("unchanged", False)
    assert "its manifest has changed since" in kept.jobs["dist"]["reason"]

    result = ansible.job(**changed)
    assert result.jobs["dist"]["action"] == "recreate", result.message
    after = api.get("job", "dist", namespace)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    service = eventually(lambda: api.get("service", "svc-dist", namespace))
    assert [owner["uid"] for owner in service["metadata"]["ownerReferences"]] == [after["metadata"]["uid"]]
    assert not ansible.job(**changed).changed


def test_what_changes_nothing_of_the_run_does_not_run_it_again(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=90)
    end(api, namespace)
    ansible.job(definition=training(), namespace=namespace)
    recorder.clear()
    described = training(job={"description": "the best yet", "priority": "high"}, resources={"memory": "1024Mi"})
    assert not ansible.job(definition=described, namespace=namespace).changed
    assert recorder.writes == recorder.dry_runs == []


def test_a_failed_training_is_run_again_on_request(ansible: Ansible, api: Api, namespace: str):
    options = {"definition": training(), "namespace": namespace}
    ansible.job(**options)
    end(api, namespace, exit_code=WRONG_USAGE)

    left = ansible.job(**options)
    assert not left.changed
    assert left.jobs["train"]["status"] == "Failed"
    assert "rerun=on_failure runs it again" in left.jobs["train"]["reason"]
    first = api.get("job", "train", namespace)["metadata"]["uid"]
    assert ansible.job(**options, rerun="on_failure").jobs["train"]["action"] == "recreate"
    assert api.get("job", "train", namespace)["metadata"]["uid"] != first
    assert not ansible.job(**options, rerun="on_failure").changed, "it runs"

    end(api, namespace, exit_code=WRONG_USAGE)
    ansible.job(**options)
    outlive(api, namespace)
    waited = ansible.job(**options, wait=True, wait_for="complete", wait_timeout=90)
    assert waited.failed
    assert "It failed at" in waited.message
    assert ansible.job(**options, rerun="on_failure").jobs["train"]["action"] == "create"


@pytest.mark.parametrize(
    ("playbook", "source"), [("submit", "gpuctl_src"), ("provision", "gpuctl_dir")], ids=["submit", "provision"]
)
def test_the_playbooks_run_a_finished_training_again_on_request(
    ansible: Ansible, api: Api, namespace: str, playbook: str, source: str
):
    folder = ansible.directory / "jobs"
    folder.mkdir()
    (folder / "train.yaml").write_text(yaml.safe_dump(training()))
    variables = ("-e", f"{source}={folder}", "-e", f"gpuctl_namespace={namespace}")
    ansible.job(definition=training(), namespace=namespace)
    end(api, namespace)
    before = api.get("job", "train", namespace)["metadata"]["uid"]
    for more, again in ((), False), (("-e", "gpuctl_rerun=always"), True):
        run = ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *variables, *more)
        assert run.status == 0, run.output
        assert (api.get("job", "train", namespace)["metadata"]["uid"] != before) is again


def test_rerun_does_not_affect_a_running_training(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    options = {"definition": training(), "namespace": namespace}
    ansible.job(**options, wait=True, wait_timeout=90)
    recorder.clear()
    assert not ansible.job(**options, rerun="always").changed
    assert recorder.writes == []


def test_a_running_training_is_not_interrupted_by_a_version_that_builds_it_otherwise(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    options = {"definition": training(), "namespace": namespace}
    ansible.job(**options)
    built_by_another_version(api, namespace)

    recorder.clear()
    result = ansible.job(**options)
    assert not result.changed
    assert recorder.writes == recorder.dry_runs == []
    assert "It keeps running as it was submitted: its manifest is the same" in result.jobs["train"]["reason"]
    assert "spec.template.spec.terminationGracePeriodSeconds" in result.jobs["train"]["reason"]
    changed = {**options, "definition": training(environment=OTHER_IMAGE)}
    assert ansible.job(**changed).jobs["train"]["action"] == "recreate"


def built_by_another_version(api: Api, namespace: str, name: str = "train") -> None:
    """In the place of a training's Job one that differs from it, which the ledger takes for the training's run."""
    job = api.get("job", name, namespace)
    api.delete("job", name, namespace)
    eventually(lambda: api.get("job", name, namespace) is None)
    metadata = {
        field: job["metadata"][field] for field in ("name", "labels", "annotations") if field in job["metadata"]
    }
    spec = {field: value for field, value in job["spec"].items() if field not in ("selector", "manualSelector")}
    spec["template"]["metadata"]["labels"] = job["metadata"]["labels"]
    spec["template"]["spec"]["terminationGracePeriodSeconds"] += 1
    made = api.create("job", {"metadata": metadata, "spec": spec}, namespace)["metadata"]
    run = {"uid": made["uid"], "submitted_at": made["creationTimestamp"]}
    entry = {**json.loads(ledger_entries(api, namespace)[name]), **run}
    api.patch("configmap", LEDGER, {"data": {name: json.dumps(entry)}}, namespace)


def test_a_training_deleted_before_its_end_runs_again(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=90)
    api.delete("job", "train", namespace)
    eventually(lambda: api.get("job", "train", namespace) is None)
    assert ansible.job(definition=training(), namespace=namespace).jobs["train"]["action"] == "create"


def test_a_deleted_training_leaves_the_ledger(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    jobs = [training(), training("other")]
    ansible.job(definition=jobs, namespace=namespace, wait=True, wait_timeout=90)
    end(api, namespace)
    ansible.job(definition=jobs, namespace=namespace)
    outlive(api, namespace)

    recorder.clear()
    assert not ansible.job(name="train", namespace=namespace, state="absent", check=True).changed
    assert recorder.writes == []
    ansible.job(name="train", namespace=namespace, state="absent")
    assert set(ledger_entries(api, namespace)) == {"other"}
    recorder.clear()
    ansible.job(name="train", namespace=namespace, state="absent")
    assert recorder.writes == []
    assert ansible.job(definition=jobs, namespace=namespace).jobs["train"]["action"] == "create"


def test_a_restarted_training_is_recorded_with_its_new_run(ansible: Ansible, api: Api, namespace: str):
    options = {"definition": training(), "namespace": namespace}
    ansible.job(**options, wait=True, wait_timeout=90)
    end(api, namespace, exit_code=WRONG_USAGE)
    ansible.job(**options)
    ansible.job(name="train", namespace=namespace, state="restarted", wait=True, wait_timeout=90)
    entry = json.loads(ledger_entries(api, namespace)["train"])
    assert entry["uid"] == api.get("job", "train", namespace)["metadata"]["uid"]
    assert "result" not in entry
    end(api, namespace)
    ansible.job(name="train", namespace=namespace, state="paused", wait=True, wait_timeout=90)  # sees that it has ended
    outlive(api, namespace)
    assert not ansible.job(**options).changed


def test_waiting_for_a_failed_training_explains_how_to_run_it_again(ansible: Ansible, api: Api, namespace: str):
    options = {"definition": training(), "namespace": namespace, "wait": True, "wait_timeout": 90}
    ansible.job(**options)
    end(api, namespace, exit_code=WRONG_USAGE)
    result = ansible.job(**options)
    assert result.failed
    assert "will not become ready" in result.message
    assert "rerun=on_failure runs it again" in result.message


def test_many_trainings_are_recorded_with_one_request_to_ledger_and_history_each(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    jobs = [training(f"train-{index}", resources={"gpu": 0}) for index in range(12)]
    predicted = ansible.job(definition=jobs, namespace=namespace, check=True)
    assert predicted.changed
    assert recorder.writes == []
    ansible.job(definition=jobs, namespace=namespace)
    assert set(ledger_entries(api, namespace)) == {f"train-{index}" for index in range(12)}
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    ledger, history = f"PATCH {config_maps}/{LEDGER}", f"PATCH {config_maps}/gpuctl-history"
    writes = [request for request in recorder.writes if config_maps in request]
    assert writes == [history, f"POST {config_maps}", f"POST {config_maps}"], "the history is found missing"

    more = [*jobs, training("one-more", resources={"gpu": 0})]
    recorder.clear()
    ansible.job(definition=more, namespace=namespace)
    assert [request for request in recorder.writes if config_maps in request] == [history, ledger]
    assert len(ledger_entries(api, namespace)) == 13


def test_concurrent_runs_keep_the_entries_of_each_other(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    ledger = {"metadata": {"name": LEDGER}, "data": {"other": "{}"}}

    def come_between(request):
        if request.method == "POST" and request.path.endswith("configmaps"):
            recorder.before = lambda request: None
            api.create("configmap", ledger, namespace)

    recorder.before = come_between
    assert not ansible.job(definition=training(), namespace=namespace).failed
    assert set(ledger_entries(api, namespace)) == {"train", "other"}


def test_without_permission_to_write_the_ledger_it_warns(ansible: Ansible, api: Api, namespace: str):
    rules = [
        {"apiGroups": ["", "apps", "autoscaling", "batch"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "patch"]},
    ]
    api.create("role", {"metadata": {"name": "submitter"}, "rules": rules}, namespace)
    binding = {
        "metadata": {"name": "submitter"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "submitter"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gpuctl-test-submitter"}],
    }
    api.create("rolebinding", binding, namespace)
    options = {"namespace": namespace, "impersonate_user": "gpuctl-test-submitter"}
    result = eventually(lambda: _done(ansible.job(definition=training(), **options)))
    assert result.jobs["train"]["action"] == "create"
    assert "finished trainings" in " ".join(result.screen.split())
    assert "Grant get, create and patch on configmaps" in " ".join(result.screen.split())


def _done(result: TaskResult) -> TaskResult | None:
    return None if result.failed else result
