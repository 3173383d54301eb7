# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_fit_info, and what gpuctl_job says of it in check mode; both held to what the scheduler does then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import cached_client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.limits import ANSWER, MIB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import (
    FIELD_MANAGER,
    HISTORY,
    HISTORY_OF,
    MANAGED_BY,
)
from fit.compare import Tally, compare
from fit.observed import QUOTA, Stage
from fit.worlds import LIMITED, MARK, OTHER, RACK, Job, RandomWorld
from kubesim import Cluster

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import inference, notebook, training

SEEDS = (1, 2, 3)
MANY_SEEDS = range(100, 120)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with Cluster(nodes=8).running() as cluster:
        yield cluster.kubeconfig(tmp_path / "kubeconfig")


@pytest.fixture
def api(kubeconfig: Path) -> Api:
    return Api(str(kubeconfig))


@pytest.fixture
def here(kubeconfig: Path, tmp_path: Path) -> Ansible:
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


def held_to_the_scheduler(kubeconfig: Path, api: Api, seeds: Any, batches: int) -> Tally:
    stage = Stage(api, sorted(node["metadata"]["name"] for node in api.list("node")), real=False)
    client = cached_client({"kubeconfig": str(kubeconfig)}, {}, lambda secrets: None)
    tally = Tally()
    for seed in seeds:
        compare(stage, client, seed, batches, tally)
    return tally


def test_the_scheduler_agrees(kubeconfig: Path, api: Api):
    """`make fit` plays more of these worlds, on a real scheduler too."""
    tally = held_to_the_scheduler(kubeconfig, api, SEEDS, 8)
    assert tally.wrong == [], "\n".join(tally.wrong)
    assert tally.pairs >= 16
    assert len(tally.verdicts) >= 3


def test_who_is_preempted_is_seen_also_where_a_quota_keeps_pods_out(api: Api):
    """Of two pods the quota lets in one, for which another team's pod goes."""
    stage = Stage(api, [node["metadata"]["name"] for node in api.list("node")][:1], real=False)
    main = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "8"}}}

    def template(labels: dict[str, str], **spec: Any) -> dict[str, Any]:
        return {"metadata": {"labels": labels}, "spec": {"containers": [main], "nodeSelector": {RACK: "one"}, **spec}}

    world = RandomWorld(0)
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "8", "nvidia.com/gpu": "8"}
    here = {"name": stage.nodes[0], "labels": {RACK: "one"}, "taints": [], "unschedulable": False, "amounts": amounts}
    world.nodes = [here]
    there = template({"app": "there", MARK: "run"}, nodeName=stage.nodes[0])
    there["metadata"] |= {"name": "there", "namespace": OTHER}
    world.pods = [{"apiVersion": "v1", "kind": "Pod", **there}]
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "fit", "namespace": LIMITED}}
    world.quota = {**quota, "spec": {"hard": {"pods": "1"}}}
    stage.set_up(world)
    wanted = template({"app": "wanted", MARK: "try"}, priorityClassName="fit-high")
    assert stage.try_job(Job("wanted", LIMITED, wanted, 2))[0] == QUOTA
    assert stage.victims == {(OTHER, "there")}


@pytest.mark.nightly
def test_the_scheduler_agrees_at_length(kubeconfig: Path, api: Api):
    tally = held_to_the_scheduler(kubeconfig, api, MANY_SEEDS, 20)
    assert tally.wrong == [], "\n".join(tally.wrong)
    assert sum(tally.unknown.values()) <= 0.02 * tally.pairs


