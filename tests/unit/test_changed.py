# SPDX-License-Identifier: BSD-2-Clause
"""tools/changed.py: which files a branch has changed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.changed import below, changed_paths, find_base

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """git(*arguments), run in a repository whose branch main has two commits: `old`, then `main.txt`."""

    def run(*arguments: str) -> str:
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    run("init")
    (tmp_path / ".gitignore").write_text("*.log\n")
    for name in ("old", "main.txt"):
        commit(run, tmp_path / name)
    return run


def commit(git: Git, path: Path, text: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    git("add", "--all")
    git("commit", "--message", path.name)


def test_a_branch_is_compared_with_where_it_left_main(git: Git, tmp_path: Path) -> None:
    start = git("rev-parse", "HEAD")
    git("checkout", "-b", "topic")
    commit(git, tmp_path / "kubesim" / "new.py")
    git("checkout", "main")
    commit(git, tmp_path / "elsewhere")
    git("checkout", "topic")
    assert find_base(tmp_path) == start
    assert changed_paths(start, tmp_path) == ["kubesim/new.py"]


def test_main_is_compared_with_its_last_but_one_commit(git: Git, tmp_path: Path) -> None:
    assert changed_paths(find_base(tmp_path), tmp_path) == ["main.txt"]


def test_the_main_branch_of_the_remote_comes_first(git: Git, tmp_path: Path) -> None:
    published = git("rev-parse", "HEAD")
    git("update-ref", "refs/remotes/origin/main", published)
    commit(git, tmp_path / "not-pushed-yet")
    commit(git, tmp_path / "nor-this")
    assert find_base(tmp_path) == published


def test_uncommitted_deleted_and_untracked_files_count_and_ignored_ones_do_not(git: Git, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("edited")
    (tmp_path / "main.txt").unlink()
    (tmp_path / "untracked").write_text("")
    (tmp_path / "build.log").write_text("")
    assert changed_paths("HEAD", tmp_path) == ["main.txt", "old", "untracked"]


def test_a_renamed_file_counts_at_both_places(git: Git, tmp_path: Path) -> None:
    git("mv", "old", "new")
    assert changed_paths("HEAD", tmp_path) == ["new", "old"]


def test_every_file_counts_where_the_base_is_unknown(git: Git, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    git("clone", "--depth", "1", tmp_path.as_uri(), str(shallow))
    assert find_base(shallow) is None
    assert changed_paths(None, shallow) == [".gitignore", "main.txt", "old"]
    assert changed_paths("0" * 40, shallow) == [".gitignore", "main.txt", "old"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a clone to another account")
def test_a_clone_of_another_account_is_compared_too(git: Git, tmp_path: Path) -> None:
    """As root meets it in a container: git refuses it, and every test would run."""
    clone = tmp_path / "clone"
    git("clone", "--quiet", str(tmp_path), str(clone))
    for path in (clone, clone / ".git"):
        os.chown(path, 12345, 12345)
    assert find_base(clone) is not None
    assert changed_paths(find_base(clone), clone) != changed_paths(None, clone)


def test_every_file_counts_outside_git(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("")
    assert changed_paths(find_base(tmp_path), tmp_path) == [".gitignore"]


def test_paths_below_folders() -> None:
    paths = ["kubesim", "kubesim/a.py", "kubesim2/a.py", "tests/kubesim/a.py"]
    assert below(paths, ["kubesim/"]) == ["kubesim", "kubesim/a.py"]
    assert below(paths, []) == paths
