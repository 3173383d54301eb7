# SPDX-License-Identifier: BSD-2-Clause
"""Print the files that changed:  python -m tools.changed [path…]

Compares the working tree, with its uncommitted and untracked files, with the commit at which the branch left the main
branch. Where that commit is unknown, as in a shallow clone or outside git, every file counts as changed: no test is
skipped by mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tools.tree import ROOT, files, git

#: Names of the main branch, in order of preference.
MAIN_BRANCHES = ("origin/HEAD", "origin/main", "main")


def changed_paths(base: str | None, root: Path = ROOT) -> list[str]:
    """Paths, relative to `root`, that differ from the commit `base`; every path when there is no such commit."""
    if base is None:
        return files(root)
    # Without rename detection a renamed file counts at its old place as well.
    differing = git(root, "diff", "--name-only", "--no-renames", "-z", base)
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if differing is None or untracked is None:
        return files(root)
    return sorted({name for name in (differing + untracked).split("\0") if name})


def find_base(root: Path = ROOT) -> str | None:
    """The commit to compare with: where HEAD left the main branch, or the parent of HEAD on the main branch itself."""
    head = git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    for branch in MAIN_BRANCHES:
        base = git(root, "merge-base", "HEAD", branch)
        if base and base != head:
            return base.strip()
        if base:
            break
    parent = git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    return parent.strip() if parent else None


def below(paths: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Those of the paths that are one of `folders` or lie in one; all of them when no folder is given."""
    wanted = [folder.rstrip("/") for folder in folders]
    return [path for path in paths if not wanted or any(path == name or path.startswith(f"{name}/") for name in wanted)]


if __name__ == "__main__":
    print("\n".join(below(changed_paths(find_base()), sys.argv[1:])))
