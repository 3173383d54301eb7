# SPDX-License-Identifier: BSD-2-Clause
"""The file that keeps what an event source has reported."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events import state_file as module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.state_file import StateFile, StateFileError

CLUSTER = "https://10.0.0.1:6443"


def opened(path: Path) -> StateFile:
    return StateFile(str(path), CLUSTER)


def test_what_is_put_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state"
    with opened(path) as state:
        assert state.is_new
        state.put("job/a", {"status": "Running"})
        state.put("job/b", {"status": "Pending"})
        state.put("job/a", {"status": "Failed"})
        state.remove("job/b")
        state.begin()
    with opened(path) as again:
        assert not again.is_new
        assert list(again) == ["job/a"]
        assert again.get("job/a") == {"status": "Failed"}


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state:
        state.put("job/a", 1)
        assert [stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()] == [0o600, 0o600]


def test_until_the_first_look_has_ended_the_next_one_is_the_first(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state:
        state.put("job/a", 1)
    with opened(tmp_path / "state") as again:
        assert again.is_new


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with opened(path) as state:
        state.put("job/a", 1)
        state.begin()
    with path.open("ab") as file:
        file.write(b'{"key":"job/b","rec')
    with opened(path) as again:
        assert list(again) == ["job/a"]
        again.put("job/c", 3)
    with opened(path) as last:
        assert list(last) == ["job/a", "job/c"]


def test_it_does_not_grow_with_the_number_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPARE_LINES", 10)
    with opened(tmp_path / "state") as state:
        for number in range(500):
            state.put("job/a", number)
            state.flush()
    assert (tmp_path / "state").read_bytes().count(b"\n") < 20
    with opened(tmp_path / "state") as again:
        assert again.get("job/a") == 499


def test_what_has_not_changed_is_not_written(tmp_path: Path) -> None:
    with opened(tmp_path / "state") as state:
        state.put("job/a", ("x", 1))
        state.flush()
        size = (tmp_path / "state").stat().st_size
        state.put("job/a", ["x", 1])
        assert not state.holds
        state.flush()
        assert (tmp_path / "state").stat().st_size == size


def test_a_process_that_is_killed_has_not_recorded_what_is_held(tmp_path: Path) -> None:
    killed = opened(tmp_path / "state").__enter__()
    killed.put("job/a", 1)
    killed.begin()
    killed.put("job/b", 2)
    assert killed.get("job/b") == 2
    killed.close()
    with opened(tmp_path / "state") as again:
        assert list(again) == ["job/a"]


def test_a_second_source_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "state"), pytest.raises(StateFileError, match="in use by another event source"):
        opened(tmp_path / "state").__enter__()
    with opened(tmp_path / "state"):
        pass  # The lock goes with its holder.


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[defaults]\n", "not the state of this event source"),
        ("", "not the state of this event source"),
        ('{"format":1,"cluster":"https://elsewhere"}\n', "belongs to https://elsewhere, not to https://10.0.0.1:6443"),
        ("[" * 100_000, "not the state of this event source"),
    ],
)
def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "state"
    path.write_text(content)
    with pytest.raises(StateFileError, match=message):
        opened(path).__enter__()
    assert path.read_text() == content


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateFileError, match="state_file"):
        opened(tmp_path / "state").__enter__()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateFileError, match=r"state_file: .*Use another file"):
        opened(tmp_path / "file" / "state").__enter__()


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with StateFile(None, CLUSTER) as state:
        state.put("job/a", 1)
        state.begin()
        assert state.get("job/a") == 1
    assert os.listdir(tmp_path) == []
