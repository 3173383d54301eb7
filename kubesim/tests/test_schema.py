# SPDX-License-Identifier: BSD-2-Clause
"""Reading objects as Go would: what is dropped, kept, filled in and refused."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim import schema

Object = dict[str, Any]


def pod(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def container(**fields: Any) -> Object:
    found: Object = schema.read(pod(containers=[{"name": "c", **fields}]))["spec"]["containers"][0]
    return found


CONTAINERS = [
    ("empty texts are left out", {"workingDir": ""}, {"name": "c", "resources": {}}),
    ("null is nothing", {"image": None}, {"name": "c", "resources": {}}),
    ("empty lists and maps too", {"args": [], "env": []}, {"name": "c", "resources": {}}),
    (
        "a pointer keeps what it was given",
        {"securityContext": {"privileged": False}},
        {"securityContext": {"privileged": False}},
    ),
    ("a struct behind a pointer may be empty", {"securityContext": {}}, {"securityContext": {}}),
    (
        "quantities are canonical",
        {"resources": {"limits": {"cpu": "1000m", "memory": "1024Ki"}}},
        {"resources": {"limits": {"cpu": "1", "memory": "1Mi"}}},
    ),
    ("numbers may be quantities", {"resources": {"limits": {"cpu": 2}}}, {"resources": {"limits": {"cpu": "2"}}}),
    ("required numbers are written", {"ports": [{}]}, {"ports": [{"containerPort": 0}]}),
]


@pytest.mark.parametrize(("given", "expected"), [c[1:] for c in CONTAINERS], ids=[c[0] for c in CONTAINERS])
def test_containers(given: Object, expected: Object) -> None:
    assert container(**given) == {"name": "c", "resources": {}, **expected}


def test_structs_and_times_held_by_value_are_always_written() -> None:
    assert schema.read({"apiVersion": "v1", "kind": "Pod"}) == {
        "metadata": {},
        "spec": {"containers": None},
        "status": {},
        "apiVersion": "v1",
        "kind": "Pod",
    }
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    read = schema.read({"apiVersion": "v1", "kind": "Pod", "status": status})
    assert read["status"]["conditions"][0] == {
        "type": "Ready",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }


MISFITS = [
    (
        pod(containers=[{"name": 1}]),
        "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
    ),
    (
        pod(containers={}),
        "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
    ),
    (
        pod(hostNetwork="yes"),
        "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
    ),
    (pod(priority=1.5), "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32"),
    (
        pod(priority=2**31),
        "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
    ),
    (
        pod(nodeSelector={"a": 1}),
        "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeSelector of type string",
    ),
    ({"apiVersion": "v1", "kind": "Secret", "data": {"a": "!"}}, "illegal base64 data at input byte 0"),
]


@pytest.mark.parametrize(("obj", "text"), MISFITS, ids=[m[1] for m in MISFITS])
def test_values_that_do_not_fit_are_refused_in_the_words_of_go(obj: Object, text: str) -> None:
    with pytest.raises(schema.DecodeError) as caught:
        schema.read(obj)
    assert str(caught.value) == text


def test_strict_decoding_reports_unknown_and_repeated_fields_in_the_order_of_the_document() -> None:
    metadata, spec = '{"a": 1, "name": "x", "name": "y"}', '{"containers": [{"b": 1}]}'
    text = f'{{"apiVersion": "v1", "kind": "Pod", "metadata": {metadata}, "spec": {spec}, "c": 1}}'
    report = schema.Report()
    schema.read(schema.load_json(text), report)
    assert report.problems == [
        'duplicate field "metadata.name"',
        'unknown field "metadata.a"',
        'unknown field "spec.containers[0].b"',
        'unknown field "c"',
    ]


def test_every_row_of_the_tables_names_a_field_of_the_api() -> None:
    known: dict[str, set[str]] = {}
    for definition, spec in schema.definitions().items():  # the versions of a group share their rows
        known.setdefault(schema.short_name(definition), set()).update(spec.get("properties", ()))
    for table in (schema._POINTER_FIELDS, schema._ALWAYS_FIELDS):
        for name, fields in table.items():
            assert fields <= known[name], name
