# SPDX-License-Identifier: BSD-2-Clause
"""Check and build a release:  python -m tools.release check [v1.2.0]; python -m tools.release bundle

`check` holds the tag to galaxy.yml, and the changelog to its fragments, and writes the notes of the release. Without a
tag it rehearses: fragments that are not released yet are released in a copy. `bundle` puts the tarball of
`make collection`, its bill of materials (SPDX 2.3) and the checksums of both beside the notes, into build/release.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.tree import CACHE, ROOT, copy_tree, files

RELEASE = ROOT / "build" / "release"
NOTES = "NOTES.md"
_REQUIREMENT = re.compile(r"([A-Za-z][\w.-]*)(\S*)")

Object = dict[str, Any]


def main(arguments: list[str]) -> int:
    about = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    if arguments[0] == "bundle":
        bundle(about)
        return 0
    shutil.rmtree(RELEASE, ignore_errors=True)
    RELEASE.mkdir(parents=True)
    problems = check(about["version"], (arguments[1:] or [""])[0])
    print("\n".join(problems) or f"{about['version']}: version and changelog agree")
    return 1 if problems else 0


# ---- Version and changelog


def check(version: str, tag: str) -> list[str]:
    tree = copy_tree(CACHE / "release", files(ROOT))
    changes = yaml.safe_load((tree / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))
    fragments = sorted(path.name for path in (tree / "changelogs" / "fragments").glob("*.yml"))
    if problems := disagreements(version, tag, changes["releases"], fragments):
        return problems
    written = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    if version in changes["releases"]:
        _changelog(tree, "generate")
        if (tree / "CHANGELOG.md").read_text(encoding="utf-8") != written:
            return ["CHANGELOG.md is not what antsibull-changelog writes. Run: make changelog"]
    else:
        _changelog(tree, "release", "--reload-plugins")
    notes = ("--only-latest", "--output", str(RELEASE / NOTES), "--output-format", "md")
    _changelog(tree, "generate", *notes)
    return []


def disagreements(version: str, tag: str, releases: Mapping[str, Object], fragments: list[str]) -> list[str]:
    """Why this is no release. Without a tag, the version may be one that the changelog does not have yet."""
    released = {name for release in releases.values() for name in release["fragments"]}
    pending = [name for name in fragments if name not in released]
    problems = []
    if tag and tag != f"v{version}":
        problems.append(f"The tag is {tag}, but the version in galaxy.yml is {version}. Tag v{version}.")
    if tag and version not in releases:
        problems.append(f"CHANGELOG.md has no version {version}. Run: make changelog")
    elif version in releases and pending:
        problems.append(f"Fragments that no release has: {', '.join(pending)}. Run: make changelog")
    return problems


def _changelog(tree: Path, *arguments: str) -> None:
    subprocess.run(["antsibull-changelog", *arguments], cwd=tree, stdin=subprocess.DEVNULL, check=True)


# ---- Bill of materials and checksums


def bundle(about: Object) -> None:
    name = f"{about['namespace']}-{about['name']}-{about['version']}"
    tarball = shutil.copy2(ROOT / "build" / f"{name}.tar.gz", RELEASE)
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    bill = bill_of_materials(about, Path(tarball), requirements, licences())
    bill_path = RELEASE / f"{name}.spdx.json"
    bill_path.write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in (bill_path, Path(tarball))]
    (RELEASE / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print("\n".join(str(path.relative_to(ROOT)) for path in sorted(RELEASE.iterdir())))


def licences() -> dict[str, list[str]]:
    """The licence expressions of every file, as REUSE finds them."""
    command = ["reuse", "--root", str(ROOT), "lint", "--json"]
    found = json.loads(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout)
    return {each["path"]: sorted({one["value"] for one in each["spdx_expressions"]}) for each in found["files"]}


def bill_of_materials(about: Object, tarball: Path, requirements: str, licences: Mapping[str, list[str]]) -> Object:
    """SPDX 2.3: every file of the tarball, and the libraries that it needs and does not contain."""
    content = tarball.read_bytes()
    with tarfile.open(tarball) as archive:
        members = sorted((each.name, read.read()) for each in archive if (read := archive.extractfile(each)))
    listed = [_file(index, name, data, licences.get(name)) for index, (name, data) in enumerate(members)]
    sha1 = sorted(each["checksums"][0]["checksumValue"] for each in listed)
    collection = {
        "SPDXID": "SPDXRef-collection",
        "name": f"{about['namespace']}.{about['name']}",
        "versionInfo": about["version"],
        "packageFileName": tarball.name,
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
        "downloadLocation": f"https://galaxy.ansible.com/download/{tarball.name}",
        "homepage": about["homepage"],
        "supplier": "NOASSERTION",
        "licenseDeclared": " AND ".join(about["license"]),
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sha1).encode()).hexdigest()},
    }
    libraries = [_library(*pair) for pair in _requirements(requirements)]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": tarball.name,
        "documentNamespace": f"{about['repository']}/spdx/{tarball.name}-{hashlib.sha256(content).hexdigest()}",
        "creationInfo": {
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "creators": ["Tool: tools/release.py"],
        },
        "packages": [collection, *libraries],
        "files": listed,
        "relationships": [
            _relationship("SPDXRef-DOCUMENT", "DESCRIBES", collection),
            *(_relationship(collection["SPDXID"], "CONTAINS", each) for each in listed),
            *(_relationship(collection["SPDXID"], "DEPENDS_ON", each) for each in libraries),
        ],
    }


def _file(index: int, name: str, data: bytes, licences: list[str] | None) -> Object:
    sums = {"SHA1": hashlib.sha1(data), "SHA256": hashlib.sha256(data)}  # SPDX requires SHA1 of files
    return {
        "SPDXID": f"SPDXRef-file-{index}",
        "fileName": f"./{name}",
        "checksums": [{"algorithm": kind, "checksumValue": value.hexdigest()} for kind, value in sums.items()],
        "licenseConcluded": "NOASSERTION",
        "licenseInfoInFiles": licences or ["NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def _requirements(text: str) -> list[tuple[str, str]]:
    """The libraries and the versions of them that are allowed."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(match[1], match[2]) for line in lines if (match := _REQUIREMENT.match(line))]


def _library(name: str, versions: str) -> Object:
    return {
        "SPDXID": f"SPDXRef-{name}",
        "name": name,
        "downloadLocation": f"https://pypi.org/project/{name}/",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "comment": f"Not in the tarball. Any version that fits: {versions}",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:pypi/{name.lower()}",
            }
        ],
    }


def _relationship(of: str, kind: str, to: Object) -> Object:
    return {"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to["SPDXID"]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
