# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_job_info, gpuctl_pool_info, gpuctl_node_info: seeing what is there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from . import kubelet
from .ansible import Ansible, TaskResult
from .api import Api, eventually
from .manifests import compute, inference, notebook, training
from .pools import GPU_TYPE, POOL, Field
from .recorder import Recorder

# No cluster has a node of that size, no registry that image.
TOO_LARGE = {"resources": {"gpu": 4000}}
NO_IMAGE = {"environment": {"image": "registry.example.com/ml:typo"}}


def rows(result: TaskResult, key: str = "name") -> dict[str, dict[str, Any]]:
    assert not result.failed, result.message
    assert not result.changed
    return {row[key]: row for row in result.result["results"]}


def jobs(ansible: Ansible, namespace: str, **options: Any) -> dict[str, dict[str, Any]]:
    return rows(ansible.module("gpuctl_job_info", namespaces=[namespace], **options))


def reason(ansible: Ansible, namespace: str, job: str, words: str) -> str:
    """The reason of a job, once it has one with these words: the cluster may need a moment to say."""

    def reason_of_job() -> str | None:
        found = jobs(ansible, namespace)[job]["reason"]
        return found if found and words in found else None

    return str(eventually(reason_of_job, 60))


# -- jobs --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def three_jobs(ansible: Ansible, namespace: str) -> str:
    """A namespace with a service and a notebook that run, and a training that never will."""
    definition = [
        compute("web", service={"replicas": 2, "port": 8080}, job={"description": "网页"}),
        notebook("lab", resources={"gpu": 0}),
    ]
    done = ansible.job(definition=definition, namespace=namespace, wait=True, wait_timeout=90)
    assert not done.failed, done.message
    done = ansible.job(definition=training("big", job={"priority": "high"}, **TOO_LARGE), namespace=namespace)
    assert not done.failed, done.message
    return namespace


def test_jobs_with_their_status(ansible: Ansible, api: Api, three_jobs: str):
    found = jobs(ansible, three_jobs)
    assert {name: (row["kind"], row["status"], row["ready"], row["workload"]) for name, row in found.items()} == {
        "big": ("training", "Pending", "0/1", "Job/big"),
        "lab": ("notebook", "Running", "1/1", "StatefulSet/lab"),
        "web": ("compute", "Running", "2/2", "Deployment/web"),
    }
    assert (found["big"]["gpu"], found["big"]["priority"], found["big"]["pool"]) == (4000, "high", "default")
    assert found["web"]["description"] == "网页"
    assert found["web"]["access_urls"][-1] == f"http://svc-web.{three_jobs}.svc:8080"
    assert found["big"]["access_urls"] == []
    assert found["web"]["reason"] is None
    assert all(row["managed"] for row in found.values())
    assert not any({"pods", "events", "object"} & row.keys() for row in found.values()), "summaries by default"


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "notebook"}, ["lab"]),
    ({"name": "web"}, ["web"]),
    ({"name": "nobody"}, []),
    ({"status": "running"}, ["lab", "web"]),
    ({"status": "PENDING"}, ["big"]),
    ({"status": "Partially Running"}, []),
    ({"pool": "default"}, ["big", "lab", "web"]),
    ({"pool": "another"}, []),
    ({"label_selectors": ["runwhere.ai/priority in (high)"]}, ["big"]),
    ({"kind": "training", "status": "succeeded"}, []),
]


def test_jobs_are_filtered(ansible: Ansible, three_jobs: str):
    tasks = [
        {"name": str(options), "runwhere.gpuctl.gpuctl_job_info": {"namespaces": [three_jobs], **options}}
        for options, dummy in FILTERS
    ]
    run = ansible.play(tasks)
    assert {task.task: [row["name"] for row in task.result["results"]] for task in run.tasks} == {
        str(options): names for options, names in FILTERS
    }, run.output


