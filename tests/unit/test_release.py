# SPDX-License-Identifier: BSD-2-Clause
"""tools/release.py: what is no release, and the bill of materials of a tarball."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.release import bill_of_materials, disagreements

ONE = {"1.0.0": {"fragments": ["1.0.0.yml"]}}
BOTH = {**ONE, "1.1.0": {"fragments": ["1.1.0.yml", "copy.yml"]}}
WRITTEN, ADDED = ["1.0.0.yml", "1.1.0.yml", "copy.yml"], ["1.0.0.yml", "1.1.0.yml", "copy.yml", "late.yml"]


@pytest.mark.parametrize(
    ("tag", "releases", "fragments", "expected"),
    [
        ("v1.1.0", BOTH, WRITTEN, []),
        ("", BOTH, WRITTEN, []),
        ("", ONE, WRITTEN, []),  # a rehearsal before `make changelog`
        ("v1.1.0", ONE, WRITTEN, ["CHANGELOG.md has no version 1.1.0. Run: make changelog"]),
        ("v1.1.0", BOTH, ADDED, ["Fragments that no release has: late.yml. Run: make changelog"]),
        ("v1.2.0", BOTH, WRITTEN, ["The tag is v1.2.0, but the version in galaxy.yml is 1.1.0. Tag v1.1.0."]),
    ],
)
def test_a_release_has_its_version_and_all_fragments(
    tag: str, releases: dict[str, Any], fragments: list[str], expected: list[str]
) -> None:
    assert disagreements("1.1.0", tag, releases, fragments) == expected


ABOUT = {"namespace": "a", "name": "b", "version": "1.1.0", "license": ["MIT"], "homepage": "h", "repository": "r"}
NEEDED = "# What it needs.\nkubernetes>=31.0.0,!=36.0.0\nPyYAML>=6.0  # of ansible-core\n"


@pytest.fixture
def bill(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "a-b-1.1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"README.md": b"read", "plugins/x.py": b"code"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return bill_of_materials(ABOUT, path, NEEDED, {"plugins/x.py": ["BSD-2-Clause"]})


def test_the_bill_has_every_file_with_its_licence_and_checksum(bill: dict[str, Any]) -> None:
    files = {each["fileName"]: each for each in bill["files"]}
    assert {name: each["licenseInfoInFiles"] for name, each in files.items()} == {
        "./README.md": ["NOASSERTION"],
        "./plugins/x.py": ["BSD-2-Clause"],
    }
    sums = {each["algorithm"]: each["checksumValue"] for each in files["./plugins/x.py"]["checksums"]}
    assert sums["SHA256"] == hashlib.sha256(b"code").hexdigest()


def test_the_bill_names_the_libraries_that_the_tarball_needs(bill: dict[str, Any]) -> None:
    comments = {each["name"]: each.get("comment", "").rpartition(": ")[2] for each in bill["packages"]}
    assert comments == {"a.b": "", "kubernetes": ">=31.0.0,!=36.0.0", "PyYAML": ">=6.0"}
    related = [(each["relationshipType"], each["relatedSpdxElement"]) for each in bill["relationships"]]
    assert related == [
        ("DESCRIBES", "SPDXRef-collection"),
        ("CONTAINS", "SPDXRef-file-0"),
        ("CONTAINS", "SPDXRef-file-1"),
        ("DEPENDS_ON", "SPDXRef-kubernetes"),
        ("DEPENDS_ON", "SPDXRef-PyYAML"),
    ]
