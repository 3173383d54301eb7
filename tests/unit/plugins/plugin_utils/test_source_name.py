# SPDX-License-Identifier: BSD-2-Clause
"""A directory is one source for every user who checks its repository out, by any protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.declared_source import unusable_source
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.source_name import repository_name, source_name

SAME = {
    "github.com/acme/gpus": [
        "https://github.com/acme/gpus.git",
        "https://github.com/acme/gpus/",
        "git@github.com:acme/gpus.git",
        "github.com:acme/gpus",
        "ssh://git@github.com/acme/gpus.git",
        "ssh://git@ssh.github.com:443/acme/gpus.git",
        "https://alice:s3cret@GitHub.com/acme/gpus?token=s3cret",
    ],
    "bitbucket.example.com/proj/gpus": [
        "https://bitbucket.example.com/scm/proj/gpus.git",
        "ssh://git@bitbucket.example.com:7999/proj/gpus.git",
    ],
    "dev.azure.com/org/proj/gpus": [
        "https://org@dev.azure.com/org/proj/_git/gpus",
        "git@ssh.dev.azure.com:v3/org/proj/gpus",
    ],
    "gitlab.com/group/sub/gpus": ["git@altssh.gitlab.com:group/sub/gpus.git", "https://gitlab.com/group/sub/gpus.git"],
    "gpus": ["/srv/git/gpus.git", "file:///srv/git/gpus", "../gpus.git", "gpus"],
    "": ["", "https://", "http://[bad/x"],
}


@pytest.mark.parametrize(("name", "url"), [(name, url) for name, urls in SAME.items() for url in urls])
def test_all_urls_of_a_repository_are_one_name_without_credentials(name: str, url: str) -> None:
    assert repository_name(url) == name
    assert "s3cret" not in repository_name(url)


def repository(path: Path, config: str) -> Path:
    (path / ".git").mkdir(parents=True)
    (path / ".git" / "config").write_text(config)
    (path / "clusters" / "lab").mkdir(parents=True)
    return path


ORIGIN = '[core]\n\tbare = false\n[remote "origin"]\n\turl = git@example.com:acme/gpus.git\n\tfetch = +refs/*:refs/*\n'


def test_a_directory_is_named_by_its_repository_and_the_path_in_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "checkout", ORIGIN)
    assert source_name([str(root / "clusters" / "lab")]) == "example.com/acme/gpus//clusters/lab"
    assert source_name([str(root)]) == "example.com/acme/gpus"
    assert source_name([str(root / "clusters" / "lab" / "*.yaml")]) == "example.com/acme/gpus//clusters/lab"
    (root / "clusters" / "lab" / "jobs.yaml").touch()
    assert source_name([str(root / "clusters" / "lab" / "jobs.yaml")]) == "example.com/acme/gpus//clusters/lab"
    (root / "clusters" / "dev").mkdir()
    both = [str(root / "clusters" / name) for name in ("dev", "lab")]
    assert source_name(both) == source_name(both[::-1]) == "example.com/acme/gpus//clusters"
    (tmp_path / "link").symlink_to(root / "clusters" / "lab")
    assert source_name([str(tmp_path / "link")]) == "example.com/acme/gpus//clusters/lab"


def test_a_worktree_and_a_submodule_have_their_configuration_elsewhere(tmp_path: Path) -> None:
    root = repository(tmp_path / "checkout", ORIGIN)
    own = root / ".git" / "worktrees" / "other"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {own}\n")
    assert source_name([str(other)]) == "example.com/acme/gpus"
    module = root / ".git" / "modules" / "sub"
    module.mkdir(parents=True)
    (module / "config").write_text('[remote "up"]\n\turl = https://example.com/acme/sub\n')
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    assert source_name([str(root / "sub")]) == "example.com/acme/sub"


@pytest.mark.parametrize(
    "config",
    ["", "[core]\n", "not = a section\n", '[remote "a"]\nurl=x:y\n[remote "b"]\nurl=x:z\n', '[remote "origin"]\nurl\n'],
)
def test_without_a_remote_the_directory_has_its_own_name(tmp_path: Path, config: str) -> None:
    root = repository(tmp_path / "checkout", config)
    assert source_name([str(root / "clusters" / "lab")]) == "lab"


@pytest.mark.parametrize(
    ("directory", "name"),
    [("cluster", "cluster"), ("GPU cluster, new", "GPU-cluster-new"), ("-x", "x"), ("集群", "集群"), ("#", "")],
)
def test_a_directory_outside_of_a_repository_has_its_own_name(tmp_path: Path, directory: str, name: str) -> None:
    (tmp_path / directory).mkdir()
    assert source_name([str(tmp_path / directory)]) == name
    assert unusable_source(name) is None


def test_no_paths_are_no_source() -> None:
    assert source_name([]) == ""
