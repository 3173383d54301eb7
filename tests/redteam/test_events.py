# SPDX-License-Identifier: BSD-2-Clause
"""The event source among hostile servers, tenants and files: it goes on or ends in a sentence; its texts are inert."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.asyncio_bridge import (
    SourceFailed,
    run_source,
)
from integration.api import Api
from integration.test_event_source import job
from kubesim import LAB_USER_TOKEN, Cluster

from .hostile import Visitor, forward, hostile
from .test_answers import SEEDS, VALUES, places_in

EXPRESSION = "lookup('pipe', 'touch /tmp/evil')"
TEXTS = (
    f"{{{{ {EXPRESSION} }}}}",
    f"'{{' '{{ {EXPRESSION} }}}}'",
    f'"\\x7b\\x7b {EXPRESSION} }}}}"',
    f"#jinja2:variable_start_string:'[[',variable_end_string:']]'\n[[ {EXPRESSION} ]]",
    "$ANSIBLE_VAULT;1.1;AES256\n6162",
    "\x1b[2J\u202e",
)


def events_of(seconds: float, **args: Any) -> list[dict[str, Any]]:
    """What the source reports in that time. Raises SourceFailed if it ends before."""
    found: list[dict[str, Any]] = []

    async def watch() -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        source = asyncio.ensure_future(run_source(queue, {"request_timeout": 5, "since": 604_800, **args}))
        try:
            deadline = asyncio.get_running_loop().time() + seconds
            while (left := deadline - asyncio.get_running_loop().time()) > 0 and not source.done():
                taking = asyncio.ensure_future(queue.get())
                await asyncio.wait([taking, source], timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if taking.done():
                    found.append(taking.result())
                taking.cancel()
        finally:
            source.cancel()
            (outcome,) = await asyncio.gather(source, return_exceptions=True)
        if isinstance(outcome, Exception):
            raise outcome

    asyncio.run(watch())
    return found


def broken_by(args: dict[str, Any], seconds: float = 1.5) -> str:
    """What the source says when it ends before its time."""
    try:
        assert_inert(events_of(seconds, **args))
    except SourceFailed as problem:
        return str(problem)
    return ""


def strings_in(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    for item in [*data.keys(), *data.values()] if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from strings_in(item)


def assert_inert(events: list[dict[str, Any]]) -> None:
    for text in strings_in(events):
        assert not set("{\\\x1b\u202e") & set(text), text
        assert "#jinja2" not in text
        assert "$ANSIBLE" not in text


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A tenant's jobs, which have every text that a tenant can write, and have failed."""
    with Cluster(nodes=2).running() as cluster:
        kubeconfig = tmp_path_factory.mktemp("cluster") / "kubeconfig"
        cluster.kubeconfig(kubeconfig)
        api = Api(str(kubeconfig))
        for number, text in enumerate(TEXTS):
            one = job(f"evil-{number}", run=0.1, code=3)
            metadata = one["metadata"]
            metadata["annotations"] = {
                "runwhere.ai/description": text,
                "runwhere.ai/submitted-by": json.dumps({"user": text, "host": text, "login": text}),
                "runwhere.ai/sweep": text,
            }
            pod = one["spec"]["template"]
            pod["metadata"]["annotations"]["lab/log"] = text
            pod["spec"]["containers"][0]["command"] = [text]
            api.create("job", one, "default")
        yield cluster


def test_no_text_of_a_tenant_is_more_than_text(cluster: Cluster) -> None:
    found = events_of(8, host=cluster.url, api_key=cluster.token, validate_certs=False)
    assert {event["job"] for event in found if event["type"] == "job.failed"} == {
        f"evil-{number}" for number in range(len(TEXTS))
    }
    assert any("\uff5b" in text for text in strings_in(found))
    assert_inert(found)


