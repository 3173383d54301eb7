# SPDX-License-Identifier: BSD-2-Clause
"""What the API server fills in, allocates and resets, beyond what the recordings pin."""

from __future__ import annotations

from typing import Any

import pytest

from writes import Object, Writes, changed, container, pod_spec, template

JOB = {"template": template(restartPolicy="Never")}
DEPLOYMENT = {"selector": {"matchLabels": {"app": "x"}}, "template": template()}
STATEFUL_SET = DEPLOYMENT | {"serviceName": "x"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}


def at(obj: Any, path: str) -> Any:
    for step in path.split("/"):
        obj = obj[int(step)] if isinstance(obj, list) else obj.get(step)
    return obj


@pytest.fixture
def writes() -> Writes:
    return Writes()


POD_DEFAULTS = [
    ("restart policy", {}, "restartPolicy", "Always"),
    ("grace period", {}, "terminationGracePeriodSeconds", 30),
    ("DNS policy", {}, "dnsPolicy", "ClusterFirst"),
    ("scheduler", {}, "schedulerName", "default-scheduler"),
    ("security context", {}, "securityContext", {}),
    ("service links", {}, "enableServiceLinks", True),
    ("priority", {}, "priority", 0),
    ("preemption", {}, "preemptionPolicy", "PreemptLowerPriority"),
    ("service account is known by its old name too", {"serviceAccountName": "bot"}, "serviceAccount", "bot"),
    ("pull policy of a tag", {}, "containers/0/imagePullPolicy", "IfNotPresent"),
    ("pull policy of latest", {"main": {"image": "busybox:latest"}}, "containers/0/imagePullPolicy", "Always"),
    ("pull policy without tag", {"main": {"image": "busybox"}}, "containers/0/imagePullPolicy", "Always"),
    (
        "pull policy of a digest",
        {"main": {"image": "busybox@sha256:" + "a" * 64}},
        "containers/0/imagePullPolicy",
        "IfNotPresent",
    ),
    (
        "pull policy of a registry with a port",
        {"main": {"image": "registry:5000/busybox"}},
        "containers/0/imagePullPolicy",
        "Always",
    ),
    ("termination message", {}, "containers/0/terminationMessagePath", "/dev/termination-log"),
    ("termination message policy", {}, "containers/0/terminationMessagePolicy", "File"),
    ("empty resources", {}, "containers/0/resources", {}),
    (
        "requests follow limits",
        {"main": {"resources": {"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}}},
        "containers/0/resources/requests",
        {"cpu": "1", "nvidia.com/gpu": "1"},
    ),
    (
        "amounts are canonical",
        {"main": {"resources": {"limits": {"memory": "1024Mi"}}}},
        "containers/0/resources/limits/memory",
        "1Gi",
    ),
    (
        "protocol",
        {"main": {"ports": [{"containerPort": 80}]}},
        "containers/0/ports/0",
        {"containerPort": 80, "protocol": "TCP"},
    ),
    (
        "host network takes the container's port",
        {"main": {"ports": [{"containerPort": 80}]}, "hostNetwork": True},
        "containers/0/ports/0/hostPort",
        80,
    ),
    (
        "probe",
        {"main": {"livenessProbe": {"httpGet": {"port": 80}}}},
        "containers/0/livenessProbe",
        {
            "failureThreshold": 3,
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "periodSeconds": 10,
            "successThreshold": 1,
            "timeoutSeconds": 1,
        },
    ),
    (
        "gRPC probe",
        {"main": {"readinessProbe": {"grpc": {"port": 1}}}},
        "containers/0/readinessProbe/grpc",
        {"port": 1, "service": ""},
    ),
    (
        "hook",
        {"main": {"lifecycle": {"preStop": {"httpGet": {"port": "web"}}}}},
        "containers/0/lifecycle/preStop/httpGet",
        {"path": "/", "port": "web", "scheme": "HTTP"},
    ),
    (
        "field reference",
        {"main": {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}},
        "containers/0/env/0/valueFrom/fieldRef/apiVersion",
        "v1",
    ),
    (
        "divisor",
        {"main": {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}},
        "containers/0/env/0/valueFrom/resourceFieldRef",
        {"divisor": "0", "resource": "limits.cpu"},
    ),
    ("no source is an emptyDir", {"volumes": [{"name": "v"}]}, "volumes/0", {"name": "v", "emptyDir": {}}),
    (
        "mode of a secret",
        {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        "volumes/0/secret/defaultMode",
        420,
    ),
    (
        "mode of a config map",
        {"volumes": [{"name": "v", "configMap": {"name": "s"}}]},
        "volumes/0/configMap/defaultMode",
        420,
    ),
    (
        "host path",
        {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]},
        "volumes/0/hostPath",
        {"path": "/a", "type": ""},
    ),
    (
        "token",
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        "volumes/0/projected",
        {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}]},
    ),
    (
        "ephemeral claim",
        {
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                        }
                    },
                }
            ]
        },
        "volumes/0/ephemeral/volumeClaimTemplate/spec/volumeMode",
        "Filesystem",
    ),
    (
        "not ready and unreachable nodes are put up with for five minutes",
        {},
        "tolerations",
        [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    ),
    (
        "a pod that tolerates every taint needs no more",
        {"tolerations": [{"operator": "Exists"}]},
        "tolerations",
        [{"operator": "Exists"}],
    ),
    (
        "spread counts what fits the pod's affinity",
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        "topologySpreadConstraints/0",
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
    ),
]