def test_what_it_says_happens(here: Ansible, api: Api):
    """Three jobs: one has room, one waits for it, one is too large for any node."""
    jobs = [
        training("first", resources={"gpu": 8, "node_count": 8}),
        notebook("second", resources={"gpu": 1}),
        training("never", resources={"gpu": 9}),
    ]
    told = here.module("gpuctl_fit_info", definition=jobs)
    assert not told.changed
    rows = {row["name"]: row for row in told.result["results"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "first": "now",
        "second": "after_jobs",
        "never": "never",
    }
    assert rows["second"]["after"] == [{"namespace": "default", "name": "first", "ends_at": None, "basis": None}]
    assert rows["never"]["hint"] == "With resources.gpu 8 instead of 9, it runs after others have ended."
    assert "after other jobs" in told.screen
    assert not here.job(definition=jobs[0]).failed
    eventually(lambda: len([pod for pod in api.list("pod", "default") if pod["spec"].get("nodeName")]) == 8)
    again = here.module("gpuctl_fit_info", definition=jobs[1]).result["results"][0]
    assert (again["verdict"], [one["name"] for one in again["after"]]) == ("after_jobs", ["first"])


def test_check_mode_says_it_of_jobs_that_would_start(here: Ansible):
    job = training("t", resources={"gpu": 8})
    predicted = here.job(definition=job, check=True)
    assert predicted.result["results"][0]["fit"]["verdict"] == "now"
    done = here.job(definition=job)
    assert done.result["results"][0]["fit"] is None
    assert here.job(definition=job, check=True).result["results"][0]["fit"] is None  # It is there already.


def test_submit_names_the_jobs_that_it_preempts_before_and_after(here: Ansible, api: Api):
    """On eight nodes: six are full of a high priority, two are used by trainings of a lower one."""
    low = [training(name, job={"priority": "low"}, resources={"gpu": 8}) for name in ("a", "b")]
    full = training("full", job={"priority": "high"}, resources={"gpu": 8, "node_count": 6})
    assert not here.job(definition=[full, *low]).failed
    eventually(lambda: len([pod for pod in api.list("pod", "default") if pod["spec"].get("nodeName")]) == 8)
    urgent = training("urgent", job={"priority": "high"}, resources={"gpu": 8, "node_count": 2})
    variables = json.dumps({"gpuctl_definition": urgent})
    # Which of the two comes first depends on when their pods started.
    said = {
        "--check": r"It runs once it has preempted jobs default/(a, default/b|b, default/a)\b",
        "": r"To run, it preempts jobs default/(a and default/b|b and default/a)\b",
    }
    for argument, text in said.items():
        done = here.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", variables, *filter(None, [argument]))
        assert done.status == 0, done.output
        assert re.search(text, " ".join(done.output.split())), done.output
    eventually(lambda: len(placed(api, "urgent")) == 2)
    eventually(lambda: placed(api, "a") == placed(api, "b") == [])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"resources": {"gpu": 9}},
            "It needs 9 GPUs on one node, but the largest node of pool default has 8 GPUs. Quota q has too little "
            "nvidia.com/gpu: it needs 9, 0 of 8 are used, 1 short.",
        ),
        (
            {"resources": {"gpu": 8, "node_count": 2}},
            "Quota q has too little nvidia.com/gpu: it needs 16, 0 of 8 are used, 8 short.",
        ),
        (
            {"resources": {"pool": "A100"}},
            "Pool A100 has no nodes. Did you mean a100? Correct resources.pool (existing pools: a100), or add nodes",
        ),
        (
            {"storage": {"workdirs": [{"path": "/data", "claim": "data"}]}},
            "PersistentVolumeClaim data does not exist. Create it with ansible-playbook runwhere.gpuctl.workspace "
            "-e gpuctl_namespace=team-a -e gpuctl_claim=data -e gpuctl_storage=100Gi, ask an administrator for it, or "
            "correct storage.workdirs.",
        ),
    ],
    ids=["node and quota", "quota", "pool", "claim"],
)
def test_check_mode_tells_each_reason_once(here: Ansible, api: Api, fields: dict[str, Any], reason: str):
    """In the report of the playbook, and not in a warning as well."""
    api.create("namespace", {"metadata": {"name": "team-a"}})
    hard = {"requests.nvidia.com/gpu": "8"}
    api.create("resourcequota", {"metadata": {"name": "q"}, "spec": {"hard": hard}}, "team-a")
    assert not here.module("gpuctl_pool", name="a100", nodes=[api.list("node")[0]["metadata"]["name"]]).failed
    definition = training("t", job={"namespace": "team-a"}, **fields)
    variables = json.dumps({"gpuctl_definition": definition, "gpuctl_strict": False})
    run = here.run("ansible-playbook", "runwhere.gpuctl.submit", "--check", "-e", variables)
    assert run.status == 0, run.output
    assert reason in " ".join(run.output.split()), run.output
    assert "[WARNING]: job t" not in run.output
    assert "[WARNING]: job t" in here.job(definition=definition, check=True).screen, "the module by itself warns of it"


