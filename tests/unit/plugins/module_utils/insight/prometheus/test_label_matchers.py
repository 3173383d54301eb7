# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.label_matchers import (
    matchers,
    one_of,
    promql_string,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", '"a"'), ('a"b', r'"a\"b"'), ("a\\b", r'"a\\b"'), ("a\nb", r'"a\nb"'), ('"} or up{a="', r'"\"} or up{a=\""')],
)
def test_a_value_cannot_end_its_string(value: str, text: str) -> None:
    assert promql_string(value) == text


def test_values_are_no_expressions() -> None:
    assert one_of(["b.c", "a|b"]) == r'"a\\|b|b\\.c"'
    assert one_of([]) == '"a^"'


def test_a_selector() -> None:
    assert matchers(namespace='a"', pod=["x-0", "x.1"]) == r'{namespace="a\"",pod=~"x\\-0|x\\.1"}'
