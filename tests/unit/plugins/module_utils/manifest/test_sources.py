# SPDX-License-Identifier: BSD-2-Clause
"""Where manifests come from: files, directories, globs; and files that are not readable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load


def job(name: str) -> str:
    return f"kind: training\njob: {{name: {name}}}\nenvironment: {{image: x}}\nresources: {{cpu: 1, memory: 1Gi}}\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with manifests in it and around it, and other things; also the working directory."""
    files = {
        "b.yaml": job("b"),
        "a.yml": job("a"),
        "more/c.yaml": job("c") + "---\n" + job("d"),
        "more/e.json": "not read in a directory",
        "README.md": "# not read in a directory",
        ".hidden.yaml": "kind: nonsense",
        ".git/config.yaml": "kind: nonsense",
        "..data/f.yaml": "kind: nonsense",
        "empty/README.md": "",
        "odd [1].yaml": job("g"),
    }
    for name, text in files.items():
        path = tmp_path / "jobs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FOUND: list[tuple[list[str], list[tuple[str, int, str]]]] = [
    (["jobs/b.yaml"], [("jobs/b.yaml", 1, "b")]),
    (["jobs/more/c.yaml"], [("jobs/more/c.yaml", 1, "c"), ("jobs/more/c.yaml", 2, "d")]),
    (
        ["jobs"],
        [("jobs/a.yml", 1, "a"), ("jobs/b.yaml", 1, "b"), ("jobs/more/c.yaml", 1, "c"), ("jobs/more/c.yaml", 2, "d"),
         ("jobs/odd [1].yaml", 1, "g")],
    ),
    (["jobs/more/"], [("jobs/more/c.yaml", 1, "c"), ("jobs/more/c.yaml", 2, "d")]),
    (["jobs/b.yaml", "jobs/a.yml"], [("jobs/b.yaml", 1, "b"), ("jobs/a.yml", 1, "a")]),
    (["jobs/[ab].y*ml"], [("jobs/a.yml", 1, "a"), ("jobs/b.yaml", 1, "b")]),
    (["jobs/odd [1].yaml"], [("jobs/odd [1].yaml", 1, "g")]),
    (["jobs/**/c.yaml"], [("jobs/more/c.yaml", 1, "c"), ("jobs/more/c.yaml", 2, "d")]),
    (["jobs/m*"], [("jobs/more/c.yaml", 1, "c"), ("jobs/more/c.yaml", 2, "d")]),
    (["jobs/b.yaml", "jobs/../jobs/b.yaml", "jobs/b*"], [("jobs/b.yaml", 1, "b")]),
    ([], []),
]  # fmt: skip


@pytest.mark.parametrize(("src", "expected"), FOUND, ids=lambda value: " ".join(map(str, value))[:40] or "nothing")
@pytest.mark.usefixtures("tree")
def test_paths_lead_to_these_manifests(src: list[str], expected: list[tuple[str, int, str]]) -> None:
    documents = load(src)
    found = [(each.origin.file, each.origin.number, each.model.job.name) for each in documents]  # type: ignore[union-attr]
    assert found == expected


@pytest.mark.usefixtures("tree")
def test_a_file_behind_a_link_is_read_as_in_a_mounted_config_map() -> None:
    Path("mounted/..2026").mkdir(parents=True)
    Path("mounted/..2026/job.yaml").write_text(job("linked"), encoding="utf-8")
    Path("mounted/job.yaml").symlink_to("..2026/job.yaml")
    (document,) = load(["mounted"])
    assert document.origin.file == "mounted/job.yaml"


@pytest.mark.usefixtures("tree")
def test_a_directory_that_links_to_itself_ends() -> None:
    Path("jobs/more/again").symlink_to("..")
    assert len(load(["jobs"])) == 5


def test_files_and_a_definition_go_together(tree: Path) -> None:
    documents = load([str(tree / "jobs" / "b.yaml")], {"kind": "pool", "pool": {"name": "p"}})
    assert [document.model.kind for document in documents] == ["training", "pool"]


CONTENTS: list[tuple[str, bytes, str]] = [
    ("empty", b"", "no manifest found. Add one, or remove the empty source."),
    ("only comments", b"# later\n---\n# more\n", "no manifest found. Add one, or remove the empty source."),
    ("binary", b"\x7fELF\0\0", "binary file. Use a manifest in YAML."),
    (
        "latin-1",
        "kind: training\nname: caf\xe9\n".encode("latin-1"),
        "not UTF-8: byte 0xe9 on line 2. Save it as UTF-8.",
    ),
    ("UTF-16", "kind: training".encode("utf-16"), "UTF-16 encoding. Save it as UTF-8."),
    ("too large", b"#" * (1024 * 1024 + 1), "larger than 1024 KiB. Split it into several files."),
]