@pytest.mark.parametrize(("spec", "path", "value"), [pytest.param(*case[1:], id=case[0]) for case in POD_DEFAULTS])
def test_pod_is_filled_in(writes: Writes, spec: Object, path: str, value: Any) -> None:
    assert at(writes.create("Pod", spec=pod_spec(**spec))["spec"], path) == value


OTHER_DEFAULTS = [
    ("Job", JOB, "spec/parallelism", 1),
    ("Job", JOB, "spec/completions", 1),
    ("Job", JOB | {"parallelism": 3}, "spec/completions", None),
    ("Job", JOB, "spec/backoffLimit", 6),
    ("Job", JOB, "spec/completionMode", "NonIndexed"),
    ("Job", JOB, "spec/suspend", False),
    ("Job", JOB, "spec/podReplacementPolicy", "TerminatingOrFailed"),
    (
        "Job",
        JOB
        | {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
        "spec/podReplacementPolicy",
        "Failed",
    ),
    (
        "Job",
        JOB
        | {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}},
        "spec/podFailurePolicy/rules/0/onPodConditions/0/status",
        "True",
    ),
    (
        "Job",
        JOB | {"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1},
        "spec/backoffLimit",
        2147483647,
    ),
    ("Job", JOB, "metadata/generation", 1),
    ("Deployment", DEPLOYMENT, "spec/replicas", 1),
    ("Deployment", DEPLOYMENT, "spec/revisionHistoryLimit", 10),
    ("Deployment", DEPLOYMENT, "spec/progressDeadlineSeconds", 600),
    (
        "Deployment",
        DEPLOYMENT,
        "spec/strategy",
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
    ),
    ("Deployment", DEPLOYMENT | {"strategy": {"type": "Recreate"}}, "spec/strategy", {"type": "Recreate"}),
    ("Deployment", DEPLOYMENT, "metadata/labels", None),
    ("ReplicaSet", DEPLOYMENT, "spec/replicas", 1),
    ("ReplicaSet", DEPLOYMENT, "metadata/labels", None),
    ("StatefulSet", STATEFUL_SET, "spec/podManagementPolicy", "OrderedReady"),
    ("StatefulSet", STATEFUL_SET, "spec/updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
    (
        "StatefulSet",
        STATEFUL_SET | {"updateStrategy": {"type": "OnDelete"}},
        "spec/updateStrategy",
        {"type": "OnDelete"},
    ),
    (
        "StatefulSet",
        STATEFUL_SET,
        "spec/persistentVolumeClaimRetentionPolicy",
        {"whenDeleted": "Retain", "whenScaled": "Retain"},
    ),
    ("Service", {"ports": [{"port": 80}]}, "spec/type", "ClusterIP"),
    ("Service", {"ports": [{"port": 80}]}, "spec/ports/0", {"port": 80, "protocol": "TCP", "targetPort": 80}),
    ("Service", {"ports": [{"port": 80}]}, "spec/sessionAffinity", "None"),
    ("Service", {"ports": [{"port": 80}]}, "spec/internalTrafficPolicy", "Cluster"),
    ("Service", {"ports": [{"port": 80}]}, "spec/externalTrafficPolicy", None),
    ("Service", {"ports": [{"port": 80}]}, "spec/ipFamilyPolicy", "SingleStack"),
    ("Service", {"ports": [{"port": 80}], "type": "NodePort"}, "spec/externalTrafficPolicy", "Cluster"),
    ("Service", {"ports": [{"port": 80}], "type": "LoadBalancer"}, "spec/allocateLoadBalancerNodePorts", True),
    (
        "Service",
        {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"},
        "spec/sessionAffinityConfig",
        {"clientIP": {"timeoutSeconds": 10800}},
    ),
    ("Service", {"clusterIP": "None", "selector": {"a": "b"}}, "spec/clusterIPs", ["None"]),
    (
        "Service",
        {"type": "ExternalName", "externalName": "a.example"},
        "spec",
        {"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"},
    ),
    (
        "PersistentVolumeClaim",
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "spec/volumeMode",
        "Filesystem",
    ),
    (
        "PersistentVolumeClaim",
        {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status",
        {"phase": "Pending"},
    ),
    ("HorizontalPodAutoscaler", {"scaleTargetRef": TARGET, "maxReplicas": 3}, "spec/minReplicas", 1),
    (
        "HorizontalPodAutoscaler",
        {"scaleTargetRef": TARGET, "maxReplicas": 3},
        "spec/metrics",
        [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    ),
    (
        "LimitRange",
        {"limits": [{"type": "Container", "max": {"cpu": "2"}}]},
        "spec/limits/0",
        {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}},
    ),
    (
        "LimitRange",
        {"limits": [{"type": "Container", "default": {"cpu": "2"}, "min": {"cpu": "1"}}]},
        "spec/limits/0/defaultRequest",
        {"cpu": "2"},
    ),
    (
        "LimitRange",
        {"limits": [{"type": "Container", "min": {"cpu": "1"}}]},
        "spec/limits/0/defaultRequest",
        {"cpu": "1"},
    ),
    (
        "LimitRange",
        {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]},
        "spec/limits/0",
        {"type": "Pod", "max": {"cpu": "2"}},
    ),
]


@pytest.mark.parametrize(
    ("kind", "spec", "path", "value"), OTHER_DEFAULTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_object_is_filled_in(writes: Writes, kind: str, spec: Object, path: str, value: Any) -> None:
    made = writes.create(kind, spec=spec)
    assert at(made, path) == value


def test_autoscaler_fills_in_the_rules_it_is_given(writes: Writes) -> None:
    behavior = {
        "scaleDown": {"stabilizationWindowSeconds": 10},
        "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
    }
    made = writes.create(
        "HorizontalPodAutoscaler", spec={"scaleTargetRef": TARGET, "maxReplicas": 3, "behavior": behavior}
    )
    assert made["spec"]["behavior"] == {
        "scaleDown": {
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": 10,
        },
        "scaleUp": {
            "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}],
            "selectPolicy": "Max",
            "stabilizationWindowSeconds": 0,
        },
    }


@pytest.mark.parametrize(
    ("kind", "body", "path", "value"),
    [
        ("Namespace", {}, "metadata/labels", {"kubernetes.io/metadata.name": "x"}),
        ("Namespace", {}, "spec/finalizers", ["kubernetes"]),
        ("Namespace", {}, "status", {"phase": "Active"}),
        ("Secret", {"stringData": {"a": "b"}}, "type", "Opaque"),
        ("Secret", {"stringData": {"a": "b"}, "data": {"a": "Yw=="}}, "data", {"a": "Yg=="}),
        ("Secret", {"stringData": {"a": "b"}}, "stringData", None),
        ("PriorityClass", {"value": 5}, "preemptionPolicy", "PreemptLowerPriority"),
        (
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "b"}]},
            "subjects/0/apiGroup",
            "rbac.authorization.k8s.io",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_object_without_spec_is_filled_in(writes: Writes, kind: str, body: Object, path: str, value: Any) -> None:
    assert at(writes.create(kind, body), path) == value


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "0", "memory": "0"}}, "BestEffort"),
    ],
)
def test_quality_of_service_follows_cpu_and_memory(writes: Writes, resources: Object, expected: str) -> None:
    assert writes.create("Pod", spec=pod_spec(main={"resources": resources}))["status"]["qosClass"] == expected