def test_submit_asks_before_it_preempts_others_in_vain(here: Ansible, api: Api):
    """Two of nine pods preempt others; for the ninth there is no room, ever."""
    full = training("full", job={"priority": "high"}, resources={"gpu": 8, "node_count": 6})
    low = [training(name, job={"priority": "low"}, resources={"gpu": 8}) for name in ("a", "b")]
    assert not here.job(definition=[full, *low]).failed
    eventually(lambda: len([pod for pod in api.list("pod", "default") if pod["spec"].get("nodeName")]) == 8)
    wanted = training("urgent", job={"priority": "high"}, resources={"gpu": 8, "node_count": 9})
    asked = re.compile("Once submitted, it preempts jobs default/(a, default/b|b, default/a)[.]")
    row = here.module("gpuctl_fit_info", definition=wanted).result["results"][0]
    assert (row["verdict"], sorted(one["name"] for one in row["preempts"])) == ("never", ["a", "b"])
    assert asked.search(row["reason"])

    def submit(*arguments: str, **given: Any) -> Run:
        variables = json.dumps({"gpuctl_definition": wanted, **given})
        return here.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", variables, *arguments)

    for arguments in ([], ["--check"]):
        refused = submit(*arguments)
        text = " ".join(refused.output.split())
        assert refused.status != 0, text
        assert asked.search(text), text
        assert "Use -e gpuctl_preempt=true to submit it all the same." in text
    assert api.get("job", "urgent", "default") is None
    assert len(placed(api, "a")) == len(placed(api, "b")) == 1
    done = submit(gpuctl_preempt=True)
    assert done.status == 0, done.output
    assert asked.search(" ".join(done.output.split())), done.output
    eventually(lambda: len(placed(api, "urgent")) == 2)
    assert placed(api, "a") == placed(api, "b") == []


COUNTED = {
    "count/jobs.batch": training("t", resources={"gpu": 1}),
    "configmaps": training("t", distributed={"backend": "deepspeed", "deepspeed": "zero3"}),
    "count/statefulsets.apps": notebook("n"),
    "count/deployments.apps": inference("i"),
    "services": inference("i"),
    "services.nodeports": inference("i", service={"port": 80, "type": "NodePort"}),
    "count/horizontalpodautoscalers.autoscaling": inference("i", autoscaling={"min_replicas": 1, "max_replicas": 2}),
    "count/pods": notebook("n"),
}


@pytest.mark.parametrize("name", COUNTED)
def test_quotas_on_counts(here: Ansible, api: Api, name: str):
    """What is said not to be let in is refused, and with the change that is named it runs."""
    api.create("namespace", {"metadata": {"name": "team"}})
    used = 1 if name == "configmaps" else 0  # kube-root-ca.crt
    api.create("resourcequota", {"metadata": {"name": "counts"}, "spec": {"hard": {name: str(used)}}}, "team")
    status = {"hard": {name: str(used)}, "used": {name: str(used)}}
    eventually(lambda: api.get("resourcequota", "counts", "team").get("status") == status)
    given = {"definition": COUNTED[name], "namespace": "team"}
    row = here.module("gpuctl_fit_info", **given).result["results"][0]
    assert [one["resource"] for one in row["quotas"]] == [name]
    assert row["verdict"] == ("after_quota" if used else "never")
    count = f"Quota counts has too few {name.removeprefix('count/')}: it needs 1, {used} of {used} are used"
    assert row["reason"].startswith(count)
    assert row["hint"] == f"With {name} {used + 1} instead of {used} in quota counts, it runs now."
    assert here.job(**given).failed == (name != "count/pods")  # which its controller makes
    here.job(state="absent", name=COUNTED[name]["job"]["name"], namespace="team")
    api.patch("resourcequota", "counts", {"spec": {"hard": {name: str(used + 2)}}}, "team")  # one for the record
    eventually(lambda: api.get("resourcequota", "counts", "team")["status"]["hard"] == {name: str(used + 2)})
    assert here.module("gpuctl_fit_info", **given).result["results"][0]["verdict"] == "now"
    assert not here.job(**given).failed


