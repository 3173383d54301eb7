# SPDX-License-Identifier: BSD-2-Clause
"""Links on the way to a file: whose are followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.host_links import opened_directory, resolved

Give = Callable[[Path], None]


@pytest.fixture
def to_somebody_else(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Gives a link to another user: by its owner as root, otherwise by who one claims to be."""

    def give(link: Path) -> None:
        if os.geteuid() == 0:
            os.chown(link, 65534, 65534, follow_symlinks=False)
        else:
            other = os.geteuid() + 1
            monkeypatch.setattr(os, "geteuid", lambda: other)

    return give


def test_own_links_are_followed_as_realpath_follows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute/deep")
    (tmp_path / "real" / "up").symlink_to("../relative/../x.log")
    (tmp_path / "dangling").symlink_to("real/none/at/all")
    monkeypatch.chdir(tmp_path / "real")
    for name in ("absolute/x", "relative/../x", "real/up", "dangling/x", "none/../x", "real/./deep//x", "../../../.."):
        for path in (str(tmp_path / name), f"../{name}", f"./up/../../{name}"):
            assert str(resolved(path)) == os.path.realpath(path), path


def test_a_link_of_another_user_is_not_followed(tmp_path: Path, to_somebody_else: Give):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to("theirs")
    to_somebody_else(tmp_path / "link")
    for path in ("link", "link/x.log", "theirs/../link/x.log"):
        with pytest.raises(ValueError, match=r"/link is a symbolic link of another user \(uid \d+\)\. Name its target"):
            resolved(str(tmp_path / path))
    assert resolved(str(tmp_path / "theirs" / "x")) == tmp_path / "theirs" / "x"


def test_a_loop_of_links(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ValueError, match="too many symbolic links"):
        resolved(str(tmp_path / "a" / "x"))


def test_a_directory_is_opened_without_links_that_were_laid_since(tmp_path: Path):
    (tmp_path / "dir" / "deep").mkdir(parents=True)
    with opened_directory(tmp_path / "dir" / "deep") as descriptor:
        os.close(os.open("made", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    assert (tmp_path / "dir" / "deep" / "made").exists()
    (tmp_path / "dir").rename(tmp_path / "other")
    (tmp_path / "dir").symlink_to("other")
    with pytest.raises(OSError, match="dir"), opened_directory(tmp_path / "dir" / "deep"):
        pass
