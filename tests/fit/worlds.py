# SPDX-License-Identifier: BSD-2-Clause
"""Random clusters and jobs, by a seed: what the prediction of gpuctl_fit_info is held to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import (
    NamespaceRules,
    PolicyRules,
)

from .manifests import manifest_job, pods_of

if TYPE_CHECKING:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.select import SelectedJob

Object = dict[str, Any]

GPU, MIG, SHARE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "aliyun.com/gpu-mem"
CLASSES = {"fit-high": (1_000_000, None), "fit-medium": (500_000, None), "fit-low": (100, "Never")}
LIMITED, FREE, OTHER = "fit-limited", "fit-free", "fit-other"  # namespaces
MARK = "fit.test/world"  # a label of what belongs to a world
HOST, RACK, ZONE = "kubernetes.io/hostname", "fit.test/rack", "topology.kubernetes.io/zone"
POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"
IMAGE = "registry.local/busybox:1"
DRIVER = DEVICE_CLASS = "gpu.nvidia.com"  # as the pools of manifests with claimed devices expect them
RUNTIME_CLASS = "fit-runtime"
RDMA, CLIQUE, MEMORY = "rdma/fit", "nvidia.com/gpu.clique", "nvidia.com/gpu.memory"
GENERATION = "fit.test/generation"
LABELS = (ZONE, RACK, POOL, TYPE, CLIQUE, MEMORY, GENERATION)  # that nodes may have or lack


@dataclass
class Job:
    """Pods of one template, as a controller would create them; or the job of a manifest (manifests.py), whose
    objects controllers make pods of."""

    name: str
    namespace: str
    template: Object
    number: int
    claim: Object | None = None
    selected: SelectedJob | None = None

    @property
    def workload(self) -> Object:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace, "labels": {"app": self.name}},
            "spec": {"parallelism": self.number, "completions": self.number, "template": self.template},
        }

    @property
    def objects(self) -> list[Object]:
        if self.selected is not None:
            return list(self.selected.objects)
        return [self.workload, *([self.claim] if self.claim else [])]

    def pod(self, index: int) -> Object:
        metadata = {**self.template["metadata"], "name": f"{self.name}-{index}", "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.template["spec"]}


@dataclass
class RandomWorld:
    """The nodes and the pods on them, and batches of jobs to try there, one after the other."""

    seed: int
    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    quota: Object | None = None
    limits: Object | None = None
    budgets: list[Object] = field(default_factory=list)
    slices: list[Object] = field(default_factory=list)
    attached: dict[str, int] = field(default_factory=dict)  # how many volumes of the CSI driver a node attaches
    policy: PolicyRules | None = None
    preempting: tuple[Object, Object] | None = None  # a pod that is being preempted for long, and the one that waits
    batches: list[list[Job]] = field(default_factory=list)


def random_world(seed: int, names: list[str], batches: int, *, volumes: list[str] | None = None) -> RandomWorld:
    """The same for the same seed."""
    chance = random.Random(seed)
    world = RandomWorld(seed)
    world.nodes = [_node(chance, name, index) for index, name in enumerate(names)]
    world.pods = list(_running(chance, world.nodes, seed))
    if chance.random() < 0.7:
        world.quota = _quota(chance)
    if chance.random() < 0.25:
        world.limits = _limits(chance)
    if chance.random() < 0.3:
        world.budgets = [_budget()]
    if chance.random() < 0.4:
        world.slices = [_slice(chance, node) for node in world.nodes if chance.random() < 0.6]
    if chance.random() < 0.25:
        world.policy = _policy(chance)
        for pod in world.pods:  # What was there before the policy could not be restored.
            if pod["metadata"]["namespace"] == LIMITED:
                pod["metadata"]["namespace"] = OTHER
    if chance.random() < 0.25:
        world.preempting = _preempting(chance, world, seed)
    if volumes:
        world.attached = {node["name"]: 1 for node in world.nodes if chance.random() < 0.5}
        for pod in world.pods:
            if pod["metadata"]["namespace"] == FREE and chance.random() < 0.5:
                pod["spec"]["volumes"] = [_volume("csi-there")]
    for number in range(batches):
        size = 1 if chance.random() < 0.85 else chance.choice([2, 2, 3, 4])
        names_of_jobs = [f"try-{seed}-{number}-{index}" for index in range(size)]
        makers = [_manifest if chance.random() < 0.5 else _job for each in names_of_jobs]
        jobs = [make(chance, name, world, volumes or []) for make, name in zip(makers, names_of_jobs, strict=True)]
        world.batches.append(sorted(jobs, key=lambda job: -_value(job)))
    return world


def _manifest(chance: random.Random, name: str, world: RandomWorld, volumes: list[str]) -> Job:
    namespace = _namespace(chance, world)
    job = manifest_job(chance, name, namespace, volumes, has_devices=bool(world.slices))
    template = job.objects[0]["spec"]["template"]
    return Job(name, namespace, template, pods_of(job), selected=job)


def _namespace(chance: random.Random, world: RandomWorld) -> str:
    return LIMITED if (world.quota or world.limits or world.policy) and chance.random() < 0.4 else FREE


def _value(job: Job) -> int:
    """Of the classes of manifests (gpuctl-high), too."""
    priority = job.template["spec"].get("priorityClassName", "").partition("-")[2]
    return CLASSES.get(f"fit-{priority}", (0, None))[0]


# -- nodes -------------------------------------------------------------------------------------------------------------


def _node(chance: random.Random, name: str, index: int) -> Object:
    kind = chance.choices(["gpu", "big", "mig", "shares", "cpu"], [5, 2, 2, 1, 1])[0]
    amounts = {"cpu": "32", "memory": "128Gi", "pods": chance.choice(["110", "110", "110", "3"])}
    amounts["ephemeral-storage"] = "100Gi"
    labels = {
        HOST: name,
        ZONE: f"zone-{index % 2}",
        TYPE: chance.choice(["A100", "H100"]),
        MEMORY: chance.choice(["40960", "81920"]),
    }
    if pool := chance.choice(["a", "a", "b", "b", "c", ""]):
        labels[POOL] = pool
    if chance.random() < 0.4:
        labels[CLIQUE] = chance.choice(["x.1", "x.2"])
    if chance.random() < 0.8:
        labels[RACK] = f"rack-{index % 3}"
    if chance.random() < 0.5:
        labels[GENERATION] = str(chance.randint(1, 5))
    if kind in ("gpu", "big"):
        amounts[GPU] = "8" if kind == "gpu" else "16"
    elif kind == "mig":
        amounts |= {GPU: chance.choice(["0", "2"]), MIG: "7"}
    elif kind == "shares":
        amounts[SHARE] = "160"
    if chance.random() < 0.4:
        amounts[RDMA] = "2"
    taints = []
    if kind != "cpu" and chance.random() < 0.4:
        taints.append({"key": GPU, "value": "present", "effect": "NoSchedule"})
    if chance.random() < 0.1:
        taints.append({"key": "maintenance", "effect": chance.choice(["NoSchedule", "NoExecute"])})
    if chance.random() < 0.1:
        taints.append({"key": "slow", "effect": "PreferNoSchedule"})
    cordoned = chance.random() < 0.1
    return {"name": name, "labels": labels, "taints": taints, "unschedulable": cordoned, "amounts": amounts}


def _running(chance: random.Random, nodes: list[Object], seed: int) -> list[Object]:
    """Pods that are on the nodes already, within what these have."""
    pods = []
    for node in nodes:
        if any(taint["effect"] == "NoExecute" for taint in node["taints"]):
            continue
        left = {key: _number(amount) for key, amount in node["amounts"].items()}
        left["pods"] -= 1
        for _ in range(chance.choice([0, 1, 2, 4, 6, 8])):
            wanted = _some(chance, left)
            if left["pods"] < 1 or any(_number(amount) > left.get(key, 0) for key, amount in wanted.items()):
                continue
            for key, amount in wanted.items():
                left[key] -= _number(amount)
            left["pods"] -= 1
            name = f"run-{seed}-{len(pods)}"
            app = chance.choice(["alpha", "beta", "gamma", name])
            spec: Object = {
                "nodeName": node["name"],
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": IMAGE, "resources": _resources(wanted)}],
                "tolerations": [{"operator": "Exists"}],
            }
            if chance.random() < 0.8:
                spec["priorityClassName"] = chance.choice(list(CLASSES))
            if chance.random() < 0.15:
                port = {"containerPort": 80, "hostPort": chance.choice([30001, 30002])}
                spec["containers"][0]["ports"] = [port]
            if chance.random() < 0.1:
                spec["affinity"] = {
                    "podAntiAffinity": _required([_term(chance, "try", key=chance.choice([HOST, RACK]))])
                }
            labels = {"app": app, MARK: "run", "group": chance.choice(["run", "try"])}
            namespace = chance.choice([OTHER, OTHER, FREE, LIMITED])
            if namespace == LIMITED:
                spec["priorityClassName"] = "fit-high"  # so that nothing preempts what uses the quota
            pods.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": namespace, "labels": labels},
                    "spec": spec,
                }
            )
    return pods


def _some(chance: random.Random, left: dict[str, int]) -> dict[str, str]:
    wanted = {"cpu": chance.choice(["1", "4", "8", "500m"]), "memory": chance.choice(["1Gi", "16Gi", "32Gi"])}
    if left.get(GPU):
        wanted[GPU] = str(chance.choice([1, 2, 4, 8]))
    elif left.get(MIG):
        wanted[MIG] = str(chance.choice([1, 2, 3]))
    elif left.get(SHARE):
        wanted[SHARE] = str(chance.choice([20, 40, 80]))
    return wanted


def _number(amount: str) -> int:
    """In thousandths of a core, bytes, or units; of all alike, because only differences count."""
    if amount.endswith("Gi"):
        return int(amount[:-2]) * 1000 * 2**30
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def _resources(wanted: dict[str, str]) -> Object:
    return {"requests": wanted, "limits": {key: amount for key, amount in wanted.items() if "/" in key}}


def _quota(chance: random.Random) -> Object:
    hard = {f"requests.{GPU}": str(chance.choice([4, 8, 16, 24])), "pods": str(chance.choice([2, 5, 8, 50]))}
    if chance.random() < 0.5:
        hard["requests.cpu"] = str(chance.choice([4, 16, 64]))
    if chance.random() < 0.2:
        hard["limits.memory"] = "64Gi"
    if chance.random() < 0.5:
        for name in chance.sample(_COUNTS, chance.choice([1, 2, 3])):
            hard[name] = str(chance.choice([0, 1, 1, 2]) + (name in ("configmaps", "count/configmaps")))
    spec: Object = {"hard": hard}
    if chance.random() < 0.2 and not set(hard) & set(_COUNTS):
        rule = {"scopeName": "PriorityClass", "operator": "In", "values": ["fit-high"]}
        spec["scopeSelector"] = {"matchExpressions": [rule]}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "fit", "namespace": LIMITED},
        "spec": spec,
    }


_COUNTS = (
    "configmaps",
    "count/configmaps",
    "count/deployments.apps",
    "count/horizontalpodautoscalers.autoscaling",
    "count/jobs.batch",
    "count/pods",
    "count/replicasets.apps",
    "count/services",
    "count/statefulsets.apps",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)


def _policy(chance: random.Random) -> PolicyRules:
    rules = NamespaceRules(
        team="fit",
        max_gpus_per_job=chance.choice([2, 4, 8]),
        pools=chance.choice([None, None, ("a", "default")]),
        priorities=chance.choice([None, None, ("medium", "low")]),
        service_types=chance.choice([None, ("ClusterIP",)]),
    )
    return PolicyRules("fit", host_network=True, privileged=True, namespaces={LIMITED: rules})


def _preempting(chance: random.Random, world: RandomWorld, seed: int) -> tuple[Object, Object] | None:
    """A pod that a more important one has preempted, and that does not go for as long as its finalizer is there."""
    nodes = {node["name"]: node for node in world.nodes}
    low = [pod for pod in world.pods if pod["spec"].get("priorityClassName") in (None, "fit-low", "fit-medium")]
    low = [pod for pod in low if GPU in pod["spec"]["containers"][0]["resources"]["requests"]]
    if not low:
        return None
    victim = chance.choice(low)
    world.pods.remove(victim)
    name = victim["spec"]["nodeName"]
    rest = [pod for pod in world.pods if pod["spec"]["nodeName"] == name]
    requests = victim["spec"]["containers"][0]["resources"]["requests"]
    used = sum(int(pod["spec"]["containers"][0]["resources"]["requests"].get(GPU, 0)) for pod in rest)
    # All that is left of the node's GPUs, so that it has to preempt, and only this pod: others are more important.
    for pod in rest:
        pod["spec"]["priorityClassName"] = "fit-high"
    wanted = {"cpu": "500m", "memory": "1Gi", GPU: str(int(nodes[name]["amounts"][GPU]) - used)}
    victim["metadata"]["finalizers"] = ["fit.test/hold"]
    if int(wanted[GPU]) < int(requests[GPU]):
        return None
    metadata = {"name": f"run-{seed}-next", "namespace": OTHER, "labels": {"app": "next", MARK: "run"}}
    spec: Object = {
        "nodeSelector": {HOST: name},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "fit-high",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": IMAGE, "resources": _resources(wanted)}],
    }
    return victim, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _limits(chance: random.Random) -> Object:
    """Defaults for containers that name nothing, and bounds for those that do."""
    item: Object = {"type": "Container", "defaultRequest": {"cpu": "500m", "memory": "1Gi"}}
    if chance.random() < 0.5:
        item["max"] = {"cpu": "8"}
        item["default"] = {"cpu": "2"}
    if chance.random() < 0.3:
        item["min"] = {"memory": "2Gi"}
        item["defaultRequest"]["memory"] = "2Gi"
    metadata = {"name": "fit", "namespace": LIMITED}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def _budget() -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "fit", "namespace": OTHER},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "alpha"}}},
    }


def _slice(chance: random.Random, node: Object) -> Object:
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "productName": {"string": chance.choice(["NVIDIA A100", "NVIDIA H100"])},
                "model": {"string": chance.choice(["A100", "H100"])},
                "group": {"int": index // 2},
            },
            "capacity": {"memory": {"value": chance.choice(["40Gi", "80Gi"])}},
            **({"taints": [{"key": "sick", "effect": "NoSchedule"}]} if chance.random() < 0.1 else {}),
        }
        for index in range(4)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"fit-{node['name']}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node["name"],
            "pool": {"name": node["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


# -- jobs --------------------------------------------------------------------------------------------------------------


def _job(chance: random.Random, name: str, world: RandomWorld, volumes: list[str]) -> Job:
    # A policy also forbids of pods what no manifest can ask for, and counts the GPUs of workloads.
    namespace = FREE if world.policy else _namespace(chance, world)
    number = chance.choices([1, 2, 3, 4, 6], [8, 4, 1, 1, 1])[0]
    wanted = {
        "cpu": chance.choice(["1", "4", "8", "16", "24"]),
        "memory": chance.choice(["1Gi", "16Gi", "64Gi", "200Gi"]),
    }
    if chance.random() < 0.9:
        wanted["cpu"] = chance.choice(["1", "2", "4"])
        wanted["memory"] = chance.choice(["1Gi", "4Gi", "16Gi"])
    devices = chance.choices([GPU, MIG, SHARE, ""], [9, 1, 1, 1])[0]
    if devices == GPU:
        wanted[GPU] = str(chance.choice([1, 1, 1, 2, 2, 4, 4, 8, 8, 16]))
    elif devices == MIG:
        wanted[MIG] = str(chance.choice([1, 1, 2, 4, 7, 8]))
    elif devices == SHARE:
        wanted[SHARE] = str(chance.choice([20, 80, 160, 200]))
    if chance.random() < 0.06:
        del wanted["cpu"]
    claim = None
    spec: Object = {
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": IMAGE, "resources": _resources(wanted)}],
    }
    if world.slices and chance.random() < 0.3:
        claim = _claim_template(chance, name, namespace)
        spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": name}]
        spec["containers"][0]["resources"]["claims"] = [{"name": "device"}]
        wanted.pop(devices, None)
        spec["containers"][0]["resources"]["limits"].pop(devices, None)
    if devices and chance.random() < 0.85:
        spec["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    if chance.random() < 0.05:
        spec["tolerations"] = [{"operator": "Exists"}]
    if chance.random() < 0.75:
        spec["priorityClassName"] = chance.choices(list(CLASSES), [2, 4, 3])[0]
    selector = {}
    if chance.random() < 0.3:
        selector[POOL] = chance.choice(["a", "b"])
    if chance.random() < 0.15:
        selector[TYPE] = chance.choice(["A100", "A100", "H100", "H100", "B200"])
    if selector:
        spec["nodeSelector"] = selector
    spec["affinity"] = _affinity(chance, name, number)
    if chance.random() < 0.1:
        spec["topologySpreadConstraints"] = [_spread(chance, name)]
    if chance.random() < 0.08:
        spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": chance.choice([30001, 30002])}]
    if chance.random() < 0.1:
        more = {"cpu": chance.choice(["2", "20"]), "memory": "2Gi"}
        kind = chance.choice([{}, {"restartPolicy": "Always"}])
        spec["initContainers"] = [{"name": "first", "image": IMAGE, "resources": {"requests": more}, **kind}]
    if chance.random() < 0.05:
        spec["runtimeClassName"] = RUNTIME_CLASS
    if chance.random() < 0.05 and "initContainers" not in spec:  # The server refuses less than its containers request.
        cpu, memory = int(wanted.get("cpu", "1")) + chance.choice([1, 8]), int(wanted["memory"][:-2]) + 8
        spec["resources"] = {"requests": {"cpu": str(cpu), "memory": f"{memory}Gi"}}
    if chance.random() < 0.005:
        spec["schedulingGates"] = [{"name": "fit.test/gate"}]
    if volumes and chance.random() < 0.3 and namespace == FREE:
        spec["volumes"] = [_volume(chance.choice(volumes))]
        number = 1  # Where the first pod goes decides where the others can be.
    labels = {"app": name, MARK: "try", "group": "try"}
    return Job(name, namespace, {"metadata": {"labels": labels}, "spec": spec}, number, claim)


def _volume(claim: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def _claim_template(chance: random.Random, name: str, namespace: str) -> Object:
    exactly: Object = {
        "deviceClassName": DEVICE_CLASS,
        "count": chance.choice([1, 1, 2, 4]),
        "allocationMode": "ExactCount",
    }
    if chance.random() < 0.5:
        expression = f"device.attributes['{DRIVER}'].model == '{chance.choice(['A100', 'H100', 'B200'])}'"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    elif chance.random() < 0.4:
        expression = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('80Gi')) >= 0"
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    devices: Object = {"requests": [{"name": "device", "exactly": exactly}]}
    if chance.random() < 0.2:
        plain = {"deviceClassName": DEVICE_CLASS, "allocationMode": "ExactCount"}
        wishes = [{"name": "many", "count": 4, **plain}, {"name": "few", "count": 1, **plain}]
        return _template(name, namespace, {"requests": [{"name": "device", "firstAvailable": wishes}]})
    if exactly["count"] == 2 and chance.random() < 0.5:
        devices["constraints"] = [{"requests": ["device"], "matchAttribute": f"{DRIVER}/group"}]
    return _template(name, namespace, devices)


def _template(name: str, namespace: str, devices: Object) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace, "labels": {MARK: "try"}},
        "spec": {"spec": {"devices": devices}},
    }


def _affinity(chance: random.Random, name: str, number: int) -> Object:
    affinity: Object = {}
    if chance.random() < 0.2:
        rule = chance.choice(
            [
                {"key": POOL, "operator": "In", "values": ["a"]},
                {"key": RACK, "operator": "Exists"},
                {"key": TYPE, "operator": "NotIn", "values": ["H100"]},
                {"key": GENERATION, "operator": "Gt", "values": ["2"]},
                {"key": GENERATION, "operator": "DoesNotExist"},
            ]
        )
        terms = [{"matchExpressions": [rule]}]
        if chance.random() < 0.2:
            terms.append({"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-1"]}]})
        affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if number > 1 and chance.random() < 0.12:
        affinity["podAffinity"] = _required([_term(chance, name, "app", key=chance.choice([RACK, ZONE]))])
    elif chance.random() < 0.05:
        affinity["podAffinity"] = _required([_term(chance, chance.choice(["alpha", "beta"]), "app", key=RACK)])
    if chance.random() < 0.1:
        target = chance.choice([(name, "app"), ("alpha", "app"), ("try", "group")])
        affinity["podAntiAffinity"] = _required([_term(chance, *target, key=chance.choice([HOST, HOST, RACK]))])
    return affinity


def _term(chance: random.Random, value: str, label: str = "group", *, key: str) -> Object:
    term: Object = {"topologyKey": key, "labelSelector": {"matchLabels": {label: value}}}
    if chance.random() < 0.3:
        term["namespaces"] = [FREE, OTHER]
    elif chance.random() < 0.2:
        term["namespaceSelector"] = chance.choice([{}, {"matchLabels": {"fit.test/team": "other"}}])
    return term


def _required(terms: list[Object]) -> Object:
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _spread(chance: random.Random, name: str) -> Object:
    by_key = chance.random() < 0.3
    return {
        "maxSkew": 1,
        "topologyKey": chance.choice([HOST, ZONE, RACK]),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"group": "try"} if by_key else {"app": name}},
        **({"matchLabelKeys": ["app"]} if by_key else {}),
        **({"nodeTaintsPolicy": "Honor"} if chance.random() < 0.5 else {}),
        **({"minDomains": 2} if chance.random() < 0.2 else {}),
    }
