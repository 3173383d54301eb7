# SPDX-License-Identifier: BSD-2-Clause
"""Any bytes, YAML and manifests: accepted or refused in words; and what is accepted, every API server accepts.

The same examples at each run. `make fuzz` plays as many as one likes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.digest import digest_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_models import Training
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.manifest_blocks import Block
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import BlockOf, Scalar, keys_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kubesim import Cluster
from outside_packages import imported
from pydantic import ValidationError

from .judge import Server, objects_of, outcome, server
from .manifests import DATA, any_value, manifest, scalar_keys
from .mutants import VALUES, originals
from .run import fuzz

ROOT = Path(__file__).resolve().parents[2]
SAME_EACH_TIME = settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with ExitStack() as stack:
        stack.enter_context(Cluster(nodes=0, controllers=False).running()).kubeconfig(path)
        found = [stack.enter_context(server(str(path), "the simulated server"))]
        if given_path := os.environ.get("GPUCTL_TEST_KUBECONFIG"):
            found.append(stack.enter_context(server(str(Path(given_path).resolve()), "the server")))
        yield found


@given(text=st.binary(max_size=400).map(lambda content: content.decode("utf-8", "replace")) | st.text(max_size=400))
@SAME_EACH_TIME
def test_any_text_is_refused_in_words(text: str) -> None:
    outcome(text)


@given(data=DATA)
@SAME_EACH_TIME
def test_any_data_is_refused_in_words(data: Any) -> None:
    outcome(data)
    outcome(yaml.safe_dump(data))


BLOCKS = ("job", "environment", "resources", "service", "storage", "pool", "nodes", "quota", "users", "matrix")


@given(data=st.fixed_dictionaries({"kind": st.sampled_from(sorted(KINDS))}, optional=dict.fromkeys(BLOCKS, DATA)))
@SAME_EACH_TIME
def test_any_blocks_are_refused_in_words(data: Any) -> None:
    outcome(data)


def test_servers_accept_what_is_accepted(servers: list[Server]) -> None:
    @given(data=manifest(wrong=False) | manifest(wrong=True))
    @SAME_EACH_TIME
    def check(data: dict[str, Any]) -> None:
        for model in outcome(data)[0]:
            for obj in objects_of(model, servers[0].namespace):
                for each in servers:
                    assert each.refusal(obj) is None

    check()


def largest(kind: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A manifest of that kind with the longest names and the largest values, where the blocks have no others."""
    job = {"name": "a" * 52, "description": "\U0001f600" * 60_000, "priority": "high"}
    resources = {"cpu": "1E", "memory": "1E", "pool": "a" * 63, "gpu_type": "b" * 63}
    parts = {"job": job, "environment": {"image": "x"}, "resources": resources}
    return {"kind": kind, **parts, **{name: {**parts.get(name, {}), **block} for name, block in blocks.items()}}


LARGEST = {
    "nodes": largest("training", resources={"node_count": 7500, "gpu": 2**31 - 1}),
    "a share of a GPU": largest("training", resources={"gpu_share": "1E"}, storage={"shm": "1E"}),
    "variables": largest(
        "training", environment={"env": {f"A{'b' * 20}{number}": "c" * 50 for number in range(5_000)}}
    ),
    "workdirs": largest("notebook", storage={"workdirs": [{"path": f"/data/{number}"} for number in range(2_000)]}),
    "seconds and replicas": largest(
        "inference",
        service={"startup_timeout": 604_800, "port": 65535, "health_check": "/" + "a" * 2047},
        autoscaling={"min_replicas": 2**31 - 1, "max_replicas": 2**31 - 1, "target": 2**31 - 1},
    ),
    "a metric": largest("inference", autoscaling={"max_replicas": 1, "metric": "m" * 253, "target": "1E"}),
    "replicas": largest("compute", service={"replicas": 2**31 - 1}),
    "a pool": {"kind": "pool", "pool": {"name": "a" * 63}, "nodes": {"n" * 63: {"gpu_type": "b" * 63}}},
    "a quota": {
        "kind": "quota",
        "quota": {"name": "a" * 63},
        "users": {"u" * 63: {"cpu": "1E", "memory": "1E", "gpu": 2**31 - 1, "gpu_share": "1E", "pods": 2**31 - 1}},
    },
}


@pytest.mark.parametrize("data", LARGEST.values(), ids=LARGEST)
def test_servers_accept_the_largest(data: dict[str, Any], servers: list[Server]) -> None:
    (document,) = load(definition=data)
    for obj in objects_of(document.model, servers[0].namespace):
        for each in servers:
            assert each.refusal(obj) is None


