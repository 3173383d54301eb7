# SPDX-License-Identifier: BSD-2-Clause
"""Conditions on devices: what is written is read again, what is not understood is kept apart."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.device_selectors import (
    AT_LEAST,
    DRIVER,
    EQUALS,
    MORE_THAN,
    PRODUCT,
    Condition,
    selection_of,
)

D = "gpu.example.com"
WRITTEN = [
    Condition(DRIVER, value=D),
    Condition(EQUALS, "type", "gpu", D),
    Condition(EQUALS, "index", 3, D),
    Condition(EQUALS, "healthy", True, D),
    Condition(EQUALS, "odd", 'it\'s a \\ "quote" && more', D),
    Condition(PRODUCT, "productName", "NVIDIA A100", D),
    Condition(AT_LEAST, "memory", "40Gi", D),
    Condition(MORE_THAN, "memory", "40Gi", D),
]


def selectors(*expressions: str) -> list[dict[str, dict[str, str]]]:
    return [{"cel": {"expression": expression}} for expression in expressions]


@pytest.mark.parametrize("condition", WRITTEN, ids=str)
def test_what_is_written_is_read_again(condition: Condition):
    (found,) = selection_of(selectors(condition.cel)).conditions
    if condition.kind == PRODUCT:
        assert (found.kind, found.name, found.value) == (PRODUCT, "productName", "nvidia-a100")
    else:
        assert found == condition


def test_all_of_them_in_one_expression():
    found = selection_of(selectors(" && ".join(f"({one.cel})" for one in WRITTEN)))
    assert len(found.conditions) == len(WRITTEN)
    assert found.others == ()


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'a' || device.driver == 'b'",
        "device.driver == 'a' && device.driver == 'b' || true == true",
        "device.driver == 'a' ? true : false",
        "device.attributes['d'].x.matches('^a')",
        "!(device.attributes['d'].x == 'a')",
        "device.attributes['d'].x in ['a', 'b']",
        "device.capacity['d'].memory.compareTo(quantity('1Gi')) > 0",
        "'x' in device.attributes['d']",
    ],
)
def test_other_expressions_are_not_guessed_at(expression: str):
    found = selection_of(selectors(expression))
    assert found.conditions == ()
    assert found.others == (expression,)


def test_the_class_of_the_nvidia_driver():
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes[\"gpu.nvidia.com\"][\"type\"] == 'gpu'"
    found = selection_of(selectors(expression))
    assert [str(one) for one in found.conditions] == ["driver gpu.nvidia.com", "type gpu"]


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        (Condition(DRIVER, value=D), True),
        (Condition(EQUALS, "type", "gpu", D), True),
        (Condition(EQUALS, "index", True, D), False),  # 1 is not true
        (Condition(EQUALS, "missing", "gpu", D), False),
        (Condition(PRODUCT, "productName", "nvidia-a100", D), True),
        (Condition(PRODUCT, "productName", "a100", D), False),
        (Condition(AT_LEAST, "memory", "80Gi", D), True),
        (Condition(MORE_THAN, "memory", "80Gi", D), False),
        (Condition(AT_LEAST, "memory", "much", D), False),
        (Condition(AT_LEAST, "cores", "1", D), False),
    ],
)
def test_whether_a_device_meets_it(condition: Condition, is_met: bool):
    attributes = {f"{D}/type": "gpu", f"{D}/index": 1, f"{D}/productName": "NVIDIA A100"}
    assert condition.is_met(D, attributes, {f"{D}/memory": "80Gi"}) is is_met
