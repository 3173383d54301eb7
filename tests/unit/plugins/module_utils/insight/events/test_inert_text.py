# SPDX-License-Identifier: BSD-2-Clause
"""No text of an event is a template: for Jinja's lexer, for its native types, and for Ansible's own templating."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.inert_text import inert, readable

EXPRESSION = 'lookup("ansible.builtin.env", "GPUCTL_MARK")'
HEADER = "#jinja2:variable_start_string:'[[',variable_end_string:']]'"
QUOTED_HEADER = 'jinja2:variable_start_string:"[[",variable_end_string:"]]"'
TEMPLATES = {
    "braces": f"{{{{ {EXPRESSION} }}}}",
    "block": f"{{% if true %}}{{{{ {EXPRESSION} }}}}{{% endif %}}",
    "header": f"{HEADER}\n[[ {EXPRESSION} ]]",
    "header after blanks": f"  {HEADER}\n[[ {EXPRESSION} ]]",
    "header in a line": f"first line\n{HEADER}\n[[ {EXPRESSION} ]]",
    "line statements": f"#jinja2:line_statement_prefix:'%%'\n%% set x = {EXPRESSION}\n%% print(x)",
}
LITERALS = {  # Texts that are templates once they have been read as Python.
    "hexadecimal": rf"'\x7b\x7b {EXPRESSION} }}}}'",
    "octal": rf"'\173\173 {EXPRESSION} }}}}'",
    "unicode": rf"'\u007b\u007b {EXPRESSION} }}}}'",
    "name": rf"'\N{{LEFT CURLY BRACKET}}\N{{LEFT CURLY BRACKET}} {EXPRESSION} }}}}'",
    "joined": f"'{{' '{{ {EXPRESSION} }}}}'",
    "raw and joined": f"r'{{' u'''{{ {EXPRESSION} }}}}'''",
    "continued": f"'{{\\\n{{ {EXPRESSION} }}}}'",
    "joined header": f"'#' '{QUOTED_HEADER}\\n[[ {EXPRESSION} ]]'",
    "split header": f"'#jin' 'ja2{QUOTED_HEADER[6:]}\\n[[ {EXPRESSION} ]]'",
    "header over lines": f"'''#''' '''{QUOTED_HEADER}\n[[ {EXPRESSION} ]]'''",
    "twice": rf"""'"\\x7b\\x7b {EXPRESSION.replace('"', "~")} }}}}"'""",
}
LISTS = {f"{name}, in a list": f"[{text}]" for name, text in LITERALS.items()} | {
    "in a dictionary": f"{{'a': {LITERALS['joined']}}}",
}
ATTACKS = TEMPLATES | LITERALS | LISTS


@pytest.mark.parametrize("opening", ["{{ x }}", "{% x %}", "{# x #}", "{{{ x }}}"])
def test_no_text_opens_a_template(opening: str) -> None:
    """Jinja's own lexer says so."""
    jinja2 = pytest.importorskip("jinja2")
    shown = inert({opening: [f"a {opening} b"]})
    (key,) = shown
    for text in (key, *shown[key]):
        assert {kind for _line, kind, _value in jinja2.Environment().lex(text)} == {"data"}


@pytest.mark.parametrize("name", ATTACKS)
def test_native_types_make_no_template_of_a_text(name: str) -> None:
    """As ansible-rulebook renders ``"{{ event.description }}"``, also again and again. What was written does."""
    text = ATTACKS[name]
    assert name in TEMPLATES or _templates_in(_natively(text)) or name.startswith("twice")
    shown = _natively(inert(text))
    for _time in range(3):
        assert not _templates_in(shown), shown
        shown = _natively(shown) if isinstance(shown, str) else shown


def test_two_texts_that_are_joined_make_no_template() -> None:
    """Whatever stands between them, trimmed or not."""
    halves = [
        ("{", "{ x }}"), ("{ ", " { x }}"), ("1", f", [{LITERALS['joined']}]"), ("'{'", "'{ x }}'"),
        ("#", "jinja2:x:'y'"), ("# ", " jinja2:x"), ("'#'", "'jinja2:x'"),
        ("\\", "x7b"), ("$", "ANSIBLE_VAULT;1.1"), ("'$'", "'ANSIBLE_VAULT;1.1'"),
    ]  # fmt: skip
    for (one, other), between, trimmed in product(halves, ("", " ", ", ", "\n"), (False, True)):
        parts = [inert(one), inert(other)]
        joined = between.join(part.strip() for part in parts) if trimmed else between.join(parts)
        assert not _templates_in(_natively(joined)), (one, other, between)


