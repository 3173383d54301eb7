# SPDX-License-Identifier: BSD-2-Clause
"""The inventory plugin runwhere.gpuctl.gpuctl, through the real ansible-inventory."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run
from .api import Api
from .manifests import training
from .pools import Field
from .recorder import Recorder

EXAMPLES = list(
    yaml.safe_load_all(import_module("ansible_collections.runwhere.gpuctl.plugins.inventory.gpuctl").EXAMPLES)
)
NODES_AND_PODS = {"GET /api/v1/nodes", "GET /api/v1/pods", "GET /api/v1/namespaces/gpuctl-system/configmaps"}


def listing(ansible: Ansible, *, name: str = "nodes.gpuctl.yml", **options: Any) -> Run:
    """``ansible-inventory --list`` of an inventory file with the options; whatever cannot be read is an error."""
    strict = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", **ansible.environment}
    path = ansible.directory / name
    path.write_text(yaml.safe_dump({"plugin": "runwhere.gpuctl.gpuctl", **options}))
    (ansible.directory / "listing.json").unlink(missing_ok=True)
    call = ("-i", str(path), "--list", "--output", "listing.json")
    return replace(ansible, environment=strict).run("ansible-inventory", *call)


def inventory(ansible: Ansible, **options: Any) -> dict[str, Any]:
    run = listing(ansible, **options)
    assert run.status == 0, run.output
    text = (ansible.directory / "listing.json").read_text()
    found: dict[str, Any] = json.loads(text, object_hook=_without_mark)
    return found


def _without_mark(value: dict[str, Any]) -> Any:
    """ansible-core 2.19 marks texts that came from elsewhere, so that AWX does not take them for templates."""
    return value["__ansible_unsafe"] if value.keys() == {"__ansible_unsafe"} else value


def hosts(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(found["_meta"]["hostvars"])


@pytest.fixture
def pool(ansible: Ansible, field: Field, recorder: Recorder) -> str:
    """A pool of one node; the inventory's requests are counted from here."""
    pool = field.pool("a-b")
    made = ansible.module("gpuctl_pool", name=pool, nodes={field.nodes[0]: {"gpu-type": "A100-test"}})
    assert made.changed, made.message
    recorder.clear()
    return pool


@pytest.fixture
def bare_node(api: Api) -> Iterator[str]:
    """A node that has registered and never reported its status: no GPUs, no addresses."""
    name = f"gpuctl-test-{secrets.token_hex(4)}"
    api.create("node", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield name
    api.delete("node", name)


def test_nodes_are_hosts_with_what_they_have_in_groups(
    ansible: Ansible, api: Api, field: Field, pool: str, namespace: str, recorder: Recorder
):
    node = field.nodes[0]
    job = training(resources={"pool": pool, "gpu": 3})
    ansible.job(definition=job, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=60)
    recorder.clear()
    found = inventory(ansible)
    assert {str(request) for request in recorder.requests} == NODES_AND_PODS
    assert found[f"pool_{pool.replace('-', '_')}"]["hosts"] == [node]
    assert found["gpu_type_A100_test"]["hosts"] == [node]
    assert node in found["status_active"]["hosts"]
    assert set(field.nodes[1:]) <= set(found["pool_default"]["hosts"])

    live = api.get("node", node)
    (address,) = (entry["address"] for entry in live["status"]["addresses"] if entry["type"] == "InternalIP")
    variables = hosts(found)[node]
    total = int(live["status"]["allocatable"]["nvidia.com/gpu"])
    assert variables["ansible_host"] == address
    assert variables["gpuctl_labels"] == live["metadata"]["labels"]
    counts = [variables[f"gpuctl_gpu_{name}"] for name in ("total", "used", "free")]
    assert counts == [total, 3, total - 3]
    assert [variables[f"gpuctl_{name}"] for name in ("pool", "gpu_type", "status")] == [pool, "A100-test", "active"]


def test_the_variables_are_what_gpuctl_node_info_returns(ansible: Ansible, field: Field, pool: str):
    (row,) = ansible.module("gpuctl_node_info", pool=pool).result["results"]
    assert row.pop("problem") is None, "what has one is no host"
    variables = hosts(inventory(ansible, pool=pool))[row.pop("node_name")]
    assert variables.pop("ansible_host")
    assert variables.pop("gpuctl_pool") == row.pop("bound_pools")[0]
    assert variables.pop("gpuctl_labels").items() >= row.pop("labels").items()
    changing = {"last_updated_at"}
    assert {f"gpuctl_{key}" for key in row} == variables.keys()
    assert {f"gpuctl_{key}": row[key] for key in row.keys() - changing}.items() <= variables.items()


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({"pool": "{pool}"}, True),
        ({"pool": "{pool}-other"}, False),
        ({"gpu_type": "A100-test", "status": "active"}, True),
        ({"gpu_type": "a100-test"}, True),
        ({"pool": "{pool}", "status": "faulty"}, False),
        ({"pool": ""}, True),
    ],
    ids=str,
)
def test_filters(ansible: Ansible, field: Field, pool: str, options: dict[str, str], chosen: bool):
    found = inventory(ansible, **{name: value.format(pool=pool) for name, value in options.items()})
    assert (field.nodes[0] in hosts(found)) is chosen


