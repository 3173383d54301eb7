# SPDX-License-Identifier: BSD-2-Clause
"""What is known of the runs of jobs after their objects are gone, and who has to look for that."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from . import kubelet
from .accounts import account
from .ansible import ROOT, Ansible, Run
from .api import Api, eventually
from .manifests import inference, training
from .recorder import Recorder

HISTORY = "gpuctl-history"
SECRET = "hunter2-of-the-tests"
WRONG_USAGE = 2  # an exit code that ends a training at once
GPU = {"resources": {"gpu": 1}}


def conditions(api: Api, namespace: str, name: str = "train") -> set[str]:
    job = api.get("job", name, namespace) or {}
    return {each["type"] for each in job.get("status", {}).get("conditions") or () if each["status"] == "True"}


def end(api: Api, namespace: str, exit_code: int = 0) -> None:
    kubelet.ended(api, namespace, "train", exit_code)
    eventually(lambda: ("Failed" if exit_code else "Complete") in conditions(api, namespace))


def outlive(api: Api, namespace: str) -> None:
    """Let the time to live of a finished training pass: a second instead of a day."""
    api.patch("job", "train", {"spec": {"ttlSecondsAfterFinished": 1}}, namespace)
    eventually(lambda: api.get("job", "train", namespace) is None)


def runs(ansible: Ansible, namespace: str, **options: Any) -> list[dict[str, Any]]:
    found = ansible.module("gpuctl_job_history_info", namespaces=[namespace], **options)
    assert not found.failed, found.message
    return list(found.result["results"])


def recorded(api: Api, namespace: str) -> dict[str, str]:
    return dict((api.get("configmap", HISTORY, namespace) or {}).get("data") or {})


def submitted(ansible: Ansible, namespace: str, **blocks: Any) -> None:
    done = ansible.job(definition=training(**{**GPU, **blocks}), namespace=namespace, wait=True, wait_timeout=90)
    assert done.jobs["train"]["action"] in ("create", "recreate"), done.message


def test_a_finished_training_stays_in_the_history_after_its_time_to_live(ansible: Ansible, api: Api, namespace: str):
    submitted(ansible, namespace)
    end(api, namespace)
    assert not ansible.job(definition=training(**GPU), namespace=namespace).changed  # a task that looks at it
    outlive(api, namespace)
    (row,) = runs(ansible, namespace)
    assert (row["name"], row["result"], row["exit_code"], row["status"]) == ("train", "Succeeded", 0, None)
    assert row["finished_at"] >= row["started_at"] >= row["submitted_at"]
    assert row["gpu_hours"] is not None
    assert row["gpu_hours_exact"] is True
    assert row["user"]
    assert row["manifest"] is None


def test_info_on_a_job_that_is_gone_reports_how_it_ended(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder
):
    submitted(ansible, namespace)
    end(api, namespace, WRONG_USAGE)
    assert not ansible.module("gpuctl_job_history", namespaces=[namespace]).failed
    recorder.clear()
    ansible.module("gpuctl_job_info", namespaces=[namespace], name="train")
    ansible.module("gpuctl_job_log", namespace=namespace, name="train")
    assert not [request for request in recorder.requests if "configmaps" in request.path and namespace in request.path]

    outlive(api, namespace)
    end_seen = (
        rf"Its last run in namespace {namespace}, submitted at \S+Z, failed at \S+Z with exit code {WRONG_USAGE}\."
    )
    log = ansible.module("gpuctl_job_log", namespace=namespace, name="train")
    assert re.match(rf"job train not found in namespace {namespace}\. {end_seen}", log.message), log.message
    assert "For all its runs, use gpuctl_job_history_info." in log.message
    status = ansible.module("gpuctl_status", namespaces=[namespace], name="train")
    assert re.match(rf"job not found: train\. {end_seen}", status.message), status.message
    info = ansible.module("gpuctl_job_info", namespaces=[namespace], name="train")
    assert not info.failed
    assert re.search(end_seen, " ".join(info.screen.split())), info.screen
    arguments = ("-e", f"gpuctl_namespace={namespace}", "-e", "gpuctl_name=train")
    described = ansible.run("ansible-playbook", "runwhere.gpuctl.describe", *arguments)
    assert described.status == 0, described.output
    assert "Job train is gone. Its runs:" in described.output
    assert re.search(rf"train +{namespace[:9]}\S* +Failed +{WRONG_USAGE}", described.output), described.output
    strict = ansible.module("gpuctl_job_info", namespaces=[namespace], name="train", must_exist=True)
    assert strict.failed
    assert [
        re.sub(r"\s+", " ", text).startswith("job not found: train. Its last run")
        for text in strict.result["not_found"]
    ] == [True]
    for playbook in ("status", "logs"):
        shown = " ".join(ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *arguments).output.split())
        assert re.search(end_seen, shown), shown
        assert "use the playbook runwhere.gpuctl.history" in shown


def test_the_history_of_a_name_that_nothing_has(ansible: Ansible, api: Api, namespace: str):
    def history(name: str, *others: str) -> Run:
        own = Ansible(ansible.directory, {**ansible.environment, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"})
        given = ("-e", f"gpuctl_namespace={namespace}", "-e", f"gpuctl_name={name}", *others)
        return own.run("ansible-playbook", "runwhere.gpuctl.history", *given)

    unknown = history("lunch")
    assert unknown.status == 2, unknown.output
    expected = f"job not found: lunch. Neither a job nor a recorded run in namespace {namespace} has that name."
    assert expected in " ".join(unknown.output.split())
    submitted(ansible, namespace)
    end(api, namespace)
    none = history("train", "-e", "gpuctl_result=Failed")
    assert none.status == 0, none.output
    assert "Job train has runs, but none that the other options ask for." in " ".join(none.output.split())
    assert not ansible.job(definition=training(**GPU), namespace=namespace).changed  # a task that records its end
    (pod,) = (obj["metadata"]["name"] for obj in api.list("pod", namespace))
    outlive(api, namespace)
    for near in ("trian", pod):
        refused = history(near)
        assert refused.status == 2, refused.output
        assert f"job not found: {near}. Did you mean train?" in " ".join(refused.output.split())
    assert "Succeeded" in history("train").output
    assert runs(ansible, namespace, name="trian") == []


def test_the_manifest_is_kept_without_its_secrets(ansible: Ansible, api: Api, namespace: str):
    environment = {"env": [{"name": "WANDB_API_KEY", "value": SECRET}], "args": ["--token", SECRET]}
    submitted(ansible, namespace, environment=environment)
    assert SECRET not in json.dumps(recorded(api, namespace))
    (row,) = runs(ansible, namespace, manifests=True)
    assert row["manifest"]["kind"] == "training"
    assert row["manifest"]["job"]["name"] == "train"
    assert len(row["manifest_digest"]) == 32


def test_an_unchanged_training_neither_reads_nor_writes_the_history(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    submitted(ansible, namespace)
    recorder.clear()
    assert not ansible.job(definition=training(**GPU), namespace=namespace).changed
    assert not [request for request in recorder.writes if HISTORY in request]


def test_a_run_whose_end_was_not_observed_has_the_result_unknown(ansible: Ansible, api: Api, namespace: str):
    submitted(ansible, namespace)
    end(api, namespace)
    outlive(api, namespace)
    (row,) = runs(ansible, namespace)
    assert row["result"] == "Unknown"
    assert row["reason"] == "It no longer exists, and its end was not observed."
    assert row["gpu_hours"] is None


def test_the_module_that_records_sees_what_no_task_has_seen(ansible: Ansible, api: Api, namespace: str):
    submitted(ansible, namespace)
    end(api, namespace, WRONG_USAGE)
    first = ansible.module("gpuctl_job_history", namespaces=[namespace])
    assert (first.changed, first.result["results"][0]["new_ends"]) == (True, 1)
    assert not ansible.module("gpuctl_job_history", namespaces=[namespace]).changed
    outlive(api, namespace)
    (row,) = runs(ansible, namespace, result=["Failed"])
    assert (row["exit_code"], row["gpu_hours_exact"]) == (WRONG_USAGE, True)


def test_check_mode_records_nothing(ansible: Ansible, api: Api, namespace: str):
    submitted(ansible, namespace)
    end(api, namespace)
    before = recorded(api, namespace)
    assert ansible.module("gpuctl_job_history", check=True, namespaces=[namespace]).changed
    assert recorded(api, namespace) == before


def test_a_replaced_and_a_deleted_run_are_two_entries(ansible: Ansible, api: Api, namespace: str):
    submitted(ansible, namespace)
    other = {"image": "registry.example.com/ml:v3"}
    submitted(ansible, namespace, environment=other)
    assert ansible.job(name="train", namespace=namespace, state="absent", wait=True).changed
    rows = runs(ansible, namespace)
    assert [row["result"] for row in rows] == ["Deleted", "Replaced"]
    assert [row["image"] for row in rows] == ["registry.example.com/ml:v3", training()["environment"]["image"]]
    assert all(row["gpu_hours"] is not None and row["gpu_hours_exact"] is False for row in rows)


def test_a_service_is_a_run_until_it_is_deleted(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=inference(**GPU), namespace=namespace, wait=True, wait_timeout=90)
    (row,) = runs(ansible, namespace)
    assert (row["kind"], row["result"], row["status"]) == ("inference", "Running", "Running")
    ansible.job(name="serve", namespace=namespace, state="absent", wait=True)
    (row,) = runs(ansible, namespace)
    assert (row["result"], row["status"]) == ("Deleted", None)


def test_an_unmanaged_config_map_is_left_as_it_is(ansible: Ansible, api: Api, namespace: str):
    theirs = {"metadata": {"name": "gpuctl-history", "labels": {"app": "theirs"}}, "data": {"key": "value"}}
    before = api.create("configmap", theirs, namespace)
    done = ansible.job(definition=training(), namespace=namespace)
    assert done.changed
    assert not done.failed
    assert "a ConfigMap gpuctl-history is there that is not the collection's" in " ".join(done.screen.split())
    assert api.get("configmap", "gpuctl-history", namespace) == before


def test_the_ledger_of_an_earlier_version_is_read(ansible: Ansible, api: Api, namespace: str):
    entry = {
        "manifest": "digest",
        "uid": "uid-of-old",
        "submitted_at": "2026-01-01T00:00:00Z",
        "ttl_seconds": 3600,
        "result": "Failed",
        "finished_at": "2026-01-01T02:00:00Z",
    }
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl"}
    ledger = {"metadata": {"name": "gpuctl-ledger", "labels": labels}, "data": {"old": json.dumps(entry)}}
    api.create("configmap", {"apiVersion": "v1", "kind": "ConfigMap", **ledger}, namespace)
    (row,) = runs(ansible, namespace)
    assert (row["name"], row["result"], row["finished_at"]) == ("old", "Failed", "2026-01-01T02:00:00Z")
    assert (row["gpu_hours"], row["user"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["c", "b", "a"]),
        ({"limit": 1}, ["c"]),
        ({"name": "b"}, ["b"]),
        ({"user": "alice"}, ["a"]),
        ({"pool": "h100"}, ["b"]),
        ({"sweep": "lr"}, ["c"]),
        ({"result": ["Failed"]}, ["b"]),
        ({"since": "2026-01-02T12:00:00Z"}, ["c"]),
    ],
    ids=str,
)
def test_the_filters(ansible: Ansible, api: Api, namespace: str, options: dict[str, Any], names: list[str]):
    def entry(day: int, name: str, result: str, **fields: Any) -> dict[str, str]:
        job = {"name": name, "kind": "training", "submitted_at": f"2026-01-0{day}T00:00:00Z", **fields}
        end = {"result": result, "finished_at": f"2026-01-0{day}T01:00:00Z"}
        return {f"uid-{name}.job": json.dumps(job), f"uid-{name}.end": json.dumps(end)}

    alice = json.dumps({"user": "alice", "host": "laptop"})
    data = {
        **entry(1, "a", "Succeeded", submitter=alice),
        **entry(2, "b", "Failed", pool="h100"),
        **entry(3, "c", "Succeeded", sweep="lr"),
        "what": "is this",
        "uid-d.job": "[]",
        "uid-e.end": '{"result":"Succeeded"}',
    }
    labels = {"app.kubernetes.io/managed-by": "runwhere.gpuctl", "runwhere.ai/history": "runs"}
    metadata = {"name": HISTORY, "labels": labels}
    api.create("configmap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, namespace)
    found = ansible.module("gpuctl_job_history_info", namespaces=[namespace], **options)
    assert [row["name"] for row in found.result["results"]] == names
    assert found.result["total"] == (3 if set(options) <= {"limit"} else 1)


def test_an_account_of_the_level_read_lists_and_does_not_write(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    submitted(ansible, namespace)
    end(api, namespace)
    with account(api, "read", [namespace]) as own:
        recorder.identity = own
        recorder.clear()
        (row,) = runs(ansible, namespace)
        assert row["result"] == "Succeeded"  # by the live Job
        assert recorder.writes == []
        refused = ansible.module("gpuctl_job_history", namespaces=[namespace])
    assert refused.failed
    assert "forbidden" in refused.message


def test_an_account_of_the_level_submit_records_what_it_submits(ansible: Ansible, submitter: Api, namespace: str):
    submitted(ansible, namespace)
    (row,) = runs(ansible, namespace)
    assert row["submitted_by"].startswith("Kubernetes user system:serviceaccount:")


def test_the_playbooks_print_and_write_the_history(ansible: Ansible, api: Api, namespace: str, tmp_path: Path):
    submitted(ansible, namespace)
    end(api, namespace, WRONG_USAGE)
    variables = ("-e", f"gpuctl_namespace={namespace}")
    done = ansible.run("ansible-playbook", str(ROOT / "playbooks" / "record_history.yml"), *variables)
    assert done.status == 0, done.output
    page = tmp_path / "history.html"
    shown = ansible.run(
        "ansible-playbook", str(ROOT / "playbooks" / "history.yml"), *variables, "-e", f"gpuctl_output={page}"
    )
    assert shown.status == 0, shown.output
    assert "1 run:" in shown.output
    assert "Failed" in shown.output
    assert "<title>Job history</title>" in page.read_text()
