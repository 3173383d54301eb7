# SPDX-License-Identifier: BSD-2-Clause
"""What admission fills in and refuses, beyond what the recordings pin."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim.admission.pod_security_checks import evaluate_pod_security
from kubesim.admission.quota_evaluator import usage
from kubesim.admission.runtime_class import merged_tolerations
from writes import NAMESPACE, Object, Writes, changed, container, pod_spec, template

GPU = "nvidia.com/gpu"
ONE_TIME = {"template": template(restartPolicy="Never")}
#: What the level restricted wants of a container.
CAREFUL: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture
def writes() -> Writes:
    return Writes()


def needing(**resources: Any) -> Object:
    return pod_spec(main={"resources": resources})


# --- namespaces ---


def test_nothing_is_created_where_there_is_no_namespace(writes: Writes) -> None:
    body = {"metadata": {"namespace": "nowhere"}}
    assert writes.why_not_create("ConfigMap", body) == 'namespaces "nowhere" not found'


def test_nothing_is_created_in_a_namespace_that_is_going(writes: Writes) -> None:
    writes.create("ConfigMap", name="there-before")
    writes.registry.delete("Namespace", None, NAMESPACE)
    assert writes.why_not_create("ConfigMap") == [f"metadata.namespace: namespace {NAMESPACE} is being terminated"]
    kept = writes.registry.get("ConfigMap", NAMESPACE, "there-before")
    assert kept
    assert writes.why_not_change("ConfigMap", changed(kept, "data", {"a": "b"})) == []


# --- limit ranges ---


LIMITS = [
    (
        {"type": "Container", "max": {"cpu": "2"}},
        {"limits": {"cpu": "3"}},
        "maximum cpu usage per Container is 2, but limit is 3",
    ),
    (
        {"type": "Container", "min": {"cpu": "1"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}},
        "minimum cpu usage per Container is 1, but request is 500m",
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
    ({"type": "Pod", "max": {"cpu": "2"}}, {}, "maximum cpu usage per Pod is 2.  No limit is specified"),
    ({"type": "Pod", "min": {"cpu": "2"}}, {}, "minimum cpu usage per Pod is 2.  No request is specified"),
    (
        {"type": "Container", "min": {"cpu": "1"}, "max": {"memory": "1Gi"}},
        {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}},
        "[minimum cpu usage per Container is 1, but request is 500m, "
        "maximum memory usage per Container is 1Gi, but limit is 2Gi]",
    ),
]


@pytest.mark.parametrize(("limit", "resources", "why"), LIMITS)
def test_pod_beyond_the_limits_is_refused(writes: Writes, limit: Object, resources: Object, why: str) -> None:
    writes.create("LimitRange", spec={"limits": [limit]})
    assert writes.why_not_create("Pod", spec=needing(**resources)) == f'pods "x" is forbidden: {why}'


def test_limits_of_a_pod_count_all_its_containers(writes: Writes) -> None:
    writes.create("LimitRange", spec={"limits": [{"type": "Pod", "max": {"cpu": "3"}}]})
    two = {"resources": {"limits": {"cpu": "2"}}}
    assert writes.why_not_create("Pod", spec=pod_spec(main=two)) == []
    why = 'pods "y" is forbidden: maximum cpu usage per Pod is 3, but limit is 4'
    assert writes.why_not_create("Pod", name="y", spec=pod_spec(container(name="b", **two), main=two)) == why


def test_limit_range_fills_in_what_a_container_leaves_out(writes: Writes) -> None:
    limit = {"type": "Container", "default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "1"}}
    writes.create("LimitRange", spec={"limits": [limit]})
    pod = writes.create("Pod", spec=needing(limits={"cpu": "3"}))
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "3", "memory": "1Gi"},
        "requests": {"cpu": "3", "memory": "1Gi"},
    }
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container main; "
        "memory limit for container main"
    }


# --- priority ---


def test_priority_comes_from_the_class(writes: Writes) -> None:
    writes.create("PriorityClass", {"value": 7, "preemptionPolicy": "Never"}, name="low")
    pod = writes.create("Pod", spec=pod_spec(priorityClassName="low"))
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (7, "Never")


def test_priority_cannot_be_chosen_freely(writes: Writes) -> None:
    assert writes.why_not_create("Pod", spec=pod_spec(priority=5)) == (
        'pods "x" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission '
        "controller computed 0 from the given PriorityClass name"
    )


def test_there_is_one_default_class(writes: Writes) -> None:
    writes.create("PriorityClass", {"value": 7, "globalDefault": True}, name="usual")
    pod = writes.create("Pod", spec=pod_spec())
    assert (pod["spec"]["priorityClassName"], pod["spec"]["priority"]) == ("usual", 7)
    why = "PriorityClass usual is already marked as default. Only one default can exist"
    found = writes.why_not_create("PriorityClass", {"value": 8, "globalDefault": True}, name="other")
    assert found == f'priorityclasses.scheduling.k8s.io "other" is forbidden: {why}'


# --- runtime classes ---

RUNTIME: Object = {
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}, {"key": "other", "operator": "Exists"}],
    },
}


def test_a_runtime_class_chooses_nodes_and_costs_what_it_says(writes: Writes) -> None:
    writes.create("RuntimeClass", RUNTIME, name="kata")
    given = {"key": "kata", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    made = writes.create(
        "Pod", spec=pod_spec(runtimeClassName="kata", nodeSelector={"disk": "ssd"}, tolerations=[given])
    )["spec"]
    assert made["overhead"] == {"cpu": "250m"}
    assert made["nodeSelector"] == {"disk": "ssd", "runtime": "kata"}
    added = [each for each in made["tolerations"] if not each["key"].startswith("node.kubernetes.io/")]
    assert added == RUNTIME["scheduling"]["tolerations"]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "kata", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "kata", "nodeSelector": {"runtime": "runc"}},
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = kata; pod.spec.nodeSelector[runtime] = runc",
        ),
    ],
)
def test_a_pod_that_does_not_suit_its_runtime_class_is_refused(writes: Writes, spec: Object, why: str) -> None:
    writes.create("RuntimeClass", RUNTIME, name="kata")
    assert writes.why_not_create("Pod", spec=pod_spec(**spec)) == f'pods "x" is forbidden: {why}'


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        ({"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}, [0]),
        ({"operator": "Exists"}, {"key": "a", "operator": "Exists", "effect": "NoSchedule"}, [0]),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}, [1]),
        ({"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}, [0, 1]),
        ({"key": "a", "operator": "Equal", "value": "x"}, {"key": "a", "operator": "Equal", "value": "y"}, [0, 1]),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            [1],
        ),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
            [1],
        ),
    ],
)
def test_of_two_tolerations_the_wider_is_kept(one: Object, other: Object, kept: list[int]) -> None:
    assert merged_tolerations([one, other]) == [[one, other][index] for index in kept]


# --- service accounts ---


def test_a_pod_of_a_service_account_that_does_not_exist_is_refused(writes: Writes) -> None:
    spec = pod_spec(serviceAccountName="robot")
    why = 'error looking up service account team/robot: serviceaccount "robot" not found'
    assert writes.why_not_create("Pod", spec=spec) == f'pods "x" is forbidden: {why}'
    writes.registry.create("ServiceAccount", {"metadata": {"name": "robot", "namespace": "team"}})
    assert writes.why_not_create("Pod", spec=spec) == []


# --- pod security ---


BASELINE = [
    ({"hostNetwork": True, "hostPID": True}, "host namespaces (hostNetwork=true, hostPID=true)"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]}, 'hostPath volumes (volume "v")'),
    (
        {"volumes": [{"name": name, "hostPath": {"path": "/dev"}} for name in "vw"]},
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        {"main": {"securityContext": {"privileged": True}}},
        'privileged (container "main" must not set securityContext.privileged=true)',
    ),
    (
        {"main": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN", "IPC_LOCK"]}}}},
        'non-default capabilities (container "main" must not include "IPC_LOCK", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        {"main": {"ports": [{"containerPort": 80, "hostPort": 8080}]}},
        'hostPort (container "main" uses hostPort 8080)',
    ),
    (
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
        "forbidden sysctls (kernel.msgmax)",
    ),
]


@pytest.mark.parametrize(("spec", "why"), BASELINE, ids=[case[1].partition(" (")[0] for case in BASELINE])
def test_baseline_refuses(spec: Object, why: str) -> None:
    writes = Writes(pod_security__enforce="baseline")
    found = writes.why_not_create("Pod", spec=pod_spec(**spec))
    assert found == f'pods "x" is forbidden: violates PodSecurity "baseline:latest": {why}'


def test_baseline_lets_an_ordinary_pod_be() -> None:
    assert Writes(pod_security__enforce="baseline").why_not_create("Pod", spec=pod_spec()) == []


def test_restricted_wants_much_of_an_ordinary_pod() -> None:
    violations = evaluate_pod_security("restricted", pod_spec())
    assert [f"{violation.reason} ({violation.detail})" for violation in violations] == [
        'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" '
        'or "Localhost")',
    ]


@pytest.mark.parametrize(
    ("context", "reasons"),
    [
        ({}, []),
        ({"allowPrivilegeEscalation": True}, ["allowPrivilegeEscalation != false"]),
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}, []),
        ({"capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}}, ["unrestricted capabilities"]),
        ({"runAsNonRoot": False}, ["runAsNonRoot != true"]),
        ({"runAsUser": 0}, ["runAsUser=0"]),
        ({"seccompProfile": {"type": "Unconfined"}}, ["seccompProfile"]),
    ],
)
def test_restricted_is_content_with_a_careful_container(context: Object, reasons: list[str]) -> None:
    spec = pod_spec(main={"securityContext": CAREFUL | context})
    assert [violation.reason for violation in evaluate_pod_security("restricted", spec)] == reasons


def test_restricted_allows_volumes_without_the_node() -> None:
    spec = pod_spec(
        main={"securityContext": CAREFUL},
        volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "nfs": {"server": "s", "path": "/"}}],
    )
    (violation,) = evaluate_pod_security("restricted", spec)
    assert violation.detail == 'volume "b" uses restricted volume type "nfs"'


def test_workload_is_warned_of_and_its_pods_are_refused() -> None:
    writes = Writes(pod_security__enforce="baseline")
    writes.create("Job", spec={"template": template(restartPolicy="Never", hostNetwork=True)})
    text = "host namespaces (hostNetwork=true)"
    assert writes.warnings == [f'would violate PodSecurity "baseline:latest": {text}']


def test_warning_level_only_warns() -> None:
    writes = Writes(pod_security__warn="baseline")
    writes.create("Pod", spec=pod_spec(hostNetwork=True))
    assert writes.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)']


def test_namespace_with_an_unknown_level_is_refused(writes: Writes) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "2"}
    assert writes.why_not_create("Namespace", labels=labels) == [
        'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
        "must be one of privileged, baseline, restricted",
        'metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "2": must be "latest" or "v1.x"',
    ]


# --- quotas ---


def amounts(kind: str, obj: Object) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage(kind, {"metadata": {"name": "x"}} | obj).items() if amount}


USAGE = [
    (
        {"requests": {"cpu": "1", GPU: "2"}, "limits": {"cpu": "2", GPU: "2"}},
        {"cpu": "1", "requests.cpu": "1", "limits.cpu": "2", f"requests.{GPU}": "2"},
    ),
    ({"requests": {"memory": "1Gi"}}, {"memory": "1Gi", "requests.memory": "1Gi"}),
    ({}, {}),
]


@pytest.mark.parametrize(("resources", "expected"), USAGE)
def test_pod_uses_what_its_containers_ask_for(resources: Object, expected: dict[str, str]) -> None:
    found = amounts("Pod", {"spec": needing(**resources)})
    assert found == {"pods": "1", "count/pods": "1"} | expected


def test_init_containers_count_where_they_need_more() -> None:
    def of(cpu: str) -> Object:
        return {"resources": {"requests": {"cpu": cpu}}}

    spec = pod_spec(container(name="b", **of("1")), main=of("1"), initContainers=[container(name="i", **of("3"))])
    assert amounts("Pod", {"spec": spec})["requests.cpu"] == "3"
    sidecar = container(name="s", restartPolicy="Always", **of("2"))
    assert amounts("Pod", {"spec": spec | {"initContainers": [sidecar]}})["requests.cpu"] == "4"


def test_finished_pod_uses_its_place_only() -> None:
    pod = {"spec": needing(requests={"cpu": "1"}), "status": {"phase": "Succeeded"}}
    assert amounts("Pod", pod) == {"count/pods": "1"}


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("Service", {"type": "ClusterIP", "ports": [{"port": 1}]}, {"services": "1", "count/services": "1"}),
        ("Job", ONE_TIME, {"count/jobs.batch": "1"}),
        ("ConfigMap", {}, {"configmaps": "1", "count/configmaps": "1"}),
    ],
)
def test_other_objects_use(kind: str, spec: Object, expected: dict[str, str]) -> None:
    assert amounts(kind, {"spec": spec}) == expected


def give(writes: Writes, hard: dict[str, str], used: dict[str, str], **spec: Any) -> None:
    """A quota as its controller leaves it."""
    quota = writes.create("ResourceQuota", spec={"hard": hard, **spec}, name="q")
    writes.update("ResourceQuota", changed(quota, "status", {"hard": hard, "used": used}), "status")


def used(writes: Writes) -> dict[str, str]:
    quota = writes.registry.get("ResourceQuota", NAMESPACE, "q")
    assert quota
    found: dict[str, str] = quota["status"]["used"]
    return found


def test_quota_is_charged_until_it_is_full(writes: Writes) -> None:
    give(writes, {"pods": "2", f"requests.{GPU}": "8"}, {"pods": "0", f"requests.{GPU}": "4"})
    eight, four = (needing(limits={GPU: count}) for count in ("8", "4"))
    assert writes.why_not_create("Pod", spec=eight) == (
        f'pods "x" is forbidden: exceeded quota: q, requested: requests.{GPU}=8, used: requests.{GPU}=4, '
        f"limited: requests.{GPU}=8"
    )
    writes.create("Pod", spec=four)
    assert used(writes) == {"pods": "1", f"requests.{GPU}": "8"}
    writes.create("Pod", spec=pod_spec(), name="y")
    why = 'pods "z" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    assert writes.why_not_create("Pod", spec=pod_spec(), name="z") == why


def test_pod_must_ask_for_what_a_quota_counts(writes: Writes) -> None:
    give(writes, {"requests.cpu": "2", "limits.memory": "1Gi"}, {"requests.cpu": "0", "limits.memory": "0"})
    assert writes.why_not_create("Pod", spec=pod_spec()) == (
        'pods "x" is forbidden: failed quota: q: must specify limits.memory for: main; requests.cpu for: main'
    )


def test_quota_that_is_not_counted_yet_refuses(writes: Writes) -> None:
    writes.create("ResourceQuota", spec={"hard": {"pods": "2"}}, name="q")
    quota = writes.registry.get("ResourceQuota", NAMESPACE, "q")
    assert quota
    writes.update("ResourceQuota", changed(quota, "status", {"hard": {"pods": "2"}}), "status")
    why = "status unknown for quota: q, resources: pods"
    assert writes.why_not_create("Pod", spec=pod_spec()) == f'pods "x" is forbidden: {why}'


SCOPED = [
    ({"scopes": ["BestEffort"]}, pod_spec(), True),
    ({"scopes": ["BestEffort"]}, needing(requests={"cpu": "1"}), False),
    ({"scopes": ["NotBestEffort"]}, needing(requests={"cpu": "1"}), True),
    ({"scopes": ["Terminating"]}, pod_spec(activeDeadlineSeconds=5), True),
    ({"scopes": ["Terminating"]}, pod_spec(), False),
    ({"scopes": ["NotTerminating"]}, pod_spec(), True),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}},
        pod_spec(priorityClassName="low"),
        True,
    ),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}},
        pod_spec(),
        False,
    ),
    (
        {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
        pod_spec(priorityClassName="low"),
        True,
    ),
]


@pytest.mark.parametrize(("scope", "spec", "charged"), SCOPED)
def test_quota_with_a_scope_counts_pods_within(writes: Writes, scope: Object, spec: Object, charged: bool) -> None:
    writes.create("PriorityClass", {"value": 1}, name="low")
    give(writes, {"pods": "2"}, {"pods": "0"}, **scope)
    writes.create("Pod", spec=spec)
    assert used(writes) == {"pods": str(int(charged))}


def test_dry_run_is_judged_and_not_charged(writes: Writes) -> None:
    give(writes, {"pods": "1"}, {"pods": "0"})
    body = {"metadata": {"name": "x", "namespace": NAMESPACE}, "spec": pod_spec()}
    writes.registry.create("Pod", body, dry_run=True)
    assert used(writes) == {"pods": "0"}