def test_nodes_without_gpus_are_hosts_only_on_request(ansible: Ansible, bare_node: str):
    assert bare_node not in hosts(inventory(ansible))
    found = inventory(ansible, all_nodes=True)
    assert bare_node in found["status_faulty"]["hosts"]
    assert "ansible_host" not in hosts(found)[bare_node]


def test_custom_variables_and_groups(ansible: Ansible, field: Field, pool: str):
    found = inventory(
        ansible,
        pool=pool,
        strict=True,
        compose={"ansible_host": "gpuctl_address", "offer": "gpuctl_gpu_total ~ ' GPUs'"},
        groups={"idle": "gpuctl_gpu_used == 0", "busy": "gpuctl_gpu_used > 0"},
        keyed_groups=[{"key": "gpuctl_labels['runwhere.ai/gpu-type']", "prefix": "type"}],
    )
    node = field.nodes[0]
    assert hosts(found)[node]["ansible_host"] == hosts(found)[node]["gpuctl_address"]
    assert hosts(found)[node]["offer"] == f"{hosts(found)[node]['gpuctl_gpu_total']} GPUs"
    assert found["idle"]["hosts"] == found["type_A100_test"]["hosts"] == [node]
    assert "busy" not in found


def test_a_group_that_cannot_be_made_is_left_out_or_with_strict_an_error(ansible: Ansible, pool: str):
    groups = [{"key": "gpuctl_labels['missing']", "prefix": "x"}]
    assert not [name for name in inventory(ansible, pool=pool, keyed_groups=groups) if name.startswith("x")]
    run = listing(ansible, pool=pool, keyed_groups=groups, strict=True)
    assert run.status != 0
    assert "gpuctl_labels['missing']" in run.output


@pytest.mark.parametrize("example", EXAMPLES, ids=[str(sorted(example)) for example in EXAMPLES])
def test_the_examples(ansible: Ansible, field: Field, example: dict[str, Any]):
    """As they stand, but for the cluster and the pool, which are this test's."""
    pool = field.pool("training")
    made = ansible.module("gpuctl_pool", name=pool, nodes=[field.nodes[0]])
    assert made.changed, made.message
    here = {name: value for name, value in example.items() if name not in ("plugin", "kubeconfig", "context")}
    if "pool" in example:
        here["pool"] = pool
    found = inventory(ansible, **here)
    assert field.nodes[0] in hosts(found)
    assert {*example.get("groups", {})} - {"full"} <= found.keys()


