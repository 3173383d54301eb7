# SPDX-License-Identifier: BSD-2-Clause
"""What a copy transfers, and what it believes of a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.copy.copy_archive import Archive, FileChanged
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.copy.copy_scripts import DIRECTORY, FILE, OTHER
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.copy.copy_tree import (
    LINK,
    CopyPlan,
    FileEntry,
    check_parents,
    facts,
    parse_listing,
    plan_copy,
    relative_name,
    stays_inside,
    with_digests,
)

A, B = "a" * 64, "b" * 64


def file(digest: str | None = A, size: int = 5, mode: int = 0o644) -> FileEntry:
    return FileEntry(FILE, mode, size, digest)


def directory(mode: int = 0o755) -> FileEntry:
    return FileEntry(DIRECTORY, mode)


def link(target: str) -> FileEntry:
    return FileEntry(LINK, 0o777, target=target)


PLANS: dict[str, tuple[dict[str, FileEntry], dict[str, FileEntry], dict[str, Any]]] = {
    "new": ({"a": file()}, {}, {"files": ("a",)}),
    "the same": ({"a": file()}, {"a": file()}, {"unchanged": 1}),
    "other content": ({"a": file(A)}, {"a": file(B)}, {"files": ("a",)}),
    "other size": ({"a": file(None)}, {"a": file(None, size=6)}, {"files": ("a",)}),
    "content that is not known": ({"a": file(None)}, {"a": file(None)}, {"files": ("a",)}),
    "both empty": ({"a": file(None, size=0)}, {"a": file(None, size=0)}, {"unchanged": 1}),
    "other permissions": ({"a": file(mode=0o600)}, {"a": file()}, {"modes": {"a": 0o600}}),
    "a directory that exists keeps its permissions": ({"d": directory(0o700)}, {"d": directory(0o755)}, {}),
    "a new directory can always be entered": (
        {"d": directory(0o500)},
        {},
        {"directories": ("d",), "modes": {"d": 0o700}},
    ),
    "parents first": (
        {"d/e": directory(), "d": directory()},
        {},
        {"directories": ("d", "d/e"), "modes": {"d": 0o755, "d/e": 0o755}},
    ),
    "a link": ({"l": link("a"), "m": link("b")}, {"l": link("b"), "m": link("b")}, {"links": ("l",), "unchanged": 1}),
    "a link in the place of a file": ({"l": link("a")}, {"l": file()}, {"links": ("l",)}),
    "a file in the place of a link": ({"l": file()}, {"l": link("a")}, {"files": ("l",)}),
    "what cannot be copied": ({"l": link("/etc"), "p": FileEntry(OTHER)}, {}, {"skipped": ("l", "p")}),
    "only at the destination": ({}, {"a": file()}, {}),
}


@pytest.mark.parametrize(("source", "dest", "expected"), PLANS.values(), ids=PLANS)
def test_what_differs_is_copied(source: dict[str, FileEntry], dest: dict[str, FileEntry], expected: dict[str, Any]):
    assert plan_copy(source, dest) == CopyPlan(**expected)


@pytest.mark.parametrize(
    ("source", "dest"),
    [(file(), directory()), (directory(), file()), (directory(), link("x")), (link("x"), directory())],
)
def test_a_directory_never_replaces_anything_else_or_is_replaced(source: FileEntry, dest: FileEntry):
    with pytest.raises(ValueError, match=rf"^x is a {source.kind}, but a {dest.kind} at the destination\."):
        plan_copy({"x": source}, {"x": dest})


def test_only_what_nothing_else_distinguishes_is_read():
    there = {"same size": file(B), "other size": file(B, size=9), "unknown": file(None)}
    read: list[str] = []

    def digest(name: str) -> str:
        read.append(name)
        return A

    tree = {name: file(None) for name in (*there, "new")}
    assert with_digests(tree, there, digest)["same size"].digest == A
    assert read == ["same size"]


LINKS = {
    "beside it": ("a", "b", True),
    "below": ("a", "d/e", True),
    "up, within": ("d/a", "../b", True),
    "up and up, within": ("d/e/a", "../../b", True),
    "the directory itself": ("a", ".", True),
    "with blanks that mean nothing": ("d/a", ".././/b", True),
    "absolute": ("a", "/etc/passwd", False),
    "out": ("a", "..", False),
    "out of it from below": ("d/a", "../../b", False),
    "up again after a name, which may be a link": ("d/a", "../b/../..", False),
    "up again, although it seems to stay": ("d/a", "b/../c", False),
    "nothing": ("a", "", False),
    "the end of a string in C": ("a", "b\0/../..", False),
}


@pytest.mark.parametrize(("name", "target", "inside"), LINKS.values(), ids=LINKS)
def test_a_link_must_not_lead_out(name: str, target: str, inside: bool):
    assert stays_inside(name, target) is inside


# -- what a container lists ------------------------------------------------------------------------------------------


def test_a_listing():
    output = (
        "space 2\ndirectory\n"
        "s 41ed 4096 .\ns 81a4 5 ./a b\ns a1ff 3 ./l\ns 21b6 0 ./null\ns 8dc0 1 ./d/s\n"
        f"l ./l\na b\n{A}  ./a b\n\\{B}  ./d/s\n"
    )
    listing = parse_listing(output.encode())
    assert (listing.kind, listing.space, listing.has_digests) == (DIRECTORY, 2048, True)
    assert listing.entries == {
        ".": FileEntry(DIRECTORY, 0o755, 4096),
        "a b": FileEntry(FILE, 0o644, 5, A),
        "l": FileEntry(LINK, 0o777, 3, target="a b"),
        "null": FileEntry(OTHER, 0o666),
        "d/s": FileEntry(FILE, 0o700, 1, B),  # without the bit setuid
    }


def test_a_listing_with_names_in_any_encoding():
    listing = parse_listing(b"file\ns 81a4 5 ./\xff\\x\n\\" + A.encode() + b"  ./\xff\\\\x\n")
    (name,) = listing.entries
    assert name == "\udcff\\x"
    assert listing.entries[name].digest == A


def test_a_container_without_the_tools():
    assert parse_listing(b"lacks tar xargs\n").lacks == ("tar", "xargs")
    assert not parse_listing(b"no-digests\nmissing\n").has_digests


HOSTILE = {
    "nothing": "",
    "anything else": "hello\n",
    "up": "directory\ns 81a4 5 ./../evil\n",
    "up in the middle": "directory\ns 81a4 5 ./d/../../evil\n",
    "absolute": "directory\ns 81a4 5 /etc/cron.d/evil\n",
    "no name": "directory\ns 81a4 5 ./\n",
    "a link that was not listed": "directory\nl ./l\na\n",
    "no size": "directory\ns 81a4 x ./a\n",
    "negative": "directory\ns 81a4 -5 ./a\n",
    "half a line": "directory\ns 81a4\n",
    "a name with a line break": "directory\ns 81a4 5 ./a\nb\n",
    "a digest of another kind": f"directory\n{'z' * 64}  ./a\n",
    "a digest of a file elsewhere": f"directory\n{A}  ../a\n",
}


@pytest.mark.parametrize("output", HOSTILE.values(), ids=HOSTILE)
def test_a_listing_that_is_none_is_refused(output: str):
    with pytest.raises(ValueError, match=r"."):
        parse_listing(output.encode())


@pytest.mark.parametrize("parent", [{}, {"d": link("/etc")}, {"d": link("e")}, {"d": file()}], ids=str)
def test_files_must_be_in_listed_directories(parent: dict[str, FileEntry]):
    with pytest.raises(ValueError, match=r"^'d/x' is not in a directory$"):
        check_parents({".": directory(), **parent, "d/x": file()})
    check_parents({"d": directory(), "d/x": file(), "a": file()})


@pytest.mark.parametrize("name", ["a", "../a", "./..", "./a/..", ".//a", "./a//b", "./a/", "./a\0b", "..", "/", ""])
def test_a_name_must_be_below_the_directory(name: str):
    with pytest.raises(ValueError, match="not a name below the directory"):
        relative_name(name)


def test_what_a_diff_shows():
    tree = {".": directory(), "a": file(), "b": file(None, size=1), "l": link("a\x1b")}
    assert facts(tree, [*tree, "missing"]) == {
        ".": "directory, mode 0755",
        "a": "5 bytes, mode 0644, sha256 aaaaaaaaaaaa",
        "b": "1 byte, mode 0644",
        "l": r"link to a\x1b",
    }


# -- the archive -----------------------------------------------------------------------------------------------------


def test_the_size_of_an_archive_is_known_before(tmp_path: Path):
    sizes = {"d/empty": 0, "d/block": 512, "d/more": 70_000, "n" * 200: 1}
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    tree = {**{name: FileEntry(FILE, 0o644, size) for name, size in sizes.items()}, "l": link("d" * 200)}
    plan = CopyPlan(tuple(sizes), ("l",), ("e",), {"f": 0o600, "e": 0o755})
    archive = Archive(lambda name: tmp_path / name, tree, plan)
    assert sum(map(len, archive.pieces())) == archive.size


@pytest.mark.parametrize("size", [4, 6])
def test_a_file_that_changes_meanwhile_is_not_sent(tmp_path: Path, size: int):
    (tmp_path / "a").write_bytes(b"x" * size)
    archive = Archive(lambda name: tmp_path / name, {"a": file(size=5)}, CopyPlan(("a",)))
    with pytest.raises(FileChanged, match=r"^a changed while it was copied$"):
        list(archive.pieces())
