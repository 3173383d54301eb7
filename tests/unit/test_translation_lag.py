# SPDX-License-Identifier: BSD-2-Clause
"""tools/translation_lag.py reports the sections of README.md that README.zh-CN.md does not cover yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.translation_lag import digests_of, lag, main

README = """Introduction

# Install

```console
# not a heading
$ pip install x
```

## Use

Run it.
"""


def test_a_section_is_named_by_its_heading() -> None:
    assert list(digests_of(README)) == ["(before the first heading)", "Install", "Use"]


def test_repeated_headings_are_numbered() -> None:
    assert list(digests_of("# Use\none\n# Use\ntwo\n"))[1:] == ["Use", "Use (2)"]


@pytest.mark.parametrize(
    ("edited", "changes"),
    [
        (README, []),
        (README.replace("## Use", "\n\n## Use"), []),
        (README.replace("Run it.", "Run it twice."), ["section changed: Use"]),
        (README.replace("install x", "install y"), ["section changed: Install"]),
        (README + "\n## License\n", ["section added: License"]),
        (README.replace("## Use", "## Usage"), ["section added: Usage", "section removed: Use"]),
    ],
)
def test_each_section_is_compared(edited: str, changes: list[str]) -> None:
    assert lag(digests_of(README), digests_of(edited)) == changes


def test_an_update_records_the_source_and_keeps_the_translation(tmp_path: Path) -> None:
    source, translation = tmp_path / "README.md", tmp_path / "README.zh-CN.md"
    source.write_text(README)
    translation.write_text("# 安装\n")
    assert main([], source, translation) == 1
    assert main(["--update"], source, translation) == 0
    assert main([], source, translation) == 0
    assert translation.read_text().startswith("# 安装\n\n<!-- ")
    recorded = translation.read_text()
    assert main(["--update"], source, translation) == 0
    assert translation.read_text() == recorded


def test_the_sections_that_changed_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, translation = tmp_path / "README.md", tmp_path / "README.zh-CN.md"
    source.write_text(README)
    translation.write_text("")
    main(["--update"], source, translation)
    source.write_text(README.replace("Run it.", "Run it twice."))
    assert main([], source, translation) == 1
    assert "README.md: section changed: Use\n" in capsys.readouterr().out


GUIDE = """.. _label:

Title
=====

Introduction

Use
---

Run it.

.. Everything below is generated from the models

Fields
------
"""


def test_the_sections_of_a_guide_are_those_that_people_write() -> None:
    assert list(digests_of(GUIDE, ".rst")) == ["(before the first heading)", "Title", "Use"]
    assert lag(digests_of(GUIDE, ".rst"), digests_of(GUIDE.replace("Run it.", "Run."), ".rst")) == [
        "section changed: Use"
    ]


def test_the_record_of_a_guide_is_a_comment(tmp_path: Path) -> None:
    source, translation = tmp_path / "guide.rst", tmp_path / "guide_zh.rst"
    source.write_text(GUIDE)
    translation.write_text("标题\n====\n")
    assert main([], source, translation) == 1
    assert main(["--update"], source, translation) == 0
    assert main([], source, translation) == 0
    recorded = translation.read_text()
    assert recorded.startswith("标题\n====\n\n.. Translated sections of guide.rst")
    assert all(line.startswith("   ") for line in recorded.partition("lag.py:\n")[2].splitlines())
    assert main(["--update"], source, translation) == 0
    assert translation.read_text() == recorded
