# SPDX-License-Identifier: BSD-2-Clause
"""The hosts of the inventory plugin clusters, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.inventory.clusters import (
    ClusterHost,
    ClusterProblem,
    chosen_clusters,
    clusters_of,
    default_kubeconfig,
    host_name,
    refuse_unusable_tags,
)


def kubeconfig(path: Path, *contexts: str, current: str = "") -> Path:
    path.parent.mkdir(exist_ok=True)
    entries = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in contexts]
    path.write_text(json.dumps({"contexts": entries, "current-context": current}))
    return path


def test_each_context_of_a_file_is_a_cluster(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "lab", "arn:aws:eks:eu-1:1:cluster/gpu")
    assert clusters_of(["config"], str(tmp_path)) == [
        ClusterHost("lab", str(file), "lab"),
        ClusterHost("arn-aws-eks-eu-1-1-cluster-gpu", str(file), "arn:aws:eks:eu-1:1:cluster/gpu"),
    ]


def test_each_file_of_a_directory_is_a_cluster(tmp_path: Path) -> None:
    """kubeadm calls the context of every cluster kubernetes-admin@kubernetes."""
    for name in ("lyon.kubeconfig", "oslo.yaml"):
        kubeconfig(
            tmp_path / "all" / name, "other", "kubernetes-admin@kubernetes", current="kubernetes-admin@kubernetes"
        )
    (tmp_path / "all" / ".hidden").write_text("no kubeconfig")
    found = [(each.name, each.context) for each in clusters_of(["all/"], str(tmp_path))]
    assert found == [("lyon", "kubernetes-admin@kubernetes"), ("oslo", "kubernetes-admin@kubernetes")]


def test_patterns_select_clusters(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "config", "gpu-a", "gpu-b", "lab")
    found = clusters_of(["config"], str(tmp_path))
    assert [each.name for each in chosen_clusters(found, ["gpu-*"])] == ["gpu-a", "gpu-b"]
    assert chosen_clusters(found, []) == found


def test_the_default_kubeconfig() -> None:
    assert default_kubeconfig({"K8S_AUTH_KUBECONFIG": "a", "KUBECONFIG": "b"}) == "a"
    assert default_kubeconfig({"K8S_AUTH_KUBECONFIG": "", "KUBECONFIG": "b"}) == "b"
    assert default_kubeconfig({}) == "~/.kube/config"


def test_names_have_nothing_that_separates_hosts() -> None:
    assert host_name("gke_project_zone_gpu,lab&!x") == "gke_project_zone_gpu-lab-x"


PROBLEMS: dict[str, tuple[list[str], str]] = {
    "no such file": (["missing"], "kubeconfig not found: {0}/missing. Set kubeconfig to a file or directory."),
    "no kubeconfig": (["text"], "no kubeconfig with contexts: {0}/text."),
    "an empty directory": (["empty"], "no kubeconfig in the directory {0}/empty."),
    "another file in a directory": (["mixed"], "no kubeconfig with contexts: {0}/mixed/README. Move it out"),
    "several contexts, none of them current": (["several"], "no current context in {0}/several/one."),
    "one name twice": (["a", "b"], "several clusters have the name lab: {0}/a, {0}/b. Rename"),
    "a name of this machine": (["local"], "context 'localhost' of {0}/local cannot be the name of a host."),
}


@pytest.mark.parametrize(("given", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_no_cluster_is_named(given: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "README").write_text("hello")
    kubeconfig(tmp_path / "several" / "one", "x", "y")
    kubeconfig(tmp_path / "local", "localhost")
    for name in ("a", "b"):
        kubeconfig(tmp_path / name, "lab")
    with pytest.raises(ClusterProblem) as caught:
        clusters_of(given, str(tmp_path))
    assert str(caught.value).startswith(message.format(tmp_path)), caught.value


TAGS: dict[str, tuple[Any, str]] = {
    "no dictionary": ([], "tags: not a dictionary: []."),
    "a misspelt cluster": ({"lap": {}}, "tags: no cluster is called lap. Found: lab."),
    "a tag without a name": ({"lab": "eu"}, "tags: not a dictionary: lab."),
}


@pytest.mark.parametrize(("tags", "message"), TAGS.values(), ids=TAGS)
def test_tags_belong_to_clusters(tags: Any, message: str) -> None:
    with pytest.raises(ClusterProblem) as caught:
        refuse_unusable_tags(tags, [ClusterHost("lab", "/k", "lab")])
    assert str(caught.value).startswith(message)


def test_a_pattern_without_a_cluster_is_misspelt() -> None:
    with pytest.raises(ClusterProblem, match=r"contexts: no cluster is called gpu-\*\. Found: lab\."):
        chosen_clusters([ClusterHost("lab", "/k", "lab")], ["gpu-*"])
