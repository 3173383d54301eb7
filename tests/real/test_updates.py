# SPDX-License-Identifier: BSD-2-Clause
"""Updates that fail: what the screens say of them is held to the pods, and the way back is taken."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from integration.ansible import Ansible
from integration.api import Api, eventually
from integration.pools import POOL, Field

from .jobs import EARLY, NEVER, has_gpus, info, pods, reason
from .programs import OBEDIENT, python, shell
from .settings import IMAGE

SERVER = ["sh", "-c", "trap 'exit 143' TERM; python3 -m http.server 8000 & wait"]
MISSING = f"{IMAGE.rpartition(':')[0]}:missing"
Screen = Callable[..., str]


@pytest.fixture
def screen(ansible: Ansible, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Screen:
    """What a playbook prints at 80 columns, its blanks and line breaks as one blank each."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(playbook: str, **variables: Any) -> str:
        given = [f"-egpuctl_{name}={value}" for name, value in {"namespace": namespace, **variables}.items()]
        output = ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *given).output
        shown = output.partition("TASK [Show ")[2].partition("PLAY RECAP")[0]
        lines = shown.partition("[ERROR]")[0].splitlines()[1:]
        assert all(len(line) <= 80 for line in lines if "http" not in line), shown  # a URL is not broken
        return " ".join(shown.split())

    return run


def server(image: str, *, gpu: int = 0, **service: Any) -> dict[str, Any]:
    environment = {"image": image, "command": SERVER}
    service = {"port": 8000, "health_check": "/", "replicas": 2, **service}
    return shell("inference", "serve", "", environment=environment, resources={"gpu": gpu}, service=service)


def images(api: Api, namespace: str) -> dict[str, str]:
    """The image of each pod that is not being deleted."""
    return {
        pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
        for pod in pods(api, namespace, "serve")
        if "deletionTimestamp" not in pod["metadata"]
    }


def ready(api: Api, namespace: str) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in pods(api, namespace, "serve")
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"]["conditions"])
        and "deletionTimestamp" not in pod["metadata"]
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("gpu", [0, 1])
def test_a_rolling_update_that_fails_and_the_way_back(
    ansible: Ansible, api: Api, namespace: str, screen: Screen, gpu: int
):
    """Without GPUs both old replicas serve; with GPUs one has ended to make room, and the other serves."""
    if gpu and not has_gpus(api):
        pytest.skip("no node of the cluster has GPUs")
    first = ansible.job(definition=server(IMAGE, gpu=gpu), namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not first.failed, first.message
    none = ansible.job(name="serve", namespace=namespace, state="rolled_back")
    assert "no earlier manifest is recorded" in none.message, "there is nothing before the first"

    update = ansible.job(definition=server(MISSING, gpu=gpu), namespace=namespace, wait=True, wait_timeout=NEVER)
    assert update.failed
    old, (new,) = sorted(ready(api, namespace)), sorted(set(images(api, namespace)) - ready(api, namespace))
    serve = {2: "2 old replicas still serve", 1: "1 old replica still serves"}[len(old)]
    assert len(old) == (1 if gpu else 2)
    said = f"the update is not done, {serve}: image {MISSING} of pod {new} cannot be pulled"
    assert said in update.message
    assert said in str(info(ansible, namespace, "serve")["reason"])
    back = "To go back to the last manifest that was ready, use the playbook runwhere.gpuctl.rollback."
    status = screen("status")
    assert said in status
    assert back in status
    assert f"serve {namespace}"[:12] in status
    description = screen("describe", name="serve")
    assert said in description
    for name, image in images(api, namespace).items():
        assert re.search(rf"{name} .* {re.escape(image.rpartition('/')[2])} \d+m?s", description), (name, description)

    predicted = ansible.job(name="serve", namespace=namespace, state="rolled_back", check=True)
    assert predicted.jobs["serve"]["action"] == "update"
    assert f"-      - image: {MISSING}" in predicted.screen or IMAGE in predicted.screen
    assert MISSING in images(api, namespace).values(), "check mode changes nothing"
    screen("rollback", name="serve", wait="true")
    assert set(images(api, namespace).values()) == {IMAGE}
    assert len(ready(api, namespace)) == 2
    assert set(old) <= ready(api, namespace), "what served has not been replaced"
    assert info(ansible, namespace, "serve")["reason"] is None
    again = ansible.job(name="serve", namespace=namespace, state="rolled_back")
    assert not again.changed


def test_a_notebook_goes_back(ansible: Ansible, api: Api, namespace: str):
    """Its only pod has ended for the update; Kubernetes replaces the pod that never became ready."""

    def lab(image: str) -> dict[str, Any]:
        environment = {"image": image, "command": SERVER}
        return shell("notebook", "serve", "", environment=environment, service={"port": 8000})

    assert not ansible.job(definition=lab(IMAGE), namespace=namespace, wait=True, wait_timeout=NEVER).failed
    assert ansible.job(definition=lab(MISSING), namespace=namespace, wait=True, wait_timeout=NEVER).failed
    assert "state=rolled_back" in reason(ansible, namespace, "serve", "cannot be pulled")
    back = ansible.job(name="serve", namespace=namespace, state="rolled_back", wait=True, wait_timeout=NEVER)
    assert not back.failed, back.message
    assert set(images(api, namespace).values()) == {IMAGE}


@pytest.mark.timeout(400)
def test_a_startup_timeout_is_what_happens(ansible: Ansible, api: Api, namespace: str):
    """The kubelet stops what does not answer in the time that the manifest gives, and the reason says it is that."""
    manifest = server(IMAGE, replicas=1, startup_timeout=20)
    manifest["environment"]["command"] = ["sh", "-c", OBEDIENT]
    ansible.job(definition=manifest, namespace=namespace)
    text = reason(ansible, namespace, "serve", "20 s after its start")
    (pod,) = pods(api, namespace, "serve")
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] >= 1
    assert f"({container['restartCount']} restart" in text or container["restartCount"] > 1
    assert "service.startup_timeout" in text


