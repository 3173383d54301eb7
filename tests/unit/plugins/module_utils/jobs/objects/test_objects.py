# SPDX-License-Identifier: BSD-2-Clause
"""Whatever a manifest says, the objects are valid Kubernetes 1.36, and made so that they compare well."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

VARIANTS: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "variants.yaml").read_text("utf-8"))
COMMON = VARIANTS.pop("every_kind")
EXCLUSIVE = {("shared_gpu", "distributed"), ("shared_gpu", "launcher")}


def pairs() -> Iterator[Any]:
    """All pairs of choices of a kind; what every kind offers is built by common code, so one kind tries it all."""
    for kind, own in VARIANTS.items():
        for first, second in itertools.combinations({**COMMON, **own}, 2):
            if (first, second) in EXCLUSIVE:
                continue
            if kind == "training" or second in own:
                changes = [{**COMMON, **own}[name] for name in (first, second)]
                yield pytest.param({"kind": kind}, changes, id=f"{kind}-{first}-{second}")


@pytest.mark.parametrize(("kind", "changes"), list(pairs()))
def test_objects(kind: dict[str, Any], changes: list[dict[str, Any]], build_job: Any) -> None:
    built = build_job(kind, *changes)
    objects = [*built.objects, built.priority_class]
    before = copy.deepcopy(objects)
    for obj in objects:
        kubernetes_validate.validate(obj, "1.36", strict=True)
    assert objects == before
    assert [path for obj in objects for path in empty_fields(obj)] == []
    assert len({(obj["kind"], obj["metadata"]["name"]) for obj in objects}) == len(objects)
    assert_consistent(built)


def test_a_manifest_is_built_the_same_every_time(build_job: Any) -> None:
    everything = [COMMON["environed"], VARIANTS["training"]["launcher"]]
    assert build_job(*everything) == build_job(*everything)


def empty_fields(value: Any, path: str = "") -> Iterator[str]:
    """Fields that Kubernetes would drop, so that the live object would differ from ours for ever."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item is None or item == "" or item in ([], {}):
                yield f"{path}.{key}"
            yield from empty_fields(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from empty_fields(item, f"{path}[{index}]")


def assert_consistent(built: Any) -> None:
    """References within and between the objects lead somewhere; names that have to be unique are."""
    spec = built.workload["spec"]
    template = spec["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    by_kind = {(obj["kind"], obj["metadata"]["name"]) for obj in built.objects}

    volumes = [volume["name"] for volume in pod.get("volumes", [])]
    mounts = container.get("volumeMounts", [])
    assert sorted(volumes) == sorted(mount["name"] for mount in mounts), "a volume is mounted once"
    assert unique(volumes)
    assert unique([mount["mountPath"].rstrip("/") for mount in mounts])
    assert unique([variable["name"] for variable in container.get("env", [])])
    for volume in pod.get("volumes", []):
        assert "configMap" not in volume or ("ConfigMap", volume["configMap"]["name"]) in by_kind
    for service in (obj for obj in built.dependents if obj["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    if "selector" in spec:
        assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    for name in (pod.get("subdomain"), spec.get("serviceName")):
        assert name is None or ("Service", name) in by_kind
    assert pod["priorityClassName"] == built.priority_class["metadata"]["name"]
    assert container["resources"]["requests"] == container["resources"]["limits"]


def unique(values: list[str]) -> bool:
    return len(set(values)) == len(values)
