# SPDX-License-Identifier: BSD-2-Clause
"""What becomes what, rule by rule: the tables in rules/*.yaml.

A row names the rule, the manifest's difference from the smallest training (conftest.py), and what follows from it in
one or more views of the built objects. An expected mapping may leave out what the rule is not about; every other value,
lists included, is exact. `absent` lists what must not be there, as view and keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

TABLES = sorted((Path(__file__).parent / "rules").glob("*.yaml"))
ROWS = [
    pytest.param(row, id=f"{table.stem}: {row['rule']}")
    for table in TABLES
    for row in yaml.safe_load(table.read_text(encoding="utf-8"))
]
ASPECTS = {"rule", "manifest", "absent"}


@pytest.mark.parametrize("row", ROWS)
def test_rule(row: dict[str, Any], build_job: Any) -> None:
    seen = views(build_job(row.get("manifest", {})))
    expected = {view: value for view, value in row.items() if view not in ASPECTS}
    assert expected or row.get("absent"), "a row without an expectation"
    assert differences(expected, seen) == []
    assert [path for path in row.get("absent", []) if present(seen, path)] == []


def views(built: Any) -> dict[str, Any]:
    """The built objects by what a rule speaks of; lists that Kubernetes keys by a name as mappings by that name."""
    workload = built.workload
    template = workload["spec"]["template"]
    (container,) = template["spec"]["containers"]
    of_kind: dict[str, dict[str, Any]] = {}
    for obj in built.dependents:
        of_kind.setdefault(obj["kind"], {})[obj["metadata"]["name"]] = obj
    return {
        "kind": workload["kind"],
        "metadata": workload["metadata"],
        "spec": workload["spec"],
        "template": template,
        "pod": template["spec"],
        "container": container,
        "env": {item["name"]: item.get("value", item.get("valueFrom")) for item in container.get("env", [])},
        "env_order": [item["name"] for item in container.get("env", [])],
        "mounts": {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])},
        "volumes": {volume["name"]: volume for volume in template["spec"].get("volumes", [])},
        "services": of_kind.get("Service", {}),
        "autoscalers": of_kind.get("HorizontalPodAutoscaler", {}),
        "files": {name: obj["data"] for name, obj in of_kind.get("ConfigMap", {}).items()},
        "dependents": [f"{obj['kind']} {obj['metadata']['name']}" for obj in built.dependents],
        "every_label": all_equal([obj["metadata"]["labels"] for obj in (template, *built.objects)]),
        "priority_class": built.priority_class,
        "warnings": built.warnings,
    }


def all_equal(values: list[Any]) -> Any:
    """The value that all of them have; None when they differ."""
    return values[0] if all(value == values[0] for value in values) else None


def differences(expected: Any, seen: Any, path: str = "") -> list[str]:
    if isinstance(expected, Mapping) and isinstance(seen, Mapping):
        return [
            line
            for key, value in expected.items()
            for line in (
                differences(value, seen[key], f"{path}/{key}") if key in seen else [f"{path}/{key} is missing"]
            )
        ]
    same = expected == seen and type(expected) is type(seen)
    return [] if same else [f"{path} is {seen!r}, not {expected!r}"]


def present(seen: Any, path: list[str]) -> bool:
    for key in path:
        if not isinstance(seen, Mapping) or key not in seen:
            return False
        seen = seen[key]
    return seen not in ([], {})