def test_pods_have_a_row_each(ansible: Ansible, api: Api, three_jobs: str):
    result = ansible.module("gpuctl_job_info", namespaces=[three_jobs], pods=True)
    live = {pod["metadata"]["name"]: pod for pod in api.list("pod", three_jobs)}
    assert [(row["name"], row["kind"]) for row in result.result["pods"]] == [
        ("big", "training"),
        ("lab", "notebook"),
        ("web", "compute"),
        ("web", "compute"),
    ]
    for row in result.result["pods"]:
        pod = live[row["job_id"]]
        assert row["namespace"] == three_jobs
        assert row["node"] == pod["spec"].get("nodeName")
        assert row["ip"] == pod["status"].get("podIP")
        assert (row["status"], row["ready"]) == (("Pending", "0/1") if row["name"] == "big" else ("Running", "1/1"))
    only = ansible.module("gpuctl_job_info", namespaces=[three_jobs], name="web", pods=True)
    assert {row["name"] for row in only.result["pods"]} == {"web"}


def test_details_and_whole_objects(ansible: Ansible, api: Api, three_jobs: str):
    reason(ansible, three_jobs, "big", "4000 GPUs")
    row = jobs(ansible, three_jobs, name="big", details=True, full=True)["big"]
    (pod,) = row["pods"]
    assert pod["job_id"] == api.list("pod", three_jobs, "app=big")[0]["metadata"]["name"]
    assert [event["object"] for event in row["events"]] == [f"Pod/{pod['job_id']}"]
    assert row["events"][0]["reason"] == "FailedScheduling"
    assert row["object"]["spec"]["template"]["spec"]["containers"][0]["name"] == "main"
    assert "managedFields" not in row["object"]["metadata"]


def test_an_unmanaged_autoscaler_is_shown(ansible: Ansible, api: Api, three_jobs: str):
    """That of KEDA, for one, has no labels of the job. One of another workload is not the job's."""
    for name, target in (("keda-hpa-web", "web"), ("other", "elsewhere")):
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "minReplicas": 2,
            "maxReplicas": 7 if target == "web" else 9,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": _SIXTY_PERCENT}}],
        }
        body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
        api.create("hpa", {**body, "metadata": {"name": name}}, three_jobs)
    found = jobs(ansible, three_jobs)
    assert found["web"]["autoscaler"]["max_replicas"] == 7
    assert [name for name, row in found.items() if row.get("autoscaler")] == ["web"]


_SIXTY_PERCENT = {"type": "Utilization", "averageUtilization": 60}


def test_whole_objects_keep_secrets(ansible: Ansible, namespace: str):
    secret = "hf-3f9c77aa01"
    manifest = compute("web", environment={"env": {"HF_TOKEN": secret, "PLAIN": "value"}})
    ansible.job(definition=manifest, namespace=namespace)
    result = ansible.module("gpuctl_job_info", namespaces=[namespace], full=True, arguments=("-vvv",))
    assert "PLAIN" in str(result.result)
    assert secret not in str(result.result)
    assert secret not in result.screen


def test_an_unknown_status(ansible: Ansible, recorder: Recorder):
    result = ansible.module("gpuctl_job_info", status="sleeping")
    assert result.failed
    assert "status: 'sleeping' is unknown. Use one of Pending, Running" in result.message
    assert recorder.requests == []


def test_the_jobs_of_the_former_command_line_are_listed_as_unmanaged(ansible: Ansible, api: Api, namespace: str):
    labels = {"runwhere.ai/job-type": "training", "runwhere.ai/pool": "default"}
    container = {"name": "old", "image": "registry.example.com/old:v1"}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    old = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "old", "labels": labels}}
    api.create("job", {**old, "spec": {"template": template}}, namespace)
    eventually(lambda: jobs(ansible, namespace)["old"]["status"] == "Running")
    row = jobs(ansible, namespace, name="old", details=True)["old"]
    assert (row["kind"], row["managed"], len(row["pods"])) == ("training", False, 1)


# -- why jobs do not run -----------------------------------------------------------------------------------------------


