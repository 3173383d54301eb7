# SPDX-License-Identifier: BSD-2-Clause
"""Devices beyond what the recordings show: functions of CEL, policies of capacity, devices with nodes of their own."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim import device_cel
from kubesim.controllers.device_allocator import Allocation, InUse, consumed
from kubesim.controllers.scheduler_nodes import NodeInfo

DRIVER = "gpu.example.com"
DEVICE = {
    "attributes": {
        "type": {"string": "gpu"},
        "index": {"int": 1},
        "healthy": {"bool": True},
        "driver": {"version": "550.54.15"},
        "example.org/numa": {"string": "0"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("device.driver == 'gpu.example.com'", True),
        ("device.attributes['gpu.example.com'].type in ['gpu', 'mig']", True),
        ("device.attributes['gpu.example.com'].type.lowerAscii().startsWith('g')", True),
        ("device.attributes['gpu.example.com'].type.replace('p', 'u') == 'guu'", True),
        ("device.attributes['gpu.example.com'].index < 1", False),
        ("device.attributes['example.org'].numa == '0'", True),
        ("'numa' in device.attributes['nobody.example.org']", False),
        ("has(device.attributes['gpu.example.com'].type)", True),
        ("device.capacity['gpu.example.com'].memory.compareTo(quantity('80Gi')) >= 0", True),
        ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('80Gi'))", False),
        ("device.capacity['gpu.example.com'].memory.isLessThan(quantity('81Gi'))", True),
        ("device.capacity['gpu.example.com'].memory == quantity('81920Mi')", True),
        ("device.attributes['gpu.example.com'].driver.isGreaterThan(semver('550.54.15-rc.1'))", True),
        ("device.attributes['gpu.example.com'].driver.isLessThan(semver('550.100.0'))", True),
        ("device.attributes['gpu.example.com'].driver.major() == 550", True),
        ("isQuantity('80Gi') && !isQuantity('much')", True),
        ("device.allowMultipleAllocations", False),
    ],
)
def test_expression_on_a_device(expression: str, expected: bool) -> None:
    assert device_cel.compile_problem(expression) == ""
    assert device_cel.matches(expression, DRIVER, DEVICE) is expected


def test_a_missing_attribute_is_an_error() -> None:
    with pytest.raises(device_cel.CelError, match="no such key: model"):
        device_cel.matches("device.attributes['gpu.example.com'].model == 'x'", DRIVER, DEVICE)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.nothing == 1", "undefined field 'nothing'"),
        ("gpu.type == 'x'", "undeclared reference to 'gpu'"),
        ("device.driver ==", "Syntax error"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("1 + 1", "must evaluate to bool or the unknown type, not int"),
    ],
)
def test_expression_that_does_not_compile(expression: str, problem: str) -> None:
    assert problem in device_cel.compile_problem(expression)


@pytest.mark.parametrize(
    ("asked", "policy", "expected"),
    [
        (None, {}, "10G"),
        (None, {"default": "1G"}, "1G"),
        ("500M", {"default": "1G", "validRange": {"min": "1G"}}, "1G"),
        ("1500M", {"default": "1G", "validRange": {"min": "1G"}}, "1500M"),
        ("3G", {"default": "1G", "validValues": ["1G", "2G", "4G"]}, "4G"),
    ],
)
def test_what_a_request_takes_of_a_capacity(asked: str | None, policy: Any, expected: str) -> None:
    request = {"capacity": {"requests": {"bandwidth": asked}}} if asked else {}
    device = {"capacity": {"bandwidth": {"value": "10G", "requestPolicy": policy}}}
    assert {name: str(amount) for name, amount in consumed(request, device).items()} == {"bandwidth": expected}


def node(name: str, **labels: str) -> NodeInfo:
    return NodeInfo({"metadata": {"name": name, "labels": labels}})


def resource_slice(name: str, devices: list[Any], **spec: Any) -> Any:
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "pool": pool, "devices": devices, **spec}}


def allocated(where: NodeInfo, slices: list[Any], *requests: Any, **devices: Any) -> list[str] | None:
    class_ = {"metadata": {"name": "gpu"}, "spec": {}}
    named = [{"name": f"r{index}", "exactly": {"deviceClassName": "gpu", **one}} for index, one in enumerate(requests)]
    claim = {"metadata": {"namespace": "team", "name": "claim"}, "spec": {"devices": {"requests": named, **devices}}}
    found = Allocation(where, slices, {"gpu": class_}, InUse()).find([claim])
    return None if found is None else [one["device"] for one in found[0]["devices"]["results"]]


def exactly(count: int) -> Any:
    return {"allocationMode": "ExactCount", "count": count}


def test_devices_with_nodes_of_their_own() -> None:
    devices = [
        {"name": "a", "nodeName": "node-1"},
        {"name": "b", "nodeName": "node-2"},
        {"name": "c", "allNodes": True},
    ]
    slices = [resource_slice("s", devices, perDeviceNodeSelection=True)]
    assert allocated(node("node-2"), slices, exactly(2)) == ["b", "c"]
    assert allocated(node("node-2"), slices, exactly(3)) is None


def test_devices_for_nodes_with_a_label() -> None:
    rack = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}
    slices = [resource_slice("s", [{"name": "a"}], nodeSelector=rack)]
    assert allocated(node("node-1", rack="r1"), slices, exactly(1)) == ["a"]
    assert allocated(node("node-2", rack="r2"), slices, exactly(1)) is None


def test_the_search_goes_back_where_the_first_choice_leads_nowhere() -> None:
    numa = {"a": "0", "b": "1", "c": "1"}
    devices = [{"name": name, "attributes": {"numa": {"string": value}}} for name, value in numa.items()]
    slices = [resource_slice("s", devices, allNodes=True)]
    same = {"constraints": [{"matchAttribute": f"{DRIVER}/numa"}]}
    other = {"constraints": [{"distinctAttribute": f"{DRIVER}/numa"}]}
    assert allocated(node("node-1"), slices, exactly(1), exactly(1), **same) == ["b", "c"]
    assert allocated(node("node-1"), slices, exactly(2), **other) == ["a", "b"]
