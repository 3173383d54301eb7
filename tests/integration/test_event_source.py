# SPDX-License-Identifier: BSD-2-Clause
"""The event source runwhere.gpuctl.jobs: each transition once, whatever happens to connections and to its process."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .api import PATHS, Api, eventually
from .cut_proxy import tcp_proxy
from .event_watcher import EventWatcher
from .namespaces import make_namespace, remove_namespaces

# Of the test of 500 transitions: each job has five of them, or six.
JOBS = int(os.environ.get("GPUCTL_TEST_EVENT_JOBS", "20"))
CUTS = 20
RESTARTS = 3


def job(name: str, gpu: int = 1, run: float | None = None, code: int = 0, **spec: Any) -> dict[str, Any]:
    """A training as gpuctl_job writes it, as far as events go. It ends after ``run`` seconds."""
    labels = {
        "app": name,
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": "training",
        "runwhere.ai/pool": "default",
        "runwhere.ai/priority": "medium",
    }
    # The kubelets of both test clusters understand these.
    annotations = {} if run is None else {"lab/run-seconds": str(run), "lab/exit-code": str(code)}
    container = {
        "name": "main",
        "image": "busybox",
        "env": [{"name": "HF_TOKEN", "value": "s3cret-of-the-job"}],
        "command": ["sleep", "1000"],
        "resources": {"limits": {"nvidia.com/gpu": gpu}, "requests": {"nvidia.com/gpu": gpu}},
    }
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


def submit(api: Api, namespace: str, **options: Any) -> None:
    """As gpuctl_job does."""
    body = job(**options)
    path = f"{PATHS['job'].format(namespace)}/{body['metadata']['name']}?fieldManager=runwhere.gpuctl&force=true"
    status, answer = api.call("PATCH", path, body, "application/apply-patch+yaml")
    assert status == 201, answer


@pytest.fixture
def watcher(kubeconfig: Path, namespace: str) -> EventWatcher:
    return EventWatcher(kubeconfig=str(kubeconfig), namespaces=[namespace])


def test_the_life_of_a_training(api: Api, namespace: str, watcher: EventWatcher) -> None:
    with watcher:
        submit(api, namespace, name="llm", gpu=2, run=3)
        ended = watcher.one("job.succeeded", "llm")
    assert watcher.seen("llm") == ["job.submitted", "job.started", "job.succeeded"]
    started = watcher.one("job.started", "llm")
    assert started["nodes"][0].startswith(("node", "gpu", "fake"))
    live = api.get("job", "llm", namespace)
    assert ended["id"] == f"{live['metadata']['uid']}/succeeded"
    assert ended["time"] == live["status"]["completionTime"]
    assert {name: ended[name] for name in ("namespace", "job_type", "pool", "priority", "gpu", "seen")} == {
        "namespace": namespace,
        "job_type": "training",
        "pool": "default",
        "priority": "medium",
        "gpu": 2,
        "seen": "live",
    }
    assert (ended["old_status"], ended["status"]) == ("Running", "Succeeded")
    assert ended["message"] == f"Training llm in namespace {namespace} succeeded."
    assert ended["cluster"] is None


def test_a_failure_says_why_and_where_and_keeps_secrets(api: Api, namespace: str, watcher: EventWatcher) -> None:
    watcher.args["cluster"] = "east"
    with watcher:
        submit(api, namespace, name="llm", run=1, code=3)
        failed = watcher.one("job.failed", "llm")
    assert watcher.seen("llm") == ["job.submitted", "job.started", "job.failed"]
    assert failed["exit_code"] == 3
    assert "exit code 3" in failed["reason"]
    assert failed["cluster"] == "east"
    assert failed["message"].startswith(f"Cluster east: Training llm in namespace {namespace} failed: ")
    assert failed["last_lines"]
    assert "s3cret" not in str(watcher.events)


def test_pauses_and_resumptions(api: Api, namespace: str, watcher: EventWatcher) -> None:
    with watcher:
        submit(api, namespace, name="llm")
        watcher.one("job.started", "llm")
        for type, suspend in (("job.paused", True), ("job.resumed", False)):
            api.patch("job", "llm", {"spec": {"suspend": suspend}}, namespace)
            watcher.one(type, "llm")
        eventually(lambda: watcher.seen("llm").count("job.started") == 2)
        api.delete("job", "llm", namespace)
        watcher.one("job.deleted", "llm")
    assert watcher.seen("llm") == [
        "job.submitted", "job.started", "job.paused", "job.resumed", "job.started", "job.deleted",
    ]  # fmt: skip
    assert len({event["id"] for event in watcher.events}) == 6


def test_a_job_that_waits_too_long_is_reported_once_with_the_reason(
    api: Api, namespace: str, watcher: EventWatcher
) -> None:
    watcher.args["pending_after"] = 1
    with watcher:
        submit(api, namespace, name="big", gpu=1000)
        waits = watcher.one("job.pending_too_long", "big")
        time.sleep(2)
    assert watcher.seen("big") == ["job.submitted", "job.pending_too_long"]
    assert "1000 GPUs" in waits["reason"]
    assert waits["pending_seconds"] >= 1


def test_what_was_before_the_first_start_is_no_news(api: Api, namespace: str, watcher: EventWatcher) -> None:
    submit(api, namespace, name="old", run=0.5)
    eventually(lambda: (api.get("job", "old", namespace).get("status") or {}).get("succeeded"))
    submit(api, namespace, name="running")
    eventually(lambda: (api.get("job", "running", namespace).get("status") or {}).get("ready"))
    time.sleep(1.1)  # Times of Kubernetes have no fractions.
    with watcher:
        submit(api, namespace, name="new")
        watcher.one("job.started", "new")
        api.delete("job", "running", namespace)
        watcher.one("job.deleted", "running")
    assert watcher.seen("old") == []
    assert watcher.seen("running") == ["job.deleted"]


def test_since_reports_what_was_shortly_before(api: Api, namespace: str, watcher: EventWatcher) -> None:
    submit(api, namespace, name="old", run=0.5)
    eventually(lambda: (api.get("job", "old", namespace).get("status") or {}).get("succeeded"))
    watcher.args["since"] = 600
    with watcher:
        watcher.one("job.succeeded", "old")
    assert watcher.seen("old") == ["job.submitted", "job.started", "job.succeeded"]


def test_what_happens_while_it_is_down_is_reported_late(
    api: Api, namespace: str, watcher: EventWatcher, tmp_path: Path
) -> None:
    watcher.args["state_file"] = str(tmp_path / "events" / "state")
    with watcher:
        for name in ("ends", "paused", "twice", "gone"):
            submit(api, namespace, name=name, **({"run": 4} if name == "ends" else {}))
        for name in ("ends", "paused", "twice", "gone"):
            watcher.one("job.started", name)
    assert stat.S_IMODE((tmp_path / "events" / "state").stat().st_mode) == 0o600
    before = len(watcher.events)
    submit(api, namespace, name="new", run=1)
    api.patch("job", "paused", {"spec": {"suspend": True}}, namespace)
    api.delete("job", "gone", namespace)
    time.sleep(1.1)
    for suspend in (True, False):
        api.patch("job", "twice", {"spec": {"suspend": suspend}}, namespace)
        eventually(lambda suspend=suspend: _is_suspended(api, namespace, "twice") is suspend)
    for name in ("ends", "new"):
        eventually(lambda name=name: (api.get("job", name, namespace).get("status") or {}).get("succeeded"))
    with watcher:
        watcher.one("job.succeeded", "ends")
        watcher.one("job.deleted", "gone")
        eventually(lambda: watcher.seen("twice").count("job.started") == 2)
    assert len({event["id"] for event in watcher.events}) == len(watcher.events)
    later = watcher.events[before:]
    assert Counter((event["type"], event["job"]) for event in later) == Counter(
        [
            ("job.submitted", "new"), ("job.started", "new"), ("job.succeeded", "new"), ("job.succeeded", "ends"),
            ("job.paused", "paused"), ("job.paused", "twice"), ("job.resumed", "twice"), ("job.started", "twice"),
            ("job.deleted", "gone"),
        ]
    )  # fmt: skip
    first_pause = next(event for event in later if (event["type"], event["job"]) == ("job.paused", "twice"))
    assert (first_pause["time"], first_pause["seen"]) == (None, "late")


def test_the_state_of_another_cluster_is_refused(namespace: str, watcher: EventWatcher, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text('{"format":1,"cluster":"https://elsewhere:6443"}\n')
    watcher.args["state_file"] = str(state)
    watcher.start()
    assert watcher.exit_code() == 1
    watcher.stop()
    assert f"state_file: {state} belongs to https://elsewhere:6443, not to http" in watcher.errors


def test_two_sources_do_not_share_a_state(namespace: str, watcher: EventWatcher, tmp_path: Path) -> None:
    watcher.args["state_file"] = str(tmp_path / "state")
    other = EventWatcher(**watcher.args)
    with watcher:
        eventually(lambda: (tmp_path / "state").exists())
        other.start()
        assert other.exit_code() == 1
        other.stop()
    assert f"state_file: in use by another event source: {tmp_path / 'state'}. Give each its own." in other.errors


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"pending_afer": 3}, "pending_afer"),
        ({"pending_after": "soon"}, "cannot be converted to an int"),
        ({"quota_percent": 0}, "quota_percent: 0 is out of range. Give 1 to 100."),
        ({"host": "ftp://x", "api_key": "t0ken-of-mine"}, "not the URL of an API server: ftp://x"),
        ({"api_key": "t0ken of mine", "host": "https://127.0.0.1:1"}, "the token is not valid"),
        ({"allowed_namespaces": []}, "allowed_namespaces: empty"),
    ],
)
def test_arguments_are_checked(kubeconfig: Path, args: dict[str, Any], message: str) -> None:
    watcher = EventWatcher(**{"kubeconfig": str(kubeconfig), **args})
    watcher.start()
    assert watcher.exit_code() == 1
    watcher.stop()
    assert message in watcher.errors
    assert "Traceback" not in watcher.errors
    assert "t0ken" not in watcher.errors


def test_namespaces_that_are_not_allowed(kubeconfig: Path) -> None:
    watcher = EventWatcher(kubeconfig=str(kubeconfig), namespaces=["ml"], allowed_namespaces=["vision"])
    watcher.start()
    assert watcher.exit_code() == 1
    watcher.stop()
    assert "namespaces: namespace not allowed: ml. Use one of: vision." in watcher.errors


def test_hundreds_of_transitions_over_cuts_and_restarts(api: Api, kubeconfig: Path, tmp_path: Path) -> None:
    """Each exactly once: the connection is cut 20 times and the process restarted 3 times."""
    namespace = make_namespace(api)
    expected: Counter[tuple[str, str]] = Counter()
    with tcp_proxy(api.server) as proxy:
        proxy.scheme = api.server.partition(":")[0]
        watcher = EventWatcher(
            kubeconfig=str(kubeconfig),
            host=proxy.url,
            validate_certs=False,
            namespaces=[namespace],
            state_file=str(tmp_path / "state"),
            retries=0,
        )
        watcher.start()
        eventually(watcher.is_watching)

        done = threading.Event()

        def disturb() -> None:
            for number in range(CUTS):
                time.sleep(0.02 * JOBS)
                proxy.cut()
                if number % 6 == 3 and number // 6 < RESTARTS:
                    watcher.stop()
                    time.sleep(0.3)
                    watcher.start()
            done.set()

        disturber = threading.Thread(target=disturb)
        disturber.start()
        for number in range(JOBS):
            name = f"job-{number}"
            fails, pauses = number % 4 == 1, number % 4 == 2
            submit(api, namespace, name=name, gpu=0, run=2 + number % 5, code=1 if fails else 0)
            expected += Counter([("job.submitted", name), ("job.started", name)])
            expected[("job.failed" if fails else "job.succeeded", name)] += 1
            if pauses:
                _pause_and_resume(api, namespace, name)
                expected += Counter([("job.paused", name), ("job.resumed", name)])
        try:
            done.wait(120)
            disturber.join()
            _wait_for(expected, watcher)
            time.sleep(1)
        finally:
            watcher.stop()
            remove_namespaces(api, namespace)
    counts = Counter({key: number for key, number in watcher.counts().items() if key[0] != "job.started"})
    starts = {key: number for key, number in watcher.counts().items() if key[0] == "job.started"}
    assert counts == Counter({key: number for key, number in expected.items() if key[0] != "job.started"})
    # A job that is paused may have run before, or not: then it has started twice.
    assert {job for _type, job in starts} == {f"job-{number}" for number in range(JOBS)}
    assert all(number == 1 or (number == 2 and int(name[4:]) % 4 == 2) for (_type, name), number in starts.items())
    assert len({event["id"] for event in watcher.events}) == len(watcher.events)
    assert proxy.cuts == CUTS


def test_a_kill_loses_nothing_and_repeats_what_was_being_handled(
    api: Api, namespace: str, watcher: EventWatcher, tmp_path: Path
) -> None:
    watcher.args["state_file"] = str(tmp_path / "state")
    names = [f"job-{number}" for number in range(8)]
    watcher.__enter__()
    for name in names:
        submit(api, namespace, name=name, gpu=0, run=0.2)
    watcher.one("job.started")
    watcher.stop(kill=True)
    with watcher:
        for name in names:
            watcher.one("job.succeeded", name)
    counts = Counter(event["id"] for event in watcher.events)
    assert len(counts) == 3 * len(names)
    assert sum(counts.values()) - len(counts) <= 2


def _wait_for(expected: Counter[tuple[str, str]], watcher: EventWatcher) -> None:
    deadline = time.monotonic() + 90
    while missing := expected - watcher.counts():
        assert time.monotonic() < deadline, f"missing: {missing}\n{watcher.errors[-4000:]}"
        time.sleep(0.2)


def _pause_and_resume(api: Api, namespace: str, name: str) -> None:
    for suspend in (True, False):
        api.patch("job", name, {"spec": {"suspend": suspend}}, namespace)
        eventually(lambda suspend=suspend: _is_suspended(api, namespace, name) is suspend)


def _is_suspended(api: Api, namespace: str, name: str) -> bool:
    conditions = (api.get("job", name, namespace).get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Suspended" and one["status"] == "True" for one in conditions)
