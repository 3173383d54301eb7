# SPDX-License-Identifier: BSD-2-Clause
"""Copy the collection's files to .cache/tree/ansible_collections/runwhere/gpuctl:  python -m tools.tree [shipped]

With ``shipped``, only those of the tarball, to .cache/shipped/ansible_collections/runwhere/gpuctl.

ansible-test, ansible-galaxy and the linters work on such a copy: ansible-test wants the path
ansible_collections/<namespace>/<name> and resolves symbolic links, and none of them should see what a
build, an editor or a virtual environment left in the clone.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
# What the tarball consists of. Anything else that lies in the clone, such as a key or a note, is not published.
SHIPPED = (
    "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "MAINTAINERS", "README.md", "README.zh-CN.md",
    "REUSE.toml", "SECURITY.md", "galaxy.yml", "requirements.txt",
    "LICENSES/*.txt",
    "accelerators/*.yml",
    "changelogs/changelog.yaml", "changelogs/config.yaml", "changelogs/fragments/*.yml",
    "docs/*.md", "docs/*.png", "docs/*.svg", "docs/docsite/*.yml", "docs/docsite/rst/*.rst",
    "extras/gpuctl.sh",
    "extensions/eda/plugins/*/*.py", "extensions/eda/rulebooks/*.yml",
    "examples/ansible.cfg", "examples/*.yaml", "examples/cluster/*.yaml", "examples/manifests/*.yaml",
    "examples/mixed/*.yaml",
    "meta/ee-bindep.txt", "meta/execution-environment.yml", "meta/extensions.yml", "meta/runtime.yml",
    "playbooks/*.yml", "playbooks/tasks/*.yml", "playbooks/vars/*.yml",
    "plugins/**/*.py", "plugins/plugin_utils/*.css",
    "roles/*/README.md", "roles/*/defaults/main.yml", "roles/*/meta/*.yml", "roles/*/tasks/*.yml",
    "roles/*/templates/*.j2", "roles/*/files/dashboards/*.json", "roles/*/vars/main.yml",
    "schemas/*.schema.json",
    "tests/config.yml",
)  # fmt: skip


def _expression(pattern: str) -> str:
    """``*`` stands for a part of a name, ``**/`` for any number of folders."""
    return re.escape(pattern).replace(r"\*\*/", "(?:[^/]+/)*").replace(r"\*", "[^/]*")


_SHIPPED = re.compile("|".join(map(_expression, SHIPPED)))


def copy_tree(top: Path, names: list[str]) -> Path:
    """Copy the files `names` of the clone to a fresh `top`/ansible_collections/runwhere/gpuctl, and return that."""
    tree = top / "ansible_collections" / "runwhere" / "gpuctl"
    shutil.rmtree(tree, ignore_errors=True)
    for name in names:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return tree


def files(root: Path) -> list[str]:
    """Paths relative to `root`: what git tracks or would track; without git, what .gitignore leaves."""
    names = _git_files(root)
    if names is None:
        names = list(_walk(root))
    return sorted(name for name in names if os.path.lexists(root / name))  # a deleted file is still in git's index


def shipped(root: Path) -> list[str]:
    """Those that go into the tarball: what SHIPPED names, without what galaxy.yml keeps out."""
    return [name for name in let_through(root) if _SHIPPED.fullmatch(name)]


def let_through(root: Path) -> list[str]:
    """What ``ansible-galaxy collection build`` takes from the clone, for those who install from it."""
    ignored: list[str] = yaml.safe_load((root / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    return [name for name in files(root) if not _is_kept_out(Path(name), ignored)]


def _is_kept_out(path: Path, patterns: list[str]) -> bool:
    """As ansible-galaxy matches build_ignore: the whole path, or that of a folder above it."""
    paths = [str(path), *map(str, path.parents[:-1])]  # the last parent is "."
    return any(fnmatch.fnmatch(each, pattern) for each in paths for pattern in patterns)


def _git_files(root: Path) -> list[str] | None:
    if not (root / ".git").exists():  # .git is a file in a worktree
        return None
    listing = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return None if listing is None else sorted({name for name in listing.split("\0") if name})


def git(root: Path, *arguments: str) -> str | None:
    """What git printed; None when it failed or is not installed.

    A clone of another user, as root meets it in a container, is trusted: who runs this runs the clone's code anyway.
    """
    # The Makefile keeps git from looking above the clone; `root` itself must be found all the same.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
    except (OSError, subprocess.CalledProcessError):
        return None
    return os.fsdecode(done.stdout)


def _walk(root: Path) -> Iterator[str]:
    patterns = _ignore_patterns(root)
    for folder, folders, names in os.walk(root):
        below = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not _is_ignored((below / name).as_posix(), patterns)]
        paths = ((below / name).as_posix() for name in names)
        yield from (path for path in paths if not _is_ignored(path, patterns))


def _ignore_patterns(root: Path) -> list[str]:
    lines = (root / ".gitignore").read_text(encoding="utf-8").splitlines()
    return [".git", *(line.rstrip("/") for line in lines if line and not line.startswith("#"))]


def _is_ignored(path: str, patterns: list[str]) -> bool:
    """The part of gitignore(5) that .gitignore uses: paths from the root (`/build/`), names at any depth (`*.pyc`)."""
    name = path.rpartition("/")[2]
    return any(
        path == pattern[1:] if pattern.startswith("/") else fnmatch.fnmatchcase(name, pattern) for pattern in patterns
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["shipped"]:
        copy_tree(CACHE / "shipped", shipped(ROOT))
    else:
        copy_tree(CACHE / "tree", files(ROOT))
