# SPDX-License-Identifier: BSD-2-Clause
"""What administrators declare in gpuctl-system: the hardware of pools, and profiles of accelerators."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.declared import declared_in
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
    Declaration,
    declarations_in,
    pool_config_map,
)

HARDWARE = PoolHardware(
    accelerator="ascend",
    share_backend="hami",
    type_aliases={"910B": "910B3"},
    rdma_resource="rdma/hca_shared_devices_a",
    topology={"block": "example.com/block", "rack": "example.com/rack"},
)


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "gpuctl-accelerators", "namespace": "gpuctl-system"}, "data": data}


def test_a_pool_without_hardware_is_written_as_before() -> None:
    assert pool_config_map(Declaration("a", nodes={"n1": "A100"}))["data"] == {"nodes": "n1: A100\n"}


@pytest.mark.parametrize("hardware", [PoolHardware(), HARDWARE, PoolHardware(accelerator="amd")])
def test_the_hardware_of_a_pool_is_read_as_it_was_written(hardware: PoolHardware) -> None:
    written = Declaration("a", nodes={"n1": None}, hardware=hardware)
    assert declarations_in([pool_config_map(written)]) == {"a": written}


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "1", '{"accelerator": 1}', '{"topology": []}', '{"type_aliases": {"a": 1}}', "[" * 10_000]
)
def test_hardware_that_a_person_has_edited_is_no_reason_to_fail(text: str) -> None:
    obj = pool_config_map(Declaration("a", nodes={"n1": None}, hardware=HARDWARE))
    obj["data"]["hardware"] = text
    found = declarations_in([obj])["a"]
    assert found.hardware == PoolHardware()
    assert found.nodes == {"n1": None}
    assert (found.problem is None) == (text == "")
    if found.problem:
        assert found.problem == (
            "ConfigMap pool-a in namespace gpuctl-system: hardware cannot be read. Declare the pool again with "
            "M(gpuctl_pool)."
        )


def test_a_later_version_may_declare_more() -> None:
    obj = pool_config_map(Declaration("a"))
    obj["data"]["hardware"] = '{"accelerator": "amd", "cooling": ["water"]}'
    assert declarations_in([obj])["a"].hardware == PoolHardware(accelerator="amd")


def test_the_types_of_a_pool_are_those_of_its_nodes() -> None:
    nodes = {"n1": "A100", "n2": None, "n3": "H100"}
    declared = declared_in([pool_config_map(Declaration("a", nodes=nodes, hardware=HARDWARE))])
    assert declared.hardware("a").types == {"A100", "H100"}
    assert declared.hardware("a").accelerator == "ascend"
    assert declared.hardware("b") == PoolHardware()


def test_profiles_of_administrators_are_added() -> None:
    acme = "{kind: accelerator, accelerator: {name: acme}, like: amd, resource: acme.example/gpu}"
    known = declared_in([config_map(acme=acme)]).profiles
    row = known.row("acme.example/gpu")
    assert row is not None
    assert row.profile == "acme"
    assert catalog().row("acme.example/gpu") is None, "until it is used"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{kind: accelerator}", "acme, document 1, accelerator: required key is missing. Add the block with name."),
        ("a: [", "acme, document 1, line 1, column 5: expected a value, got the end of the document. Complete it."),
        ("{kind: quota, quota: {name: q}}", "acme, document 1: not an accelerator: quota."),
        (
            "{kind: accelerator, accelerator: {name: acme}, like: gone}",
            "acme: accelerator acme: like a profile that there is not: gone. Correct it.",
        ),
        (
            "{kind: accelerator, accelerator: {name: acme}, resource: a.org/b}",
            "acme: accelerator acme: required key is missing: noun, singular. Correct it.",
        ),
    ],
)
def test_a_profile_that_cannot_be_used_is_left_out_with_a_problem(text: str, problem: str) -> None:
    good = "{kind: accelerator, accelerator: {name: good}, like: amd, resource: good.example/gpu}"
    found = declared_in([config_map(acme=text, good=good)])
    (said,) = found.problems
    assert said.startswith(f"ConfigMap gpuctl-accelerators in namespace gpuctl-system, {problem}")
    assert said.endswith("left out.")
    assert {"good"} == found.profiles.profiles.keys() - catalog().profiles.keys()
