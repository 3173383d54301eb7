# SPDX-License-Identifier: BSD-2-Clause
"""Attacks on plugins that read what strangers send or tenants write: the event filter, the callback, survey answers."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.runwhere.gpuctl.extensions.eda.plugins.event_filter.alert import main as alert_filter
from ansible_collections.runwhere.gpuctl.plugins.filter._bounded_yaml import bounded_yaml
from integration.ansible import Ansible
from integration.api import Api
from integration.manifests import compute
from integration.test_playbooks import run

from .test_answers import VALUES, places_in
from .trap import ESCAPES, Trap, acts_on_a_terminal

ALERT = {
    "status": "firing",
    "labels": {"alertname": "GpuTemperatureHigh", "job_name": "train", "severity": "warning"},
    "annotations": {"summary": "too hot", "description": "90 degrees"},
    "startsAt": "2026-08-01T10:00:00Z",
    "endsAt": "0001-01-01T00:00:00Z",
    "fingerprint": "f",
}
PAYLOAD = {"version": "4", "groupKey": "g", "receiver": "gpuctl", "status": "firing", "truncatedAlerts": 0}


def texts_of(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        yield from (text for key, value in data.items() for text in (str(key), *texts_of(value)))
    elif isinstance(data, list):
        yield from (text for item in data for text in texts_of(item))
    elif isinstance(data, str):
        yield data


@pytest.mark.parametrize("seed", range(5))
def test_a_stranger_posts_an_alert(tmp_path: Path, seed: int) -> None:
    """Any value anywhere in a payload, keys too: the filter answers with events, none of which can be a template."""
    rng, trap = random.Random(seed), Trap(tmp_path / "sprung")
    values = [*VALUES, *trap.texts, ESCAPES, {trap.template: trap.template}, [[trap.template]], "x" * 10_000]
    for number in range(300):
        alert = copy.deepcopy(ALERT)
        event: dict[str, Any] = {"payload": {**PAYLOAD, "alerts": [alert]}, "meta": {"headers": {"Host": "h"}}}
        for _change in range(rng.randint(1, 3)):
            container, key = rng.choice([*places_in(event, 1), (alert, f"new-{number}")])
            container[key] = copy.deepcopy(rng.choice(values))
            if rng.random() < 0.2 and isinstance(container, dict):
                container[rng.choice(trap.texts)] = copy.deepcopy(rng.choice(values))
        found = alert_filter(event)
        for row in found if isinstance(found, list) else [found]:
            text = json.dumps(row, ensure_ascii=False)
            assert isinstance(row, dict)
            assert not any("{" in one or "\\" in one or "#jinja2" in one for one in texts_of(row)), text
            if row.get("type") == "alert":
                assert not any(acts_on_a_terminal(one) for one in texts_of({**row, "meta": None})), text
                assert len(text) < 1_000_000


def test_the_callback_plain_prints_no_escapes(ansible: Ansible, api: Api, namespace: str, tmp_path: Path) -> None:
    """A tenant writes escape sequences and templates into annotations: they are as inert as on the default screen."""
    trap = Trap(tmp_path / "sprung")
    assert not ansible.job(definition=compute(), namespace=namespace).failed
    text = f"{ESCAPES} {trap.template}"
    annotations = {"runwhere.ai/description": text, "runwhere.ai/submitted-by": json.dumps({"user": text, "host": "h"})}
    api.patch("deployment", "web", {"metadata": {"annotations": annotations}}, namespace)
    plain = Ansible(ansible.directory, {**ansible.environment, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"})
    for playbook, variables in (("status", {}), ("describe", {"name": "web"}), ("pause", {"name": "web"})):
        done = run(plain, playbook, namespace=namespace, **variables)
        assert "web" in done.output, done.output
        assert not acts_on_a_terminal(done.output), done.output
    assert not trap.sprung


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("bcdefg", "cdefgh", strict=True)
        ),
        "[" * 5_000,
        "a: " * 5_000,
        "x: !!python/object/apply:os.system ['touch sprung']",
        "--- a\n--- b",
        "a: !unsafe '{{ 1 }}'",
    ],
    ids=["aliases", "lists", "maps", "a tag of Python", "two documents", "unsafe"],
)
def test_an_answer_to_a_survey_is_a_small_text(text: str) -> None:
    """What fills the memory, or names a type, is an error in a sentence, or text."""
    try:
        found = json.dumps(bounded_yaml(text))
    except AnsibleFilterError as problem:
        found = str(problem)
    assert len(found) < 2_000
    assert "Traceback" not in found
