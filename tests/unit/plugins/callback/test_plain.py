# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.callback import plain


def test_an_error_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []

    def display(text: str, **_options: Any) -> None:
        printed.append(text)

    callback = plain.CallbackModule()
    callback._display = SimpleNamespace(verbosity=0, display=display)
    callback.v2_playbook_on_play_start(SimpleNamespace(get_path=lambda: f"{plain._PLAYBOOKS}/provision.yml:1"))
    monkeypatch.setenv("COLUMNS", "40")
    found = {"msg": "Drift detected: 2 objects declared in cluster/ would change."}
    callback.v2_runner_on_failed(SimpleNamespace(result=found, _result=found, _task=SimpleNamespace(loop=None)))
    assert printed == ["Error: Drift detected: 2 objects\n  declared in cluster/ would change."]
