# SPDX-License-Identifier: BSD-2-Clause
"""tools/debian_programs.py: where programs come from, and what is said of those that cannot be had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools import debian_programs


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH; nothing has been unpacked."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(debian_programs, "UNPACKED", tmp_path / "programs")
    monkeypatch.setattr(debian_programs, "_LISTS", tmp_path / "apt")
    return directory


def script(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def all_programs(directory: Path) -> None:
    for programs in debian_programs.PACKAGES.values():
        for name in programs:
            script(directory / name)


def test_a_program_on_path_comes_first(path: Path) -> None:
    unpacked = script(debian_programs.UNPACKED / "usr" / "bin" / "promtool")
    assert debian_programs.find("promtool") == unpacked
    assert debian_programs.find("promtool") != script(path / "promtool")
    assert debian_programs.find("promtool") == path / "promtool"


def test_what_is_missing_is_named_with_what_brings_it(path: Path) -> None:
    script(path / "promtool")
    reason = "programs not found: prometheus, amtool. Run `make programs`, or install their Debian packages"
    assert debian_programs.why_missing(["prometheus", "promtool", "amtool"]) == reason
    assert debian_programs.why_missing(["promtool"]) is None


def test_nothing_is_downloaded_when_all_programs_are_there(path: Path) -> None:
    all_programs(path)
    assert debian_programs.bring()
    assert not debian_programs._LISTS.exists()


def test_without_apt_get_it_says_that_tests_are_skipped(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not debian_programs.bring()
    assert capsys.readouterr().err == (
        "prometheus, prometheus-alertmanager cannot be brought: there is no apt-get here. "
        "Tests that need them are skipped.\n"
    )


def test_packages_are_unpacked_and_not_installed(path: Path) -> None:
    for name in ("mkdir", "touch", "echo", "chmod"):
        (path / name).symlink_to(next(p for d in ("/bin", "/usr/bin") if (p := Path(d, name)).exists()))
    script(
        path / "apt-get",
        'case "$*" in *download*) for p in prometheus prometheus-alertmanager; do touch $p.deb; done;; esac',
    )
    bin_directory = debian_programs.UNPACKED / "usr" / "bin"
    script(
        path / "dpkg",
        f'[ "$1" = -x ] || exit 1; mkdir -p {bin_directory}\n'
        f"for p in prometheus promtool prometheus-alertmanager amtool; do touch {bin_directory}/$p; done",
    )
    assert debian_programs.bring()
    assert debian_programs.find("amtool") == bin_directory / "amtool"
    assert not debian_programs._LISTS.exists()


def test_an_archive_that_is_out_of_reach_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    all_programs(path)
    os.remove(path / "amtool")
    script(path / "dpkg")
    script(path / "apt-get", "echo 'E: Failed to fetch http://deb.debian.org/'; exit 100")
    assert not debian_programs.bring()
    assert "prometheus-alertmanager cannot be brought: apt-get update: E: Failed to fetch" in capsys.readouterr().err