def test_what_is_cached_costs_no_request_and_holds_for_the_same_question_only(
    ansible: Ansible, field: Field, pool: str, recorder: Recorder, tmp_path: Any
):
    folder = tmp_path / "cache"
    cached = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(folder)}

    def asked(**options: Any) -> int:
        recorder.clear()
        found = inventory(ansible, **{"pool": pool, **cached, **options})
        assert set(hosts(found)) == ({field.nodes[0]} if options.get("pool") is None else set())
        return len(recorder.requests)

    full = asked()
    assert full == 3
    assert asked() == 0
    assert asked(compose={"x": "1"}) == 0, "what is made of the answer is no part of the question"
    assert asked(pool=f"{pool}-other") == full + 1  # whether it is declared: no node is in it
    assert asked(context="recorded") == full
    recorder.clear()
    (ansible.directory / "play.yml").write_text("- hosts: all\n")
    ansible.run("ansible-playbook", "-i", "nodes.gpuctl.yml", "--flush-cache", "--list-hosts", "play.yml")
    assert len(recorder.requests) == full
    assert asked(cache=False) == full
    (ansible.directory / "other").mkdir()
    assert asked(name="other/nodes.gpuctl.yml") == full


def test_credentials_may_be_templates_and_stay_out_of_listing_and_cache(
    ansible: Ansible, pool: str, field: Field, recorder: Recorder
):
    token = "a-token-that-nobody-may-see"
    tool = Ansible(ansible.directory, {"TOKEN": token})
    folder = ansible.directory / "cache"
    found = inventory(
        tool,
        pool=pool,
        host=recorder.url,
        api_key="{{ lookup('ansible.builtin.env', 'TOKEN') }}",
        cache=True,
        cache_plugin="ansible.builtin.jsonfile",
        cache_connection=str(folder),
    )
    assert set(hosts(found)) == {field.nodes[0]}
    assert token not in json.dumps(found)
    (file,) = folder.iterdir()
    assert token not in file.name + file.read_text()


def test_options_may_be_encrypted(ansible: Ansible, pool: str, field: Field, recorder: Recorder):
    (ansible.directory / "password").write_text("p")
    tool = replace(ansible, environment={"ANSIBLE_VAULT_PASSWORD_FILE": "password", "K8S_AUTH_API_KEY": "any"})
    screen = tool.run("ansible-vault", "encrypt_string", "--name", "host", recorder.url).output
    host = screen[screen.index("host: !vault") :].replace("Encryption successful", "")
    path = ansible.directory / "nodes.gpuctl.yml"
    path.write_text(f"plugin: runwhere.gpuctl.gpuctl\npool: {pool}\n{host}")
    run = tool.run("ansible-inventory", "-i", str(path), "--graph")
    assert f"@gpu_type_A100_test:\n  |  |--{field.nodes[0]}" in run.output


@pytest.mark.parametrize("name", ["gpuctl.yml", "gpuctl.yaml", "a.gpuctl.yml", "a.gpuctl.yaml"])
def test_files_with_these_names_are_inventories(ansible: Ansible, pool: str, name: str):
    assert hosts(inventory(ansible, pool=pool, name=name))


def test_a_file_with_another_name_is_not_read(ansible: Ansible, recorder: Recorder):
    assert listing(ansible, name="mygpuctl.yml").status != 0
    assert recorder.requests == []


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a key that nothing knows": (
        {"gputype": "A100"},
        "'gputype': unknown option of runwhere.gpuctl.gpuctl. Did you mean gpu_type?",
    ),
    "an unknown status": ({"status": "broken"}, "active, maintaining, faulty"),
    "a kubeconfig that is not there": (
        {"kubeconfig": "/nowhere/kubeconfig"},
        "kubeconfig not found: /nowhere/kubeconfig. Set kubeconfig (or K8S_AUTH_KUBECONFIG) to the file",
    ),
    "a server that does not answer": (
        {"host": "https://127.0.0.1:1", "api_key": "x", "retries": 0},
        "https://127.0.0.1:1",
    ),
    "no permission to list nodes": ({"impersonate_user": "nobody"}, 'User "nobody" cannot list resource'),
}


@pytest.mark.parametrize(("options", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_message(ansible: Ansible, options: dict[str, Any], said: str):
    run = listing(ansible, **options)
    assert run.status != 0
    words = " ".join(run.output.split())  # ansible-core 2.16 wraps what it warns of
    assert said in words
    assert "Traceback" not in run.output
