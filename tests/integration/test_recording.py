# SPDX-License-Identifier: BSD-2-Clause
"""What README.md shows of the collection is what it prints today: make recording."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.demo import record
from tests.demo.terminal import same_every_time
from tools.tree import ROOT

from .documents import blocks_of

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_shows_what_the_commands_print(tmp_path: Path):
    objects, recording = record.record(tmp_path)
    assert record.OBJECTS.read_text(encoding="utf-8") == objects, "run: make recording"
    recorded = record.RECORDING.read_text(encoding="utf-8")
    assert same_every_time(recorded) == same_every_time(recording), "run: make recording"


def test_the_drawing_is_of_the_recording():
    pytest.importorskip("rich")  # which is not in every environment
    drawn = record.drawn(record.RECORDING.read_text(encoding="utf-8"))
    assert record.DRAWING.read_text(encoding="utf-8") == drawn, "run: make recording"


def test_the_lines_are_counted():
    (manifest,) = [block.text for block in blocks_of("README.md") if block.file == "sft.yaml"]
    objects = record.OBJECTS.read_text(encoding="utf-8").splitlines()
    lines = [line for line in objects if not line.startswith(("#", "---"))]
    path = record.OBJECTS.relative_to(ROOT)
    assert re.findall(r"These (\d+) lines become \[(\d+) lines", README) == [
        (str(len(manifest.splitlines())), str(len(lines)))
    ]
    assert f"/blob/main/{path})" in README
