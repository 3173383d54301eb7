# SPDX-License-Identifier: BSD-2-Clause
"""Which paths of nodes manifests may mount, with and without a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.host_paths import HostPaths, normal_path
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import (
    ManifestErrors,
    host_paths_of,
    load,
    load_policy,
)

EXAMPLES = Path(__file__).parents[5] / "examples"
SOURCE_DOCUMENTS = Path(__file__).parents[3] / "fixtures" / "manifests" / "valid"

REFUSED = (
    *("/bin", "/boot/grub", "/dev", "/dev/sda", "/dev/nvidia0", "/etc", "/etc/nginx", "/etc/kubernetes/manifests"),
    *("/etc/shadow", "/lib/modules", "/proc", "/proc/1/root", "/proc/self/root/data", "/root", "/root/.ssh", "/run"),
    *("/run/containerd/containerd.sock", "/sbin", "/sys/fs/cgroup", "/usr/local/bin", "/opt", "/opt/cni/bin"),
    *("/var", "/var/lib", "/var/lib/kubelet/pods", "/var/lib/containerd", "/var/lib/docker", "/var/lib/etcd"),
    *("/var/lib/rancher/k3s", "/var/log", "/var/log/pods", "/var/run", "/var/run/docker.sock", "/var/spool/cron"),
    *("/home/me/docker.sock", "/data/containerd.sock", "/snap", "/sysroot", "/nix/store"),
    # Other spellings.
    *("/etc/", "//etc", "///etc//", "/./etc", "/etc/.", "/data/./../etc", "/var//lib/./kubelet/", "//proc/1/root/."),
    *("/．/etc", "/ｅｔｃ/shadow", "/data/．．/etc", "/ｖａｒ", "/var/ｌib"),  # noqa: RUF001
)
ALLOWED = (
    *("/cache", "/data", "/datasets", "/home", "/home/data/", "/home/jovyan/work", "/mnt", "/mnt/nfs", "/models"),
    *("/opt/models", "/output", "/scratch", "/srv", "/tmp", "/var/data", "/var/tmp/x", "/var/www/html", "/work"),
    *(
        "/etcetera",
        "/devices",
        "/library",
        "/rooted",
        "/variables",
        "/usrdata",
        "/data/etc",
        "/data/var/lib",
        "/数据/模型",
    ),
    *("/etc/nginx/conf.d", "/etc/nginx/conf.d/site.conf", "/data/docker.socket"),
)


@pytest.mark.parametrize("path", REFUSED)
def test_a_system_path_is_refused_however_it_is_spelled(path: str) -> None:
    problem, hint = HostPaths().refusal(path) or ("", "")
    assert problem == "system path of the node"
    assert "policy" in hint


@pytest.mark.parametrize("path", ALLOWED)
def test_data_may_be_mounted(path: str) -> None:
    assert HostPaths().refusal(path) is None


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/data", True),
        ("/data/", True),
        ("//data/./x", True),
        ("/var/lib/models/a", True),
        ("/数据/x", True),
        ("/database", False),
        ("/", False),
        ("/var/lib", False),
        ("/models", False),
        ("/etc", False),
        ("/ｄａｔａ", False),  # noqa: RUF001
        ("/data/．．/etc", False),  # noqa: RUF001
    ],
)
def test_a_policy_allows_what_is_below_its_roots(path: str, allowed: bool) -> None:
    policy = HostPaths("ours", ("/data/", "/var/lib/models", "/数据"))
    assert (policy.refusal(path) is None) is allowed


def test_a_policy_without_roots_allows_claims_only() -> None:
    refusal = HostPaths("ours", ()).refusal("/data")
    assert refusal == ("path of the node that policy ours does not allow", "Use a PersistentVolumeClaim (claim)")


def test_the_root_of_a_policy_can_be_everything() -> None:
    assert HostPaths("ours", ("/",)).refusal("/etc/shadow") is None


@pytest.mark.parametrize(
    ("path", "normal"), [("//a//b/", "/a/b"), ("/.", "/"), ("//", "/"), ("/a/./b/.", "/a/b"), ("/a", "/a")]
)
def test_a_path_is_made_normal_as_the_kernel_does(path: str, normal: str) -> None:
    assert normal_path(path) == normal


@pytest.mark.parametrize("directory", [EXAMPLES / "manifests", SOURCE_DOCUMENTS], ids=lambda path: path.name)
def test_the_examples_and_those_of_the_source_documents_are_allowed(directory: Path) -> None:
    for file in sorted(directory.glob("*.yaml")):
        load([str(file)], host_paths=HostPaths())


# -- in manifests -----------------------------------------------------------------------------------------------------


def job(*workdirs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "kind": "training",
        "job": {"name": "a"},
        "environment": {"image": "nginx"},
        "resources": {"cpu": 1, "memory": "1Gi"},
        "storage": {"workdirs": list(workdirs)},
        **more,
    }


def errors_of(definition: Any, host_paths: HostPaths | None) -> list[str]:
    with pytest.raises(ManifestErrors) as caught:
        load(definition=definition, host_paths=host_paths)
    return [str(error) for error in caught.value.errors]


def test_every_refused_path_is_reported_with_its_place() -> None:
    text = (
        yaml.safe_dump(job({"path": "/data"}, {"path": "/proc/1/root"}))
        + "---\n"
        + yaml.safe_dump({**job({"path": "/run"}), "job": {"name": "b"}})
    )
    hint = "Mount a directory with data or a claim, or ask an administrator to allow the path by a policy."
    assert errors_of(text, HostPaths()) == [
        f"definition, document 1, storage.workdirs[1].path: system path of the node: /proc/1/root. {hint}",
        f"definition, document 2, storage.workdirs[0].path: system path of the node: /run. {hint}",
    ]


def test_another_error_of_the_manifest_hides_no_path() -> None:
    wrong = job({"path": "/data/../etc"}, {"path": "/proc/1/root"}, {"path": ["/run"]}, "/run", {"path": "/x", "z": 1})
    found = errors_of(wrong, HostPaths())
    assert [text.partition(": ")[0].rpartition(", ")[2] for text in found[:2]] == [
        "storage.workdirs[0].path",
        "storage.workdirs[1].path",
    ]
    assert "'..' in a path" in found[0]
    assert "system path of the node: /proc/1/root" in found[1]
    assert len(found) == 5


def test_a_path_of_many_trainings_is_reported_once() -> None:
    sweep = job({"path": "/run"}, matrix={"lr": ["1", "2"]})
    sweep["environment"]["command"] = ["$(matrix.lr)"]
    assert len(errors_of(sweep, HostPaths())) == 1


def test_a_parameter_of_a_matrix_leads_to_no_system_path() -> None:
    sweep = job({"path": "/$(matrix.where)/kubernetes"}, matrix={"where": ["data", "etc"]})
    assert "system path of the node" in "".join(errors_of(sweep, HostPaths()))


def test_a_claim_may_be_mounted_anywhere_in_the_container() -> None:
    load(definition=job({"path": "/etc/app", "claim": "settings"}), host_paths=HostPaths("ours", ()))


def test_paths_are_not_judged_where_nothing_is_mounted() -> None:
    load(definition=job({"path": "/etc"}))


# -- policies ---------------------------------------------------------------------------------------------------------


def policy_file(directory: Path, text: str) -> str:
    file = directory / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_the_example_of_a_policy() -> None:
    found = host_paths_of(load_policy(str(EXAMPLES / "policy.yaml")))
    assert found == HostPaths("company", ("/cache", "/datasets", "/models", "/output"))


def test_a_policy_that_says_nothing_of_paths_leaves_the_default(tmp_path: Path) -> None:
    assert host_paths_of(load_policy(policy_file(tmp_path, "kind: policy\npolicy: {name: x}\n"))) == HostPaths()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: pool\npool: {name: x}\n", "not a policy"),
        ("kind: policy\npolicy: {name: x}\n---\nkind: policy\npolicy: {name: y}\n", "not a policy"),
        ("kind: policy\npolicy: {name: x}\nhost_path: {}\n", "Did you mean host_paths?"),
        ("kind: policy\npolicy: {name: x}\nhost_paths: {}\n", "required key is missing"),
        ("kind: policy\npolicy: {name: x}\nhost_paths: {roots: [data]}\n", "not an absolute path"),
        ("kind: policy\npolicy: {name: x}\nhost_paths: {roots: [/data/../etc]}\n", "'..' in a path"),
        ("", "no manifest found"),
    ],
)
def test_a_policy_with_a_mistake_allows_nothing(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ManifestErrors, match=problem.replace("?", r"\?")):
        load_policy(policy_file(tmp_path, text))


def test_a_policy_that_is_not_there_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(ManifestErrors, match="not found"):
        load_policy(str(tmp_path / "policy.yaml"))


def test_a_policy_among_manifests_is_an_error() -> None:
    policy = {"kind": "policy", "policy": {"name": "mine"}, "host_paths": {"roots": ["/"]}}
    (error,) = errors_of([job({"path": "/data"}), policy], None)
    assert "a policy among manifests has no effect" in error
    assert "GPUCTL_POLICY" in error
