# SPDX-License-Identifier: BSD-2-Clause
"""All objects that versions of Kubernetes are held to: of every example, rule case, variant and policy.

To record what a real server of a version leaves of them, in gates.yaml:
.venv/bin/python tests/unit/plugins/module_utils/jobs/objects/every_object.py URL TOKEN
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[5]
GATES = HERE / "gates.yaml"
Object = dict[str, Any]


def every_object() -> list[Object]:
    """Each object once, whatever its name and its texts are. The workload of a job is as the newest version gets it."""
    found: dict[str, Object] = {}
    for obj in _objects():
        shape = json.dumps({**obj, "metadata": {**obj["metadata"], "name": ""}}, sort_keys=True)
        found.setdefault(shape, obj)
    return list(found.values())


def _objects() -> Iterator[Object]:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import priority_class

    yield from map(priority_class, ("high", "medium", "low"))
    for folder in ("manifests", "cluster", "mixed"):
        yield from _of_folder(ROOT / "examples" / folder)
    yield from _of_policies()
    for table in sorted((HERE / "rules").glob("*.yaml")):
        for row in yaml.safe_load(table.read_text("utf-8")):
            yield from _of_job(row.get("manifest", {}))
    variants = yaml.safe_load((HERE / "variants.yaml").read_text("utf-8"))
    common = variants.pop("every_kind")
    for kind, own in variants.items():
        for changes in {**common, **own}.values():
            yield from _of_job({"kind": kind, "job": {"name": f"a-{kind}"}}, changes)


def _of_job(*changes: Mapping[str, Any]) -> Iterator[Object]:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load

    smallest: Any = {
        "kind": "training",
        "job": {"name": "bert"},
        "environment": {"image": "registry.example.com/bert:1.0"},
        "resources": {"cpu": "8", "memory": "32Gi"},
    }
    for each in changes:
        smallest = _merged(smallest, each)
    (document,) = load(definition=smallest)
    yield from build(document.model, "team-a").objects


def _merged(base: Any, changes: Any) -> Any:
    if not isinstance(base, Mapping) or not isinstance(changes, Mapping):
        return changes
    return {**base, **{key: _merged(base.get(key), value) for key, value in changes.items()}}


def _of_folder(folder: Path) -> Iterator[Object]:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.hardware import PoolHardware
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pool_declarations import (
        Declaration,
        pool_config_map,
    )
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota_objects import (
        limit_range,
        namespace,
        resource_quota,
    )

    models = [document.model for document in load([str(folder)])]
    hardware: dict[str, Any] = {}
    for model in models:
        if model.kind == "pool":
            declared = {each.name: getattr(model, each.name, None) for each in fields(PoolHardware)}
            plain = {name: value for name, value in declared.items() if value and name not in ("sharing", "types")}
            hardware[model.pool.name] = PoolHardware(**plain)
            nodes = {node: each.gpu_type for node, each in model.nodes.items()}
            yield pool_config_map(Declaration(model.pool.name, "", nodes, hardware=hardware[model.pool.name]))
        if model.kind == "quota":
            for name in model.namespaces:
                made = (namespace(name, managed=True), resource_quota(model, name), limit_range(model, name))
                yield from filter(None, made)
    for model in models:
        if hasattr(model, "job"):
            yield from build(model, "team-a", hardware.get(model.resources.pool)).objects


def _of_policies() -> Iterator[Object]:
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load_policy
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.admission_policies import admission_objects
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.policies.policy_rules import (
        policy_config_map,
        rules_of,
    )

    limited = {"pools": ["training"], "max_gpus_per_job": 8, "service_types": ["ClusterIP"], "priorities": ["low"]}
    small = {"kind": "policy", "policy": {"name": "small"}, "teams": {"team-a": limited}}
    for model in (load_policy(str(ROOT / "examples" / "policy.yaml")), load_policy(definition=small)):
        rules = rules_of(model)
        yield policy_config_map(rules)
        yield from admission_objects(rules)


# -- what a version leaves of them -------------------------------------------------------------------------------------


def paths_of(value: Any, path: str = "") -> Iterator[str]:
    """The fields of an object, without the places in lists and the keys that users choose."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            here = f"{path}.{key}" if path else key
            if path.endswith(("labels", "annotations", "data", "limits", "requests", "hard", "nodeSelector")):
                continue
            yield here
            yield from paths_of(each, here)
    elif isinstance(value, list):
        for each in value:
            yield from paths_of(each, f"{path}[]")


def record(url: str, token: str) -> None:
    """Apply all of them as dry runs to a real server, and keep what it drops and refuses."""

    def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        kind = "application/apply-patch+yaml" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(
            url + path, json.dumps(body).encode() if body else None, headers, method=method
        )
        try:
            context = ssl._create_unverified_context() if url.startswith("https") else None
            with urllib.request.urlopen(request, context=context) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            text = refusal.read().decode()
            return refusal.code, json.loads(text) if text.startswith("{") else {"message": text.strip()}

    from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.resources import resource_of

    version = send("GET", "/version")[1]["gitVersion"]
    dropped: set[str] = set()
    refused: set[str] = set()
    for obj in every_object():
        if place := obj["metadata"].get("namespace"):
            send("POST", "/api/v1/namespaces", {"metadata": {"name": place}})
    objects = every_object()
    for obj in objects:
        path = resource_of(obj).path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
        status, live = send("PATCH", f"{path}?fieldManager=record&force=true&dryRun=All&fieldValidation=Strict", obj)
        if status in (200, 201):
            dropped |= {f"{obj['kind']} {each}" for each in {*paths_of(obj)} - {*paths_of(live)}}
        else:
            refused.add(f"{obj['kind']}: {_without_names(live['message'])}")
    known = yaml.safe_load(GATES.read_text("utf-8")) if GATES.exists() else {}
    minor = ".".join(version.lstrip("v").split(".")[:2])
    known[minor] = {"version": version, "objects": len(objects), "dropped": sorted(dropped), "refused": sorted(refused)}
    head = "---\n# SPDX-License-Identifier: BSD-2-Clause\n# Recorded from real servers by every_object.py.\n"
    GATES.write_text(head + yaml.safe_dump(known, width=118), "utf-8")


def _without_names(message: str) -> str:
    return re.sub(r'"[^"]*"', '"…"', message)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT)]
    import conftest  # noqa: F401  # makes the collection importable

    record(*sys.argv[1:3])