def test_a_container_that_fails_by_itself_has_not_missed_its_startup(ansible: Ansible, namespace: str):
    manifest = server(IMAGE, replicas=1, startup_timeout=20)
    manifest["environment"]["command"] = ["sh", "-c", "sleep 2; exit 3"]
    ansible.job(definition=manifest, namespace=namespace)
    text = reason(ansible, namespace, "serve", "exit code 3")
    assert "startup_timeout" not in text


def test_two_jobs_with_one_reason(ansible: Ansible, namespace: str, screen: Screen):
    """They share a row that has each word of the reason but the names of their pods."""
    jobs = [shell("compute", name, OBEDIENT, environment={"image": MISSING}) for name in ("one", "two")]
    ansible.job(definition=jobs, namespace=namespace)
    texts = [reason(ansible, namespace, name, "cannot be pulled", "not found") for name in ("one", "two")]
    assert f"{namespace}/one" in (shown := screen("status"))
    for text in texts:
        without_pod = re.sub(r" of pod [-a-z0-9]+", "", text).partition(" cannot be pulled")[2]
        assert without_pod in shown, shown


@pytest.mark.timeout(400)
def test_a_rank_that_is_alone_is_not_restarted_without_end(ansible: Ansible, api: Api, namespace: str, screen: Screen):
    """Rank 0 ends well while rank 1 has failed: rank 1 is started a few times, and the training fails."""
    script = """
import os, sys, time

rank = int(os.environ["NODE_RANK"])
time.sleep(8 * rank)
sys.exit(rank)
"""
    manifest = python("training", "ranks", script, resources={"node_count": 2})
    ansible.job(definition=manifest, namespace=namespace)
    text = reason(ansible, namespace, "ranks", "ranks had succeeded")
    assert "1 of 2 ranks had succeeded" in text
    eventually(lambda: info(ansible, namespace, "ranks")["status"] == "Failed", 4 * EARLY)
    failed = [pod for pod in pods(api, namespace, "ranks") if pod["status"]["phase"] == "Failed"]
    job = api.get("job", "ranks", namespace)
    assert job["status"]["failed"] == len(failed) == job["spec"]["backoffLimitPerIndex"] + 1
    assert "Failed" in screen("status", status="failed")


def test_a_container_that_never_started_has_no_start(ansible: Ansible, api: Api, namespace: str, screen: Screen):
    """containerd writes 1970-01-01 for it; nothing that is shown has that."""
    manifest = shell("training", "never", "", environment={"command": ["/no/such/program"]})
    ansible.job(definition=manifest, namespace=namespace)
    text = reason(ansible, namespace, "never", "cannot start")
    assert "no/such/program" in text
    states = [one for pod in pods(api, namespace, "never") for one in pod["status"]["containerStatuses"]]
    assert any("1970" in str(one) for one in states), "else the test shows nothing"
    row = ansible.module("gpuctl_job_info", name="never", namespaces=[namespace], details=True).result
    history = ansible.module("gpuctl_job_history_info", name="never", namespaces=[namespace]).result
    assert "1970" not in str([row, history]) + screen("describe", name="never") + screen("history", name="never")


@pytest.mark.timeout(400)
def test_queued_hours_outlive_a_rolling_update(
    ansible: Ansible, api: Api, namespace: str, field: Field, free_nodes: list[str]
):
    """The time that a pod had waited for its node still counts when an update has replaced the pod."""
    if not has_gpus(api) or not free_nodes:
        pytest.skip("no free node of the cluster has GPUs")
    pool = field.pool("later")

    def queued() -> float:
        found = ansible.module("gpuctl_usage_info", namespaces=[namespace], range="1h").result
        return float(found["totals"]["queued_hours"]) * 3600

    def version(number: str) -> dict[str, Any]:
        environment = {"env": {"VERSION": number}}
        return shell("compute", "serve", OBEDIENT, environment=environment, resources={"gpu": 1, "pool": pool})

    ansible.job(definition=version("1"), namespace=namespace)
    (first,) = eventually(lambda: pods(api, namespace, "serve"))
    time.sleep(20)
    field.set_labels(free_nodes[0], {POOL: pool})
    done = ansible.job(definition=version("1"), namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not done.failed, done.message
    before = queued()
    assert before > 15, "the GPU of the pod waited"
    done = ansible.job(definition=version("2"), namespace=namespace, wait=True, wait_timeout=NEVER)
    assert not done.failed, done.message
    gone = first["metadata"]["name"]
    eventually(lambda: gone not in [pod["metadata"]["name"] for pod in pods(api, namespace, "serve")], NEVER)
    assert queued() >= before - 1
