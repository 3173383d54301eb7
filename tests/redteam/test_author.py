# SPDX-License-Identifier: BSD-2-Clause
"""Attacks by the author of a manifest, who wants the node, the cluster or the files of others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually
from integration.manifests import compute, inference, notebook, training

KINDS = {"training": training, "inference": inference, "notebook": notebook, "compute": compute}
WORKLOADS = ("job", "deployment", "statefulset")
LEVEL = "pod-security.kubernetes.io/enforce"

SYSTEM_PATHS = (
    # What holds the node.
    *("/", "/etc/kubernetes/manifests", "/var/lib/kubelet/pods", "/proc/1/root", "/dev/sda", "/root/.ssh"),
    *("/run/containerd/containerd.sock", "/var/run/docker.sock", "/opt/cni/bin", "/var/spool/cron", "/sys/fs/cgroup"),
    # What contains it.
    *("/var", "/var/lib", "/opt", "/etc/nginx"),
    # The same in other spellings.
    *("/.", "//", "/./", "/etc/.", "//etc//kubernetes", "/./var/./lib//kubelet/", "/data/../etc", "/data/.././etc"),
    *("/．/etc", "/ｅｔｃ/shadow", "/data/．．/etc", "/et\u200bc", "/\u202eetc", "/etc\u0000", "/etc\n"),  # noqa: RUF001
)


def mounts(path: str, **more: Any) -> dict[str, Any]:
    return {"workdirs": [{"path": path, **more}]}


def nothing_was_sent(api: Api, namespace: str) -> bool:
    return not any(api.list(kind, namespace) for kind in WORKLOADS)


def template(api: Api, kind: str, namespace: str) -> dict[str, Any]:
    (workload,) = api.list(kind, namespace)
    return dict(workload["spec"]["template"]["spec"])


def test_an_author_mounts_no_system_path_of_a_node(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author mounts what holds the node, in any spelling: every one is refused, and nothing is sent."""
    manifests = [compute(f"job-{number}", storage=mounts(path)) for number, path in enumerate(SYSTEM_PATHS)]
    result = ansible.job(definition=manifests, namespace=namespace)
    assert result.failed
    refused = {line.split(",")[1].strip() for line in result.message.splitlines() if "storage.workdirs[0].path" in line}
    assert refused == {f"document {number + 1}" for number in range(len(SYSTEM_PATHS))}
    assert nothing_was_sent(api, namespace)


