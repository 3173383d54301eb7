# SPDX-License-Identifier: BSD-2-Clause
"""The playbooks that work on a directory of manifests, and those that change the state of a job."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .namespaces import remove_namespaces, unused_namespace
from .pools import POOL, Field
from .pools import manifest as pool
from .recorder import Recorder, Request


def run(ansible: Ansible, playbook: str, *arguments: str, **variables: Any) -> Run:
    """A playbook with variables as AWX gives them."""
    given = json.dumps({f"gpuctl_{name}": value for name, value in variables.items()})
    return ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", "-e", given, "--diff", *arguments)


def recap(done: Run) -> dict[str, int]:
    """The counts of the last line: ok, changed, failed …"""
    counts = done.output.split("PLAY RECAP")[1].split(":", 1)[1].split()
    return {name: int(number) for name, number in (count.split("=") for count in counts)}


def write(directory: Path, name: str, *manifests: Any) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(yaml.safe_dump_all(manifests))


@dataclass(frozen=True)
class Declared:
    """A directory ``cluster`` that declares one of each: a pool, a quota with its namespace, a service in both."""

    directory: Path
    pool: str
    node: str
    quota: str
    user: str
    labels: dict[str, Any]


@pytest.fixture
def declared(ansible: Ansible, api: Api, field: Field) -> Iterator[Declared]:
    user = unused_namespace()
    found = Declared(
        ansible.directory / "cluster",
        field.pool("a"),
        field.nodes[0],
        field.pool("q"),
        user,
        {field.nodes[1]: {"gpu-type": "T4"}},
    )
    write(found.directory, "pools.yaml", pool(found.pool, [found.node]))
    limits = {user: {"cpu": 8, "memory": "8Gi", "gpu": 2}}
    write(found.directory, "quotas.yaml", {"kind": "quota", "quota": {"name": found.quota}, "users": limits})
    write(found.directory, "jobs.yaml", compute("web", job={"namespace": user}, resources={"pool": found.pool}))
    yield found
    remove_namespaces(api, user)


def in_table(run: Run, what: str, *cells: str) -> bool:
    """Whether a line of the table of differences begins so and has these cells, among others."""
    lines = [line.split() for line in run.output.splitlines()]
    return any(line[:1] == [what] and set(cells) <= set(line) for line in lines)


def test_provision_brings_everything_about_and_then_has_nothing_to_do(
    ansible: Ansible, api: Api, field: Field, recorder: Recorder, declared: Declared
):
    given = {"dir": "cluster", "node_labels": declared.labels}
    predicted = run(ansible, "provision", "--check", **given)
    assert predicted.status != 0, "drift fails a check run"
    for what in (
        ["pool", declared.pool, "create"],
        ["quota", declared.quota, declared.user, "create"],
        ["labels", field.nodes[1], "update"],
        ["job", "web", declared.user, "create"],
    ):
        assert in_table(predicted, *what), (
            what,
            predicted.output,
        )
    assert predicted.tasks[-1].failed
    assert predicted.tasks[-1].message.startswith("Drift detected: 4 objects ")
    assert recorder.writes == []

    first = run(ansible, "provision", wait=True, **given)
    assert first.status == 0, first.output
    assert field.pool_of(declared.node) == declared.pool
    assert field.labels(field.nodes[1]) == {"runwhere.ai/gpu-type": "T4"}
    assert api.get("resourcequota", f"{declared.quota}-{declared.user}", declared.user)
    assert api.get("deployment", "web", declared.user)["status"]["readyReplicas"] == 1

    for arguments in ((), ("--check",)):
        recorder.clear()
        again = run(ansible, "provision", *arguments, **given)
        assert again.status == 0, again.output
        assert recap(again)["changed"] == 0
        assert recorder.writes == recorder.dry_runs == []


def test_a_check_run_names_what_has_drifted(ansible: Ansible, field: Field, declared: Declared):
    assert run(ansible, "provision", dir="cluster").status == 0
    field.set_labels(declared.node, {POOL: None})
    drifted = run(ansible, "provision", "--check", dir="cluster")
    assert drifted.status != 0
    assert drifted.tasks[-1].message.startswith("Drift detected: 1 object ")
    assert f"+{POOL}: {declared.pool}" in drifted.output
    tolerated = run(ansible, "provision", "--check", dir="cluster", fail_on_drift="false")
    assert tolerated.status == 0, tolerated.output
    assert recap(tolerated)["changed"] == 1


def test_a_check_run_reports_the_conflicts_of_all_kinds_and_what_else_would_change(
    ansible: Ansible, api: Api, field: Field, declared: Declared, recorder: Recorder
):
    assert run(ansible, "provision", dir="cluster").status == 0
    write(declared.directory, "more.yaml", pool(field.pool("b"), [declared.node]), compute("new"), training("taken"))
    api.create("configmap", {"metadata": {"name": f"pool-{field.pool('b')}"}}, "gpuctl-system")
    others = {"metadata": {"name": "taken"}, "spec": {"template": {"spec": POD_SPEC}}}
    api.create("job", others, declared.user)
    recorder.clear()
    write(declared.directory, "pools.yaml", pool(declared.pool, []))
    drifted = run(
        ansible,
        "provision",
        "--check",
        dir="cluster",
        namespace=declared.user,
        node_labels={"no-such-node": {"rack": "a"}},
    )
    assert drifted.status != 0
    message = drifted.tasks[-1].message
    assert message.startswith("Drift detected: 1 object ")
    assert f"pool-{field.pool('b')}" in message
    assert "no-such-node" in message
    assert "Job taken exists and is not managed by gpuctl" in message
    assert in_table(drifted, "job", "new", declared.user, "create")
    assert recorder.writes == []
    tolerated = run(ansible, "provision", "--check", dir="cluster", namespace=declared.user, fail_on_drift="false")
    assert "Drift detected" not in tolerated.tasks[-1].message
    assert tolerated.status != 0, "what cannot be applied is more than drift"


POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "nginx"}]}


def test_a_directory_of_jobs_needs_no_right_but_to_submit(
    ansible: Ansible, api: Api, submitter: Api, namespace: str, recorder: Recorder
):
    write(ansible.directory / "cluster", "jobs.yaml", compute(), training())
    done = run(ansible, "provision", dir="cluster", namespace=namespace)
    assert done.status == 0, done.output
    assert api.get("deployment", "web", namespace)
    assert api.get("job", "train", namespace)
    assert 403 not in {request.status for request in recorder.requests}


def test_answers_of_a_survey_may_be_texts_and_empty(ansible: Ansible, api: Api, declared: Declared):
    answers = dict.fromkeys(("namespace", "node_labels", "wait_timeout", "fail_on_drift", "src"), "")
    texts = {"wait": "true", "force": "false", "node_labels": yaml.safe_dump(declared.labels)}
    done = run(ansible, "provision", dir=str(declared.directory), **{**answers, **texts})
    assert done.status == 0, done.output
    assert api.get("deployment", "web", declared.user)
    empty = run(ansible, "provision", "--check", dir="cluster", **{**answers, "wait": "", "force": ""})
    assert empty.status == 0, empty.output


def test_teardown_asks_first_and_removes_what_is_declared(
    ansible: Ansible, api: Api, field: Field, declared: Declared, recorder: Recorder
):
    given = {"dir": "cluster", "node_labels": declared.labels}
    assert run(ansible, "provision", **given).status == 0
    api.create("configmap", {"metadata": {"name": "somebodys"}}, declared.user)

    recorder.clear()
    unknown = run(ansible, "teardown", dir="not-there.yaml")
    assert "not-there.yaml: file or directory not found" in unknown.tasks[-1].message
    refused = run(ansible, "teardown", **given)
    assert refused.status != 0
    assert "gpuctl_confirm=teardown" in refused.tasks[-1].message
    predicted = run(ansible, "teardown", "--check", **given)
    assert predicted.status == 0, predicted.output
    assert recap(predicted)["changed"] == 4
    assert recorder.writes == []

    done = run(ansible, "teardown", confirm="teardown", **given)
    assert done.status == 0, done.output
    assert api.get("deployment", "web", declared.user) is None
    assert api.get("resourcequota", f"{declared.quota}-{declared.user}", declared.user) is None
    assert field.labels(declared.node) == field.labels(field.nodes[1]) == {}
    assert field.declared("a") is None
    assert api.get("configmap", "somebodys", declared.user), "namespaces stay, with what is in them"
    again = run(ansible, "teardown", confirm="teardown", **given)
    assert again.status == 0, again.output
    assert recap(again)["changed"] == 0


def test_teardown_leaves_what_another_source_declares_unless_it_is_adopted(
    ansible: Ansible, api: Api, declared: Declared, recorder: Recorder
):
    assert run(ansible, "provision", dir="cluster", source="former").status == 0
    recorder.clear()
    refused = run(ansible, "teardown", dir="cluster", confirm="teardown", source="present")
    assert refused.status != 0, refused.output
    assert "declared by former, and this is present" in refused.tasks[-1].message
    assert "-e gpuctl_adopt=former" in refused.tasks[-1].message
    assert recorder.writes == []
    done = run(ansible, "teardown", dir="cluster", confirm="teardown", source="present", adopt="former")
    assert done.status == 0, done.output
    assert api.get("deployment", "web", declared.user) is None


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_teardown_deletes_nothing_while_others_use_what_is_declared(
    ansible: Ansible, api: Api, declared: Declared, recorder: Recorder, namespace: str, arguments: tuple[str, ...]
):
    assert run(ansible, "provision", dir="cluster").status == 0
    ansible.job(definition=compute("others", resources={"pool": declared.pool}), namespace=namespace)
    recorder.clear()
    refused = run(ansible, "teardown", *arguments, dir="cluster", confirm="teardown")
    assert refused.status != 0, refused.output
    assert f"pool {declared.pool} is used by {namespace}/others. Delete the jobs" in refused.tasks[-1].message
    assert recorder.writes == []
    assert api.get("deployment", "web", declared.user)

    forced = run(ansible, "teardown", *arguments, dir="cluster", confirm="teardown", force="true")
    assert forced.status == 0, forced.output
    assert (api.get("deployment", "web", declared.user) is None) is (not arguments)


@pytest.mark.parametrize("arguments", [(), ("--check",)], ids=["run", "check"])
def test_teardown_keeps_namespaces_in_which_others_run(
    ansible: Ansible, api: Api, declared: Declared, recorder: Recorder, arguments: tuple[str, ...]
):
    assert run(ansible, "provision", dir="cluster", wait=True).status == 0
    ansible.job(definition=training("others"), namespace=declared.user, wait=True)
    recorder.clear()
    refused = run(ansible, "teardown", *arguments, dir="cluster", confirm="teardown", delete_namespaces=True)
    assert refused.status != 0, refused.output
    assert f"namespace {declared.user}: its deletion would also delete pods others-" in refused.tasks[-1].message
    assert "web" not in refused.tasks[-1].message, "the job that is deleted, too, is no obstacle"
    assert recorder.writes == []
    assert api.get("deployment", "web", declared.user)


def test_teardown_that_fails_halfway_says_what_was_deleted(
    ansible: Ansible, api: Api, declared: Declared, recorder: Recorder
):
    assert run(ansible, "provision", dir="cluster").status == 0
    labels = {**api.get("deployment", "web", declared.user)["metadata"]["labels"], "app": "late"}
    late = {"metadata": {"name": "late", "labels": labels}, "spec": {"template": {"spec": POD_SPEC}}}

    def somebody_submits(request: Request) -> None:
        if request.method == "DELETE" and "/resourcequotas/" in request.path and not request.dry_run:
            api.create("job", late, "default")

    recorder.before = somebody_submits
    broken = run(ansible, "teardown", dir="cluster", confirm="teardown")
    assert broken.status != 0
    assert "Teardown incomplete. Only what the table above lists was deleted." in broken.tasks[-1].message
    assert in_table(broken, "job", "web", declared.user, "delete")
    assert in_table(broken, "quota", declared.quota, declared.user, "delete")
    assert not in_table(broken, "pool", declared.pool, "delete")
    assert api.get("configmap", f"pool-{declared.pool}", "gpuctl-system")
    api.delete("job", "late", "default")
    eventually(lambda: api.get("job", "late", "default") is None)
    assert run(ansible, "teardown", dir="cluster", confirm="teardown").status == 0


@pytest.mark.parametrize("playbook", ["provision", "teardown"])
def test_a_missing_directory_is_reported(ansible: Ansible, recorder: Recorder, playbook: str):
    done = run(ansible, playbook, dir="", confirm="teardown")
    assert done.status != 0
    assert "gpuctl_dir" in done.tasks[-1].message
    assert recorder.requests == []


def test_teardown_deletes_namespaces_on_request(ansible: Ansible, api: Api, declared: Declared):
    assert run(ansible, "provision", dir="cluster").status == 0
    done = run(ansible, "teardown", dir="cluster", confirm="teardown", delete_namespaces="true")
    assert done.status == 0, done.output
    eventually(lambda: api.get("namespace", declared.user) is None, 120)


def test_a_job_from_pause_to_its_end(ansible: Ansible, api: Api, submitter: Api, namespace: str):
    ansible.job(definition=compute(), namespace=namespace, wait=True)

    def spec() -> dict[str, Any]:
        return dict(api.get("deployment", "web", namespace)["spec"])

    def change(playbook: str, **more: Any) -> None:
        done = run(ansible, playbook, name="web", namespace=namespace, **more)
        assert done.status == 0, done.output
        assert recap(done)["changed"] == 1, done.output

    change("pause")
    assert spec()["replicas"] == 0
    change("resume")
    assert spec()["replicas"] == 1
    change("scale", replicas="3")
    assert spec()["replicas"] == 3
    template = spec()["template"]
    change("restart")
    assert spec()["template"] != template
    change("delete", kind="compute", wait="true")
    assert api.get("deployment", "web", namespace) is None


def test_a_state_needs_jobs_and_scaling_a_number(ansible: Ansible, api: Api, namespace: str):
    write(ansible.directory / "jobs", "jobs.yaml", compute("a"))
    for playbook, given, hint in (
        ("pause", {}, "Missing variable: gpuctl_name or gpuctl_src."),
        ("scale", {"src": "jobs"}, "Missing variable: gpuctl_replicas. Add -e gpuctl_replicas=3."),
    ):
        refused = run(ansible, playbook, namespace=namespace, **given)
        assert refused.status != 0, refused.output
        assert hint in refused.output
    assert api.list("deployment", namespace) == []


@pytest.mark.parametrize("playbook", ["submit", "submit_training", "pause", "logs", "status", "provision", "teardown"])
def test_a_misspelled_variable_is_refused_before_anything_is_read(ansible: Ansible, recorder: Recorder, playbook: str):
    write(ansible.directory / "jobs", "jobs.yaml", compute("a"))
    refused = run(ansible, playbook, src="jobs", name="a", confirm="teardown", namspace="team-a")
    assert refused.status != 0, refused.output
    assert "Unknown variable: gpuctl_namspace. Did you mean gpuctl_namespace?" in refused.output
    assert recorder.requests == []


def test_all_jobs_of_a_directory_are_paused(ansible: Ansible, api: Api, namespace: str):
    write(ansible.directory / "jobs", "jobs.yaml", compute("a"), compute("b"))
    assert run(ansible, "submit", src="jobs", namespace=namespace).status == 0
    done = run(ansible, "pause", src="jobs", namespace=namespace)
    assert done.status == 0, done.output
    assert [obj["spec"]["replicas"] for obj in api.list("deployment", namespace)] == [0, 0]


@pytest.mark.parametrize("fast", ["1", "0"], ids=["in Ansible's process", "as a module"])
def test_a_message_names_what_the_user_can_set(ansible: Ansible, namespace: str, fast: str):
    """The variable of the playbook, the one of the role, or the option of the task."""
    ansible.environment["GPUCTL_FAST_PATH"] = fast
    write(ansible.directory / "jobs", "jobs.yaml", compute("a"))
    refused = run(ansible, "submit", src="jobs", namespace=namespace, wait_timeout=-1)
    assert refused.tasks[-1].message == "gpuctl_wait_timeout: -1 is negative. Give 0 or more."
    missing = run(ansible, "logs", name="nobody", namespace=namespace)
    assert "To list the jobs, use the playbook runwhere.gpuctl.status." in missing.tasks[-1].message

    src = str(ansible.directory / "jobs")
    role = {"jobs_src": src, "jobs_namespace": namespace, "jobs_wait_timeout": -1}
    include = {"name": "own", "ansible.builtin.include_role": {"name": "runwhere.gpuctl.jobs"}, "vars": role}
    assert ansible.play([include]).tasks[-1].message.startswith("jobs_wait_timeout: -1 is negative.")
    own = ansible.job(src=[src], namespace=namespace, wait_timeout=-1)
    assert own.message == "wait_timeout: -1 is negative. Give 0 or more."
