# SPDX-License-Identifier: BSD-2-Clause
"""The guards find the same in Python and in CEL, with the same sentences; some are for the API server alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load_policy
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.admission_policies import admission_objects
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.guards import broken_rules, text
from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import (
    PolicyRules,
    policy_config_map,
    read_rules,
    rules_of,
    strictest_limits,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubesim import PolicyScope

Object = dict[str, Any]
TEAM: Object = {
    "pools": ["training", "default"],
    "gpu-types": ["A100-100G", "H100"],
    "priorities": ["medium", "low"],
    "max_gpus_per_job": 8,
    "service_accounts": ["default", "ci"],
    "image_pull_secrets": [],
    "service_types": ["ClusterIP"],
}
BASE: Object = {
    "kind": "policy",
    "policy": {"name": "company", "contact": "gpu-admins@example.com"},
    "images": {"registries": ["registry.example.com", "docker.io/library", "docker.io/pytorch/pytorch"]},
    "teams": {"a": TEAM, "b": {"namespaces": ["b1", "b2"], "pools": []}, "free": {}},
}


def rules(**changes: Any) -> PolicyRules:
    return rules_of(load_policy(definition={**BASE, **changes}))


def by_cel(policy: PolicyRules, workload: Object, namespace: str) -> set[str]:
    """Every sentence of the API server; it stops at the first, which is one of them."""
    found = set()
    suffix = "-jobs" if workload["kind"] == "Job" else "-workloads"
    for obj in admission_objects(policy):
        if obj["kind"] != "ValidatingAdmissionPolicy" or not obj["metadata"]["name"].endswith(suffix):
            continue
        values = {"object": workload, "oldObject": None, "request": {"operation": "CREATE", "namespace": namespace}}
        scope = PolicyScope(values, obj["spec"]["variables"], lambda *_asked: True)
        found |= {
            str(scope.value(each["messageExpression"]))
            for each in obj["spec"]["validations"]
            if not scope.value(each["expression"])
        }
    return found


RESOURCES = [
    "deviceclass.resource.kubernetes.io/gpu.example.com",
    "nvidia.com/gpu",
    "amd.com/gpu",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/gpumem",
    "cpu",
    "example.com/other",
]
RESOURCES += ["deviceclass.resource.kubernetes.io/gpu.example.com"]
IMAGES = ["registry.example.com/x:1", "python:3", "library/x", "evil/x", "registry.example.com:5000/x", "localhost/x"]
IMAGES += [
    "pytorch/pytorch:2",
    "pytorch/pytorch-evil",
    "registry.example.com.evil.io/x",
    "docker.io/library/x@sha256:1",
]
PATHS = ["/", "/etc", "/etc/", "/etcetera", "/data", "/data/x", "/database", "//data", "/data/./x", "/var", "/dat\xe4"]
PATHS += ["/etc/nginx/conf.d/x", "/run/docker.sock", "/data/containerd.sock", "/var/lib/models"]
CLAIMS = ["gpus", "gpus-x4", "x-x8-x", "-x12345"]
containers = st.fixed_dictionaries(
    {"name": st.just("main"), "image": st.sampled_from(IMAGES)},
    optional={
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.dictionaries(st.sampled_from(RESOURCES), st.sampled_from(["0", "1", "5", "9"]))}
        ),
    },
)
volumes = st.one_of(
    st.sampled_from(PATHS).map(lambda path: {"name": "v", "hostPath": {"path": path}}),
    st.sampled_from(IMAGES).map(lambda image: {"name": "v", "image": {"reference": image}}),
    st.just({"name": "v", "emptyDir": {}}),
)
EXPRESSIONS = [{"key": "runwhere.ai/pool", "operator": "DoesNotExist"}, {"key": "x", "operator": "Exists"}]
terms = st.lists(st.sampled_from([{"matchExpressions": EXPRESSIONS}, {"matchExpressions": EXPRESSIONS[1:]}, {}]))
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(containers, max_size=1),
        "volumes": st.lists(volumes, max_size=2),
        "nodeSelector": st.dictionaries(
            st.sampled_from(["runwhere.ai/pool", "runwhere.ai/gpuType", "nvidia.com/gpu.product", "x"]),
            st.sampled_from(["training", "secret", "A100-100G", "L4"]),
        ),
        "affinity": terms.map(
            lambda found: {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": found}}
            }
        ),
        "priorityClassName": st.sampled_from(["", "gpuctl-high", "gpuctl-low", "system-cluster-critical"]),
        "serviceAccountName": st.sampled_from(["", "default", "ci", "admin"]),
        "imagePullSecrets": st.just([{"name": "other"}]),
        "resourceClaims": st.lists(
            st.sampled_from(
                [{"name": "gpus"}]
                + [
                    {"name": "a", "resourceClaimTemplateName": name}
                    for name in ("gpus", "gpus-x4", "x-x8-x", "-x12345")
                ]
                + [{"name": "b", "resourceClaimName": name} for name in ("gpus", "my-x1-x3", "")]
            ),
            max_size=3,
        ),
    },
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=specs,
    count=st.one_of(st.none(), st.integers(0, 3)),
    kind=st.sampled_from(["Job", "Deployment"]),
    namespace=st.sampled_from(["a", "b1", "free", "elsewhere"]),
    roots=st.sampled_from([None, [], ["/data", "/var/lib/models/"], ["/"]]),
)
def test_both_languages_say_the_same(
    spec: Object, count: int | None, kind: str, namespace: str, roots: list[str] | None
) -> None:
    policy = rules(**({} if roots is None else {"host_paths": {"roots": roots}}))
    field = "parallelism" if kind == "Job" else "replicas"
    given_count = {} if count is None else {field: count}
    workload = {"kind": kind, "metadata": {"name": "x"}, "spec": {**given_count, "template": {"spec": spec}}}
    said = {sentence for _place, sentence in broken_rules(policy, namespace, [workload])}
    if namespace == "elsewhere":  # The binding leaves it alone.
        assert said == set()
        return
    found = by_cel(policy, workload, namespace)
    assert found <= said, "each sentence of the server is one of ours"
    assert bool(found) == bool(said)
    # The server names the first value that breaks a rule, we name all.
    kinds = {_kind(sentence) for sentence in said}
    assert {_kind(sentence) for sentence in found} == kinds


def _kind(sentence: str) -> str:
    known = ("pool", "GPU type", "priority", "GPUs in a job", "service account", "pull secret", "path of the node")
    known += ("image that",)
    return next(word for word in known if word in sentence.partition("): ")[2].replace("all GPU types", "GPU type"))


def test_a_path_has_braces() -> None:
    policy = rules(host_paths={"roots": ["/data/{}"]})
    spec = {"containers": [MAIN], "volumes": [{"name": "v", "hostPath": {"path": "/srv/{}"}}]}
    workload = {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    refusal = (
        "policy company (gpu-admins@example.com): path of the node that is not allowed: /srv/{}. "
        "Use a path below /data/{}, or a claim."
    )
    assert [sentence for _place, sentence in broken_rules(policy, "free", [workload])] == [refusal]
    assert by_cel(policy, workload, "free") == {refusal}


MAIN: Object = {"name": "main", "image": "registry.example.com/x:1"}
BARE: Object = {"containers": [MAIN]}


def containers_with(**fields: Any) -> Object:
    return {"containers": [{**MAIN, **fields}]}


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({**BARE, "hostNetwork": True}, "hostNetwork of the node"),
        ({**BARE, "hostPID": True}, "hostPID of the node"),
        ({**BARE, "hostIPC": True}, "hostIPC of the node"),
        (containers_with(ports=[{"containerPort": 1, "hostPort": 80}]), "hostPort of the node"),
        (
            containers_with(livenessProbe={"tcpSocket": {"port": 1, "host": "127.0.0.1"}}),
            "the host of probes of the node",
        ),
        ({**BARE, "initContainers": [{**MAIN, "securityContext": {"privileged": True}}]}, "privileged containers"),
        (containers_with(securityContext={"procMount": "Unmasked", "capabilities": {"drop": ["ALL"]}}), "procMount"),
        (
            containers_with(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
            "capabilities beyond those of the Pod Security level baseline",
        ),
        (containers_with(securityContext={"windowsOptions": {"hostProcess": True}}), "hostProcess"),
        ({**BARE, "securityContext": {"windowsOptions": {"hostProcess": True}}}, "hostProcess"),
    ],
)
def test_what_no_manifest_can_ask_for_is_refused_by_the_server(spec: Object, what: str) -> None:
    workload = {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    source = "policy company (gpu-admins@example.com)"
    assert by_cel(rules(), workload, "free") == {f"{source}: pods may not use {what}. Remove it."}


@pytest.mark.parametrize(
    "spec",
    [
        {**BARE, "hostNetwork": False},
        containers_with(livenessProbe={"httpGet": {"port": 1}}),
        containers_with(lifecycle={"preStop": {"httpGet": {"port": 1, "host": ""}}, "postStart": {"exec": {}}}),
        containers_with(ports=[{"containerPort": 1}]),
        containers_with(securityContext={"privileged": False, "procMount": "Default"}),
        containers_with(securityContext={"capabilities": {"add": ["IPC_LOCK"]}}),
    ],
)
def test_what_looks_like_it_is_not(spec: Object) -> None:
    workload = {"kind": "Job", "metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    assert by_cel(rules(), workload, "free") == set()


GOLDEN = sorted((Path(__file__).parents[1] / "jobs" / "objects" / "golden").glob("*.yaml"))


@pytest.mark.parametrize("golden", [pytest.param(path, id=path.stem) for path in GOLDEN])
def test_no_manifest_asks_for_it(golden: Path) -> None:
    """Else its task would have to say so before anything is sent."""
    for obj in yaml.safe_load_all(golden.read_text(encoding="utf-8")):
        if obj["kind"] in ("Job", "Deployment", "StatefulSet"):
            said = by_cel(rules(), obj, "free")
            assert not [sentence for sentence in said if "pods may not use" in sentence]


LIMITS = {
    "pod_security": "baseline",
    "notebooks": {"idle_for": "8h"},
    "max_gpus_in_pools": {"training": 8, "default": 2},
}


def test_rules_come_back_from_the_config_map() -> None:
    policy = rules(
        host_paths={"roots": ["/data"]},
        labels={"pods": True},
        teams={
            "a": {
                **TEAM,
                "network": {"namespaces": ["x"], "cidrs": ["10.0.0.0/8"]},
                "pod_security": "baseline",
                **LIMITS,
            }
        },
    )
    assert read_rules(policy_config_map(policy)) == policy


def test_the_shortest_limit_of_notebooks_counts() -> None:
    policies = [
        rules(policy={"name": name}, action=action, defaults={"notebooks": {"idle_for": idle_for, "below": 0.1}})
        for name, action, idle_for in (("long", "deny", "1d"), ("short", "warn", "90m"), ("audited", "audit", "5m"))
    ]
    limit = strictest_limits(policies)["a"]
    assert (limit.seconds, limit.below, limit.source) == (5400, "0.1", "policy short")


@pytest.mark.parametrize("data", [{}, {"rules": ""}, {"rules": "[]"}, {"rules": "{}"}, {"rules": '{"namespaces": 1}'}])
def test_an_edited_config_map_is_not_read(data: Object) -> None:
    assert read_rules({"metadata": {"name": "policy-x"}, "data": data}) is None


@pytest.mark.parametrize("changes", [{"idle_for": "8x"}, {"idle_for": "0h"}, {"idle_for": 8}, {"below": "x"}])
def test_a_malformed_limit_of_notebooks_is_not_read(changes: Object) -> None:
    config_map = policy_config_map(rules(teams={"a": {"notebooks": {"idle_for": "8h"}}}))
    data = json.loads(config_map["data"]["rules"])
    data["namespaces"]["a"]["notebooks"] |= changes
    assert read_rules({**config_map, "data": {"rules": json.dumps(data)}}) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("it's", r"'it\'s'"),
        ("a\nb", r"'a\nb'"),
        ("\\", r"'\\'"),
        ([], "[]"),
        ({"a": ["b"]}, "{'a': ['b']}"),
        (3, "3"),
    ],
)
def test_literals(value: Any, expected: str) -> None:
    assert text(value) == expected


def test_defaults_are_those_of_teams_that_say_nothing_else() -> None:
    policy = rules(defaults={"pools": ["x"], "max_gpus_per_job": 2}, teams={"a": {"pools": ["y"]}, "b": {}})
    assert policy.namespaces["a"].pools == ("y",)
    assert policy.namespaces["a"].max_gpus_per_job == 2
    assert policy.namespaces["b"].pools == ("x",)