def test_why_too_many_gpus(ansible: Ansible, three_jobs: str):
    said = reason(ansible, three_jobs, "big", "4000 GPUs")
    assert "it needs 4000 GPUs on one node, but the largest node of pool default" in said
    assert "Lower resources.gpu, or spread the training with resources.node_count" in said
    assert "Insufficient nvidia.com/gpu" in said


def test_why_no_such_pool_and_no_such_gpu_type(ansible: Ansible, field: Field, namespace: str):
    node, pool = field.nodes[0], field.pool("a")
    field.set_labels(node, {POOL: pool, GPU_TYPE: "A100-test"})
    definition = [
        training("poolless", resources={"pool": field.pool("typo")}),
        training("typeless", resources={"pool": pool, "gpu-type": "H999"}),
    ]
    ansible.job(definition=definition, namespace=namespace)
    said = reason(ansible, namespace, "poolless", "has no nodes")
    assert f"pool {field.pool('typo')} has no nodes" in said
    assert "Correct resources.pool" in said
    said = reason(ansible, namespace, "typeless", "GPU type")
    assert f"GPU type H999 not found in pool {pool}" in said
    assert "Available GPU types: A100-test. Correct resources.gpu-type" in said


def test_why_all_gpus_of_the_pool_are_taken(ansible: Ansible, api: Api, field: Field, namespace: str):
    node, pool = field.nodes[0], field.pool("a")
    field.set_labels(node, {POOL: pool})
    (row,) = rows(ansible.module("gpuctl_node_info", nodes=[node]), "node_name").values()
    first = training("first", resources={"pool": pool, "gpu": row["gpu_free"]})
    done = ansible.job(definition=first, namespace=namespace, wait=True, wait_timeout=60)
    assert not done.failed, done.message
    ansible.job(definition=training("second", resources={"pool": pool}), namespace=namespace)
    said = reason(ansible, namespace, "second", "it needs 1 GPU")
    assert f"the only node of pool {pool} has none free" in said
    assert "Wait for other jobs to finish" in said

    (found,) = rows(ansible.module("gpuctl_pool_info", name=pool)).values()
    assert (found["gpu_used"], found["gpu_free"]) == (row["gpu_used"] + row["gpu_free"], 0)
    assert {job["name"]: (job["gpu"], job["pods"], job["pods_waiting"]) for job in found["jobs"]} == {
        "first": (row["gpu_free"], 1, 0),
        "second": (0, 0, 1),
    }


def test_a_gpu_type_counts_in_upper_and_lower_case(ansible: Ansible, field: Field):
    one, two = field.nodes[:2]
    field.set_labels(one, {GPU_TYPE: "A100-Case"})
    field.set_labels(two, {GPU_TYPE: "a100-case"})
    assert set(rows(ansible.module("gpuctl_node_info", gpu_type="a100-CASE"), "node_name")) == {one, two}


def test_why_the_quota_is_exhausted(ansible: Ansible, api: Api, namespace: str):
    quota = {"metadata": {"name": "team"}, "spec": {"hard": {"requests.cpu": "1500m"}}}
    api.create("resourcequota", quota, namespace)
    eventually(lambda: "used" in api.get("resourcequota", "team", namespace).get("status", {}))
    ansible.job(definition=compute("web", service={"replicas": 2}), namespace=namespace)
    said = reason(ansible, namespace, "web", "quota")
    assert said == (
        "quota team of the namespace is too small for the job (cpu: 1 requested by each of 2 pods, at most 1500m "
        "allowed). Request less, or have the quota raised."
    )
    assert jobs(ansible, namespace)["web"]["status"] == "Partially Running"
    ansible.job(definition=compute("more"), namespace=namespace)
    assert reason(ansible, namespace, "more", "quota") == (
        "quota team of the namespace is exhausted (cpu: 1 requested, 1 of 1500m used). Delete a job, request less, or "
        "have the quota raised."
    )


