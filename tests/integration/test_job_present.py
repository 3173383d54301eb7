# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job, state present: what a person who declares jobs gets."""

from __future__ import annotations

import json
import time

import pytest

from .ansible import Ansible
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .recorder import Recorder

# Jobs must not need more than the permissions of the level submit.
pytestmark = pytest.mark.usefixtures("submitter")

ALL_KINDS = [
    training(),
    training("dist", resources={"node_count": 2}),
    inference(autoscaling={"min_replicas": 2, "max_replicas": 3, "metric": "cpu", "target": 70}),
    notebook(),
    compute(),
]
OBJECTS = {
    "job": {"train", "dist"},
    "deployment": {"serve", "web"},
    "statefulset": {"lab"},
    "service": {"svc-dist", "svc-serve", "svc-lab", "svc-web"},
    "hpa": {"serve"},
}


def test_every_kind_runs_and_a_second_run_only_reads(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    options = {"definition": ALL_KINDS, "namespace": namespace, "wait": True, "wait_timeout": 90}
    first = ansible.job(**options)

    assert first.changed, first.message
    assert list(first.jobs) == ["train", "dist", "serve", "lab", "web"]
    assert {(job["action"], job["status"]) for job in first.jobs.values()} == {("create", "Running")}
    for kind, names in OBJECTS.items():
        assert {obj["metadata"]["name"] for obj in api.list(kind, namespace)} >= names

    recorder.clear()
    second = ansible.job(**{**options, "wait": False})
    assert not second.changed, second.diff
    assert {job["action"] for job in second.jobs.values()} == {"unchanged"}
    assert [request.method for request in recorder.requests if request.method != "GET"] == []


def test_requests_do_not_grow_with_the_number_of_jobs(ansible: Ansible, recorder: Recorder, namespace: str):
    counts = []
    for number in (1, 12):
        jobs = [compute(f"web-{index}") for index in range(number)]
        ansible.job(definition=jobs, namespace=namespace, wait=True, wait_timeout=90)
        recorder.clear()
        assert not ansible.job(definition=jobs, namespace=namespace).changed
        counts.append(len(recorder.requests))
    assert counts[0] == counts[1] <= 10


def test_check_mode_predicts_and_writes_nothing(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    job = inference()
    predicted = ansible.job(definition=job, namespace=namespace, check=True)
    assert predicted.changed
    assert predicted.jobs["serve"]["action"] == "create"
    assert predicted.jobs["serve"]["status"] is None
    assert recorder.writes == []
    assert any("deployments/serve" in request for request in recorder.dry_runs), "the server has validated it"
    assert api.list("deployment", namespace) == []

    ansible.job(definition=job, namespace=namespace)
    recorder.clear()
    again = ansible.job(definition=job, namespace=namespace, check=True)
    assert not again.changed
    assert recorder.writes == recorder.dry_runs == []


def test_with_read_permissions_the_plan_is_shown_with_a_warning(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    groups = ["", "apps", "autoscaling", "batch"]
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"]}
    api.create("role", {"metadata": {"name": "reader"}, "rules": [rule]}, namespace)
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "gpuctl-test-reader"}],
    }
    api.create("rolebinding", binding, namespace)
    options = {"namespace": namespace, "impersonate_user": "gpuctl-test-reader", "check": True, "takeover": True}
    ansible.job(definition=[training(), compute()], namespace=namespace)
    eventually(lambda: not ansible.job(definition=training(), **options).failed)

    image = {"image": "registry.example.com/ml:v2"}
    jobs = [training(environment=image), compute(environment=image), notebook()]
    recorder.clear()
    result = ansible.job(definition=jobs, **options)
    assert not result.failed, result.message
    assert [result.jobs[name]["action"] for name in ("train", "web", "lab")] == ["recreate", "update", "create"]
    assert "not validated by the server" in " ".join(result.screen.split()), "ansible-core 2.16 wraps warnings"
    assert recorder.writes == []


def test_another_image_updates_a_service_in_place_and_the_diff_shows_just_that(
    ansible: Ansible, api: Api, namespace: str
):
    ansible.job(definition=inference(), namespace=namespace)
    before = api.get("deployment", "serve", namespace)
    result = ansible.job(definition=inference(environment={"image": "registry.example.com/ml:v2"}), namespace=namespace)
    after = api.get("deployment", "serve", namespace)

    assert result.jobs["serve"]["action"] == "update"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/ml:v2"
    (diff,) = result.diff
    assert diff["before"] == PATH_TO_IMAGE.format("registry.example.com/ml:v1")
    assert diff["after"] == PATH_TO_IMAGE.format("registry.example.com/ml:v2")
    changed = [obj for obj in result.jobs["serve"]["resources"] if obj["action"] != "unchanged"]
    assert [obj["changes"] for obj in changed] == [["spec.template.spec.containers[main].image"]]


