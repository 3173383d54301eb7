# SPDX-License-Identifier: BSD-2-Clause
"""Devices of drivers: what is there, what is taken and by whom, and why a claim gets none."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.device_shortage import device_shortage
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.devices import (
    EXTENDED_CLAIM,
    Inventory,
    count_devices,
    inventory_of,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import Node, PodUse, slim_node, slim_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.reason import ClusterView, reason_for
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import Shortages
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import CLAIMED_DEVICES

Object = dict[str, Any]
D, CLASS = "gpu.nvidia.com", "gpu.nvidia.com"
GPU = "nvidia.com/gpu"


def gpu(name: str, product: str = "A100", memory: str = "80Gi", **more: Any) -> Object:
    attributes = {"type": {"string": "gpu"}, "productName": {"string": product}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def mig(name: str, profile: str, slices: str, of: str = "c0") -> Object:
    attributes = {"type": {"string": "mig"}, "profile": {"string": profile}}
    return {"name": name, "attributes": attributes, "consumesCounters": [counters("counterSet", of, slices)]}


def counters(key: str, name: str, slices: str) -> Object:
    return {key: name, "counters": {"slices": {"value": slices}}}


def slice_of(node: str, *devices: Object, generation: int = 1, of: int = 1, **spec: Any) -> Object:
    pool = {"name": node, "generation": generation, "resourceSliceCount": of}
    where = {"nodeName": node} if not {"allNodes", "nodeSelector"} & set(spec) else {}
    return {
        "metadata": {"name": f"s-{node}"},
        "spec": {"driver": D, "pool": pool, "devices": list(devices), **where, **spec},
    }


def claim(name: str, *devices: str, pods: tuple[str, ...] = (), **more: Any) -> Object:
    """A claim; devices are node/device."""
    results = [dict(zip(("pool", "device"), one.split("/"), strict=True), driver=D, request="r") for one in devices]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods],
    }
    metadata = {"name": name, "namespace": "team", **more.pop("metadata", {})}
    return {
        "metadata": metadata,
        "spec": {"devices": {"requests": [request(**more)]}},
        "status": status if devices else {},
    }


def request(count: int = 1, selectors: tuple[str, ...] = (), **more: Any) -> Object:
    cel = [{"cel": {"expression": one}} for one in selectors]
    return {"name": "r", "exactly": {"deviceClassName": CLASS, "count": count, "selectors": cel, **more}}


def device_class(name: str = CLASS, **spec: Any) -> Object:
    expression = f"device.driver == '{D}' && device.attributes['{D}'].type == 'gpu'"
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}


def node(name: str, **labels: str) -> Node:
    ready = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return slim_node({"metadata": metadata, "spec": {}, "status": {"conditions": ready, "allocatable": {"cpu": "8"}}})


def pod(name: str, node: str | None = None, *, requests: Object | None = None, **more: Any) -> Object:
    """A pod that holds or waits for the claim of its own name."""
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", **more},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests or {}}}],
            "nodeName": node,
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    }


def use(obj: Object) -> PodUse:
    return slim_pod(obj)


def names(inventory: Inventory) -> list[str]:
    return ["/".join(device.id[1:]) for device in inventory.devices]


# -- what is there -----------------------------------------------------------------------------------------------------


def test_only_the_newest_generation_counts():
    slices = [slice_of("n1", gpu("a"), generation=1), slice_of("n1", gpu("b"), generation=2)]
    assert names(inventory_of(slices, [])) == ["n1/b"]


def test_a_pool_whose_slices_are_not_all_there_is_being_updated():
    found = inventory_of([slice_of("n1", gpu("a"), of=2), slice_of("n2", gpu("b"))], [])
    assert names(found) == ["n2/b"]
    assert found.updating == ((D, "n1"),)


def test_what_administrators_look_at_is_not_taken():
    watching = claim("w", "n1/a")
    watching["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    found = inventory_of([slice_of("n1", gpu("a"))], [watching])
    assert found.is_free(found.devices[0])


def test_partitions_that_overlap_take_from_each_other():
    slices = [
        slice_of("n1", of=2, sharedCounters=[counters("name", "c0", "7")]),
        slice_of("n1", mig("a", "3g.40gb", "3"), mig("b", "3g.40gb", "3"), mig("c", "2g.20gb", "2"), of=2),
    ]
    del slices[0]["spec"]["devices"]
    taken = inventory_of(slices, [claim("one", "n1/a"), claim("two", "n1/b")])
    assert [taken.is_free(device) for device in taken.devices] == [False, False, False]
    one = inventory_of(slices, [claim("one", "n1/a")])
    assert [one.is_free(device) for device in one.devices] == [False, True, True]
    assert [held.name for held in one.holders(one.devices[2])] == ["one"]


# -- counting ----------------------------------------------------------------------------------------------------------


def counted(slices: list[Object], claims: list[Object], pods: list[Object]) -> tuple[int, int, list[int]]:
    """GPUs of node n1 in total and in use, and of each pod."""
    nodes, uses = count_devices([node("n1")], [use(one) for one in pods], inventory_of(slices, claims))
    assert uses is not None
    return nodes[0].gpu_total, nodes[0].gpu_used, [one.gpu for one in uses]


EIGHT = slice_of("n1", *(gpu(f"gpu-{index}") for index in range(8)))


def test_devices_count_as_gpus():
    claims = [claim("p", "n1/gpu-0", "n1/gpu-1", pods=("p",)), claim("free")]
    assert counted([EIGHT], claims, [pod("p", "n1")]) == (8, 2, [2])


def test_a_claim_that_two_pods_hold_counts_once():
    assert counted([EIGHT], [claim("p", "n1/gpu-0", pods=("p", "q"))], [pod("p", "n1"), pod("q", "n1")]) == (
        8,
        1,
        [1, 0],
    )


def test_a_claim_that_no_pod_holds_any_more_still_has_its_device():
    assert counted([EIGHT], [claim("p", "n1/gpu-0")], []) == (8, 1, [])


def test_the_other_devices_of_a_driver_are_no_gpus():
    other = {"name": "nic", "attributes": {"type": {"string": "vfio"}}}
    assert counted([slice_of("n1", gpu("a"), other)], [claim("p", "n1/nic", pods=("p",))], [pod("p", "n1")]) == (
        1,
        0,
        [0],
    )


def test_overlapping_partitions_are_one_device():
    whole = {**gpu("gpu-0"), "consumesCounters": [counters("counterSet", "c0", "7")]}
    slices = [
        slice_of("n1", of=2, sharedCounters=[counters("name", "c0", "7")]),
        slice_of("n1", whole, mig("a", "3g.40gb", "3"), mig("b", "3g.40gb", "3"), of=2),
    ]
    del slices[0]["spec"]["devices"]
    claims = [claim("p", "n1/a", pods=("p",)), claim("q", "n1/b", pods=("q",))]
    nodes, _uses = count_devices([node("n1")], [use(pod("p", "n1")), use(pod("q", "n1"))], inventory_of(slices, claims))
    assert (nodes[0].gpu_total, nodes[0].gpu_used) == (1, 1)
    assert nodes[0].used["nvidia.com/mig-3g.40gb"] == 2


def test_what_pods_request_as_extended_resources_counts_once():
    made = claim("p", "n1/gpu-0", pods=("p",), metadata={"annotations": {EXTENDED_CLAIM: "true"}})
    requesting = pod("p", "n1", requests={GPU: "1"})
    nodes = [node("n1")]
    uses = [use(requesting)]
    found, _uses = count_devices(nodes, uses, inventory_of([EIGHT], [made]))
    assert found[0].used.get(GPU, 0) == 0, "with_use has it from the pod"


def test_the_annotation_of_our_pods_counts_instead_of_their_claims():
    ours = pod("p", "n1", annotations={"runwhere.ai/claimed-devices": f"{GPU}=2"})
    claims = [claim("p", "n1/gpu-0", "n1/gpu-1", pods=("p",))]
    nodes, uses = count_devices([node("n1")], [use(ours)], inventory_of([EIGHT], claims))
    assert uses is not None
    assert (uses[0].gpu, nodes[0].used.get(GPU, 0)) == (2, 0)


def test_without_the_pods_usage_stays_unknown():
    nodes, uses = count_devices([node("n1")], None, inventory_of([EIGHT], [claim("p", "n1/gpu-0")]))
    assert uses is None
    assert nodes[0].gpu_total == 8
    assert not nodes[0].used


# -- why a claim gets none ---------------------------------------------------------------------------------------------

H100 = f"device.attributes['{D}'].productName.lowerAscii().replace(' ', '-') == 'h100'"
LARGE = f"device.capacity['{D}'].memory.compareTo(quantity('100Gi')) >= 0"
TWO = [slice_of("n1", gpu("a"), gpu("b")), slice_of("n2", gpu("c", "L4", "24Gi"))]
SICK = [{"key": "example.com/ecc", "effect": "NoSchedule"}]

CASES: dict[str, tuple[list[Object], list[Object], Object, str]] = {
    "no device has the product": (
        TWO,
        [],
        request(selectors=(H100,)),
        "none of the 3 devices of class gpu.nvidia.com in the cluster has productName h100 (there is A100 and L4)",
    ),
    "no device has the memory": (
        TWO,
        [],
        request(selectors=(LARGE,)),
        "none of the 3 devices of class gpu.nvidia.com in the cluster has at least 100Gi of memory (there is 24Gi and "
        "80Gi)",
    ),
    "more than a node has": (
        TWO,
        [],
        request(3),
        "it needs 3 devices of class gpu.nvidia.com, but the most that one node of the cluster has is 2",
    ),
    "all taken": (
        TWO,
        [claim("x", "n1/a", "n1/b", pods=("x",)), claim("y", "n2/c", pods=("y",))],
        request(1),
        "it needs 1 device of class gpu.nvidia.com on one node, but 3 devices of the cluster are in use: 2 by job big "
        "of team and 1 by pod y in namespace team",
    ),
    "some taken": (
        TWO,
        [claim("x", "n1/a")],
        request(2),
        "it needs 2 devices of class gpu.nvidia.com on one node, but 1 of 3 devices of the cluster are in use: 1 by "
        "claim x in namespace team",
    ),
    "tainted": (
        [slice_of("n1", gpu("a", taints=SICK))],
        [],
        request(),
        "it needs 1 device of class gpu.nvidia.com, but the 1 device of the cluster that it could have are tainted: "
        "example.com/ecc",
    ),
    "no slices": ([], [], request(), "no node of the cluster has devices of class gpu.nvidia.com"),
    "being updated": (
        [slice_of("n1", gpu("a"), of=2)],
        [],
        request(),
        "its driver is about to publish the devices of pool n1 of gpu.nvidia.com",
    ),
    "an unknown class": (TWO, [], request(deviceClassName="other"), "DeviceClass other not found"),
    "what only the scheduler knows": (
        TWO,
        [],
        request(selectors=(f"device.attributes['{D}'].uuid.startsWith('GPU')",)),
        "no node has 1 device of class gpu.nvidia.com that meet all that its claims ask for; only the scheduler knows "
        "which devices meet device.attributes['gpu.nvidia.com'].uuid.startsWith('GPU')",
    ),
}


@pytest.mark.parametrize(("slices", "claims", "wanted", "text"), CASES.values(), ids=CASES)
def test_why_a_claim_gets_no_devices(slices: list[Object], claims: list[Object], wanted: Object, text: str):
    waiting = claim("p")
    waiting["spec"]["devices"]["requests"] = [wanted]
    found = device_shortage(
        pod("p"),
        [node("n1"), node("n2")],
        inventory_of(slices, [*claims, waiting], [device_class()]),
        {"uid-x": "job big of team"},
    )
    assert found is not None
    assert found.text == text


# -- reasons of whole jobs ---------------------------------------------------------------------------------------------

JOB: Object = {
    "kind": "Job",
    "apiVersion": "batch/v1",
    "metadata": {"name": "x", "namespace": "team", "uid": "uid-x", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}},
    "status": {"active": 1},
}
CREATED = "2026-01-01T00:00:00Z"


def waiting_pod(message: str = "", **claims: str) -> Object:
    owner = {"kind": "Job", "name": "x", "uid": "uid-x", "controller": True}
    obj = pod("x-1", creationTimestamp=CREATED, ownerReferences=[owner])
    obj["spec"]["resourceClaims"] = [{"name": "accelerators", **(claims or {"resourceClaimTemplateName": "x-0a"})}]
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    obj["status"] = {"phase": "Pending", "conditions": [refused]} if message else {"phase": "Pending"}
    return obj


def claim_event(message: str, at: str = CREATED) -> Object:
    about = {"kind": "Pod", "namespace": "team", "name": "x-1"}
    return {
        "metadata": {"name": "e", "namespace": "team"},
        "type": "Warning",
        "reason": "FailedResourceClaimCreation",
        "message": f"PodResourceClaim accelerators: {message}",
        "involvedObject": about,
        "lastTimestamp": at,
    }


NO_TEMPLATE = 'resource claim template "x-0a": resourceclaimtemplate.resource.k8s.io "x-0a" not found'
KEY = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
EXCEEDED = (
    f'create ResourceClaim : resourceclaims.resource.k8s.io "x-1-b" is forbidden: exceeded quota: q, requested: '
    f"{KEY}=3, used: {KEY}=2, limited: {KEY}=4"
)
FAILS = 'running "DynamicResources" filter plugin: claim team/x-1-b: selector #0: CEL runtime error: no such key: model'
REASONS: dict[str, tuple[Object, list[Object], str]] = {
    "the template is about to come": (
        waiting_pod(),
        [claim_event(NO_TEMPLATE)],
        "pod x-1 is waiting for its ResourceClaimTemplate x-0a.",
    ),
    "the template does not come": (
        waiting_pod(),
        [claim_event(NO_TEMPLATE, "2026-01-01T00:01:00Z")],
        "pod x-1 gets no devices: ResourceClaimTemplate x-0a not found. Apply its manifest again with "
        "O(state=present).",
    ),
    "a quota": (
        waiting_pod(),
        [claim_event(EXCEEDED)],
        f"quota q of the namespace is exhausted ({KEY}: 3 requested, 2 of 4 used). Delete a job, request less, or have "
        "the quota raised.",
    ),
    "a claim of another user": (
        waiting_pod(resourceClaimName="shared"),
        [],
        "pod x-1 is not scheduled as long as its ResourceClaim shared is missing or being deleted.",
    ),
    "a selector that fails": (
        waiting_pod(FAILS),
        [],
        "pod x-1 cannot be scheduled: selector #0 of its claim fails on a device: no such key: model. Correct the "
        "selector: not every device has what it names.",
    ),
    "unreadable devices": (
        waiting_pod(
            "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are "
            "available: 2 Preemption is not helpful for scheduling."
        ),
        [],
        "pod x-1 cannot be scheduled. The scheduler says: 0/2 nodes are available: 2 cannot allocate all claims.",
    ),
}


@pytest.mark.parametrize(("waits", "events", "sentence"), REASONS.values(), ids=REASONS)
def test_why_a_job_gets_no_devices(waits: Object, events: list[Object], sentence: str):
    assert reason_for(JOB, [waits], events, ClusterView(Shortages([node("n1")]))) == sentence


def test_a_resource_that_stands_for_a_class():
    waiting = pod("p", requests={GPU: "3"})
    waiting["spec"]["resourceClaims"] = []
    inventory = inventory_of(TWO, [], [device_class(extendedResourceName=GPU)])
    found = device_shortage(waiting, [node("n1"), node("n2")], inventory, {})
    assert found is not None
    assert "it needs 3 devices of class gpu.nvidia.com" in found.text


def test_alternatives_of_which_none_can_be_had():
    waiting = claim("p")
    first = {"name": "a", "deviceClassName": CLASS, "selectors": [{"cel": {"expression": H100}}], "count": 1}
    second = {"name": "b", "deviceClassName": CLASS, "count": 3}
    waiting["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": [first, second]}]
    found = device_shortage(pod("p"), [node("n1")], inventory_of(TWO, [waiting], [device_class()]), {})
    assert found is not None
    assert found.text.startswith("none of 2 alternatives can be had, the last of them because it needs 3 devices")
    assert found.lasting


def test_a_claim_that_has_its_devices_is_not_the_cause():
    held = claim("p", "n1/a", pods=("p",))
    assert device_shortage(pod("p"), [node("n1")], inventory_of(TWO, [held], [device_class()]), {}) is None


def test_an_annotation_hides_nothing_of_what_a_pod_requests():
    requests = {GPU: "8", "cpu": "4"}
    pod = {
        "metadata": {"namespace": "ml", "annotations": {CLAIMED_DEVICES: f"{GPU}=0,cpu=0"}},
        "spec": {"nodeName": "a", "containers": [{"name": "main", "resources": {"requests": requests}}]},
    }
    use = slim_pod(pod)
    assert (use.gpu, use.requests["cpu"]) == (8, 4000)