def test_why_the_image_cannot_be_pulled(ansible: Ansible, api: Api, namespace: str):
    ansible.job(definition=inference("serve", **NO_IMAGE), namespace=namespace)
    kubelet.without_image(api, namespace, "serve")
    said = reason(ansible, namespace, "serve", "cannot be pulled")
    assert said.startswith(f"image {NO_IMAGE['environment']['image']} of pod serve-")
    assert said.endswith("Check environment.image, and environment.imagePullSecret for a private registry.")
    result = ansible.module("gpuctl_job_info", namespaces=[namespace], pods=True)
    assert result.result["pods"][0]["status"] in ("ErrImagePull", "ImagePullBackOff")


# -- nodes and pools ---------------------------------------------------------------------------------------------------


def test_nodes_as_the_cluster_has_them(ansible: Ansible, api: Api, field: Field):
    one, two = field.nodes[:2]
    pool = field.pool("a")
    field.set_labels(one, {POOL: pool, GPU_TYPE: "A100-test"})
    api.patch("node", two, {"spec": {"unschedulable": True}})
    try:
        found = rows(ansible.module("gpuctl_node_info"), "node_name")
        assert list(found) == sorted(node["metadata"]["name"] for node in api.list("node"))
        allocatable = api.get("node", one)["status"]["allocatable"]
        assert found[one]["gpu_total"] == int(allocatable["nvidia.com/gpu"])
        assert (found[one]["bound_pools"], found[one]["gpu_type"], found[one]["status"]) == (
            [pool],
            "A100-test",
            "active",
        )
        assert found[one]["labels"] == {GPU_TYPE: "A100-test", POOL: pool}
        assert (found[two]["status"], found[two]["bound_pools"], found[two]["gpu_free"]) == (
            "maintaining",
            ["default"],
            0,
        )
        for options, wanted in (
            ({"pool": pool}, {one}),
            ({"gpu_type": "A100-test"}, {one}),
            ({"nodes": [one, two, "nowhere"]}, {one, two}),
            ({"nodes": [one, two], "status": "maintaining"}, {two}),
            ({"pool": pool, "status": "faulty"}, set()),
        ):
            assert rows(ansible.module("gpuctl_node_info", **options), "node_name").keys() == wanted
    finally:
        api.patch("node", two, {"spec": {"unschedulable": None}})


def test_chosen_labels_and_the_whole_node(ansible: Ansible, field: Field, recorder: Recorder):
    node = field.nodes[0]
    field.set_labels(node, {GPU_TYPE: "A100-test", "runwhere.ai/rack": "7"})
    recorder.clear()
    options = {"nodes": [node], "label_keys": ["gpu-type", "kubernetes.io/os", "not-there"], "full": True}
    row = rows(ansible.module("gpuctl_node_info", **options), "node_name")[node]
    assert row["labels"].get(GPU_TYPE) == "A100-test"
    assert row["labels"].keys() <= {GPU_TYPE, "kubernetes.io/os"}
    assert row["object"]["metadata"]["labels"]["runwhere.ai/rack"] == "7"
    assert "managedFields" not in row["object"]["metadata"]
    assert paths(recorder) == {"/api/v1/namespaces/gpuctl-system/configmaps": 1, "/api/v1/nodes": 1, "/api/v1/pods": 1}


def test_pools_with_what_is_used_of_them(ansible: Ansible, api: Api, field: Field, namespace: str):
    one, two = field.nodes[:2]
    pool = field.pool("a")
    ansible.module("gpuctl_pool", name=pool, description="试验", nodes={one: {"gpu-type": "A100-test"}, two: None})
    manifest = training("train", resources={"pool": pool, "gpu": 2})
    done = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=60)
    assert not done.failed, done.message

    found = rows(ansible.module("gpuctl_pool_info"))
    assert list(found) == sorted(found)
    row = found[pool]
    gpus = {node: int(api.get("node", node)["status"]["allocatable"]["nvidia.com/gpu"]) for node in (one, two)}
    assert (row["description"], row["status"], row["nodes"]) == ("试验", "active", sorted([one, two]))
    assert (row["node_count"], row["gpu_total"]) == (2, sum(gpus.values()))
    assert row["gpu_type"] == {"A100-test": gpus[one]}
    assert row["gpu_total"] - row["gpu_free"] == row["gpu_used"] >= 2
    assert row["jobs"] == [
        {"name": "train", "namespace": namespace, "kind": "training", "gpu": 2, "pods": 1, "pods_waiting": 0}
    ]
    assert not {one, two} & set(found["default"]["nodes"])
    assert rows(ansible.module("gpuctl_pool_info", name=pool)) == {pool: row}
    assert rows(ansible.module("gpuctl_pool_info", name=field.pool("nobody"))) == {}


