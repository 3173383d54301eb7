# SPDX-License-Identifier: BSD-2-Clause
"""A file is replaced atomically, with its mode set before it is visible."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.logs.host_file import HostFile, parse_mode


def put(path: Path, *texts: bytes, mode: int | None = None, check_mode: bool = False) -> bool:
    file = HostFile(str(path), mode)
    parts = []
    for text in texts:
        part = file.part()
        part.write(text)
        parts.append((b"# ", part))
    return file.replace(parts, check_mode=check_mode)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_parts_follow_each_other_under_their_headings(tmp_path):
    path = tmp_path / "x.log"
    assert put(path, b"one\n", b"two\n") is True
    assert path.read_bytes() == b"# one\n# two\n"
    assert list(tmp_path.iterdir()) == [path]


CONTENT = {
    "the same": (b"a", None, False),
    "another text": (b"b", None, True),
    "the same mode": (b"a", 0o640, False),
    "another mode": (b"a", 0o644, True),
}


@pytest.mark.parametrize("check_mode", [False, True], ids=["run", "check mode"])
@pytest.mark.parametrize(("text", "mode", "changed"), CONTENT.values(), ids=CONTENT)
def test_what_counts_as_a_change(tmp_path, text, mode, changed, check_mode):
    path = tmp_path / "x.log"
    put(path, b"a", mode=0o640)
    assert put(path, text, mode=mode, check_mode=check_mode) is changed
    assert path.read_bytes() == (b"# a" if check_mode else b"# " + text)
    assert mode_of(path) == (0o640 if check_mode else mode or 0o640)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("mode", "expected"), [(None, 0o600), (0o644, 0o644)])
def test_a_new_file_is_private_unless_a_mode_is_given(tmp_path, mode, expected):
    path = tmp_path / "x.log"
    assert put(path, b"a", check_mode=True, mode=mode) is True
    assert not path.exists()
    put(path, b"a", mode=mode)
    assert mode_of(path) == expected


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "logs").mkdir()
    link = tmp_path / "x.log"
    link.symlink_to(tmp_path / "logs" / "real.log")
    put(link, b"a")
    assert link.is_symlink()
    assert (tmp_path / "logs" / "real.log").read_bytes() == b"# a"


def test_a_link_that_is_laid_while_the_log_is_read_is_replaced(tmp_path):
    path, theirs = tmp_path / "x.log", tmp_path / "theirs"
    theirs.write_bytes(b"theirs")
    file = HostFile(str(path))
    part = file.part()
    part.write(b"log")
    path.symlink_to(theirs)
    assert file.history() is None
    assert file.replace([(b"", part)], check_mode=False) is True
    assert (path.is_symlink(), path.read_bytes(), theirs.read_bytes()) == (False, b"log", b"theirs")


def test_a_directory_that_becomes_a_link_while_the_log_is_read_is_not_followed(tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "theirs").mkdir()
    file = HostFile(str(tmp_path / "dir" / "x.log"))
    part = file.part()
    (tmp_path / "dir").rmdir()
    (tmp_path / "dir").symlink_to("theirs")
    with pytest.raises(OSError, match="dir"):
        file.replace([(b"", part)], check_mode=False)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe is a device, a socket or a named pipe\. Name a file\.$"):
        HostFile(str(tmp_path / "pipe"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=r"^dest: .*too many symbolic links"):
        HostFile(str(tmp_path / "loop"))


def test_a_path_where_no_file_can_be(tmp_path):
    with pytest.raises(ValueError, match=r"is a directory\. Name a file in it\.$"):
        HostFile(str(tmp_path))
    with pytest.raises(ValueError, match=r"Create the directory .*/no first\.$"):
        HostFile(str(tmp_path / "no" / "x.log"))


@pytest.mark.parametrize(
    ("given", "mode"), [(None, None), ("", None), ("0640", 0o640), ("640", 0o640), ("0o600", 0o600), (0o640, 0o640)]
)
def test_mode(given, mode):
    assert parse_mode(given) == mode


@pytest.mark.parametrize("given", ["u=rw", "0888", "01777", -1, 640, True, "rw"])
def test_an_invalid_mode(given):
    with pytest.raises(ValueError, match=r"^mode: .* is not a file mode\. Give octal permissions in quotes"):
        parse_mode(given)


def test_a_lock_keeps_others_out_until_it_is_released(tmp_path):
    file = HostFile(str(tmp_path / "file"))
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with file.locked(), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)