def test_the_type_of_a_volume_opens_no_system_path(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author names the path a socket, a device or a file, in every kind of job: it stays what it is."""
    types = ("Socket", "BlockDevice", "CharDevice", "File", "DirectoryOrCreate")
    path = "/run/containerd/containerd.sock"
    manifests = [
        make(f"{kind}-{number}", storage=mounts(path, type=each, read_only=True))
        for kind, make in KINDS.items()
        for number, each in enumerate(types)
    ]
    result = ansible.job(definition=manifests, namespace=namespace, check=True)
    assert result.message.count("system path of the node") == len(manifests)
    assert nothing_was_sent(api, namespace)


def test_a_matrix_composes_no_system_path(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author puts a path together from the values of a sweep: the whole path is judged."""
    sweep = training("sweep", storage=mounts("/$(matrix.a)/$(matrix.b)"))
    sweep["matrix"] = {"a": ["data", "etc"], "b": ["kubernetes"]}
    result = ansible.job(definition=sweep, namespace=namespace)
    assert "system path of the node" in result.message
    assert nothing_was_sent(api, namespace)


def test_an_author_brings_no_policy(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author puts a policy that allows everything among the manifests: it is an error, and allows nothing."""
    policy = {"kind": "policy", "policy": {"name": "mine"}, "host_paths": {"roots": ["/"]}}
    result = ansible.job(definition=[policy, compute("a", storage=mounts("/etc"))], namespace=namespace)
    assert "a policy among manifests has no effect" in result.message
    assert "system path of the node: /etc" in result.message
    assert nothing_was_sent(api, namespace)


def test_a_variable_of_a_survey_brings_no_policy(ansible: Ansible, api: Api, namespace: str, tmp_path: Path) -> None:
    """Whoever answers a survey sets extra variables: none of them leads the playbooks to another policy."""
    policy = tmp_path / "mine.yaml"
    policy.write_text('{kind: policy, policy: {name: mine}, host_paths: {roots: ["/"]}}')
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(json.dumps(compute("a", storage=mounts("/etc"))))
    answers = {"gpuctl_src": str(manifest), "gpuctl_namespace": namespace, "gpuctl_policy": str(policy)}
    answers |= {"policy": str(policy), "GPUCTL_POLICY": str(policy), "gpuctl_policy_file": str(policy)}
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", json.dumps(answers))
    assert run.status != 0
    assert nothing_was_sent(api, namespace)


def test_a_link_of_an_author_shows_no_file_of_the_controller(ansible: Ansible, api: Api, tmp_path: Path) -> None:
    """An author commits links to a file of the controller, for a file, a directory or a plan: no line is shown."""
    outside, checkout = tmp_path / "outside", tmp_path / "checkout"
    outside.mkdir()
    (checkout / "cluster").mkdir(parents=True)
    (outside / "secret.yaml").write_text('password: hunter2-hunter2\nkeys: ["unclosed\n')
    for link, target in (("cluster/job.yaml", "../../outside/secret.yaml"), ("dir", "../outside"),
                         ("job.yaml", "../outside/secret.yaml"), ("plan.json", "../outside/secret.yaml")):  # fmt: skip
        (checkout / link).symlink_to(target)
    for book, answers in (
        ("provision", {"gpuctl_dir": "cluster"}),
        ("provision", {"gpuctl_dir": "dir/*.yaml"}),
        ("provision", {"gpuctl_dir": "cluster", "gpuctl_plan": "plan.json"}),
        ("provision", {"gpuctl_dir": "empty", "gpuctl_policies": ["job.yaml"]}),
        ("submit", {"gpuctl_src": "job.yaml"}),
        ("drift", {"gpuctl_dir": "dir"}),
    ):
        there = replace(ansible, directory=checkout)
        run = there.run("ansible-playbook", f"runwhere.gpuctl.{book}", "-e", json.dumps(answers), "-v")
        assert run.status != 0, answers
        assert "hunter2" not in run.output, answers
        assert "unclosed" not in run.output, answers


def test_a_policy_holds_authors_to_its_roots(ansible: Ansible, api: Api, namespace: str, tmp_path: Path) -> None:
    """An author mounts what is outside of the administrator's roots, in any spelling: every one is refused."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("{kind: policy, policy: {name: ours}, host_paths: {roots: [/data]}}")
    bound = replace(ansible, environment={**ansible.environment, "GPUCTL_POLICY": str(policy)})
    outside = ("/models", "/database", "/data/../models", "/", "/home", "//home/", "/data/．．/home")  # noqa: RUF001
    manifests = [compute(f"job-{number}", storage=mounts(path)) for number, path in enumerate(outside)]
    result = bound.job(definition=manifests, namespace=namespace)
    assert result.message.count("storage.workdirs[0].path") == len(outside)
    assert nothing_was_sent(api, namespace)
    assert bound.job(definition=compute("fine", storage=mounts("/data/x")), namespace=namespace).changed


def test_a_policy_that_cannot_be_read_blocks_all_jobs(ansible: Ansible, api: Api, namespace: str) -> None:
    """The administrator's policy is removed: nothing is submitted until it is back."""
    lost = replace(ansible, environment={**ansible.environment, "GPUCTL_POLICY": "/nowhere/policy.yaml"})
    result = lost.job(definition=compute("a"), namespace=namespace)
    assert "/nowhere/policy.yaml: file or directory not found" in result.message
    assert nothing_was_sent(api, namespace)


def test_no_job_gains_privileges_or_a_token(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author runs setuid programs, filtered system calls and kubectl in the container: no pod may, of any kind."""
    result = ansible.job(definition=[make(kind) for kind, make in KINDS.items()], namespace=namespace)
    assert not result.failed, result.message
    templates = [obj["spec"]["template"]["spec"] for kind in WORKLOADS for obj in api.list(kind, namespace)]
    assert len(templates) == len(KINDS)
    for pod in templates:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert [c["securityContext"] for c in pod["containers"]] == [{"allowPrivilegeEscalation": False}]
    pods = eventually(lambda: found if len(found := api.list("pod", namespace)) >= len(KINDS) else None)
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes") or ()]
    assert not any("projected" in volume for volume in volumes), "a token is mounted"


def test_a_manifest_cannot_ask_for_the_node(ansible: Ansible, api: Api, namespace: str) -> None:
    """An author writes what a pod can say and a manifest cannot: each is an error, and never passed on."""
    blocks: list[dict[str, Any]] = [
        {"privileged": True},
        {"security_context": {"privileged": True}},
        {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
        {"host_network": True},
        {"hostPID": True},
        {"allowPrivilegeEscalation": True},
        {"run_as": -1},
        {"run_as": {"user": 1000, "privileged": True}},
        {"service_account": "kube-system/admin"},
    ]
    manifests = [compute(f"job-{number}", environment=block) for number, block in enumerate(blocks)]
    result = ansible.job(definition=manifests, namespace=namespace)
    refused = {line.split(",")[1].strip() for line in result.message.splitlines() if ", environment." in line}
    assert refused == {f"document {number + 1}" for number in range(len(blocks))}
    assert nothing_was_sent(api, namespace)


@pytest.mark.parametrize(
    ("level", "blocks", "place"),
    [
        ("baseline", {"storage": mounts("/data")}, "storage.workdirs[0]"),
        ("restricted", {"storage": mounts("/data")}, "storage.workdirs[0]"),
        ("restricted", {"environment": {"allow_sudo": True}}, "environment.allow_sudo"),
        ("restricted", {"environment": {"run_as": 0}}, "environment.run_as"),
    ],
)
def test_a_level_is_not_evaded(
    ansible: Ansible, api: Api, namespace: str, level: str, blocks: dict[str, Any], place: str
) -> None:
    """An author asks for what the namespace's level forbids: it is said with its place, and nothing is sent."""
    api.patch("namespace", namespace, {"metadata": {"labels": {LEVEL: level}}})
    result = ansible.job(definition=notebook("a", **blocks), namespace=namespace)
    assert f"{place}: the namespace enforces the Pod Security level {level}, which forbids" in result.message
    assert nothing_was_sent(api, namespace)


@pytest.mark.parametrize("kind", KINDS)
def test_a_restricted_namespace_gets_restricted_pods(ansible: Ansible, api: Api, namespace: str, kind: str) -> None:
    """An author submits an ordinary manifest there: the server itself accepts its pods, because they may do nothing."""
    api.patch("namespace", namespace, {"metadata": {"labels": {LEVEL: "restricted"}}})
    result = ansible.job(definition=KINDS[kind]("a", environment={"run_as": 1000}), namespace=namespace)
    assert not result.failed, result.message
    (pod,) = eventually(lambda: api.list("pod", namespace))
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not ansible.job(definition=KINDS[kind]("a", environment={"run_as": 1000}), namespace=namespace).changed


def test_a_submitter_reads_only_the_level_of_its_own_namespace(submitter: Api, namespace: str) -> None:
    """A submitter looks at the namespaces of others: the level submit shows no other than its own."""
    own, _body = submitter.call("GET", f"/api/v1/namespaces/{namespace}")
    other, _body = submitter.call("GET", "/api/v1/namespaces/kube-system")
    every, _body = submitter.call("GET", "/api/v1/namespaces")
    assert (own, other, every) == (200, 403, 403)