# -- requests and rights -----------------------------------------------------------------------------------------------


def paths(recorder: Recorder) -> dict[str, int]:
    """The number of requests for each path."""
    assert {request.method for request in recorder.requests} == {"GET"}
    return dict(Counter(request.path for request in recorder.requests))


def test_requests_do_not_grow_with_the_cluster(ansible: Ansible, field: Field, recorder: Recorder, namespace: str):
    counts = []
    for number, nodes in ((1, 1), (8, len(field.nodes) - 1)):
        for index in range(nodes):
            field.set_labels(field.nodes[index], {POOL: field.pool(str(index))})
        definition = [training(f"big-{index}", **TOO_LARGE) for index in range(number)]
        definition += [compute(f"web-{index}") for index in range(number)]
        ansible.job(definition=definition, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=1)
        recorder.clear()
        assert len(jobs(ansible, namespace, details=True)) == 2 * number
        of_jobs = paths(recorder)
        recorder.clear()
        assert len(rows(ansible.module("gpuctl_pool_info"))) > nodes
        of_pools = paths(recorder)
        recorder.clear()
        rows(ansible.module("gpuctl_node_info"), "node_name")
        counts.append((of_jobs, of_pools, paths(recorder)))
    assert counts[0] == counts[1]
    several = {path: number for path, number in counts[0][0].items() if number > 1 and path != "/api/v1/nodes"}
    assert several == {f"/api/v1/namespaces/{namespace}/events": 2}, "the warnings, and those of preemptions"
    assert counts[0][0]["/api/v1/nodes"] <= 2
    assert len(counts[0][0]) <= 9
    everything = {"/api/v1/pods": 1, "/api/v1/nodes": 1, "/api/v1/namespaces/gpuctl-system/configmaps": 1}
    assert counts[0][1:] == (everything, everything)


def test_permission_for_one_namespace(ansible: Ansible, api: Api, recorder: Recorder, three_jobs: str):
    user = "gpuctl-test-looker"
    resources = ["jobs", "deployments", "statefulsets", "pods"]
    rule = {"apiGroups": ["", "apps", "batch"], "resources": resources, "verbs": ["list"]}
    api.create("role", {"metadata": {"name": "looker"}, "rules": [rule]}, three_jobs)
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "looker"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "looker"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    api.create("rolebinding", binding, three_jobs)
    looker = {"impersonate_user": user}
    recorder.clear()
    eventually(lambda: not ansible.module("gpuctl_job_info", namespaces=[three_jobs], **looker).failed)

    found = jobs(ansible, three_jobs, details=True, **looker)
    assert found.keys() == {"big", "lab", "web"}
    assert "Insufficient nvidia.com/gpu" in found["big"]["reason"], "the scheduler's words, without a look at the nodes"
    assert found["big"]["events"] == found["web"]["access_urls"] == []

    everywhere = ansible.module("gpuctl_job_info", all_namespaces=True, **looker)
    assert everywhere.failed
    assert "is forbidden" in everywhere.message
    assert everywhere.message.endswith("Or set namespaces to those that you may read.")
    for module in ("gpuctl_node_info", "gpuctl_pool_info"):
        result = ansible.module(module, **looker)
        assert result.failed
        assert "at the cluster scope" in result.message
    assert recorder.writes == []