def test_a_namespace_that_is_missing(here: Ansible):
    row = here.module("gpuctl_fit_info", definition=notebook("n"), namespace="nowhere").result["results"][0]
    assert (row["verdict"], row["reason"]) == ("never", "The server refuses it: namespace nowhere does not exist.")


def placed(api: Api, job: str) -> list[Any]:
    """The pods of a job that have a node."""
    return [
        pod
        for pod in api.list("pod", "default")
        if pod["metadata"]["name"].startswith(f"{job}-") and pod["spec"].get("nodeName")
    ]


def test_histories_that_are_too_large_are_not_needed(here: Ansible, api: Api):
    """They only tell when others probably end."""
    assert not here.job(definition=training("runs", resources={"gpu": 8})).failed
    labels = {MANAGED_BY: FIELD_MANAGER, HISTORY_OF: "runs"}
    for number in range(ANSWER.bytes // MIB + 2):
        place = f"team-{number}"
        api.create("namespace", {"metadata": {"name": place}})
        api.create(
            "configmap", {"metadata": {"name": HISTORY, "labels": labels}, "data": {"x.run": "y" * (MIB - 1024)}}, place
        )
    told = here.module("gpuctl_fit_info", definition=training("t", resources={"gpu": 8}))
    assert not told.failed, told.message
    assert told.result["results"][0]["verdict"] == "now"


def test_policies_of_others_are_named_as_not_judged(here: Ansible, api: Api):
    """Of a policy that only the API server can judge: the job would run, and is refused all the same."""
    names = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "no-trainings"
    rules = [{"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}]
    validations = [{"expression": "false", "message": "no trainings today"}]
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": rules}, "validations": validations}
    assert api.call("POST", names[0], {"metadata": {"name": names[1]}, "spec": spec})[0] == 201
    job = training("t", resources={"gpu": 8})
    assert here.module("gpuctl_fit_info", definition=job).result["not_judged"] == []  # It has no binding.
    bound = {"policyName": names[1], "validationActions": ["Deny"]}
    path = names[0].replace("policies", "policybindings")
    assert api.call("POST", path, {"metadata": {"name": names[1]}, "spec": bound})[0] == 201
    told = here.module("gpuctl_fit_info", definition=job)
    assert told.result["results"][0]["verdict"] == "now"
    assert told.result["not_judged"] == ["ValidatingAdmissionPolicy no-trainings"]
    assert "Not judged, and may refuse them: ValidatingAdmissionPolicy no-trainings." in told.screen
    assert here.module("gpuctl_fit_info", definition=notebook("n")).result["not_judged"] == []
    eventually(lambda: "no trainings today" in here.job(definition=job).message)


def test_it_can_fail(here: Ansible):
    failed = here.module("gpuctl_fit_info", definition=training("t", resources={"gpu": 9}), fail_on=["never"])
    assert failed.failed
    assert failed.message.startswith("job t in namespace default: It needs 9 GPUs on one node")
    assert failed.result["results"][0]["verdict"] == "never"
    assert not here.module("gpuctl_fit_info", definition=training("t", resources={"gpu": 8}), fail_on=["never"]).failed
