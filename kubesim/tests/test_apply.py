# SPDX-License-Identifier: BSD-2-Clause
"""Server-side apply where the recordings do not reach: keyed lists, sets, atomic values, subresources, other owners."""

from __future__ import annotations

from typing import Any

import pytest

from kubesim import schema
from kubesim.apply import fieldset, managed_fields, merge, server_side
from kubesim.errors import ApiError

Object = dict[str, Any]
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"


def deployment(**spec: Any) -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec}


def service(*ports: Object, **more: Any) -> Object:
    spec = {"ports": list(ports), **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": spec}


def config_map(data: Object | None = None, **meta: Any) -> Object:
    found: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n", **meta}}
    return found | ({"data": data} if data is not None else {})


def stored(obj: Object) -> Object:
    """As the registry keeps it: with a uid."""
    whole = schema.read(obj)
    whole["metadata"].setdefault("uid", "u")
    return whole


def applied(live: Object | None, config: Object, manager: str = "a", force: bool = False, sub: str = "") -> Object:
    return stored(server_side.apply(live, config, manager, force, NOW, sub))


def containers(*names: str, **fields: Any) -> Object:
    return {"template": {"spec": {"containers": [{"name": name, **fields} for name in names]}}}


def names(obj: Object) -> list[str]:
    return [c["name"] for c in obj["spec"]["template"]["spec"]["containers"]]


def owned(obj: Object) -> dict[str, set[str]]:
    """What each manager owns, in the words of conflicts."""
    return {
        entry["manager"]: {fieldset.describe(path) for path in fieldset.decode(entry["fieldsV1"])}
        for entry in obj["metadata"].get("managedFields", [])
    }


def test_entries_of_several_appliers_stand_together_in_one_list() -> None:
    live = applied(None, deployment(**containers("a", image="1")), "one")
    live = applied(live, deployment(**containers("b", image="1")), "two")
    assert names(live) == ["a", "b"]
    live = applied(live, deployment(**containers("c", "a", image="1")), "one")
    assert names(live) == ["c", "a", "b"]
    live = applied(live, deployment(**containers("c", image="1")), "one")
    assert names(live) == ["c", "b"]


def test_ports_are_distinguished_by_port_and_protocol() -> None:
    live = applied(None, service({"port": 53, "protocol": "UDP"}, {"port": 53}))
    live = applied(live, service({"port": 53, "name": "x"}), "b")
    assert [(p["port"], p.get("protocol"), p.get("name")) for p in live["spec"]["ports"]] == [
        (53, "UDP", None),
        (53, None, "x"),
    ]
    assert '.spec.ports[port=53,protocol="TCP"].name' in owned(live)["b"]


def test_a_conflict_names_every_field_and_its_owner() -> None:
    live = applied(None, config_map({"x": "1", "y": "1"}), "one")
    live["data"]["z"] = "1"
    managed_fields.track_update(
        stored(config_map({"x": "1", "y": "1"}) | {"metadata": live["metadata"]}), live, "two", NOW
    )
    with pytest.raises(ApiError) as caught:
        applied(live, config_map({"x": "2", "y": "2", "z": "2"}), "three")
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.x\n- .data.y\n'
        'conflicts with "two" using v1:\n- .data.z'
    )
    assert [c["field"] for c in (caught.value.details or {})["causes"]] == [".data.x", ".data.y", ".data.z"]


def test_an_atomic_value_is_owned_as_a_whole() -> None:
    live = applied(None, deployment(selector={"matchLabels": {"a": "1"}}), "one")
    assert owned(live)["one"] == {".spec.selector"}
    with pytest.raises(ApiError, match=r"\.spec\.selector"):
        applied(live, deployment(selector={"matchLabels": {"b": "1"}}), "two")


def test_finalizers_are_a_set() -> None:
    live = applied(None, config_map(finalizers=["x/a"]), "one")
    live = applied(live, config_map(finalizers=["x/b"]), "two")
    assert live["metadata"]["finalizers"] == ["x/a", "x/b"]
    assert owned(live)["two"] == {'.metadata.finalizers[="x/b"]'}
    live = applied(live, config_map(), "one")
    assert live["metadata"]["finalizers"] == ["x/b"]


