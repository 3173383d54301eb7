# SPDX-License-Identifier: BSD-2-Clause
"""Which files of a clone go into the tarball."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.tree import ROOT, git, let_through, shipped

PRIVATE = [
    "id_rsa",
    "kubeconfig",
    "secrets.yml",
    "notes.md",
    "plugins/id_rsa",
    "plugins/modules/kubeconfig",
    "plugins/modules/gpuctl_job.py.orig",
    "roles/jobs/id_rsa",
    "roles/jobs/vars/secrets.yml",
    "playbooks/inventory",
    "playbooks/group_vars/all.yml",
    "meta/token.txt",
    "docs/passwords.txt",
    "examples/manifests/kubeconfig",
    "changelogs/fragments/.env",
    "nested/README.md",
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("galaxy.yml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_private_file_that_lies_in_the_clone_is_not_published(clone: Path):
    """The tarball has no file that git or its list of contents does not name."""
    public = ["README.md", "plugins/module_utils/kube/client.py", "plugins/action/x.py", "roles/jobs/tasks/main.yml"]
    for name in (*PRIVATE, *public):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("x")
    assert shipped(clone) == sorted([*public, "galaxy.yml"])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only git knows what belongs to the clone")
def test_what_belongs_to_the_collection_is_listed():
    tracked = (git(ROOT, "ls-files") or "").splitlines()
    listed = set(shipped(ROOT))
    assert [name for name in let_through(ROOT) if name in tracked and name not in listed] == []