def test_what_may_no_longer_be_listed_is_not_gone(tmp_path: Path) -> None:
    """An account loses the permission to list nodes and quotas: no node is lost, and what was reported stays known."""
    with Cluster(nodes=2).running() as cluster:
        cluster.kubeconfig(tmp_path / "kubeconfig")
        api = Api(str(tmp_path / "kubeconfig"))
        hard = {"requests.nvidia.com/gpu": "1"}
        quota = {"kind": "ResourceQuota", "metadata": {"name": "gpus", "labels": {"runwhere.ai/quota": "teams"}}}
        api.create("resourcequota", {**quota, "apiVersion": "v1", "spec": {"hard": hard}}, "default")
        api.create("job", job("stays"), "default")
        cluster.call(lambda: grant_jobs_alone(cluster))

        def seen(token: str) -> list[str]:
            state = str(tmp_path / "state")
            found = events_of(4, host=cluster.url, api_key=token, validate_certs=False, state_file=state)
            return sorted(event["type"] for event in found)

        assert seen(cluster.token) == ["job.started", "job.submitted", "quota.nearly_used"]
        assert seen(LAB_USER_TOKEN) == []
        assert seen(cluster.token) == []


def grant_jobs_alone(cluster: Cluster) -> None:
    group, verbs = "rbac.authorization.k8s.io", ["get", "list", "watch"]
    rules = [
        {"apiGroups": ["apps", "batch"], "resources": ["*"], "verbs": verbs},
        {"apiGroups": [""], "resources": ["pods", "configmaps", "events"], "verbs": verbs},
    ]
    subject = {"apiGroup": group, "kind": "User", "name": "lab-user"}
    binding = {"roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "jobs"}, "subjects": [subject]}
    cluster.registry.create("ClusterRole", {"metadata": {"name": "jobs"}, "rules": rules})
    cluster.registry.create("ClusterRoleBinding", {"metadata": {"name": "jobs"}, **binding})


def damaging(cluster: Cluster, seed: int, said: list[str]) -> Any:
    """Lists in which a value is another one; watches end at once, so that there are many lists."""
    chosen = random.Random(seed)

    def answer(visitor: Visitor) -> None:
        if "watch=" in visitor.path:
            visitor.answer(b"")
            return
        status, body = forward(visitor, cluster.url, cluster.token)
        found = json.loads(body)
        places = list(places_in(found))
        if places and chosen.random() < 0.5:
            container, key = chosen.choice(places)
            container[key] = chosen.choice(VALUES)
            said.append(f"{visitor.path} {key}: {container[key]!r}"[:300])
        visitor.answer(json.dumps(found).encode(), f"{status} Status")

    return answer


@pytest.mark.parametrize("seed", range(SEEDS // 4 + 1))
def test_one_wrong_value_ends_no_source(cluster: Cluster, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    caplog.set_level(logging.INFO)
    with hostile(damaging(cluster, seed, said)) as server:
        ending = broken_by({"host": server.url, "api_key": "very-secret"})
    assert "bug" not in ending, (seed, said, ending)
    logged = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("runwhere"))
    assert "very-secret" not in logged
    assert "\x1b" not in logged
    assert "Traceback" not in caplog.text


STATES = ("null", "[]", "x", "{}", '{"format":1e999,"cluster":"x"}', "[" * 5_000)


@pytest.fixture(scope="module")
def state(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines that a run of the source has left."""
    path = tmp_path_factory.mktemp("state") / "state"
    events_of(4, host=cluster.url, api_key=cluster.token, validate_certs=False, state_file=str(path))
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_damaged_state_is_no_bug(cluster: Cluster, state: list[dict[str, Any]], tmp_path: Path) -> None:
    """Its owner alone writes it, but an editor, a full disk or another version can leave anything."""
    path = tmp_path / "state"
    args = {"host": cluster.url, "api_key": cluster.token, "validate_certs": False, "state_file": str(path)}
    for text in STATES:
        path.write_text(text)
        assert "not the state of this event source" in broken_by(args)
    for number, value in enumerate(VALUES[:: 1 if SEEDS > 25 else 4]):
        lines, chosen = json.loads(json.dumps(state)), random.Random(number)
        for line in (line for line in lines if "record" in line):
            container, key = chosen.choice([*places_in({"items": line["record"]}), (line, "record"), (line, "key")])
            container[key] = value
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        said = broken_by(args)
        assert "bug" not in said, (path.read_text(), said)