def test_unowned_fields_stay_when_their_parent_is_owned_by_others() -> None:
    live = applied(None, deployment(replicas=1, **containers("a", image="1")), "one")
    live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    live = applied(live, deployment(**containers("a", image="1")), "one")
    assert live["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    assert "replicas" not in live["spec"]


def test_forcing_takes_the_field_from_the_others() -> None:
    live = applied(None, deployment(replicas=1), "one")
    live = applied(live, deployment(replicas=2), "two", force=True)
    assert live["spec"]["replicas"] == 2
    assert owned(live) == {"two": {".spec.replicas"}}


def test_nothing_new_keeps_the_time_of_the_entry() -> None:
    live = applied(None, config_map({"x": "1"}))
    again = server_side.apply(live, config_map({"x": "1"}), "a", False, LATER, "")
    assert again["metadata"]["managedFields"][0]["time"] == NOW
    changed = server_side.apply(live, config_map({"x": "2"}), "a", False, LATER, "")
    assert changed["metadata"]["managedFields"][0]["time"] == LATER


def test_an_object_without_owners_belongs_to_the_time_before_the_first_apply() -> None:
    live = stored(config_map({"x": "1"}))
    with pytest.raises(ApiError, match=r'conflict with "before-first-apply" using v1: \.data\.x'):
        applied(live, config_map({"x": "2"}))
    assert owned(applied(live, config_map({"y": "2"}))) == {
        "a": {".data.y"},
        "before-first-apply": {".data", ".data.x"},
    }


def test_appliers_of_a_subresource_are_others() -> None:
    live = applied(None, deployment(replicas=1), "one")
    live = applied(live, deployment(replicas=1), "one", sub="scale")
    entries = [(e["manager"], e.get("subresource", "")) for e in live["metadata"]["managedFields"]]
    assert entries == [("one", ""), ("one", "scale")]


CONFIGURATIONS = [
    (config_map({"x": "1"}) | {"kind": "Secret"}, 400, "invalid object type: /v1, Kind=Secret"),
    (
        config_map({"x": 1}),
        500,
        "failed to create typed patch object (n/c; /v1, Kind=ConfigMap): .data.x: expected string",
    ),
    (config_map(labels=[]), 500, "(n/c; /v1, Kind=ConfigMap): .metadata.labels: expected map, got"),
    (config_map(colour="red"), 500, ".metadata.colour: field not declared in schema"),
    (config_map(managedFields=[{}]), 400, "metadata.managedFields must be nil"),
]


@pytest.mark.parametrize(("config", "status", "text"), CONFIGURATIONS, ids=[c[2] for c in CONFIGURATIONS])
def test_configurations_that_do_not_fit_are_refused(config: Object, status: int, text: str) -> None:
    from kubesim import resources
    from kubesim.store import encode

    with pytest.raises(ApiError) as caught:
        server_side.read_configuration(encode(config), resources.by_kind("ConfigMap"))
    assert caught.value.status == status
    assert text in caught.value.message


LISTS = [
    ({"image": "x"}, 'element 0: associative list with keys has an element that omits key field "name"'),
    ({"name": "a"}, 'duplicate entries for key [name="a"]'),
]


@pytest.mark.parametrize(("entry", "text"), LISTS, ids=["without its key", "given twice"])
def test_entries_of_keyed_lists_must_be_distinguishable(entry: Object, text: str) -> None:
    from kubesim import resources
    from kubesim.store import encode

    config = deployment(template={"spec": {"containers": [entry, dict(entry)]}})
    with pytest.raises(ApiError) as caught:
        server_side.read_configuration(encode(config), resources.by_kind("Deployment"))
    assert text in caught.value.message


# --- other writes -----------------------------------------------------------------------------------------------------


def test_a_create_owns_what_it_brought_with_the_maps_it_made() -> None:
    new = stored(config_map({"x": "1"}, labels={"l": "1"}))
    managed_fields.track_update(None, new, "tool", NOW)
    assert owned(new) == {"tool": {".data", ".data.x", ".metadata.labels", ".metadata.labels.l"}}


def test_an_update_owns_only_what_it_changed() -> None:
    old = applied(None, config_map({"x": "1", "y": "1"}), "one")
    new = stored(config_map({"x": "2", "y": "1", "z": "1"}, managedFields=old["metadata"]["managedFields"]))
    managed_fields.track_update(old, new, "two", LATER)
    assert owned(new) == {"one": {".data.y"}, "two": {".data.x", ".data.z"}}


def test_writes_of_status_have_an_entry_of_their_own_and_leave_the_spec() -> None:
    old = applied(None, deployment(replicas=1), "one")
    new = stored(deployment(replicas=5) | {"metadata": old["metadata"], "status": {"replicas": 1}})
    managed_fields.track_update(old, new, "controller", LATER, "status")
    assert owned(new) == {"one": {".spec.replicas"}, "controller": {".status.replicas"}}
    assert new["metadata"]["managedFields"][-1]["subresource"] == "status"


def test_a_write_may_forget_all_owners() -> None:
    old = applied(None, config_map({"x": "1"}), "one")
    new = stored(config_map({"x": "1"}, managedFields=[{}]))
    managed_fields.track_update(old, new, "two", LATER)
    assert "managedFields" not in new["metadata"]


def test_too_many_updaters_are_merged_into_the_ancient_ones() -> None:
    obj = stored(config_map({"x": "0"}))
    managed_fields.track_update(None, obj, "m0", "2026-01-01T00:00:00Z")
    for number in range(1, 13):
        new = stored(config_map({**obj["data"], f"k{number}": "1"}, managedFields=obj["metadata"]["managedFields"]))
        managed_fields.track_update(obj, new, f"m{number}", f"2026-01-01T00:00:{number:02}Z")
        obj = new
    assert len(obj["metadata"]["managedFields"]) == managed_fields.MAX_UPDATE_MANAGERS + 1
    assert managed_fields.ANCIENT in owned(obj)


@pytest.mark.parametrize(
    "paths",
    [
        {("f:a",)},
        {("f:a",), ("f:a", "f:b")},
        {("f:a", 'k:{"name":"x"}'), ("f:a", 'k:{"name":"x"}', "f:b")},
        {("f:a", 'v:"x"')},
    ],
)
def test_sets_of_fields_survive_writing_and_reading(paths: fieldset.FieldSet) -> None:
    assert fieldset.decode(fieldset.encode(paths)) == paths


ORDERS = [
    ("abc", "b", "abc"),
    ("abc", "ca", "bca"),
    ("abc", "xb", "axbc"),
    ("ab", "xy", "abxy"),
    ("abcd", "dx", "abcdx"),
]


@pytest.mark.parametrize(("live", "config", "merged"), ORDERS)
def test_order_of_merged_lists(live: str, config: str, merged: str) -> None:
    kind = schema.child(schema.of("", "v1", "Pod").fields["spec"].type, "containers")

    def entries(text: str) -> list[Object]:
        return [{"name": name} for name in text]

    assert "".join(c["name"] for c in merge.merge(entries(live), entries(config), kind)) == merged