def test_mutants_of_real_manifests(servers: list[Server]) -> None:
    figures = fuzz(300, seed=2026, servers=servers)
    assert figures.defects == []
    assert 30 <= figures.accepted <= 270


def test_a_server_that_refuses_is_noticed(servers: list[Server]) -> None:
    """Otherwise the tests above could not fail."""
    manifests = [document.model for _name, text in originals() for document in load(definition=text)]
    objects = (obj for manifest in manifests for obj in objects_of(manifest, servers[0].namespace))
    workload = next(obj for obj in objects if obj["kind"] in ("Job", "Deployment"))
    workload["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "not a key"}}}
    ]
    for each in servers:
        assert "valid config key" in (each.refusal(workload) or "")


# -- the same manifest in other words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text"), originals(), ids=[name for name, _text in originals()])
def test_dump_and_load(name: str, text: str) -> None:
    """A manifest written out by its documented keys, as YAML or as data, means the same."""
    for document in load(definition=text):
        data = json.loads(document.model.model_dump_json(by_alias=True, exclude_unset=True, warnings=False))
        for form in (data, yaml.safe_dump(data), json.dumps(data)):
            (again,) = load(definition=form)
            assert again.model == document.model


@given(data=manifest(wrong=False), choice=st.randoms(use_true_random=False))
@SAME_EACH_TIME
def test_spellings_mean_the_same(data: dict[str, Any], choice: Any) -> None:
    models, _problem = outcome(data)
    (again,) = outcome(_respelled(data, KINDS[data["kind"]], choice))[0] or [None]
    assert [again] == (models or [None])
    if models and isinstance(again, Training) and isinstance(models[0], Training):
        assert digest_of(again) == digest_of(models[0])


def _respelled(value: Any, model: type[Block], choice: Any) -> Any:
    """The block with its keys in other spellings, and those of the blocks in it."""
    if not isinstance(value, dict):
        return value
    known = {spelling: key for key in keys_of(model) for spelling in key.spellings}
    respelled = {}
    for name, inner in value.items():
        key = known.get(name)
        shape = key.shape if key else None
        spelling = choice.choice(key.spellings) if key else name
        respelled[spelling] = _respelled(inner, shape.model, choice) if isinstance(shape, BlockOf) else inner
    return respelled


# -- schemas -----------------------------------------------------------------------------------------------------------

SCHEMAS = imported(ROOT / "tools" / "generate_schemas.py")
# ECMA 262, whose patterns JSON Schema uses: $ is only the end of the text.
_AT_THE_END = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    {"pattern": lambda validator, pattern, text, schema: _pattern(validator, pattern, text)},
)


def _pattern(validator: Any, pattern: str, text: Any) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(text, "string") and not re.search(pattern.replace("$", r"\Z"), text):
        yield jsonschema.ValidationError(f"{text!r} does not match {pattern!r}")


SCALAR_KEYS = scalar_keys()


@pytest.mark.parametrize("name", SCALAR_KEYS)
def test_schema_and_model_agree(name: str) -> None:
    """On what loads, always; on what does not, except for the amount of a quantity or number that is written as text,
    for regular expressions, and for floats, whose text in YAML a schema does not see."""
    key, model = SCALAR_KEYS[name]
    assert isinstance(key.shape, Scalar)
    definitions: dict[str, Any] = {}
    schema = SCHEMAS._Generator(definitions, placeholders=False)._shape(key.shape)
    validator = _AT_THE_END({**schema, "$defs": definitions})
    keywords = key.shape.rule.keywords if key.shape.rule else {}
    has_amount = bool({"minimum", "exclusiveMinimum"} & keywords.keys())

    def check(value: Any) -> None:
        try:
            model.validate_python(str(value).lower() if isinstance(value, bool) else str(value))
            loads = True
        except ValidationError:
            loads = False
        valid = validator.is_valid(value)
        assert valid or not loads, f"the schema refuses {value!r}, which loads"
        beyond = (
            isinstance(value, float) or (has_amount and isinstance(value, str)) or keywords.get("format") == "regex"
        )
        assert loads or not valid or beyond, f"the schema allows {value!r}, which does not load"

    given(value=any_value(key.shape))(settings(SAME_EACH_TIME, max_examples=40)(check))()
    for value in VALUES:
        if isinstance(value, (str, int, float)):
            check(value)
