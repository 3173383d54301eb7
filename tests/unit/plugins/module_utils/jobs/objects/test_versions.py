# SPDX-License-Identifier: BSD-2-Clause
"""The objects of every example, rule case, variant and policy against every version of Kubernetes.

By the published schemas, and by what real servers of the versions in gates.yaml have dropped and refused of the same
objects: each is a row of the table of features (kube/features.py), and is not sent to that version.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.older_servers import (
    needed_feature,
    without_feature,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import (
    ADMISSION_POLICIES,
    DEVICE_CLAIMS,
    FEATURES,
    NEWEST,
    OLDEST,
    PRE_STOP_SLEEP,
    SUCCESS_POLICY,
    Feature,
    number,
)
from kubesim import release

from .every_object import GATES, every_object, paths_of

Object = dict[str, Any]
VERSIONS = [(1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)]
RECORDED: dict[str, Any] = yaml.safe_load(GATES.read_text("utf-8"))
# What of a recording tells a row of the table of features.
ROWS: dict[str, Feature] = {
    r"lifecycle\.preStop": PRE_STOP_SLEEP,
    r"\bspec\.successPolicy\b": SUCCESS_POLICY,
    r"resourceClaim|resources\.claims|^ResourceClaimTemplate: ": DEVICE_CLAIMS,
    r"^ValidatingAdmissionPolicy(Binding)?: ": ADMISSION_POLICIES,
}


def of_version(version: tuple[int, int]) -> Iterator[Object]:
    """What is sent to a server of that version: what it lacks is built otherwise, or refused."""
    for obj in every_object():
        if obj["kind"].startswith("ValidatingAdmissionPolicy") and version < ADMISSION_POLICIES.since:
            continue
        claims = obj["kind"] == "ResourceClaimTemplate" or any("resourceClaims" in path for path in paths_of(obj))
        if claims and version < DEVICE_CLAIMS.since:
            continue
        feature = needed_feature(obj) if obj["kind"] in ("Job", "Deployment", "StatefulSet") else None
        older = without_feature([obj]) if feature and version < feature.since else None
        yield older[0] if older else obj


@pytest.mark.parametrize("version", VERSIONS, ids=number)
def test_every_object_is_valid_and_no_field_of_it_is_dropped(version: tuple[int, int]) -> None:
    objects = list(of_version(version))
    assert len(objects) > 290
    for obj in objects:
        kubernetes_validate.validate(obj, number(version), strict=True)
        left = copy.deepcopy(obj)
        release(number(version)).drop_fields(left)
        assert left == obj


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_what_a_real_server_dropped_and_refused_is_a_row_of_the_table(version: str) -> None:
    minor = (1, int(version.partition(".")[2]))
    found = RECORDED[version]
    assert found["objects"] > 300
    for text in (*found["dropped"], *found["refused"]):
        rows = [row for pattern, row in ROWS.items() if re.search(pattern, text)]
        assert rows, f"{found['version']}: {text}"
        assert all(row in FEATURES and minor < row.since for row in rows), text


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_nothing_that_a_real_server_dropped_is_sent_to_it(version: str) -> None:
    recorded, objects = RECORDED[version], list(of_version((1, int(version.partition(".")[2]))))
    sent = {f"{obj['kind']} {path}" for obj in objects for path in paths_of(obj)}
    assert sent & {*recorded["dropped"]} == set()
    not_served = {text.partition(":")[0] for text in recorded["refused"] if text.endswith(("not found", "resource"))}
    assert {obj["kind"] for obj in objects} & not_served == set()
