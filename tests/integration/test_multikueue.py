# SPDX-License-Identifier: BSD-2-Clause
"""MultiKueue: one cluster as manager, two as workers. What is declared in each, and that jobs are left to Kueue.

No controller of Kueue runs here: what it would do is not tested."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from chaos.faults import FAULTS
from chaos.proxy import Plan, Proxy, Request
from kubesim import Cluster

from .ansible import Ansible, Run
from .api import Api
from .manifests import inference, training
from .test_placement import Sites, counts, words

HOME, WORKERS = "east", ("north", "west")
QUOTA = {"kind": "quota", "quota": {"name": "teams"}, "users": {"team-a": {"gpu": 32, "shares": {"big": 8}}}}
NAMED = "gpuctl-multikueue"
SFT = training("sft", job={"namespace": "team-a"}, resources={"pool": "big", "gpu": 8})


@dataclass
class DownFromWrite(Plan):
    """The cluster answers nothing from its k-th write on."""

    writes: int = 0

    def strikes(self, request: Request) -> bool:
        self.writes += counts(request)
        return self.writes >= self.k


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    """Three clusters with Kueue, each behind a proxy; ``east`` is the home."""
    with ExitStack() as stack:
        clusters, lanes = {}, {}
        (tmp_path / "kubeconfigs").mkdir()
        for name in (HOME, *WORKERS):
            cluster = clusters[name] = stack.enter_context(Cluster(nodes=1, addons={"kueue"}).running())
            proxy = Proxy(cluster.url)
            stack.callback(proxy.close)
            lanes[name] = proxy.lane()
            path = tmp_path / "kubeconfigs" / f"{name}.kubeconfig"
            path.write_text(cluster.kubeconfig(path).read_text().replace(cluster.url, lanes[name].url))
        status, _answer = Api(str(tmp_path / "kubeconfigs" / f"{HOME}.kubeconfig")).call(
            "POST", "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}}
        )
        assert status == 201
        plain = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "COLUMNS": "100"}
        found = Sites(
            clusters, lanes, Ansible(tmp_path, {"ANSIBLE_INVENTORY": str(tmp_path / "clusters.yml"), **plain})
        )
        write_inventory(found)
        yield found


def write_inventory(sites: Sites, home: str = HOME) -> None:
    inventory = {"plugin": "runwhere.gpuctl.clusters", "kubeconfig": ["kubeconfigs"], "home": home}
    (sites.ansible.directory / "clusters.yml").write_text(yaml.safe_dump(inventory))


def declare(sites: Sites, *arguments: str) -> Run:
    return sites.playbook("multikueue", *arguments)


def provision(sites: Sites) -> None:
    """The pool with its nodes in the workers, and without in the home; the same quota in all of them."""
    for name in sites.clusters:
        folder = sites.ansible.directory / name
        folder.mkdir(exist_ok=True)
        queue = {"queue": "multikueue"} if name == HOME else {"nodes": ["node-1"], "queue": "kueue"}
        pool = {"kind": "pool", "pool": {"name": "big"}, **queue}
        (folder / "all.yaml").write_text(yaml.safe_dump_all([pool, QUOTA]))
        run = sites.playbook("provision", "-e", f"gpuctl_dir={name}", "-e", "gpuctl_source=test", "--limit", name)
        assert run.status == 0, run.output


def objects(sites: Sites, site: str, kind: str) -> dict[str, dict[str, Any]]:
    """Those of a kind that are ours, by name."""
    found = [obj for obj in sites.clusters[site].objects() if obj["kind"] == kind]
    ours = [obj for obj in found if "app.kubernetes.io/managed-by" in (obj["metadata"].get("labels") or {})]
    return {obj["metadata"]["name"]: obj for obj in ours}


def kubeconfig_of(sites: Sites, worker: str) -> dict[str, Any]:
    secret = objects(sites, HOME, "Secret")[f"{NAMED}-{worker}"]
    assert secret["metadata"]["namespace"] == "kueue-system"
    return dict(yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"])))


def token_of(sites: Sites, worker: str) -> str:
    return str(kubeconfig_of(sites, worker)["users"][0]["user"]["token"])


def set_condition(sites: Sites, kind: str, name: str, **condition: str) -> None:
    """What Kueue would say."""

    def write(obj: Any) -> None:
        stamp = {"type": "Active", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        obj["status"] = {"conditions": [{**stamp, **condition}]}

    sites.clusters[HOME].registry.modify(kind, None, name, write, subresource="status", manager="kueue")


# -- what is declared --------------------------------------------------------------------------------------------------


def test_one_command_declares_the_workers_and_goes_again(sites: Sites) -> None:
    checked = declare(sites, "--check", "--diff")
    assert checked.status == 0, checked.output
    assert objects(sites, HOME, "MultiKueueCluster") == {}
    run = declare(sites, "--diff", "-vvv")
    assert run.status == 0, run.output
    for name in WORKERS:
        spec = objects(sites, HOME, "MultiKueueCluster")[name]["spec"]
        assert spec == {"clusterSource": {"kubeConfig": {"location": f"{NAMED}-{name}", "locationType": "Secret"}}}
        written = kubeconfig_of(sites, name)
        assert written["clusters"][0]["cluster"]["server"] == sites.lanes[name].url
        token = written["users"][0]["user"]["token"]
        assert token.count(".") == 2
        assert token not in run.output  # with --diff and -vvv
        encoded = objects(sites, HOME, "Secret")[f"{NAMED}-{name}"]["data"]["kubeconfig"]
        assert encoded not in run.output
        assert token not in json.dumps([task.result for task in run.tasks])
    assert objects(sites, HOME, "MultiKueueConfig")[NAMED]["spec"] == {"clusters": list(WORKERS)}
    assert objects(sites, HOME, "AdmissionCheck")[NAMED]["spec"] == {
        "controllerName": "kueue.x-k8s.io/multikueue",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": NAMED},
    }
    assert objects(sites, HOME, "ServiceAccount") == {}
    assert "Kueue has not said yet whether it is connected" in words(run)

    sites.begin()
    again = declare(sites)
    assert again.status == 0, again.output
    assert sites.writes == []
    assert "changed=0" in again.output
    assert "changed=1" not in again.output


def test_the_account_of_a_worker_has_the_rights_of_the_manager_and_no_others(sites: Sites) -> None:
    assert declare(sites).status == 0
    config = sites.ansible.directory / "as-manager.kubeconfig"
    config.write_text(yaml.safe_dump(kubeconfig_of(sites, "west")))
    manager = Api(str(config))
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": []}}}}
    for method, path, body, is_allowed in (
        ("GET", "/apis/batch/v1/jobs", None, True),
        ("POST", "/apis/batch/v1/namespaces/default/jobs", job, True),
        ("GET", "/apis/kueue.x-k8s.io/v1beta2/workloads", None, True),
        ("GET", "/api/v1/pods", None, True),
        ("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", None, True),
        ("GET", "/api/v1/secrets", None, False),
        ("POST", "/api/v1/namespaces/default/pods", job, False),
        ("GET", "/api/v1/nodes", None, False),
        ("DELETE", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/any", None, False),
    ):
        status, answer = manager.call(method, path, body)
        assert (status != 403) is is_allowed, (method, path, answer)


def test_a_cluster_that_leaves_the_inventory_leaves_the_manager(sites: Sites) -> None:
    assert declare(sites).status == 0
    api = Api(str(sites.ansible.directory / "kubeconfigs" / f"{HOME}.kubeconfig"))
    group = "kueue.x-k8s.io/v1beta2"
    other = {"apiVersion": group, "kind": "MultiKueueCluster", "metadata": {"name": "of-others"}}
    source = {"clusterSource": {"kubeConfig": {"location": "of-others"}}}
    assert api.call("POST", f"/apis/{group}/multikueueclusters", {**other, "spec": source})[0] == 201
    (sites.ansible.directory / "kubeconfigs" / "west.kubeconfig").unlink()
    run = declare(sites)
    assert run.status == 0, run.output
    assert objects(sites, HOME, "MultiKueueCluster").keys() == {"north"}
    assert objects(sites, HOME, "Secret").keys() == {f"{NAMED}-north"}
    assert objects(sites, HOME, "MultiKueueConfig")[NAMED]["spec"] == {"clusters": ["north"]}
    assert "Its account gpuctl-multikueue is left in that cluster" in words(run)
    direct = Ansible(sites.ansible.directory, {"K8S_AUTH_KUBECONFIG": str(sites.ansible.directory / "west.kubeconfig")})
    sites.clusters["west"].kubeconfig(sites.ansible.directory / "west.kubeconfig")
    assert direct.module("gpuctl_rbac", name=NAMED, state="absent").changed
    assert objects(sites, "west", "ServiceAccount") == objects(sites, "west", "ClusterRoleBinding") == {}
    removed = declare(sites, "-e", "gpuctl_state=absent")
    assert removed.status == 0, removed.output
    for kind in ("MultiKueueCluster", "MultiKueueConfig", "AdmissionCheck", "Secret"):
        assert objects(sites, HOME, kind) == {}, kind
    assert api.call("GET", f"/apis/{group}/multikueueclusters/of-others")[0] == 200
    sites.begin()
    assert declare(sites, "-e", "gpuctl_state=absent").status == 0
    assert sites.writes == []


def test_a_token_is_kept_until_it_is_close_to_its_end(sites: Sites) -> None:
    assert declare(sites, "-e", "gpuctl_clusters=west").status == 0
    assert objects(sites, HOME, "MultiKueueCluster").keys() == {"west"}
    first = token_of(sites, "west")
    assert declare(sites, "-e", "gpuctl_clusters=west").status == 0
    assert token_of(sites, "west") == first
    renewed = declare(sites, "-e", "gpuctl_clusters=west", "-e", "gpuctl_token_days=60")  # valid for too long
    assert renewed.status == 0, renewed.output
    assert token_of(sites, "west") != first
    # An account of the same name is another one: its former tokens are worth nothing.
    second = token_of(sites, "west")
    sites.clusters["west"].registry.delete("ServiceAccount", "gpuctl-system", NAMED)
    assert declare(sites, "-e", "gpuctl_clusters=west", "-e", "gpuctl_token_days=60").status == 0
    assert token_of(sites, "west") != second


# -- what is in the way ------------------------------------------------------------------------------------------------


def test_a_worker_that_cannot_be_reached_leaves_all_as_it_was(sites: Sites) -> None:
    sites.begin()
    sites.stop("west")
    run = declare(sites)
    assert run.status == 2
    assert "west: " in run.output
    assert "Nothing was changed." in words(run)
    assert [write for write in sites.writes if not write.startswith("west")] == []
    assert objects(sites, HOME, "MultiKueueCluster") == {}
    assert objects(sites, "north", "ServiceAccount") == {}
    sites.begin()
    assert declare(sites).status == 0
    assert objects(sites, HOME, "MultiKueueCluster").keys() == set(WORKERS)


@pytest.mark.parametrize(("site", "number"), [("west", 2), (HOME, 4)])
def test_the_next_run_goes_on_after_one_that_was_cut_off(sites: Sites, site: str, number: int) -> None:
    """From its n-th write on, a cluster does not answer: a worker, or the manager."""
    sites.begin()
    sites.lanes[site].begin(DownFromWrite(FAULTS["down"], number))
    cut = declare(sites)
    assert cut.status == 2
    assert "Run the task again for the rest." in words(cut)
    sites.begin()
    run = declare(sites)
    assert run.status == 0, run.output
    assert objects(sites, HOME, "MultiKueueConfig")[NAMED]["spec"] == {"clusters": list(WORKERS)}
    for worker in WORKERS:
        config = sites.ansible.directory / "check.kubeconfig"
        config.write_text(yaml.safe_dump(kubeconfig_of(sites, worker)))
        assert Api(str(config)).call("GET", "/apis/batch/v1/jobs")[0] == 200


def test_objects_of_others_are_left_alone(sites: Sites) -> None:
    api = Api(str(sites.ansible.directory / "kubeconfigs" / f"{HOME}.kubeconfig"))
    secret = {"metadata": {"name": f"{NAMED}-west"}, "stringData": {"kubeconfig": "of-others"}}
    assert api.call("POST", "/api/v1/namespaces/kueue-system/secrets", secret)[0] == 201
    sites.begin()
    run = declare(sites)
    assert run.status == 2
    assert "Secret gpuctl-multikueue-west exists and does not belong to gpuctl" in words(run)
    assert "Nothing was changed." in words(run)
    assert sites.writes == []


def test_what_cannot_work_is_said_at_once(sites: Sites) -> None:
    write_inventory(sites, home="")
    assert "Name the cluster that is the manager" in words(declare(sites))
    write_inventory(sites)
    assert "leaves out north" in words(declare(sites, "--limit", "east,west"))
    assert "no cluster or group of clusters: paris." in words(declare(sites, "-e", "gpuctl_clusters=west,paris"))
    config = sites.ansible.directory / "kubeconfigs"
    connection = {"kubeconfig": str(config / "west.kubeconfig")}
    home = {"K8S_AUTH_KUBECONFIG": str(config / f"{HOME}.kubeconfig")}
    direct = Ansible(sites.ansible.directory, home)
    for workers, says in (
        ([{"name": "We_st", "connection": connection}], "invalid name 'We_st'"),
        ([{"name": "west", "connection": {}}], "no connection to west"),
        ([{"name": "west", "connection": {**connection, "tags": {}}}], "unknown connection option of west: tags"),
        ([{"name": "west", "connection": connection}] * 2, "two have the same name"),
        ([{"name": f"w{i}", "connection": connection} for i in range(21)], "21 are too many"),
        ([{"name": "me", "connection": {"kubeconfig": str(config / f"{HOME}.kubeconfig")}}], "the manager itself"),
    ):
        result = direct.module("gpuctl_multikueue", workers=workers)
        assert result.failed
        assert says in result.message, result.message
        assert "Nothing was changed." in result.message
    result = direct.module("gpuctl_multikueue", workers=[], kueue_namespace="kueue")
    assert "namespace kueue not found" in result.message


# -- what Kueue says ---------------------------------------------------------------------------------------------------


def test_what_kueue_says_of_its_connections_is_shown(sites: Sites) -> None:
    assert declare(sites).status == 0
    set_condition(sites, "MultiKueueCluster", "north", status="True", reason="Active", message="Connected")
    refused = {"status": "False", "reason": "ClientConnectionFailed", "message": "dial tcp: refused\nat west"}
    set_condition(sites, "MultiKueueCluster", "west", **refused)
    set_condition(sites, "AdmissionCheck", NAMED, status="False", reason="NoUsableClusters", message="Inactive: [west]")
    run = declare(sites)
    assert run.status == 0, run.output
    (task,) = [task for task in run.tasks if task.task == "Declare the workers"]
    rows = {row["name"]: row for row in task.result["results"]}
    assert (rows["north"]["active"], rows["north"]["reason"]) == (True, None)
    assert rows["west"]["active"] is False
    assert rows["west"]["reason"].startswith("ClientConnectionFailed: dial tcp: refused")
    assert "\n" not in rows["west"]["reason"]
    assert "AdmissionCheck gpuctl-multikueue is not active" in words(run)
    assert rows["north"]["expires"] > time.strftime("%Y-%m-%d")


# -- pools and jobs ----------------------------------------------------------------------------------------------------


def test_the_manager_has_queues_without_limits_and_jobs_are_left_to_kueue(sites: Sites) -> None:
    provision(sites)
    run = declare(sites)
    assert run.status == 0, run.output
    assert "has no LocalQueue" not in run.output
    spec = objects(sites, HOME, "ClusterQueue")["gpuctl-big.team-a"]["spec"]
    assert spec["admissionChecksStrategy"] == {"admissionChecks": [{"name": NAMED}]}
    (gpu,) = [each for each in spec["resourceGroups"][0]["flavors"][0]["resources"] if each["name"] == "nvidia.com/gpu"]
    assert gpu == {"name": "nvidia.com/gpu", "nominalQuota": "0", "borrowingLimit": "32"}  # the quota of the namespace
    for name in WORKERS:
        own = objects(sites, name, "ClusterQueue")["gpuctl-big.team-a"]["spec"]
        assert "admissionChecksStrategy" not in own
        assert "gpuctl-big" in objects(sites, name, "LocalQueue")

    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(SFT))
    run = sites.submit("-e", "gpuctl_order=listed", where="west,east")
    assert run.status == 0, run.output
    assert "Job sft goes to east, where Kueue chooses one of its worker clusters (queue: multikueue)." in words(run)
    assert sites.copies() == [HOME]
    (job,) = [obj for obj in sites.clusters[HOME].objects() if obj["kind"] == "Job"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpuctl-big"
    assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"  # as Kueue's webhook sets it
    assert job["spec"]["suspend"] is True
    sites.begin()
    again = sites.submit()
    assert again.status == 0, again.output
    assert "changed=1" not in again.output
    assert sites.writes == []


def test_a_copy_of_kueue_in_a_worker_is_no_second_job(sites: Sites) -> None:
    provision(sites)
    assert declare(sites).status == 0
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(SFT))
    assert sites.submit().status == 0
    (job,) = [obj for obj in sites.clusters[HOME].objects() if obj["kind"] == "Job"]
    spec = {key: value for key, value in job["spec"].items() if key not in ("managedBy", "selector", "suspend")}
    spec["template"]["metadata"]["labels"] = {
        key: value
        for key, value in spec["template"]["metadata"]["labels"].items()
        if "job-name" not in key and "controller-uid" not in key
    }
    marks = {**job["metadata"]["labels"], "kueue.x-k8s.io/multikueue-origin": "multikueue"}
    copy = {"metadata": {"name": "sft", "labels": marks}, "spec": {**spec, "suspend": True}}
    west = Api(str(sites.ansible.directory / "kubeconfigs" / "west.kubeconfig"))
    status, answer = west.call("POST", "/apis/batch/v1/namespaces/team-a/jobs", copy)
    assert status == 201, answer
    sites.begin()
    again = sites.submit()
    assert again.status == 0, again.output
    assert sites.writes == []
    described = sites.playbook("describe", "-e", "gpuctl_name=sft", "-e", "gpuctl_namespace=team-a")
    assert described.status == 0, described.output
    deleted = sites.playbook("delete", "-e", "gpuctl_name=sft", "-e", "gpuctl_namespace=team-a")
    assert deleted.status == 0, deleted.output
    assert sites.copies() == ["west"]  # Kueue deletes it, as its job is gone.


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (training("two", job={"namespace": "team-a"}, resources={"pool": "big", "gpu": 8, "node_count": 2}), "Service"),
        (inference("web", job={"namespace": "team-a"}, resources={"pool": "big", "gpu": 1}), "Deployment"),
    ],
    ids=["several-nodes", "service"],
)
def test_what_kueue_would_not_copy_is_refused(sites: Sites, manifest: dict[str, Any], says: str) -> None:
    provision(sites)
    home = sites.ansible.directory / "kubeconfigs" / f"{HOME}.kubeconfig"
    ansible = Ansible(sites.ansible.directory, {"K8S_AUTH_KUBECONFIG": str(home)})
    result = ansible.job(definition=manifest)
    assert result.failed
    assert "Kueue copies only Jobs to worker clusters" in result.message
    assert says in result.message
    assert "Nothing was changed." in result.message


def test_a_worker_without_the_queues_is_named(sites: Sites) -> None:
    provision(sites)
    sites.clusters["west"].registry.delete("LocalQueue", "team-a", "gpuctl-big")
    run = declare(sites)
    assert run.status == 0, run.output
    assert "west has no LocalQueue gpuctl-big in team-a, so it gets no job from there." in words(run)
    assert "north has no LocalQueue" not in words(run)


def test_a_pool_of_the_manager_has_no_nodes(sites: Sites) -> None:
    home = sites.ansible.directory / "kubeconfigs" / f"{HOME}.kubeconfig"
    ansible = Ansible(sites.ansible.directory, {"K8S_AUTH_KUBECONFIG": str(home)})
    pool = {"kind": "pool", "pool": {"name": "big"}, "nodes": ["node-1"], "queue": "multikueue"}
    result = ansible.module("gpuctl_pool", definition=pool)
    assert result.failed
    assert "queue multikueue, but the pool has nodes" in result.message
