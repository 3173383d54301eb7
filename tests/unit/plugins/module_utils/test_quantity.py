# SPDX-License-Identifier: BSD-2-Clause
"""Quantities as the API server reads and writes them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils import quantity
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quantity import QuantityError, parse

TABLE = yaml.safe_load(Path(__file__).with_name("quantities.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["text"])
def test_a_quantity_has_this_value_and_canonical_text(case: dict[str, str]) -> None:
    found = parse(case["text"])
    assert (found.value, str(found)) == (Fraction(case["value"]), case["canonical"])


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case["text"])
def test_the_canonical_text_has_the_same_value(case: dict[str, str]) -> None:
    assert parse(case["canonical"]) == parse(case["text"])


@pytest.mark.parametrize("text", ["9" * 101, "0." + "1" * 101, "1e31", "1e-31"])
def test_what_no_machine_has_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match="is out of range"):
        parse(text)
    parse("9" * 100)


@pytest.mark.parametrize(
    ("number", "canonical"), [(8, "8"), (0.5, "500m"), (1.5, "1500m"), (2000, "2k"), (1e-05, "10e-6")]
)
def test_a_number_is_read_by_its_decimal_notation(number: float, canonical: str) -> None:
    assert quantity.canonical(number) == canonical


@pytest.mark.parametrize(
    ("spellings", "of_bytes", "text"),
    [
        (["0.5", "5e-1", "500m", "500000u"], False, "500m"),
        (["1k", "1000", "1e3"], False, "1k"),
        (["1Ki", "1024", "1.024k"], False, "1024"),
        (["1Ki", "1024", "1.024k"], True, "1Ki"),
        (["1G", "1e9", "1000000000"], True, "1G"),
        (["1T", "976562500Ki"], True, "976562500Ki"),
        (["0", "0Gi", "0.0"], True, "0"),
    ],
)
def test_every_spelling_of_a_value_has_the_same_uniform_text(spellings: list[str], of_bytes: bool, text: str) -> None:
    assert {quantity.uniform(each, of_bytes=of_bytes) for each in spellings} == {text}


@pytest.mark.parametrize(
    ("text", "kept"), [("500u", "1m"), ("1m", "1m"), ("1.0001", "1001m"), ("1n", "1m"), ("0", "0"), ("2Gi", "2Gi")]
)
def test_the_server_keeps_thousandths_of_resources(text: str, kept: str) -> None:
    """Recorded with Kubernetes 1.36."""
    assert quantity.stored(text) == parse(kept).value


WRONG = [
    "", " ", "Gi", ".", "+", "1.2.3", "1 Gi", "1gi", "1GI", "1GB", "1K", "1e", "1e1.5", "1e+", "0x10", "1_000", "NaN",
    "inf", "1,5", "\N{ARABIC-INDIC DIGIT ONE}", "1e99999999999", "1e31", "--1",
]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_the_api_server_rejects_is_not_a_quantity(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


GPU_SHARE = catalog().profiles["nvidia"].backends["aliyun"].memory  # in GiB


@pytest.mark.parametrize(
    ("text", "gib"),
    [("1", 1), ("1Mi", 1), ("1Gi", 1), ("1025Mi", 2), ("2Gi", 2), ("2.5Gi", 3), ("1G", 1), ("2G", 2), ("0", 0)],
)
def test_whole_gib_are_rounded_up(text: str, gib: int) -> None:
    assert GPU_SHARE.ceil(text) == gib


def test_quantities_compare_by_value() -> None:
    assert parse("1Gi") == parse("1024Mi")
    assert parse("1G") < parse("1Gi")
    assert sorted(map(parse, ["2", "1500m", "1"]))[1].text == "1500m"
    assert {parse("1"), parse("1000m")} == {parse("1.0")}
    assert parse("1") != "1"
    assert parse("1") != parse("1k")
