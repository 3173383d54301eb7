# SPDX-License-Identifier: BSD-2-Clause
"""The recordings of a real API server, replayed against the simulator: a test per step.

Steps of a file depend on each other: a file is replayed as a whole, against a cluster of its own, when its first step
is asked for. One file: -k 'apply-'; one step: -k 'apply-02'.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract import older, recordings, replay
from kubesim.cluster import Cluster

_LEFT_OUT = yaml.safe_load((recordings.FOLDER / "left-out.yaml").read_text())
LEFT_OUT: dict[tuple[str, int], str] = {
    (entry["file"], entry["step"]): entry["reason"] for entry in _LEFT_OUT if "versions" not in entry
}
LEFT_OUT_OF_OLDER: dict[tuple[str, str, int], str] = {
    (version, entry["file"], entry["step"]): entry["reason"]
    for entry in _LEFT_OUT
    for version in entry.get("versions", ())
}


def steps() -> list[Any]:
    return [
        pytest.param(name, index, id=replay.step_id(name, index, step))
        for name in recordings.names()
        for index, step in enumerate(recordings.load(name)["steps"])
    ]


@cache
def differences(name: str) -> list[list[str]]:
    """What differs in each step of a recording."""
    recording = recordings.load(name)
    with Cluster(nodes=4).running() as cluster:
        run = replay.Replay(cluster.url, cluster.token, recording)
        found = list(run.run())
        run.clean_up()
    return found


@pytest.mark.parametrize(("name", "index"), steps())
def test_step_is_answered_as_recorded(name: str, index: int) -> None:
    found = differences(name)[index]
    reason = LEFT_OUT.get((name, index))
    if reason is None:
        assert not found, "\n".join(found)
    else:
        assert found, f"this step is left out ({reason}) but matches: take it off contract/left-out.yaml"


@pytest.mark.parametrize(("version", "name"), [(each, name) for each in older.versions() for name in older.load(each)])
def test_an_older_version_answers_as_recorded(version: str, name: str) -> None:
    recording = older.recording_of(version, name)
    with Cluster(nodes=4, version=version).running() as cluster:
        run = replay.Replay(cluster.url, cluster.token, recording)
        found = list(run.run())
        run.clean_up()
    left_out = {index for each, file, index in LEFT_OUT_OF_OLDER if (each, file) == (version, name)}
    different = {index for index, differences in enumerate(found) if differences}
    wrong = [
        "\n    ".join([replay.step_id(name, index, recording["steps"][index]), *found[index]])
        for index in sorted(different - left_out)
    ]
    assert wrong == [], "\n".join(wrong)
    assert left_out <= different, "a step that is left out matches: take it off contract/left-out.yaml"


def test_left_out_steps_exist() -> None:
    for name, index in [*LEFT_OUT, *((name, index) for _version, name, index in LEFT_OUT_OF_OLDER)]:
        assert 0 <= index < len(recordings.load(name)["steps"]), (name, index)


def test_the_readme_counts_the_steps() -> None:
    text = (recordings.FOLDER / "README.md").read_text()
    counts = {name: len(recordings.load(name)["steps"]) for name in recordings.names()}
    assert f"{len(counts)} files, {sum(counts.values())} steps" in text
    assert [name for name, count in counts.items() if f"| [{name}]({name}.json.gz) | {count} |" not in text] == []


def test_recordings_are_packed() -> None:
    assert [path.name for path in recordings.FOLDER.glob("*.json")] == []


def test_a_recording_is_unpacked_and_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(recordings.packed("scale"), tmp_path)
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    before = recordings.load("scale")
    recordings.unpack("scale")
    plain = tmp_path / "scale.json"
    assert len(plain.read_text().splitlines()) > 100
    plain.write_text(plain.read_text().replace(before["about"], "changed"))
    assert recordings.load("scale") == {**before, "about": "changed"}
    recordings.pack("scale")
    assert [path.name for path in tmp_path.iterdir()] == ["scale.json.gz"]
    assert recordings.load("scale") == {**before, "about": "changed"}


def test_a_step_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    recordings.show("scale", "0")
    assert json.loads(capsys.readouterr().out) == recordings.load("scale")["steps"][0]
