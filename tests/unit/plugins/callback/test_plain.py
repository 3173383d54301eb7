# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.callback import plain


class Shown:
    """A run of a playbook of the collection on a terminal of 40 columns, and what it prints."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "40")
        self.printed: list[str] = []
        self.callback = plain.CallbackModule()
        self.callback._display = SimpleNamespace(verbosity=0, display=self._display)
        play = SimpleNamespace(get_path=lambda: f"{plain._PLAYBOOKS}/provision.yml:1")
        self.callback.v2_playbook_on_play_start(play)

    def _display(self, text: str, stderr: bool = False, **_options: Any) -> None:
        self.printed.append(f"stderr: {text}" if stderr else text)

    def result(self, action: str = "ansible.builtin.fail", **found: Any) -> Any:
        return SimpleNamespace(result=found, _result=found, _task=SimpleNamespace(loop=None, action=action))


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def test_an_error_is_broken_between_words(shown: Shown) -> None:
    message = "Drift detected: 2 objects declared in cluster/ would change."
    shown.callback.v2_runner_on_failed(shown.result(msg=message))
    assert shown.printed == ["Error: Drift detected: 2 objects\n  declared in cluster/ would change."]


def test_a_warning_is_broken_between_words_and_shown_once(shown: Shown) -> None:
    text = "job sft in namespace team-a: pool a100 has no nodes."
    for _task in range(2):
        shown.callback.v2_runner_on_ok(shown.result(warnings=[text, text]))
    assert shown.printed == ["stderr: [WARNING]: job sft in namespace team-a:\n  pool a100 has no nodes."]


def test_a_warning_may_be_an_object(shown: Shown) -> None:
    """What a result has of it since ansible-core 2.19 (WarningSummary)."""
    shown.callback.v2_runner_on_ok(shown.result(warnings=[SimpleNamespace(event=SimpleNamespace(msg="no nodes"))]))
    assert shown.printed == ["stderr: [WARNING]: no nodes"]


SHOW = "runwhere.gpuctl.gpuctl_show"


def test_what_a_table_has_said_is_not_repeated(shown: Shown) -> None:
    shown.callback.v2_runner_on_failed(shown.result(SHOW, msg="a: no GPU.\nb: no GPU.", short_msg="2 of 3 failed."))
    assert shown.printed == ["Error: 2 of 3 failed."]


def test_of_many_errors_those_that_fit_a_screen_are_shown(shown: Shown) -> None:
    messages = ["\n".join(f"{name}-{number}.yaml: unknown key." for number in range(30)) for name in ("train", "eval")]
    shown.callback.v2_runner_on_failed(shown.result(SHOW, msg=messages[0]))
    shown.callback.v2_runner_on_failed(shown.result(SHOW, msg=messages[1], all=True))
    short, whole = (text.splitlines() for text in shown.printed)
    assert (short[0], whole[0]) == ("Error: train-0.yaml: unknown key.", "Error: eval-0.yaml: unknown key.")
    assert short[20:] == ["… and 10 more lines. Add -e gpuctl_all=true to list all."]
    assert len(whole) == 30
