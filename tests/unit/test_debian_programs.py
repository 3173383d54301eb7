# SPDX-License-Identifier: BSD-2-Clause
"""tools/debian_programs.py: where programs come from, and what is said of those that cannot be had."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import debian_programs


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH; nothing has been unpacked."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("cp", "dirname"):
        (directory / name).symlink_to(next(p for d in ("/bin", "/usr/bin") if (p := Path(d, name)).exists()))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(debian_programs, "UNPACKED", tmp_path / "programs")
    monkeypatch.setattr(debian_programs, "_LISTS", tmp_path / "apt")
    debian_programs._failure.cache_clear()
    return directory


def script(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


SERVER = """\
#!{python}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

given = dict(option.split("=", 1) for option in sys.argv[1:])
address, port = given["--web.listen-address"].split(":")
open(given["--config.file"]).close()


class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()


HTTPServer((address, int(port)), Ready).serve_forever()
"""


def server(path: Path) -> Path:
    """One that is ready at once."""
    script(path).write_text(SERVER.format(python=sys.executable))
    return path


def all_programs(directory: Path) -> None:
    for name in ("prometheus", "prometheus-alertmanager"):
        server(directory / name)
    for name in ("promtool", "amtool"):
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


def test_without_apt_get_it_says_what_is_left_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not debian_programs.bring()
    assert capsys.readouterr().err == (
        "prometheus, prometheus-alertmanager cannot be used: there is no apt-get here. What needs them is left out.\n"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "echo starting; echo 'ts=1 err=\"open default.tmpl: no such file\"'; exit 1",
            "open default.tmpl: no such file",
        ),
        ("echo 'starting'; echo 'cannot listen' >&2; exit 1", "cannot listen"),
        ("exit 3", "has ended with 3"),
    ],
    ids=["an error in a log", "the last line", "no word"],
)
def test_a_server_that_ends_does_not_count(path: Path, text: str, reason: str) -> None:
    program = script(path / "prometheus-alertmanager", text)
    assert debian_programs.find(program.name) is None
    missing = debian_programs.why_missing([program.name, "amtool"])
    assert missing is not None
    assert missing.startswith("programs not found: amtool; prometheus-alertmanager does not start: ")
    assert missing.endswith(f"{reason}. Run `make programs`, or install their Debian packages")
    assert "\n" not in missing


def test_a_tool_that_fails_does_not_count(path: Path) -> None:
    script(path / "amtool", "echo 'libc is too old' >&2; exit 1")
    assert debian_programs.find("amtool") is None
    assert "amtool does not start: libc is too old." in str(debian_programs.why_missing(["amtool"]))


def test_a_program_of_another_machine_does_not_count(path: Path) -> None:
    script(path / "promtool").write_bytes(b"\x7fELF")
    assert "promtool does not start: " in str(debian_programs.why_missing(["promtool"]))


def test_the_unpacked_program_is_used_where_the_one_on_path_does_not_start(path: Path) -> None:
    script(path / "promtool", "exit 1")
    unpacked = script(debian_programs.UNPACKED / "usr" / "bin" / "promtool")
    assert debian_programs.find("promtool") == unpacked


def test_a_server_is_stopped_with_what_it_has_started(path: Path) -> None:
    """As proot, which goes on while its program runs."""
    own, pid = server(path.parent / "server"), path.parent / "pid"
    script(path / "prometheus", f'trap : TERM; {own} "$@" & echo $! >{pid}; wait; wait')
    assert debian_programs.find("prometheus") is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.fixture
def packages(path: Path) -> Path:
    """What the packages hold: a directory for each. apt-get and dpkg know these."""
    directory = path.parent / "packages"
    server(directory / "prometheus/usr/bin/prometheus")
    script(directory / "prometheus/usr/bin/promtool")
    server(directory / "prometheus-alertmanager/usr/bin/prometheus-alertmanager")
    script(directory / "prometheus-alertmanager/usr/bin/amtool")
    # It runs the program, and writes down what it was to show to it and where.
    script(directory / "proot/usr/bin/proot", f'echo "$LD_LIBRARY_PATH $1 $2" >{path.parent}/shown; shift 2; exec "$@"')
    script(directory / "libtalloc2/usr/lib/any/libtalloc.so.2")
    script(
        path / "apt-get",
        f"""[ "$1" = update ] && exit
[ -d "{directory}/$2" ] || {{ echo "E: Unable to locate package $2"; exit 100; }}
echo >"$2.deb\"""",
    )
    script(path / "dpkg", f'[ "$1" = -x ] || exit 1; name=${{2##*/}}; cp -r "{directory}/${{name%.deb}}/." "$3"')
    return directory


def test_packages_are_unpacked_and_not_installed(packages: Path) -> None:
    assert debian_programs.bring()
    assert debian_programs.find("amtool") == debian_programs.UNPACKED / "usr" / "bin" / "amtool"
    assert debian_programs.find("prometheus") == debian_programs.UNPACKED / "usr" / "bin" / "prometheus"
    assert not debian_programs._LISTS.exists()


def test_alertmanager_finds_its_templates_where_they_are_unpacked(packages: Path) -> None:
    assert debian_programs.bring()
    root, templates = debian_programs.UNPACKED, "usr/share/prometheus/alertmanager"
    assert debian_programs.find("prometheus-alertmanager") == root / "bin" / "prometheus-alertmanager"
    shown = (packages.parent / "shown").read_text().split()
    assert shown == [f"{root}/usr/lib/any", "-b", f"{root}/{templates}:/{templates}"]


def test_promtool_may_be_a_package_of_its_own(packages: Path) -> None:
    promtool = packages / "promtool/usr/bin/promtool"
    promtool.parent.mkdir(parents=True)
    (packages / "prometheus/usr/bin/promtool").rename(promtool)
    assert debian_programs.bring()
    assert debian_programs.find("promtool") == debian_programs.UNPACKED / "usr" / "bin" / "promtool"


def test_a_package_that_cannot_be_had_does_not_keep_the_others_away(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (packages / "prometheus").rename(packages / "other")
    assert not debian_programs.bring()
    assert debian_programs.find("prometheus-alertmanager") is not None
    assert capsys.readouterr().err == (
        "prometheus cannot be used: apt-get download: E: Unable to locate package prometheus. "
        "What needs them is left out.\n"
    )


def test_an_archive_that_is_out_of_reach_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    all_programs(path)
    os.remove(path / "amtool")
    script(path / "dpkg")
    script(path / "apt-get", "echo 'E: Failed to fetch http://deb.debian.org/'; exit 100")
    assert not debian_programs.bring()
    assert "prometheus-alertmanager cannot be used: apt-get update: E: Failed to fetch" in capsys.readouterr().err