def test_pod_with_a_container_without_resources_is_not_guaranteed(writes: Writes) -> None:
    whole = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    made = writes.create("Pod", spec=pod_spec(container(name="other"), main=whole))
    assert made["status"]["qosClass"] == "Burstable"


def test_job_selects_its_pods_by_its_uid(writes: Writes) -> None:
    job = writes.create("Job", spec=JOB)
    uid = job["metadata"]["uid"]
    labels = {
        "app": "x",
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "x",
        "controller-uid": uid,
        "job-name": "x",
    }
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert job["spec"]["template"]["metadata"]["labels"] == labels
    assert job["metadata"]["labels"] == labels  # a Job without labels takes its template's


def test_job_with_manual_selector_keeps_it(writes: Writes) -> None:
    spec = JOB | {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}}
    job = writes.create("Job", spec=spec)
    assert job["spec"]["selector"] == {"matchLabels": {"app": "x"}}
    assert job["spec"]["template"]["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize("kind", ["Job", "Deployment", "StatefulSet", "ReplicaSet", "Pod"])
def test_status_given_on_create_is_dropped(writes: Writes, kind: str) -> None:
    spec = {"Job": JOB, "Pod": pod_spec()}.get(kind, DEPLOYMENT)
    made = writes.create(kind, spec=spec, status={"conditions": [{"type": "Ready", "status": "True"}]})
    assert "conditions" not in made["status"]


@pytest.mark.parametrize(
    ("path", "value", "generation"),
    [
        ("spec/replicas", 4, 2),
        ("spec/template/spec/containers/0/image", "busybox:2", 2),
        ("metadata/labels", {"a": "b"}, 1),
        ("metadata/annotations", {"a": "b"}, 2),
        ("status/replicas", 7, 1),
    ],
)
def test_generation_of_a_deployment_counts_its_changes(writes: Writes, path: str, value: Any, generation: int) -> None:
    made = writes.create("Deployment", spec=DEPLOYMENT)
    assert writes.update("Deployment", changed(made, path, value))["metadata"]["generation"] == generation


def test_status_and_the_rest_are_written_apart(writes: Writes) -> None:
    made = writes.create("Deployment", spec=DEPLOYMENT)
    both = changed(changed(made, "status", {"replicas": 7}), "spec/replicas", 4)
    counted = writes.update("Deployment", both, "status")
    assert (counted["spec"]["replicas"], counted["status"]["replicas"]) == (1, 7)
    scaled = writes.update("Deployment", changed(changed(counted, "spec/replicas", 4), "status", {}))
    assert (scaled["spec"]["replicas"], scaled["status"]["replicas"]) == (4, 7)


def test_services_get_addresses_and_node_ports_of_their_own(writes: Writes) -> None:
    made = [writes.create("Service", name=name, spec={"type": "NodePort", "ports": [{"port": 80}]}) for name in "ab"]
    ips, ports = ([at(one, path) for one in made] for path in ("spec/clusterIP", "spec/ports/0/nodePort"))
    assert len(set(ips)) == len(set(ports)) == 2
    assert all(30000 <= port <= 32767 for port in ports)


def test_service_keeps_its_address_when_an_update_leaves_it_out(writes: Writes) -> None:
    made = writes.create("Service", spec={"type": "NodePort", "ports": [{"port": 80}]})
    bare = changed(made, "spec", {"type": "NodePort", "ports": [{"port": 80}]})
    again = writes.update("Service", bare)
    assert again["spec"] == made["spec"]


def test_service_gives_its_node_port_back_when_it_needs_none(writes: Writes) -> None:
    made = writes.create("Service", spec={"type": "NodePort", "ports": [{"port": 80}]})
    inside = writes.update("Service", changed(made, "spec", {"type": "ClusterIP", "ports": [{"port": 80}]}))
    assert "nodePort" not in inside["spec"]["ports"][0]
    taken = {"type": "NodePort", "ports": [{"port": 80, "nodePort": at(made, "spec/ports/0/nodePort")}]}
    assert writes.why_not_create("Service", name="other", spec=taken) == []
