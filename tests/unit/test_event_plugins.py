# SPDX-License-Identifier: BSD-2-Clause
"""The plugins for Event-Driven Ansible: loaded as ansible-rulebook does, documented as they are."""

from __future__ import annotations

import asyncio
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.asyncio_bridge import (
    SourceFailed,
    run_source,
    source_arguments,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.event_rows import EVENT_TYPES
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.prometheus_options import (
    PrometheusOptions,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import connection_argument_spec
from jinja2 import StrictUndefined, UndefinedError
from jinja2.nativetypes import NativeEnvironment

from tools.event_pages import documented
from tools.tree import ROOT, shipped

EDA = ROOT / ".cache" / "collections" / "ansible_collections" / "runwhere" / "gpuctl" / "extensions" / "eda"
SOURCE = EDA / "plugins" / "event_source" / "jobs.py"
FILTER = EDA / "plugins" / "event_filter" / "alert.py"

Filter = Callable[..., Any]


@pytest.fixture
def alert() -> Filter:
    """The filter, which remembers nothing of other tests."""
    main: Filter = runpy.run_path(str(FILTER))["main"]
    return main


def firing(name: str = "GpuIdle", **fields: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": name, "namespace": "ml", "job_name": "llm", "pool": "a100", "severity": "warning"},
        "annotations": {"summary": f"{name} of llm"},
        "startsAt": "2026-08-01T10:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": name.lower(),
        **fields,
    }


def payload(*alerts: Any, **fields: Any) -> dict[str, Any]:
    return {"version": "4", "groupKey": "{}", "receiver": "eda", "status": "firing", "alerts": list(alerts), **fields}


def test_each_alert_is_an_event(alert: Filter) -> None:
    event = {"payload": payload(firing(), firing("GpuXid")), "meta": {"headers": {}}}
    found = alert(event)
    assert [one["alert"] for one in found] == ["GpuIdle", "GpuXid"]
    assert found[0] == {
        "type": "alert",
        "id": "gpuidle/2026-08-01T10:00:00Z/firing",
        "time": "2026-08-01T10:00:00Z",
        "alert": "GpuIdle",
        "status": "firing",
        "job": "llm",
        "namespace": "ml",
        "pool": "a100",
        "node": None,
        "cluster": None,
        "severity": "warning",
        "labels": firing()["labels"],
        "annotations": {"summary": "GpuIdle of llm"},
        "starts_at": "2026-08-01T10:00:00Z",
        "ends_at": "0001-01-01T00:00:00Z",
        "fingerprint": "gpuidle",
        "receiver": "eda",
        "url": "http://prometheus/graph",
        "truncated_alerts": 0,
        "message": "GpuIdle of llm",
        "meta": {"headers": {}},
    }


def test_what_is_repeated_is_left_out_until_it_changes(alert: Filter) -> None:
    resolved = firing(status="resolved", endsAt="2026-08-01T11:00:00Z")
    again = firing(startsAt="2026-08-01T12:00:00Z")
    statuses = [
        [one["status"] for one in alert(payload(each))] for each in (firing(), firing(), resolved, resolved, again)
    ]
    assert statuses == [["firing"], [], ["resolved"], [], ["firing"]]


def test_only_alerts_of_a_status(alert: Filter) -> None:
    resolved = firing(status="resolved")
    assert [one["status"] for one in alert(payload(firing(), resolved), status="resolved")] == ["resolved"]


def test_what_it_remembers_is_bounded(alert: Filter) -> None:
    for name in ("a", "b", "c"):
        alert(payload(firing(name)), keep=2)
    assert alert(payload(firing("c")), keep=2) == []
    assert len(alert(payload(firing("a")), keep=2)) == 1


def test_alerts_that_were_left_out_are_said(alert: Filter, caplog: pytest.LogCaptureFixture) -> None:
    (found,) = alert(payload(firing(), truncatedAlerts=3))
    assert found["truncated_alerts"] == 3
    assert "left out 3 alerts of a group" in caplog.text


@pytest.mark.parametrize("event", [{"payload": {"a": 1}}, {"alerts": "x", "groupKey": ""}, {}, {"payload": []}, "text"])
def test_other_events_pass(alert: Filter, event: Any) -> None:
    assert alert(event) == event


@pytest.mark.parametrize("text", ["{{ x }}", "#jinja2:variable_start_string:'[['\n[[ x ]]"])
def test_no_event_has_a_template(alert: Filter, text: str) -> None:
    texts = {"labels": {"alertname": text, text: text}, "annotations": {text: text}, "fingerprint": text}
    hostile = payload(firing(**texts), receiver=text)
    found = [*alert({"payload": hostile, "meta": {"headers": {text: text}}}), alert({text: [text]})]
    assert len(found) == 2
    assert text not in "".join(_strings(found))


def _strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for item in data if isinstance(data, list) else ():
        yield from _strings(item)
    for pair in data.items() if isinstance(data, dict) else ():
        yield from _strings(list(pair))


def test_what_a_sender_makes_up_is_bounded(alert: Filter) -> None:
    labels = {**{f"l{number}": "x" for number in range(1000)}, "n" * 1000: "y", "bad": {"a": []}}
    alerts = [
        firing(labels=labels, annotations={"summary": "{{ 1 }}\x1b[2J" + "x" * 10_000}),
        firing(status="on fire"),
        firing("other", startsAt=[], fingerprint={}, labels=None, annotations=3, generatorURL=None),
        None,
        [],
        *(firing(str(number)) for number in range(2000)),
    ]
    found = alert(payload(*alerts, truncatedAlerts="many", receiver={}))
    assert len(found) == 997
    assert len(found[0]["labels"]) == 64
    assert len(found[0]["message"]) < 4_200
    assert found[0]["message"].startswith("\uff5b\uff5b 1 }}\uff3cx1b[2J")
    assert found[1]["labels"] == {}


def test_a_payload_of_any_depth_does_not_end_the_source(alert: Filter) -> None:
    """The server of a webhook parses thousands of levels."""
    deep: Any = "{{ 1 }}"
    for _level in range(5_000):
        deep = {"a": [deep]}
    assert "{" not in "".join(_strings(alert({"payload": deep, "meta": {}})))
    (found,) = alert({"payload": payload(firing(labels={"alertname": "A", "deep": deep})), "meta": {"x": deep}})
    assert found["alert"] == "A"


@pytest.mark.parametrize(
    ("options", "message"), [({"keep": 0}, "keep: 0 is no number"), ({"status": "on"}, "status: unknown value: 'on'")]
)
def test_options_of_the_filter_are_checked(alert: Filter, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alert(payload(firing()), **options)


def test_the_source_is_documented_as_it_is() -> None:
    """But for the options of the connection, which are those of the modules."""
    spec = source_arguments()["argument_spec"]
    options = yaml.safe_load(documented(SOURCE, "DOCUMENTATION"))["options"]
    facts = ("type", "elements", "choices", "default", "aliases")
    assert {name: {fact: one.get(fact) for fact in facts} for name, one in options.items()} == {
        name: {fact: one.get(fact) for fact in facts}
        for name, one in spec.items()
        if name not in {**connection_argument_spec(), **PrometheusOptions.argument_spec()}
    }
    assert options["types"]["choices"] == list(EVENT_TYPES)


def test_a_variable_that_is_not_set_is_named_with_a_hint() -> None:
    """ansible-rulebook hands it to the source as it is."""
    given = {"prometheus_url": StrictUndefined(name="gpuctl_prometheus_url")}
    with pytest.raises(SourceFailed, match=r"'gpuctl_prometheus_url' is undefined\. Set it in the file of --vars"):
        asyncio.run(run_source(None, given))


def test_without_a_token_the_rulebook_of_alerts_does_not_start() -> None:
    (ruleset,) = yaml.safe_load((EDA / "rulebooks" / "alerts.yml").read_text(encoding="utf-8"))
    token = NativeEnvironment(undefined=StrictUndefined).from_string(
        ruleset["sources"][0]["eda.builtin.webhook"]["token"]
    )
    assert token.render(gpuctl_alert_token="of-alertmanager") == "of-alertmanager"
    with pytest.raises(UndefinedError, match="'gpuctl_alert_token' is undefined"):
        token.render()


@pytest.mark.parametrize("path", sorted((EDA / "rulebooks").glob("*.yml")), ids=lambda path: path.stem)
def test_rulebooks_name_options_that_there_are(path: Path) -> None:
    options = {**source_arguments()["argument_spec"]}
    for ruleset in yaml.safe_load(path.read_text(encoding="utf-8")):
        for source in ruleset["sources"]:
            assert set(source.get("runwhere.gpuctl.jobs") or ()) <= set(options)
        for rule in ruleset["rules"]:
            playbook = rule["action"]["run_playbook"]["name"].rpartition(".")[2]
            assert (ROOT / "playbooks" / f"{playbook}.yml").exists()


def test_the_guide_has_every_event() -> None:
    guide = (ROOT / "docs" / "docsite" / "rst" / "guide_events.rst").read_text(encoding="utf-8")
    assert [type for type in EVENT_TYPES if f"``{type}``" not in guide] == []


def test_they_are_in_the_tarball() -> None:
    names = set(shipped(ROOT))
    assert {
        "extensions/eda/plugins/event_source/jobs.py",
        "extensions/eda/plugins/event_filter/alert.py",
        "extensions/eda/rulebooks/notify.yml",
        "meta/extensions.yml",
    } <= names