PATH_TO_IMAGE = """\
spec:
  template:
    spec:
      containers:
      - name: main
        image: {}
"""


def test_what_leaves_the_manifest_leaves_the_cluster(ansible: Ansible, api: Api, namespace: str):
    env = {"env": {"A": "1", "B": "2"}, "workdir": "/work"}
    ansible.job(definition=compute(environment=env), namespace=namespace)
    ansible.job(definition=compute(environment={"env": {"A": "1"}}), namespace=namespace)

    deployment = api.get("deployment", "web", namespace)
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert [entry["name"] for entry in container["env"]] == ["A"]
    assert "workingDir" not in container


def test_what_others_set_is_left_alone(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=compute(), namespace=namespace)
    theirs = {"metadata": {"annotations": {"team": "x"}}, "spec": {"minReadySeconds": 2}}
    api.patch("deployment", "web", theirs, namespace)
    assert not ansible.job(definition=compute(), namespace=namespace).changed

    ansible.job(definition=compute(environment={"image": "registry.example.com/ml:v2"}), namespace=namespace)
    deployment = api.get("deployment", "web", namespace)
    assert deployment["metadata"]["annotations"]["team"] == "x"
    assert deployment["spec"]["minReadySeconds"] == 2


def test_a_field_of_another_manager_is_named_and_taken_over_only_on_request(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=compute(), namespace=namespace)
    edited = {
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example.com/hand:v1"}]}}}
    }
    api.patch("deployment", "web", edited, namespace)

    refused = ansible.job(definition=compute(), namespace=namespace)
    assert refused.failed
    assert "image" in refused.message
    assert "someone-else" in refused.message
    assert "force_conflicts" in refused.message

    taken = ansible.job(definition=compute(), namespace=namespace, force_conflicts=True)
    assert taken.jobs["web"]["action"] == "update"
    assert not ansible.job(definition=compute(), namespace=namespace).changed


