# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of a pool with a DeviceClass: the template of their claims, and pods that claim."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware, UnfitHardware
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_pod
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.built import Built
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load

POOL = PoolHardware(device_class="gpu.example.com", types=frozenset({"A100"}))
TYPE = "device.attributes['gpu.nvidia.com'].type == 'gpu'"


def built(pool: PoolHardware = POOL, kind: str = "training", **resources: Any) -> Built:
    manifest = {
        "kind": kind,
        "job": {"name": "x"},
        "environment": {"image": "reg/x:1", "command": ["run"]},
        "resources": {"pool": "p", "cpu": 1, "memory": "1Gi", **resources},
    }
    (document,) = load([], manifest, "team")
    return build(document.model, "team", pool)


def template_of(found: Built) -> dict[str, Any]:
    (template,) = (obj for obj in found.dependents if obj["kind"] == "ResourceClaimTemplate")
    return template


def asked(**resources: Any) -> tuple[str, int, list[str]]:
    """Class, number and conditions of the request."""
    (request,) = template_of(built(**resources))["spec"]["spec"]["devices"]["requests"]
    exactly = request["exactly"]
    return exactly["deviceClassName"], exactly["count"], [one["cel"]["expression"] for one in exactly["selectors"]]


def test_the_pods_claim_what_the_template_describes():
    found = built(gpu=2)
    template, pod = template_of(found), found.workload["spec"]["template"]
    name = template["metadata"]["name"]
    assert pod["spec"]["resourceClaims"] == [{"name": "accelerators", "resourceClaimTemplateName": name}]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["claims"] == [{"name": "accelerators"}]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert template["metadata"]["namespace"] == "team"
    assert template["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "runwhere.gpuctl"


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ({"gpu": 1}, ("gpu.example.com", 1, [TYPE])),
        (
            {"gpu": 4, "gpu-memory": "40Gi"},
            (
                "gpu.example.com",
                4,
                [TYPE, "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0"],
            ),
        ),
        (
            {"gpu": 1, "gpu-type": "NVIDIA-H100"},
            (
                "gpu.example.com",
                1,
                [
                    TYPE,
                    "device.attributes['gpu.nvidia.com'].productName.lowerAscii().replace(' ', '-') == 'nvidia-h100'",
                ],
            ),
        ),
        (
            {"gpu": 2, "partition": "1g.10gb"},
            (
                "mig.nvidia.com",
                2,
                [
                    "device.attributes['gpu.nvidia.com'].type == 'mig'",
                    "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'",
                ],
            ),
        ),
    ],
)
def test_what_is_claimed(resources: dict[str, Any], wanted: tuple[str, int, list[str]]):
    assert asked(**resources) == wanted


def test_a_type_that_the_pool_declares_stays_a_label_of_nodes():
    found = built(**{"gpu": 1, "gpu-type": "a100"})
    assert asked(**{"gpu": 1, "gpu-type": "a100"})[2] == [TYPE]
    assert found.workload["spec"]["template"]["spec"]["nodeSelector"]["runwhere.ai/gpu-type"] == "A100"


def test_other_devices_are_another_template_and_the_same_are_the_same():
    names = [template_of(built(gpu=number))["metadata"]["name"] for number in (1, 2, 1)]
    assert names[0] == names[2] != names[1]


def test_what_pods_claim_is_counted_without_reading_their_claims():
    found = built(gpu=2)
    pod = found.workload["spec"]["template"]
    use = slim_pod({"metadata": {"namespace": "team", "name": "p", **pod["metadata"]}, "spec": pod["spec"]})
    assert (use.gpu, use.claims, use.counts_claims) == (2, True, True)


@pytest.mark.parametrize("kind", ["training", "compute"])
def test_a_job_without_accelerators_claims_nothing(kind: str):
    found = built(kind=kind, gpu=0)
    assert all(obj["kind"] != "ResourceClaimTemplate" for obj in found.dependents)
    assert "resourceClaims" not in found.workload["spec"]["template"]["spec"]


def test_a_share_of_a_claimed_device_is_refused():
    with pytest.raises(UnfitHardware, match="claimed as a whole or as partitions"):
        built(**{"gpu-share": "2Gi"})


def test_a_profile_that_no_driver_is_known_for_is_refused():
    with pytest.raises(UnfitHardware, match="nothing says what devices"):
        built(PoolHardware(accelerator="metax", device_class="x.example.com"), gpu=1)