def test_ansible_evaluates_nothing_of_an_event(tmp_path: Path) -> None:
    """In a file of extra variables, as ansible-rulebook passes events, in what playbooks do with a text.

    The same texts as they were written do evaluate, which shows that the play would find it.
    """
    texts = list(ATTACKS.values())
    event = inert({"texts": texts, "named": ATTACKS, "keys": dict.fromkeys(texts, 1), "one": "1, "})
    (tmp_path / "event.json").write_text(json.dumps({"event": event}))
    (tmp_path / "raw.json").write_text(json.dumps({"raw": list(TEMPLATES.values())[:3]}))
    facts = {f"fact{index}": f"{{{{ event.texts[{index}] }}}}" for index in range(len(texts))}
    joined = {f"joined{index}": f"{{{{ event.one }}}}{{{{ event.texts[{index}] }}}}" for index in range(len(texts))}
    trimmed = "{{ event.texts | map('trim') | map('regex_replace', '^first line.', '') | list }}"
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.set_fact": {"again": trimmed, **facts, **joined}},
        {"ansible.builtin.debug": {"msg": {name: f"{{{{ {name} }}}}" for name in (*facts, *joined, "event", "again")}}},
        {"ansible.builtin.debug": {"msg": "{{ item }}"}, "loop": "{{ event.texts }}"},
        {"ansible.builtin.debug": {"msg": "{{ item }}"}, "with_items": [f"{{{{ {name} }}}}" for name in facts]},
        {"ansible.builtin.debug": {"msg": [f"{{{{ {name}[0] }}}}" for name in facts]}},
        {
            "ansible.builtin.debug": {"msg": "{{ x }} {{ x[0] }}"},
            "vars": {"x": f"{{{{ event.texts[{len(TEMPLATES)}] }}}}"},
        },
        {"ansible.builtin.set_stats": {"data": {"stats": "{{ again }}"}}},
        {"ansible.builtin.debug": {"msg": {"raw": "{{ raw }}"}}},
    ]
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    for native in ("0", "1"):  # ansible-core 2.19 and later always return native types
        done = _played(tmp_path, native)
        assert done.returncode == 0, done.stdout + done.stderr
        about_event, mark, about_raw = done.stdout.partition('"raw"')
        assert mark
        assert about_raw.count("evaluated") >= 3
        assert "evaluated" not in about_event, about_event


def test_keys_that_mark_types_for_ansible_are_names() -> None:
    """The label of an alert would make every playbook fail that an event starts."""
    assert list(inert({"__ansible_vault": "x", "__ansible_type": "y", "job": "z"})) == [
        "\uff3f_ansible_vault", "\uff3f_ansible_type", "job",
    ]  # fmt: skip


def test_data_of_any_depth_is_taken() -> None:
    data: Any = "{{ x }}"
    for _level in range(100_000):
        data = [data]
    shown = str(inert(data))
    assert len(shown) < 200
    assert "{" not in shown


@pytest.mark.parametrize(
    "text", ["GPU #3 has 86 degrees", "http://prometheus/graph?g0.expr=x#tab", "costs $5", "50 % of 8", "[a] (b) 'c'"]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert inert(text) == text


@pytest.mark.parametrize("text", [*ATTACKS.values(), '{"loss": 2.3, "path": "C:\\\\x"}', "# $A"])
def test_people_read_what_was_written(text: str) -> None:
    assert readable(inert(text)) == text
    assert inert(inert(text)) == inert(text)


def _played(directory: Path, native: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(directory), "LC_ALL": "C.UTF-8", "GPUCTL_MARK": "evaluated",
        "ANSIBLE_JINJA2_NATIVE": native,
    }  # fmt: skip
    return subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml", "-e", "@event.json", "-e", "@raw.json"],
        cwd=directory,
        env={**environment, **{key: text for key, text in os.environ.items() if key == "PYTHONPATH"}},
        capture_output=True,
        text=True,
        check=False,
    )


def _natively(text: str) -> Any:
    """What ansible-rulebook makes of ``"{{ text }}"`` (render_string in its util.py)."""
    native = pytest.importorskip("jinja2.nativetypes")
    return native.NativeEnvironment().from_string("{{ text }}").render(text=text)


def _templates_in(data: Any) -> list[str]:
    """The texts in the data in which Ansible sees a template, or ansible-rulebook a secret."""
    if isinstance(data, str):
        text = data.strip()
        marks = ("{{", "{%", "{#", "$ANSIBLE_VAULT")
        return [data] if text.startswith("#jinja2:") or any(mark in text for mark in marks) else []
    if isinstance(data, dict):
        data = [*data.keys(), *data.values()]
    return [found for item in data for found in _templates_in(item)] if isinstance(data, (list, tuple, set)) else []
