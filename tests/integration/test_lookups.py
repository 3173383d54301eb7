# SPDX-License-Identifier: BSD-2-Clause
"""What is named and not there, jobs that are named by a pod, and what an account of level submit sees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import ROOT, Ansible, Run, TaskResult
from .api import Api, eventually
from .manifests import compute, training
from .pools import Field
from .recorder import Recorder
from .test_status import status

COLLECTION = ROOT / ".cache" / "collections" / "ansible_collections" / "runwhere" / "gpuctl"


def warnings(result: TaskResult) -> list[str]:
    """What Ansible prints at once, wrapped."""
    blocks = result.screen.split("[WARNING]: ")[1:]
    return [unwrapped(block.partition("\n\n")[0].partition("\nok:")[0]) for block in blocks]


def unwrapped(text: str) -> str:
    """In one line. Before 2.19, Ansible breaks lines after hyphens too."""
    return " ".join(re.sub(r"(?<=\w)-\n(?=\w)", "-", text).split())


@pytest.mark.parametrize(
    ("module", "name", "options"),
    [
        *(("gpuctl_job_log", name, {}) for name in ("web*", "web,app!=x", "a/../b", "", "w" * 64)),
        ("gpuctl_job", "web*", {"state": "paused"}),
        ("gpuctl_copy", "web*", {"remote_path": "/a", "local_path": "a"}),
        ("gpuctl_job_metrics_info", "web*", {}),
    ],
)
def test_a_name_that_no_job_can_have_is_refused_before_any_request(
    ansible: Ansible, recorder: Recorder, module: str, name: str, options: dict[str, Any]
):
    run = ansible.module(module, name=name, namespace="team-a", **options)
    assert run.failed
    assert run.message == f"name: invalid name of a job: {name!r}. To list the jobs, use gpuctl_job_info."
    assert recorder.requests == []


# -- what is not there ------------------------------------------------------------------------------------------------

# The module, its options, and the warning; {} is the namespace.
UNKNOWN: dict[str, tuple[str, dict[str, Any], str]] = {
    "a job": ("gpuctl_job_info", {"namespaces": ["{}"], "name": "webb"}, "job not found: webb. Did you mean web?"),
    "a namespace of jobs": (
        "gpuctl_job_info",
        {"namespaces": ["{}", "{}x"]},
        "namespace not found: {}x. Did you mean {}?",
    ),
    "a pool of jobs": ("gpuctl_job_info", {"pool": "defalut"}, "pool not found: defalut. Did you mean default?"),
    "a node": ("gpuctl_node_info", {"nodes": ["zzz"]}, "node not found: zzz. Check its name."),
    "a pool of nodes": ("gpuctl_node_info", {"pool": "defalut"}, "pool not found: defalut. Did you mean default?"),
    "a GPU type": ("gpuctl_node_info", {"gpu_type": "H999zz"}, "GPU type not found: H999zz. "),
    "a pool": ("gpuctl_pool_info", {"name": "defalut"}, "pool not found: defalut. Did you mean default?"),
    "a quota": (
        "gpuctl_quota_info",
        {"name": "zzzz", "namespaces": ["{}"]},
        "quota not found: zzzz. Check its name, or look elsewhere than in {}: namespaces, all_namespaces.",
    ),
    "a quota of the cluster": (
        "gpuctl_quota_info",
        {"name": "zzzz", "all_namespaces": True},
        "quota not found: zzzz. Check its name.",
    ),
    "a namespace of quotas": (
        "gpuctl_quota_info",
        {"namespaces": ["{}x"]},
        "namespace not found: {}x. Did you mean {}?",
    ),
}


def filled(value: Any, namespace: str) -> Any:
    if isinstance(value, list):
        return [filled(each, namespace) for each in value]
    return value.replace("{}", namespace) if isinstance(value, str) else value


@pytest.mark.parametrize(("module", "options", "warning"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_empty_list_says_what_was_misspelled(
    ansible: Ansible, namespace: str, module: str, options: dict[str, Any], warning: str
):
    ansible.job(definition=compute("web"), namespace=namespace)
    result = ansible.module(module, **{name: filled(value, namespace) for name, value in options.items()})
    assert not result.failed, "scripts rely on the empty list"
    assert filled(warning, namespace) in " ".join(warnings(result))


@pytest.mark.parametrize("what", ["a node", "a pool of nodes", "a GPU type"])
def test_nodes_that_must_exist(ansible: Ansible, what: str):
    module, options, problem = UNKNOWN[what]
    result = ansible.module(module, **options, must_exist=True)
    assert result.failed
    assert result.message.startswith(problem)
    assert result.result["not_found"] == [result.message]


def test_what_a_filter_leaves_out_is_there(ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    result = ansible.module("gpuctl_job_info", namespaces=[namespace], name="web", status="Failed")
    assert (result.result["results"], warnings(result)) == ([], [])


def test_nothing_more_is_read_if_all_is_found(ansible: Ansible, namespace: str, recorder: Recorder):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    recorder.clear()
    ansible.module("gpuctl_job_info", namespaces=[namespace], name="web")
    paths = {request.path.rpartition("/")[2] for request in recorder.requests}
    assert paths <= {"jobs", "deployments", "statefulsets", "services", "horizontalpodautoscalers", "nodes"}


def test_a_namespace_that_the_task_may_not_act_in_is_not_suggested(ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    missing = f"{namespace}x"
    result = ansible.module("gpuctl_job_info", namespaces=[missing], allowed_namespaces=[missing])
    (warning,) = warnings(result)
    assert warning.endswith(f"namespace not found: {missing}. Check its name.")
    log = ansible.module("gpuctl_job_log", name="web", namespace="default", allowed_namespaces=["default"])
    assert log.message.startswith("job web not found in namespace default. To list the jobs, use gpuctl_job_info.")


def test_a_misspelled_job_is_not_deleted_silently(ansible: Ansible, namespace: str, recorder: Recorder):
    ansible.job(definition=training("train"), namespace=namespace)
    recorder.clear()
    result = ansible.job(name="trian", namespace=namespace, state="absent")
    assert (result.failed, result.changed) == (False, False), result.message
    assert result.jobs["trian"]["reason"] == "job not found. Did you mean train?"
    assert recorder.writes == []

    arguments = ("-e", f"gpuctl_namespace={namespace}", "-e", "gpuctl_name=trian")
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.delete", *arguments)
    assert run.status == 2, run.output
    message = (
        f"job trian in namespace {namespace}: job not found. Did you mean train? Nothing was deleted. If that is "
        f"right, set -e gpuctl_missing_ok=true."
    )
    assert message in " ".join(run.output.split())
    fine = ansible.run("ansible-playbook", "runwhere.gpuctl.delete", *arguments, "-e", "gpuctl_missing_ok=true")
    assert fine.status == 0, fine.output
    assert not ansible.job(name="trian", namespace=namespace, state="absent").failed
    paused = ansible.job(name="trian", namespace=namespace, state="paused")
    assert paused.message.startswith(f"job trian in namespace {namespace}: job not found. Did you mean train?")


def test_a_pod_that_is_gone_names_its_job(ansible: Ansible, namespace: str):
    ansible.job(definition=[training("tune"), training("tune-more")], namespace=namespace)
    for name, job in {"tune-x7k2p9q4-wvzn8": "tune", "tune-more-x7k2p9q4-wvzn8": "tune-more"}.items():
        resumed = ansible.job(name=name, namespace=namespace, state="resumed")
        assert resumed.message.startswith(f"job {name} in namespace {namespace}: job not found. Did you mean {job}?")
        listed = ansible.module("gpuctl_job_info", namespaces=[namespace], name=name)
        assert warnings(listed) == [f"job not found: {name}. Did you mean {job}?"]


def test_a_misspelled_namespace_of_a_named_job(ansible: Ansible, namespace: str):
    missing = f"namespace not found: {namespace}x. Did you mean {namespace}?"
    log = ansible.module("gpuctl_job_log", name="web", namespace=f"{namespace}x")
    assert log.message == f"job web not found in namespace {namespace}x. {missing}"
    deleted = ansible.job(name="web", namespace=f"{namespace}x", state="absent")
    assert deleted.jobs["web"]["reason"] == f"job not found. {missing}"


def test_manifests_of_jobs_that_are_gone_are_deleted_without_a_word(
    ansible: Ansible, namespace: str, recorder: Recorder
):
    result = ansible.job(definition=compute("web"), namespace=namespace, state="absent")
    assert (result.message, result.jobs["web"]["reason"]) == ("1 job: 1 unchanged", None)


# -- jobs named by a pod ----------------------------------------------------------------------------------------------


@pytest.fixture
def pod(ansible: Ansible, api: Api, namespace: str) -> str:
    """The pod of the job ``web``."""
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    (found,) = api.list("pod", namespace)
    return str(found["metadata"]["name"])


def test_the_states_of_a_job_that_is_named_by_a_pod(ansible: Ansible, api: Api, namespace: str, pod: str):
    scaled = ansible.job(name=pod, namespace=namespace, replicas=2)
    assert scaled.jobs["web"]["action"] == "scale", scaled.message
    (warning,) = warnings(scaled)
    assert warning.startswith(f"{pod} is a pod of job web in namespace {namespace}. The task is for the whole job.")
    predicted = ansible.job(name=pod, namespace=namespace, state="absent", check=True)
    assert predicted.jobs["web"]["action"] == "delete", predicted.message
    restarted = ansible.job(name=pod, namespace=namespace, state="restarted", wait=True, wait_timeout=60)
    assert restarted.jobs["web"]["action"] == "restart", restarted.message
    found = [one["metadata"] for one in api.list("pod", namespace)]
    other = next(metadata["name"] for metadata in found if "deletionTimestamp" not in metadata)
    paused = ansible.job(name=other, namespace=namespace, state="paused")
    assert paused.jobs["web"]["action"] == "pause", paused.message


def test_deletion_by_a_pod(ansible: Ansible, api: Api, namespace: str, pod: str):
    assert ansible.job(name=pod, namespace=namespace, state="absent").jobs["web"]["action"] == "delete"
    eventually(lambda: api.get("deployment", "web", namespace) is None)


def test_logs_and_tables_by_a_pod(ansible: Ansible, namespace: str, pod: str):
    log = ansible.module("gpuctl_job_log", name=pod, namespace=namespace)
    assert [row["pod"] for row in log.result["results"]] == [pod], log.message
    info = ansible.module("gpuctl_job_info", name=pod, namespaces=[namespace])
    assert ([row["name"] for row in info.result["results"]], warnings(info)) == (["web"], [])
    run = status(ansible, namespace=namespace, name=pod)
    assert (run.status, "1 job: 1 Running" in run.output) == (0, True), run.output


def test_a_pod_of_no_job_is_no_name_of_one(ansible: Ansible, api: Api, namespace: str):
    containers = [{"name": "main", "image": "x"}]
    api.create("pod", {"metadata": {"name": "stray"}, "spec": {"containers": containers}}, namespace)
    result = ansible.job(name="stray", namespace=namespace, state="absent")
    assert result.jobs["stray"]["reason"] == "job not found."
    assert api.get("pod", "stray", namespace)


# -- an account of level submit ---------------------------------------------------------------------------------------


def flat(run: Run) -> str:
    return unwrapped(run.output)


def test_status_for_level_submit(ansible: Ansible, namespace: str, submitter: Api, api: Api):
    if submitter is api:
        pytest.skip("this cluster does not enforce RBAC")
    ansible.job(definition=[compute("web")], namespace=namespace, wait=True, wait_timeout=60)
    run = status(ansible, namespace=namespace, all="true")
    assert run.status == 0, run.output
    assert "1 job: 1 Running" in run.output
    assert "How many GPUs are free is not known" in flat(run)
    default = next(text.split() for text in run.output.splitlines() if text.split()[:2] == ["default", "active"])
    assert default[3:5] == ["?", "?"]


def test_status_without_a_namespace_for_level_submit(
    ansible: Ansible, namespace: str, submitter: Api, api: Api, recorder: Recorder, tmp_path: Path
):
    if submitter is api:
        pytest.skip("this cluster does not enforce RBAC")
    ansible.job(definition=[compute("web")], namespace=namespace)
    refused = status(ansible)
    assert refused.status == 2
    assert "Missing permission: list jobs.batch in namespace default." in flat(refused)
    assert "Or set gpuctl_namespace to those that you may read." in flat(refused)
    refused = status(ansible, all_namespaces="true")
    assert refused.status == 2
    assert "Missing permission: list jobs.batch in the whole cluster. The level read of gpuctl_rbac has it." in flat(
        refused
    )
    assert "Or set gpuctl_namespace to those that you may read." in flat(refused)

    config = yaml.safe_load(recorder.kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    here = Ansible(ansible.directory, {**ansible.environment, "K8S_AUTH_KUBECONFIG": str(own)})
    run = status(here)
    assert run.status == 0, run.output
    assert "1 job: 1 " in run.output
    assert f"Only namespace {namespace} is shown. Add -e gpuctl_all_namespaces=true to show all." in flat(run)
    for forced in (
        status(here, all_namespaces="true"),
        here.run("ansible-playbook", "runwhere.gpuctl.idle", "-e", "gpuctl_all_namespaces=true"),
    ):
        assert forced.status == 0, forced.output
        assert f"Only namespace {namespace} is shown, because this account may not list the jobs" in flat(forced)


@pytest.mark.parametrize("full", [False, True], ids=["too large for any node", "no node is free"])
def test_the_same_reason_from_every_command(
    ansible: Ansible, api: Api, namespace: str, submitter: Api, full: bool, field: Field
):
    if submitter is api:
        pytest.skip("this cluster does not enforce RBAC")
    gpus = max(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in api.list("node"))
    nodes = len([node for node in api.list("node") if node["status"]["allocatable"].get("nvidia.com/gpu")])
    if full:
        whole = {"gpu": gpus, "node_count": nodes}
        ansible.job(definition=training("all", resources=whole), namespace=namespace, wait=True, wait_timeout=60)
    manifest = training("train", resources={"gpu": gpus if full else gpus + 1})
    submitted = ansible.job(definition=manifest, namespace=namespace, wait=True, wait_timeout=3)
    assert submitted.failed
    reason = submitted.jobs["train"]["reason"]
    info = ansible.module("gpuctl_job_info", namespaces=[namespace], name="train", details=True)
    assert info.jobs["train"]["reason"] == reason
    assert reason in " ".join(submitted.message.split())
    assert reason.rstrip(".") in flat(status(ansible, namespace=namespace, name="train", all="true"))
    expected = (
        "no node of pool default has enough GPUs free" if full else f"the largest node of pool default has {gpus}"
    )
    assert expected in reason


def test_a_refusal_names_the_permission_and_who_has_it(ansible: Ansible, namespace: str, submitter: Api, api: Api):
    if submitter is api:
        pytest.skip("this cluster does not enforce RBAC")
    result = ansible.module("gpuctl_pool_info")
    assert "Missing permission: list pods in the whole cluster. The level read of gpuctl_rbac has it." in result.message
    assert 'ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "name=tester namespace=' in result.message


# -- the installation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast_path", ["1", "0"], ids=["in process", "as a module"])
def test_a_missing_library_comes_with_its_command(ansible: Ansible, tmp_path: Path, fast_path: str):
    (tmp_path / "pydantic.py").write_text("raise ImportError('not here', name='pydantic')")
    without = {"PYTHONPATH": str(tmp_path), "GPUCTL_FAST_PATH": fast_path}
    result = Ansible(tmp_path, {**ansible.environment, **without}).job(definition=compute("web"))
    assert result.failed
    assert result.message.startswith("Python library not found: pydantic. Install what the collection needs: ")
    assert result.message.endswith(f"-m pip install -r {COLLECTION}/requirements.txt")


def test_the_inventory_says_what_to_install(ansible: Ansible, tmp_path: Path):
    (tmp_path / "urllib3.py").write_text("raise ImportError('not here', name='urllib3')")
    (tmp_path / "a.gpuctl.yml").write_text("plugin: runwhere.gpuctl.gpuctl")
    broken = Ansible(tmp_path, {**ansible.environment, "PYTHONPATH": str(tmp_path)})
    run = broken.run("ansible-inventory", "-i", "a.gpuctl.yml", "--list")
    # Before 2.19, Ansible breaks a path that is longer than a line.
    assert f"-mpipinstall-r{COLLECTION}/requirements.txt" in "".join(run.output.split())


def test_a_context_that_does_not_exist(ansible: Ansible):
    result = ansible.module("gpuctl_node_info", context="nowhere")
    contexts = yaml.safe_load(Path(ansible.environment["K8S_AUTH_KUBECONFIG"]).read_text())["contexts"]
    assert result.message == (
        f"context not found in kubeconfig {ansible.environment['K8S_AUTH_KUBECONFIG']}: nowhere. Set context to one "
        f"of: {', '.join(each['name'] for each in contexts)}."
    )


def test_no_kubeconfig_at_all(ansible: Ansible):
    run = Ansible(ansible.directory, {}).module("gpuctl_node_info")
    assert run.message == (
        "kubeconfig not found: ~/.kube/config. Set kubeconfig (or K8S_AUTH_KUBECONFIG) to the file by which kubectl "
        "reaches the cluster, or set host and api_key."
    )
