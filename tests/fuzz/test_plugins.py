# SPDX-License-Identifier: BSD-2-Clause
"""Any value given to a playbook's variable, a filter or a lookup ends in a result or in a sentence."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.runwhere.gpuctl.plugins.filter._bounded_yaml import FilterModule as BoundedYaml
from ansible_collections.runwhere.gpuctl.plugins.filter.table import FilterModule as Table
from ansible_collections.runwhere.gpuctl.plugins.lookup import _saved_plan, _source_name
from ansible_collections.runwhere.gpuctl.plugins.module_utils.declared_source import unusable_source
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import described_playbooks
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import unknown_variables, value_problems

from .test_options import VALUES
from .test_stored import VALUES as STORED

PLAYBOOKS = sorted(described_playbooks())
# The input of the third filter, _missing_collection, is a constant of the playbooks.
FILTERS = {name: each for kind in (BoundedYaml, Table) for name, each in kind().filters().items()}
ALL = [*VALUES, *STORED, "\ud800", "\x1b[2J", "{{ 1 }}", {"a": [{"b": None}]}, [{"a": 1}, {"a": "\x1b[2J"}]]


def assert_readable(text: str) -> None:
    assert len(text) < 3_000, len(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text), text


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_any_value_of_a_variable_is_taken_or_refused_in_a_sentence(name: str) -> None:
    playbook = described_playbooks()[name]
    refused = 0
    for variable in playbook.variables:
        for value in ALL:
            for in_awx in (True, False):
                found = value_problems(playbook, {variable: value}, in_awx=in_awx)
                refused += any(each.startswith(f"{variable}: ") for each in found)
                for sentence in found:
                    assert_readable(sentence)
    assert refused or not playbook.variables, "a number is taken for everything"


def test_any_name_of_a_variable_is_known_or_refused_in_a_sentence() -> None:
    names = [*map(str, ALL), *(f"gpuctl_{value}" for value in ALL)]
    for sentence in unknown_variables([name[:5_000] for name in names], {"gpuctl_name", "gpuctl_dir"}):
        assert "\x1b" not in sentence
        assert_readable(sentence[:2_999])


@pytest.mark.parametrize("name", sorted(FILTERS))
def test_any_input_of_a_filter_ends_in_a_result_or_in_a_sentence(name: str) -> None:
    for value in ALL:
        for arguments in ([], *([other] for other in ALL if name == "table")):
            try:
                found = FILTERS[name](value, *arguments)
            except AnsibleError as problem:
                found = str(problem)
            assert "\x1b" not in str(found), (value, arguments)


PLAN = {"plan": {"format": 1, "options": {"src": ["cluster"], "namespace": "a", "force": False}, "steps": {}}}


def test_any_saved_plan_is_read_as_options_or_as_none(tmp_path: Path) -> None:
    """The module says what is wrong with it; the lookup before it may only not fail."""
    lookup, rng, file = _saved_plan.LookupModule(), random.Random(1), tmp_path / "plan.json"
    text = json.dumps(PLAN)
    for value in ALL:
        plan: dict[str, Any] = json.loads(text)
        place = rng.choice([(plan, "plan"), (plan["plan"], "options"), (plan["plan"]["options"], "namespace")])
        place[0][place[1]] = value
        for given in (plan, value):
            assert isinstance(lookup.run([given])[0], dict)
    for _number in range(500):
        at = rng.randrange(len(text))
        file.write_bytes((text[:at] + rng.choice(["", "{", "\x00", "[" * 5_000, '"']) + text[at + 1 :]).encode())
        assert isinstance(lookup.run([str(file)])[0], dict)
    file.write_bytes(b"\xff\xfe{")
    for path in (str(file), str(tmp_path), "/nowhere", "a\x00b"):
        assert lookup.run([path]) == [{}]


URLS = [
    "https://u:s3cret@example.com/acme/gpus.git",
    "git@example.com:acme/gpus",
    "/srv/gpus.git",
    "ssh://[::1",
    "%00",
    "",
]
CONFIG = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'


def test_any_repository_has_a_usable_name_or_none(tmp_path: Path) -> None:
    lookup, rng, git = _source_name.LookupModule(), random.Random(1), tmp_path / "checkout" / ".git"
    git.mkdir(parents=True)
    texts = [value for value in ALL if isinstance(value, str)]
    for number in range(1_000):
        text = CONFIG.format(rng.choice([*URLS, *texts, f"https://example.com/{rng.choice(texts)}"]))
        if number % 2:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", "\n", "[", '"', "\x1b", "\\", "=", "\x00", "{{ 1 }}"]) + text[at + 1 :]
        (git / "config").write_bytes(text.encode(errors="surrogatepass"))
        (name,) = lookup.run([[str(git.parent)]])
        assert unusable_source(name) is None, name
        assert "s3cret" not in name or "s3cret" not in text.partition("@")[0], text


@pytest.mark.parametrize("what", ["a device without an end", "a pipe", "a gigabyte", "itself", "a directory"])
def test_a_repository_that_cannot_be_read_is_none(tmp_path: Path, what: str) -> None:
    """An archive with manifests may have any .git: the name of the directory stands for it, at once."""
    git = tmp_path / "checkout" / ".git"
    git.mkdir(parents=True)
    config = git / "config"
    if what == "a device without an end":
        config.symlink_to("/dev/zero")
    elif what == "a pipe":
        os.mkfifo(config)
    elif what == "a gigabyte":
        with config.open("wb") as file:
            file.truncate(1 << 30)
    elif what == "itself":
        config.symlink_to(config)
    else:
        config.mkdir()
    assert _source_name.LookupModule().run([[str(git.parent)]]) == ["checkout"]


def test_long_names_of_repositories_are_told_apart(tmp_path: Path) -> None:
    names = []
    for end in ("one", "other"):
        directory = tmp_path / "/".join(["a" * 100] * 4) / end
        directory.mkdir(parents=True)
        names.append(directory)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(CONFIG.format(URLS[0]))
    one, other = _source_name.LookupModule().run([[str(name)] for name in names])
    assert one != other
    assert unusable_source(one) is None