def test_an_unmanaged_object_is_never_touched(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    pod = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/x:v1"}]},
    }
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}}, "template": pod},
    }
    api.create("deployment", theirs, namespace)
    before = api.get("deployment", "web", namespace)
    for state in ("present", "absent"):
        recorder.clear()
        result = ansible.job(definition=compute(), namespace=namespace, state=state)
        assert result.failed
        assert "Deployment web" in result.message
        assert "is not managed by gpuctl" in result.message
        assert "force_conflicts" not in result.message, "that would not help"
        assert recorder.writes == []
    after = api.get("deployment", "web", namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"] == before["spec"]


def test_two_runs_at_once_make_one_job(ansible: Ansible, api: Api, recorder: Recorder, namespace: str):
    """The other run creates the job after this one has looked for it, and before it checks for unmanaged objects."""
    other: list[dict] = []

    def come_between(request):
        if not other and request.path.endswith("/priorityclasses"):
            other.append(api.create("deployment", deployment, namespace))

    ansible.job(definition=compute(), namespace=namespace)
    deployment = api.get("deployment", "web", namespace)
    ansible.job(definition=compute(), namespace=namespace, state="absent", wait=True, wait_timeout=60)
    kept = {name: deployment["metadata"][name] for name in ("name", "labels")}
    deployment = {"metadata": kept, "spec": deployment["spec"]}

    recorder.before = come_between
    result = ansible.job(definition=compute(), namespace=namespace)
    assert other
    assert not result.failed, result.message
    assert api.get("deployment", "web", namespace)["metadata"]["uid"] == other[0]["metadata"]["uid"]


def test_an_autoscaler_takes_over_and_gives_back_the_replicas(ansible: Ansible, api: Api, namespace: str):
    fixed = inference(service={"replicas": 3}, resources={"gpu": 0})
    scaled = inference(
        resources={"gpu": 0}, autoscaling={"min_replicas": 1, "max_replicas": 4, "metric": "cpu", "target": 70}
    )
    ansible.job(definition=fixed, namespace=namespace)

    result = ansible.job(definition=scaled, namespace=namespace)
    assert not result.failed, result.message
    deployment = api.get("deployment", "serve", namespace)
    assert deployment["spec"]["replicas"] == 3, "the running copies stay until the autoscaler decides"
    assert api.get("hpa", "serve", namespace)
    assert not ansible.job(definition=scaled, namespace=namespace).changed

    back = ansible.job(definition=fixed, namespace=namespace)
    assert not back.failed, back.message
    assert api.get("hpa", "serve", namespace) is None
    assert not ansible.job(definition=fixed, namespace=namespace).changed


def test_replicas_can_be_edited_after_an_autoscaler_that_never_scaled(ansible: Ansible, api: Api, namespace: str):
    fixed = inference(service={"replicas": 2}, resources={"gpu": 0})
    idle = {"min_replicas": 1, "max_replicas": 4, "metric": "idle", "target": 70}
    for definition in fixed, inference(resources={"gpu": 0}, autoscaling=idle), fixed:
        ansible.job(definition=definition, namespace=namespace)

    edited = inference(service={"replicas": 3}, resources={"gpu": 0})
    result = ansible.job(definition=edited, namespace=namespace)
    assert not result.failed, result.message
    assert api.get("deployment", "serve", namespace)["spec"]["replicas"] == 3


# -- changes that Kubernetes cannot make in place --------------------------------------------------------------------

NEW_IMAGE = {"image": "registry.example.com/ml:v2"}


def test_another_image_recreates_a_training(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=60)
    before = api.get("job", "train", namespace)

    predicted = ansible.job(definition=training(environment=NEW_IMAGE), namespace=namespace, check=True)
    assert predicted.jobs["train"]["action"] == "recreate"
    assert api.get("job", "train", namespace) == before

    result = ansible.job(definition=training(environment=NEW_IMAGE), namespace=namespace, wait=True, wait_timeout=60)
    after = api.get("job", "train", namespace)
    assert result.jobs["train"]["action"] == "recreate", result.message
    assert result.jobs["train"]["status"] == "Running"
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert result.diff[0]["after"] == PATH_TO_IMAGE.format("registry.example.com/ml:v2")
    assert not ansible.job(definition=training(environment=NEW_IMAGE), namespace=namespace).changed


def test_a_recreated_training_gets_its_service_and_hostfile_back(ansible: Ansible, api: Api, namespace: str):
    options = {"namespace": namespace, "force": True}
    ansible.job(definition=training("dist", resources={"node_count": 2}), **options)
    changed = training("dist", resources={"node_count": 2}, environment=NEW_IMAGE)
    assert ansible.job(definition=changed, **options).jobs["dist"]["action"] == "recreate"
    owner = api.get("job", "dist", namespace)["metadata"]["uid"]
    time.sleep(2)  # for the garbage collector, which takes along what the former Job owned
    for kind, name in (("service", "svc-dist"), ("configmap", "dist-hostfile")):
        metadata = api.get(kind, name, namespace)["metadata"]
        assert [reference["uid"] for reference in metadata["ownerReferences"]] == [owner]
    assert not ansible.job(definition=changed, **options).changed


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_under_fail_the_immutable_paths_are_named_and_nothing_happens(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, check: bool
):
    ansible.job(definition=training(), namespace=namespace)
    before = api.get("job", "train", namespace)
    recorder.clear()
    jobs = [training(environment=NEW_IMAGE), compute()]
    result = ansible.job(definition=jobs, namespace=namespace, on_immutable="fail", check=check)

    assert result.failed
    assert "spec.template.spec.containers[main].image" in result.message
    assert "on_immutable" in result.message
    after = api.get("job", "train", namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert api.get("deployment", "web", namespace) is None, "the other job of the task was not begun"
    assert recorder.writes == []


@pytest.mark.parametrize("on_immutable", ["recreate", "fail"])
def test_an_invalid_new_training_leaves_the_old_one_untouched(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, on_immutable: str
):
    ansible.job(definition=training(), namespace=namespace)
    before = api.get("job", "train", namespace)
    recorder.clear()
    reference = {"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "not/a/key"}}}]}
    result = ansible.job(
        definition=training(environment={**NEW_IMAGE, **reference}), namespace=namespace, on_immutable=on_immutable
    )

    assert result.failed
    assert "secretKeyRef.key" in result.message
    after = api.get("job", "train", namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert recorder.writes == []


def test_a_job_can_become_another_kind(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training("x", resources={"node_count": 2}), namespace=namespace, wait=True, wait_timeout=60)
    result = ansible.job(definition=compute("x"), namespace=namespace, wait=True, wait_timeout=90)

    assert not result.failed, result.message
    assert result.jobs["x"]["action"] == "recreate"
    assert api.get("job", "x", namespace) is None
    service = eventually(lambda: api.get("service", "svc-x", namespace))
    assert service["spec"]["type"] == "NodePort"
    assert eventually(lambda: api.list("configmap", namespace, "app=x") == [])
    assert not ansible.job(definition=compute("x"), namespace=namespace).changed


def test_what_a_training_needs_goes_with_its_job(ansible: Ansible, api: Api, namespace: str):
    job = training("dist", resources={"node_count": 2})
    ansible.job(definition=job, namespace=namespace)
    assert not ansible.job(definition=job, namespace=namespace).changed
    api.delete("job", "dist", namespace)
    eventually(lambda: api.get("service", "svc-dist", namespace) is None)
    eventually(lambda: api.get("configmap", "dist-hostfile", namespace) is None)


# -- state absent ----------------------------------------------------------------------------------------------------


def test_absent_removes_everything_of_the_job_and_nothing_else(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    ansible.job(definition=[inference(), compute()], namespace=namespace, wait=True, wait_timeout=60)

    predicted = ansible.job(definition=inference(), namespace=namespace, state="absent", check=True)
    assert predicted.jobs["serve"]["action"] == "delete"
    assert api.get("deployment", "serve", namespace)

    gone = ansible.job(definition=inference(), namespace=namespace, state="absent", wait=True, wait_timeout=60)
    assert gone.changed
    assert api.get("deployment", "serve", namespace) is None
    assert api.get("service", "svc-serve", namespace) is None
    assert api.list("pod", namespace, "app=serve") == []
    assert api.get("deployment", "web", namespace)

    recorder.clear()
    again = ansible.job(definition=inference(), namespace=namespace, state="absent")
    assert not again.changed
    assert again.jobs["serve"]["action"] == "unchanged"
    assert recorder.writes == []


def test_a_job_is_deleted_by_name_at_once_and_only_if_it_is_of_the_kind(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=60)
    for wrong in ({"name": "train", "kind": "inference"}, {"definition": inference("train")}):
        refused = ansible.job(**wrong, namespace=namespace, state="absent")
        assert refused.failed
        assert "inference train" in refused.message
        assert "is of kind training. Correct the kind, or the name." in refused.message
    assert api.get("job", "train", namespace)
    right = ansible.job(name="train", kind="training", namespace=namespace, state="absent", force=True, wait=True)
    assert right.changed, right.message
    assert api.list("pod", namespace, "app=train") == []


def test_a_job_can_be_declared_again_while_it_is_still_going(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=60)
    former = api.get("job", "train", namespace)
    api.call("DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs/train", {"propagationPolicy": "Foreground"})
    result = ansible.job(definition=training(), namespace=namespace, wait=True, wait_timeout=90)
    assert result.jobs["train"]["action"] == "create", result.message
    present = api.get("job", "train", namespace)
    assert present["metadata"]["uid"] != former["metadata"]["uid"]


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_job_that_no_node_can_hold_says_why(ansible: Ansible, namespace: str):
    result = ansible.job(
        definition=training(resources={"gpu": 4000}),
        namespace=namespace,
        wait=True,
        wait_for="scheduled",
        wait_timeout=5,
    )
    assert result.failed
    assert "cannot be scheduled" in result.message
    assert "Insufficient nvidia.com/gpu" in result.message
    assert result.jobs["train"]["status"] == "Pending"
    assert "Insufficient nvidia.com/gpu" in result.jobs["train"]["reason"]


def test_urls_say_where_a_service_answers(ansible: Ansible, api: Api, namespace: str):
    result = ansible.job(definition=compute(service={"port": 8080}), namespace=namespace)
    service = api.get("service", "svc-web", namespace)
    urls = result.jobs["web"]["access_urls"]
    assert urls[-1] == f"http://svc-web.{namespace}.svc:8080"
    if any(node["status"].get("addresses") for node in api.list("node")):
        assert urls[0].endswith(f":{service['spec']['ports'][0]['nodePort']}")


def test_what_was_done_before_a_rejection_is_reported(ansible: Ansible, api: Api, namespace: str):
    api.create("resourcequota", {"metadata": {"name": "none"}, "spec": {"hard": {"services": "0"}}}, namespace)
    eventually(lambda: "hard" in api.get("resourcequota", "none", namespace).get("status", {}))
    result = ansible.job(definition=[training(), compute()], namespace=namespace)
    assert result.failed
    assert "compute web in namespace" in result.message
    assert "exceeded quota" in result.message
    assert "Jobs: 1 of 2 applied, 1 failed, 0 not attempted." in result.message
    assert result.changed
    assert [resource["kind"] for resource in result.jobs["web"]["resources"]][-1] == "Deployment"
    assert api.get("deployment", "web", namespace)


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_are_shown_nowhere(ansible: Ansible, namespace: str):
    values = [f"{word}-9c1f7e52" for word in ("first", "second")]
    output = ""
    for value in values:
        job = notebook(
            environment={"command": ["jupyter", f"--IdentityProvider.token={value}"], "env": {"HF_TOKEN": value}}
        )
        run = ansible.play(
            [{"name": "job", "runwhere.gpuctl.gpuctl_job": {"definition": job, "namespace": namespace}}],
            arguments=("-vvv",),
        )
        output += run.output + json.dumps([task.result for task in run.tasks])
        assert run.tasks[0].changed
    assert "HF_TOKEN" in output, "the diff shows which variable changed"
    for value in values:
        assert value not in output
