# SPDX-License-Identifier: BSD-2-Clause
"""The table of what Kubernetes has since which version."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.features import (
    ADMISSION_POLICIES,
    DEVICE_CLAIMS,
    FEATURES,
    LEFT_OUT,
    NEWEST,
    OLDEST,
    OTHER_WAY,
    REFUSED,
    minor_version,
    missing_features,
    of_api,
)


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("v1.36.2", (1, 36)),
        ("v1.31.14-eks-5678", (1, 31)),
        ("v1.30.5+k3s1", (1, 30)),
        ("v1.33.1-gke.1107000", (1, 33)),
        ("v1.32.0+rke2r1", (1, 32)),
        ("v1.29.9-aliyun.1", (1, 29)),
        ("1.28", (1, 28)),
        ("", None),
        ("banana", None),
    ],
)
def test_versions_as_vendors_write_them(said: str, version: tuple[int, int] | None) -> None:
    assert minor_version(said) == version


@pytest.mark.parametrize(
    ("path", "feature"),
    [
        ("resource.k8s.io/v1", DEVICE_CLAIMS),
        ("resource.k8s.io/v1/deviceclasses", DEVICE_CLAIMS),
        ("resource.k8s.io/v1/namespaces/a/resourceclaims/b", DEVICE_CLAIMS),
        ("resource.k8s.io/v1beta1/deviceclasses", None),
        ("admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/a", ADMISSION_POLICIES),
        ("admissionregistration.k8s.io/v1/validatingwebhookconfigurations", None),
        ("apps/v1/namespaces/a/deployments", None),
        ("", None),
    ],
)
def test_the_feature_of_a_path(path: str, feature: object) -> None:
    assert of_api(path) is feature


def test_a_group_that_prefers_another_version_is_not_there() -> None:
    """resource.k8s.io/v1beta1 of 1.32 and 1.33, where it is switched on; nothing, where it is switched off in 1.34."""
    core = {
        "apps": "apps/v1",
        "admissionregistration.k8s.io": "admissionregistration.k8s.io/v1",
        "scheduling.k8s.io": "scheduling.k8s.io/v1",
    }
    served = {**core, "resource.k8s.io": "resource.k8s.io/v1"}
    assert missing_features(NEWEST, served) == ()
    assert missing_features(NEWEST, core) == (DEVICE_CLAIMS,)
    assert missing_features(NEWEST, {**core, "resource.k8s.io": "resource.k8s.io/v1beta1"}) == (DEVICE_CLAIMS,)
    assert missing_features(NEWEST, {}) == (), "not known"


def test_rows_are_complete() -> None:
    for row in FEATURES:
        assert OLDEST < row.since <= NEWEST
        assert row.result in (LEFT_OUT, OTHER_WAY, REFUSED)
        assert row.api or row.gate
        assert bool(row.kind) is bool(row.path)
        assert not row.without.endswith(".")