@pytest.mark.parametrize(("content", "message"), [case[1:] for case in CONTENTS], ids=[case[0] for case in CONTENTS])
def test_a_file_that_is_not_a_manifest_is_rejected(
    content: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_bytes(content)
    assert errors_of(["job.yaml"]) == [f"job.yaml: {message}"]


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(job("a"), encoding="utf-8-sig")
    assert len(load([str(tmp_path)])) == 1


def test_the_error_of_a_path_without_files_names_the_place_searched(tree: Path) -> None:
    assert errors_of(["jobs/x.yaml", "jobs/*.json", "jobs/empty", "none/"]) == [
        f"jobs/*.json: no matching file. Searched {tree}/jobs/*.json.",
        f"jobs/empty: no .yaml or .yml file in the directory. Searched {tree}/jobs/empty and below.",
        f"jobs/x.yaml: file or directory not found. Searched {tree}/jobs/x.yaml.",
        f"none/: file or directory not found. Searched {tree}/none.",
    ]


def test_the_error_of_an_absolute_path_names_it_once(tree: Path) -> None:
    assert errors_of([f"{tree}/none", f"{tree}/jobs/empty"]) == [
        f"{tree}/jobs/empty: no .yaml or .yml file in the directory. Searched below it, too.",
        f"{tree}/none: file or directory not found. Check the path.",
    ]


@pytest.mark.usefixtures("tree")
def test_reading_a_pipe_does_not_block() -> None:
    os.mkfifo("pipe.yaml")
    assert errors_of(["pipe.yaml"]) == ["pipe.yaml: not a regular file. Use a YAML file or a directory."]


@pytest.mark.usefixtures("tree")
def test_a_broken_link_is_reported() -> None:
    Path("broken.yaml").symlink_to("nowhere")
    assert errors_of(["broken.yaml"]) == ["broken.yaml: not readable: no such file or directory."]


SECRET = 'kind: training\npassword: hunter2-hunter2\njob: {name: "unclosed\n'


@pytest.fixture
def secret(tree: Path) -> Path:
    """A file outside of the working directory, which is `tree/jobs`."""
    (tree / "secret.yaml").write_text(SECRET, encoding="utf-8")
    os.chdir(tree / "jobs")
    return tree / "secret.yaml"


@pytest.mark.parametrize(
    ("src", "link"),
    [(".", "link.yaml"), ("../jobs", "more/link.yaml"), ("*.yaml", "link.yaml"), ("**/*.yaml", "more/link.yaml"),
     ("m*", "more/link.yaml")],
)  # fmt: skip
def test_a_link_out_of_the_directory_is_refused(src: str, link: str, secret: Path) -> None:
    Path(link).symlink_to(secret)
    message = "\n".join(errors_of([src]))
    assert f"link.yaml: symbolic link out of the directory: {secret.parent}/jobs. Copy the file into it" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(
    ("link", "src"),
    [("x.yaml", "x.yaml"), ("cluster", "cluster"), ("cluster", "cluster/*.yaml"), ("cluster", "cluster/secret.yaml")],
)
def test_errors_quote_no_file_behind_a_link_out_of_the_working_directory(
    link: str, src: str, absolute: bool, secret: Path
) -> None:
    Path(link).symlink_to(secret if link.endswith("yaml") else secret.parent)
    path = os.path.abspath(src) if absolute else src
    file = {"cluster": "cluster/secret.yaml"}.get(src, src.replace("*", "secret"))
    found = [each for each in errors_of([path]) if "secret.yaml" in each or "x.yaml" in each]
    assert found == [
        f"{os.path.abspath(file) if absolute else file}: 1 error, not shown because a symbolic link leads to this file "
        f"out of {secret.parent}/jobs. To see them, name the file itself."
    ]


def test_a_link_that_is_named_is_followed(secret: Path) -> None:
    secret.write_text(job("linked"), encoding="utf-8")
    Path("x.yaml").symlink_to(secret)
    (document,) = load(["x.yaml"])
    assert document.origin.file == "x.yaml"


@pytest.mark.usefixtures("tree")
def test_errors_of_several_files_are_counted_and_sorted() -> None:
    Path("z.yaml").write_text("kind: cake\n", encoding="utf-8")
    Path("y.yaml").write_text("kind: pool\npool: {name: A, descripton: x}\n", encoding="utf-8")
    with pytest.raises(ManifestErrors) as raised:
        load(["z.yaml", "jobs/b.yaml", "y.yaml"])
    assert str(raised.value).split("\n") == [
        "3 errors in 2 files; nothing was sent to the cluster:",
        "y.yaml, document 1, pool.name: invalid name: A. Use lower case letters, digits and '-', "
        "with a letter or digit first and last, such as team-a.",
        "y.yaml, document 1, pool.descripton: unknown key. Did you mean description?",
        "z.yaml, document 1, kind: unknown kind: cake. Use training, inference, notebook, compute, pool or quota.",
    ]


@pytest.mark.usefixtures("tree")
def test_a_job_in_two_files_names_the_other_file() -> None:
    Path("again.yaml").write_text(job("b"), encoding="utf-8")
    assert errors_of(["again.yaml", "jobs/b.yaml"]) == [
        "jobs/b.yaml, document 1, job.name: duplicate job in namespace default, also in again.yaml, document 1 "
        "(job.name). Use different names."
    ]


def errors_of(src: Sequence[str]) -> list[str]:
    with pytest.raises(ManifestErrors) as raised:
        load(src)
    return [str(error) for error in raised.value.errors]
