# SPDX-License-Identifier: BSD-2-Clause
"""The JSON Schemas are generated from the models: they accept what loads and reject what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.validation import KIND_ALIASES
from outside_packages import imported
from referencing import Registry, Resource

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "schemas"
TABLES = ROOT / "tests" / "unit" / "plugins" / "module_utils" / "manifest"


GENERATED = imported(ROOT / "tools" / "generate_schemas.py").schemas()
CASES = imported(TABLES / "manifest_cases.py")
STORED = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(SCHEMAS.glob("*.json"))}
# As an editor has them: each under its address, from which relative references lead to the others.
FOLDER = "https://raw.example.com/runwhere/schemas"
REGISTRY = Registry().with_resources(
    (f"{FOLDER}/{name}", Resource.from_contents(schema)) for name, schema in STORED.items()
)


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({"$ref": f"{FOLDER}/{name}"}, registry=REGISTRY)


VALIDATOR = validator("manifest.schema.json")


def documents(text: str) -> list[Any]:
    """What an editor sees: YAML 1.1 as PyYAML reads it, dates as text."""
    return [json.loads(json.dumps(document, default=str)) for document in yaml.safe_load_all(text) if document]


def test_the_stored_schemas_are_those_of_the_models() -> None:
    assert STORED == GENERATED, "run `make schemas`"


@pytest.mark.parametrize("name", STORED)
def test_a_schema_is_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(STORED[name])


EXAMPLES = sorted([*(ROOT / "examples").glob("*/*.yaml"), *CASES.FIXTURES.glob("valid/*.yaml")])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_an_example_is_valid(file: Path) -> None:
    for document in documents(file.read_text(encoding="utf-8")):
        VALIDATOR.validate(document)
        validator(f"{KIND_ALIASES.get(document['kind'], document['kind'])}.schema.json").validate(document)


def references(schema: Any) -> Iterator[str]:
    """Every $ref in a schema."""
    if isinstance(schema, dict):
        yield from ([schema["$ref"]] if isinstance(schema.get("$ref"), str) else [])
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from references(part)


@pytest.mark.parametrize("name", STORED)
def test_references_lead_to_files_in_the_same_folder(name: str) -> None:
    resolver = REGISTRY.resolver(f"{FOLDER}/{name}")
    found = set(references(STORED[name]))
    assert {reference.partition("#")[0] for reference in found} <= {"", *STORED}
    for reference in found:
        assert resolver.lookup(reference).contents


def test_every_definition_is_used() -> None:
    used = {reference.rpartition("/$defs/")[2] for schema in STORED.values() for reference in references(schema)}
    assert set(STORED["definitions.schema.json"]["$defs"]) - used == set()


@pytest.mark.parametrize("case", CASES.table("accepted"), ids=lambda case: case["name"])
def test_what_loads_is_valid(case: dict[str, Any]) -> None:
    for document in documents(CASES.manifest_text(case)):
        VALIDATOR.validate(document)


# What a schema cannot say: values that depend on each other, a key twice, what YAML makes of the text before.
BEYOND_SCHEMAS = {
    "a key twice",
    "a key twice in two spellings",
    "a block twice",
    "a GPU number that YAML would read as octal",
    "a GPU number that YAML would read as sexagesimal",
    "an environment variable twice",
    "an environment variable with two sources",
    "an environment variable without a source",
    "a pull secret twice",
    "a workdir twice",
    "a workdir twice in other spellings",
    "a claim with a type",
    "shared memory twice",
    "autoscaling with min_replicas above max_replicas",
    "autoscaling by a custom metric needs a target",
    "autoscaling by cpu to a fraction of a per cent",
    "kueue needs a queue",
    "a queue needs a backend",
    "a pool with a reserved name",
    "a pool named twice",
    "a node twice in a list",
    "a node twice in a map",
    "a quota's namespaces twice",
    "a quota's default twice",
    "shares of clusters that add up to more than the limit",
    "shares of quantities and of devices that add up to more than the limit",
    "a cluster whose share of a limit is not said",
    "a budget of GPU-hours beside shares of clusters",
    "a quota that would not count claimed devices",
    "a placeholder without a matrix",
    "a misspelled parameter",
    "a placeholder without a similar parameter",
    "a parameter that is not used",
    "a parameter without values",
    "a value twice",
    "too many combinations",
    "a divisor of bytes for CPU cores",
    "a divisor that is no unit",
    "a percentage beyond int32",
    "a share of a GPU beyond int64",
}


@pytest.mark.parametrize("case", CASES.table("errors"), ids=lambda case: case["name"])
def test_what_does_not_load_is_invalid_as_far_as_a_schema_can_say(case: dict[str, Any]) -> None:
    valid = all(VALIDATOR.is_valid(document) for document in documents(CASES.manifest_text(case)))
    assert valid == (case["name"] in BEYOND_SCHEMAS)


def test_every_key_is_described() -> None:
    shared = STORED["definitions.schema.json"]["$defs"]
    for block in [*shared.values(), *(STORED[f"{kind}.schema.json"] for kind in KINDS)]:
        assert block.get("description") or "properties" not in block
        for name, key in block.get("properties", {}).items():
            assert key.get("description") or key.get("$ref"), name
