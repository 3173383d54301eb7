# SPDX-License-Identifier: BSD-2-Clause
"""No text of an event is a template, for Jinja's lexer and for Ansible's own templating."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.inert_text import inert

HEADER = "#jinja2:variable_start_string:'[[',variable_end_string:']]'"


@pytest.mark.parametrize("opening", ["{{ x }}", "{% x %}", "{# x #}", "{{{ x }}}"])
def test_no_text_opens_a_template(opening: str) -> None:
    """Jinja's own lexer says so."""
    jinja2 = pytest.importorskip("jinja2")
    shown = inert({opening: [f"a {opening} b"]})
    (key,) = shown
    for text in (key, *shown[key]):
        assert {kind for _line, kind, _value in jinja2.Environment().lex(text)} == {"data"}


def test_ansible_evaluates_nothing_of_an_event(tmp_path: Path) -> None:
    """In a file of extra variables, as ansible-rulebook passes events, also where a playbook trims or splits a text.

    The same texts as they were written do evaluate, which shows that the play would find it.
    """
    expression = "lookup('ansible.builtin.env', 'GPUCTL_MARK')"
    texts = [
        f"{{{{ {expression} }}}}",
        f"{{% if true %}}{{{{ {expression} }}}}{{% endif %}}",
        f"{HEADER}\n[[ {expression} ]]",
        f"  {HEADER}\n[[ {expression} ]]",
        f"first line\n{HEADER}\n[[ {expression} ]]",
    ]
    (tmp_path / "event.json").write_text(json.dumps({"event": inert({"texts": texts, **dict.fromkeys(texts, 1)})}))
    (tmp_path / "raw.json").write_text(json.dumps({"raw": texts}))
    trimmed = "{{ event.texts | map('trim') | map('regex_replace', '^first line.', '') | list }}"
    tasks = [
        {"ansible.builtin.set_fact": {"again": trimmed}},
        {"ansible.builtin.debug": {"msg": {"event": "{{ event }}", "again": "{{ again }}", "parts": "{{ again[4] }}"}}},
        {"ansible.builtin.debug": {"msg": {"raw": "{{ raw }}"}}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    done = subprocess.run(
        [playbook, "play.yml", "-e", "@event.json", "-e", "@raw.json"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "GPUCTL_MARK": "evaluated"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    about_event, mark, about_raw = done.stdout.partition('"raw"')
    assert mark
    assert "evaluated" in about_raw
    assert "evaluated" not in about_event, about_event
