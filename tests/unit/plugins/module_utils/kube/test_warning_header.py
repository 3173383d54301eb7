# SPDX-License-Identifier: BSD-2-Clause
"""The Warning headers of answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.warning_header import warnings_of
from urllib3 import HTTPHeaderDict

# Recorded with Kubernetes 1.36: a namespace gets pod-security.kubernetes.io/enforce=restricted.
RECORDED = [
    r'299 - "existing pods in namespace \"up\" violate the new PodSecurity enforce level \"restricted:latest\""',
    r'299 - "a: allowPrivilegeEscalation != false, unrestricted capabilities, restricted volume types, runAsNonRoot"',
    r'299 - "b (and 1 other pod): allowPrivilegeEscalation != false"',
]
TEXTS = [
    'existing pods in namespace "up" violate the new PodSecurity enforce level "restricted:latest"',
    "a: allowPrivilegeEscalation != false, unrestricted capabilities, restricted volume types, runAsNonRoot",
    "b (and 1 other pod): allowPrivilegeEscalation != false",
]


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        ([], []),
        (RECORDED, TEXTS),
        ([", ".join(RECORDED)], TEXTS),
        ([r'299 - "a \\ b" "Sat, 25 Aug 2012 23:34:45 GMT"'], [r"a \ b"]),
        (['299 - "open', "199 - x", "nonsense", '112 - "disconnected"'], []),
    ],
    ids=str,
)
def test_the_texts_of_all_warnings(lines: list[str], texts: list[str]) -> None:
    headers = HTTPHeaderDict()
    for line in lines:
        headers.add("Warning", line)
    assert warnings_of(SimpleNamespace(headers=headers)) == texts
