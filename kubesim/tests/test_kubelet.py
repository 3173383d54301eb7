# SPDX-License-Identifier: BSD-2-Clause
"""What becomes of pods on their nodes: the behavior a test can give, and the statuses, events and logs that follow."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kubesim.controllers import kubelet_behavior
from kubesim.controllers.kubelet_env import expand
from kubesim.errors import ApiError
from simulation import Object, Simulation, pod_spec

OOM = {"lab/run-seconds": "5", "lab/reason": "OOMKilled"}
DONE = {"lab/crash-seconds": "2", "lab/exit-code": "0"}


def run(annotations: dict[str, str] | None = None, seconds: float = 1, **spec: Any) -> tuple[Simulation, Object]:
    sim = Simulation(nodes=1)
    sim.create("Pod", "p", pod_spec(**spec), metadata={"annotations": annotations or {}})
    sim.advance(seconds)
    return sim, sim.get("Pod", "p")


def state(pod: Object, number: int = 0) -> tuple[str, str]:
    [(kind, detail)] = pod["status"]["containerStatuses"][number]["state"].items()
    return kind, detail.get("reason", "")


def condition(pod: Object, kind: str) -> Object:
    return next(one for one in pod["status"]["conditions"] if one["type"] == kind)


@pytest.mark.parametrize(
    ("annotations", "restart", "seconds", "phase", "shown", "restarts", "ready"),
    [
        ({}, "Always", 1, "Running", ("running", ""), 0, "True"),
        ({"lab/start-seconds": "5"}, "Always", 4, "Pending", None, 0, None),
        ({"lab/start-seconds": "5"}, "Always", 6, "Running", ("running", ""), 0, "True"),
        ({"lab/run-seconds": "5"}, "Never", 7, "Succeeded", ("terminated", "Completed"), 0, "False"),
        ({"lab/run-seconds": "5", "lab/exit-code": "2"}, "Never", 7, "Failed", ("terminated", "Error"), 0, "False"),
        (OOM, "Never", 7, "Failed", ("terminated", "OOMKilled"), 0, "False"),
        ({"lab/stuck": "true"}, "Always", 9, "Pending", ("waiting", "ContainerCreating"), 0, "False"),
        ({"lab/sandbox-error": "no"}, "Always", 9, "Pending", ("waiting", "ContainerCreating"), 0, "False"),
        ({"lab/start-error": "no"}, "Never", 9, "Failed", ("terminated", "StartError"), 0, "False"),
        ({"lab/start-error": "no"}, "Always", 9, "Running", ("waiting", "CrashLoopBackOff"), 1, "False"),
        ({"lab/ready": "false"}, "Always", 9, "Running", ("running", ""), 0, "False"),
        ({"lab/ready-seconds": "5"}, "Always", 4, "Running", ("running", ""), 0, "False"),
        ({"lab/ready-seconds": "5"}, "Always", 6, "Running", ("running", ""), 0, "True"),
        ({"lab/pull-error": "true"}, "Always", 0.5, "Pending", ("waiting", "ErrImagePull"), 0, "False"),
        ({"lab/pull-error": "true"}, "Always", 3, "Pending", ("waiting", "ImagePullBackOff"), 0, "False"),
        ({"lab/crash-seconds": "2"}, "Always", 3, "Running", ("running", ""), 1, "True"),
        ({"lab/crash-seconds": "2"}, "Always", 6, "Running", ("waiting", "CrashLoopBackOff"), 1, "False"),
        ({"lab/crash-seconds": "2"}, "OnFailure", 15, "Running", ("running", ""), 2, "True"),
        (DONE, "OnFailure", 6, "Succeeded", ("terminated", "Completed"), 0, "False"),
        ({"lab/crash-seconds": "2"}, "Never", 6, "Failed", ("terminated", "Error"), 0, "False"),
    ],
)  # fmt: skip
def test_orders_by_annotation(
    annotations: dict[str, str],
    restart: str,
    seconds: float,
    phase: str,
    shown: tuple[str, str] | None,
    restarts: int,
    ready: str | None,
) -> None:
    _, pod = run(annotations, seconds, restartPolicy=restart)
    assert pod["status"]["phase"] == phase
    if shown is None:
        assert "containerStatuses" not in pod["status"]
        return
    assert state(pod) == shown
    assert pod["status"]["containerStatuses"][0]["restartCount"] == restarts
    assert condition(pod, "Ready")["status"] == ready


def test_crash_loop_back_off_in_full() -> None:
    sim, pod = run({"lab/crash-seconds": "2", "lab/reason": "OOMKilled"}, 6)
    container = pod["status"]["containerStatuses"][0]
    uid = pod["metadata"]["uid"]
    assert container["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": f"back-off 10s restarting failed container=main pod=p_default({uid})",
    }
    assert container["lastState"]["terminated"]["exitCode"] == 137
    assert container["lastState"]["terminated"]["reason"] == "OOMKilled"
    message = f"Back-off restarting failed container main in pod p_default({uid})"
    assert ("BackOff", message) in sim.events("p")


@pytest.mark.parametrize(
    ("image", "trouble"),
    [
        ("busybox:1.36", ""),
        ("registry.example.com/does-not-exist:1", "registry.example.com/does-not-exist:1: not found"),
        ("nowhere.invalid/llm", "dial tcp: lookup nowhere.invalid: no such host"),
    ],
)
def test_some_images_cannot_be_pulled(image: str, trouble: str) -> None:
    sim = Simulation(nodes=1)
    sim.create("Pod", "p", {"containers": [{"name": "main", "image": image}]})
    sim.advance(3)
    pod = sim.get("Pod", "p")
    if not trouble:
        assert pod["status"]["phase"] == "Running"
        return
    waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ImagePullBackOff"
    assert waiting["message"].startswith(f'Back-off pulling image "{image}": ErrImagePull: ')
    assert waiting["message"].endswith(trouble)
    reasons = [reason for reason, _ in sim.events("p")]
    assert reasons == ["Scheduled", "Pulling", "Failed", "Failed", "BackOff", "Failed"]


def test_rules_reach_pods_by_label_image_and_name_and_can_be_removed() -> None:
    sim = Simulation()
    for name, image in (("a", "busybox:1"), ("b", "llm:2"), ("c", "llm:2")):
        spec = {"containers": [{"name": "main", "image": image}]}
        sim.create("Pod", name, spec, metadata={"labels": {"app": name}})
    sim.kubelet.behave(labels={"app": "a"}, ready=False)
    rule = sim.kubelet.behave(image="llm:*", name="b", pull_error="unauthorized")
    sim.advance(3)
    assert [state(sim.get("Pod", name))[0] for name in "abc"] == ["running", "waiting", "running"]
    assert [condition(sim.get("Pod", name), "Ready")["status"] for name in "abc"] == ["False", "False", "True"]
    sim.kubelet.forget(rule)
    sim.advance(15)
    assert state(sim.get("Pod", "b"))[0] == "running"
    sim.kubelet.forget()
    sim.settle()
    assert condition(sim.get("Pod", "a"), "Ready")["status"] == "True"
    with pytest.raises(KeyError):
        sim.kubelet.behave(colour="green")


def test_init_containers_and_sidecars_come_first() -> None:
    sim = Simulation(nodes=1)
    inits = [
        {"name": "fetch", "image": "busybox:1"},
        {"name": "proxy", "image": "busybox:1", "restartPolicy": "Always"},
        {"name": "warm", "image": "busybox:1"},
    ]
    annotations = {"lab/init-seconds": "5"}
    sim.create("Pod", "p", pod_spec(initContainers=inits), metadata={"annotations": annotations})
    shown = []
    for _ in range(3):
        sim.advance(4)
        status = sim.get("Pod", "p")["status"]
        kinds = [next(iter(one["state"])) for one in status["initContainerStatuses"] + status["containerStatuses"]]
        shown.append((status["phase"], *kinds))
    assert shown == [
        ("Pending", "running", "waiting", "waiting", "waiting"),
        ("Pending", "terminated", "running", "running", "waiting"),
        ("Running", "terminated", "running", "terminated", "running"),
    ]


@pytest.mark.parametrize(("restart", "phase"), [("Never", "Failed"), ("Always", "Pending")])
def test_a_failing_init_container(restart: str, phase: str) -> None:
    inits = [{"name": "fetch", "image": "busybox:1"}]
    annotations = {"lab/init-exit-code": "1"}
    _, pod = run(annotations, 5, restartPolicy=restart, initContainers=inits)
    assert pod["status"]["phase"] == phase
    assert state(pod) == ("waiting", "PodInitializing")
    [init] = pod["status"]["initContainerStatuses"]
    assert (init["restartCount"] > 0) is (restart == "Always")
    assert condition(pod, "Initialized")["status"] == "False"


@pytest.mark.parametrize(("stop", "grace", "takes"), [("0.05", 30, 0.05), ("10", 30, 10), ("100", 5, 5), ("100", 0, 0)])
def test_deletion_takes_as_long_as_the_containers_do(stop: str, grace: int, takes: float) -> None:
    sim, _ = run({"lab/stop-seconds": stop})
    sim.registry.delete("Pod", "default", "p", grace_seconds=grace)
    if takes:
        sim.advance(takes - 0.01)
        assert "deletionTimestamp" in sim.get("Pod", "p")["metadata"]
        sim.advance(0.02)
    assert sim.pods() == []


NOT_ROOT = {"runAsNonRoot": True}


@pytest.mark.parametrize(
    ("pod", "container", "image_user", "why"),
    [
        (NOT_ROOT, {}, "0", "container has runAsNonRoot and image will run as root"),
        ({}, NOT_ROOT, "0", "container has runAsNonRoot and image will run as root"),
        (NOT_ROOT, {"runAsUser": 0}, "1000", "container's runAsUser breaks non-root policy"),
        (
            NOT_ROOT,
            {},
            "app",
            "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root",
        ),
        (NOT_ROOT, {}, "1000", ""),
        (NOT_ROOT | {"runAsUser": 1000}, {}, "0", ""),
        (NOT_ROOT, {"runAsNonRoot": False}, "0", ""),
        ({"runAsUser": 0}, {}, "0", ""),
    ],
)
def test_a_container_that_may_not_be_root_is_not(pod: Object, container: Object, image_user: str, why: str) -> None:
    """The messages are those of a kubelet of 1.36.2."""
    sim = Simulation(nodes=1)
    main = {"name": "main", "image": "busybox:1", "securityContext": container}
    spec = {"containers": [main], "securityContext": pod}
    sim.create("Pod", "p", spec, metadata={"annotations": {"lab/image-user": image_user}})
    sim.advance(1)
    found = sim.get("Pod", "p")
    (status,) = found["status"]["containerStatuses"]
    if why:
        message = f'{why} (pod: "p_default({found["metadata"]["uid"]})", container: main)'
        assert status["state"] == {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    else:
        assert status["ready"]


def test_missing_config_keeps_a_container_from_starting_until_it_is_there() -> None:
    env = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}}]
    sim = Simulation(nodes=1)
    sim.create("Pod", "p", {"containers": [{"name": "main", "image": "busybox:1", "env": env}]})
    sim.advance(1)
    waiting = sim.get("Pod", "p")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "CreateContainerConfigError", "message": 'secret "keys" not found'}
    sim.create("Secret", "keys", stringData={"other": "x"})
    sim.advance(3)
    waiting = sim.get("Pod", "p")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == "couldn't find key token in Secret default/keys"
    sim.change("Secret", "keys", lambda secret: secret["data"].update(token="c2VjcmV0"))
    sim.advance(3)
    assert "TOKEN=secret" in sim.kubelet.logs(sim.get("Pod", "p"), "main").splitlines()


def test_a_volume_of_a_missing_config_map_is_reported() -> None:
    sim, pod = run(volumes=[{"name": "conf", "configMap": {"name": "nope"}}])
    assert state(pod) == ("waiting", "ContainerCreating")
    message = 'MountVolume.SetUp failed for volume "conf" : configmap "nope" not found'
    assert ("FailedMount", message) in sim.events("p")


def test_a_sandbox_that_cannot_be_created_is_reported_again_and_again() -> None:
    sim, pod = run({"lab/sandbox-error": "no network"}, 13)
    failed = ("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unknown desc = no network")
    assert sim.events("p")[1:] == [failed]
    assert condition(pod, "PodReadyToStartContainers")["status"] == "False"
    assert [event["count"] for event in sim.registry.list("Event", "default") if event["reason"] == failed[0]] == [2]


def test_a_pod_whose_image_is_pulled_has_its_sandbox() -> None:
    _, pod = run({"lab/pull-error": "true"})
    assert condition(pod, "PodReadyToStartContainers")["status"] == "True"


def test_a_container_that_the_runtime_cannot_start() -> None:
    _, pod = run({"lab/start-error": 'exec: "trian": executable file not found in $PATH'}, restartPolicy="Never")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["startedAt"]) == (128, "1970-01-01T00:00:00Z")
    assert ended["message"].startswith("failed to create containerd task: ")
    assert ended["message"].endswith(
        'unable to start container process: exec: "trian": executable file not found in $PATH'
    )


def test_the_log_shows_the_environment_as_a_container_gets_it() -> None:
    sim = Simulation(nodes=1)
    sim.create("ConfigMap", "conf", data={"LR": "0.1", "mode": "fast"})
    env = [
        {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['rank']"}}},
        {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['example.com/note']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "mode"}}},
        {"name": "ABSENT", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "nope", "optional": True}}},
        {"name": "URL", "value": "tcp://$(IP):29500/$(RANK)/$(UNKNOWN)/$$(RANK)"},
    ]
    container = {
        "name": "main",
        "image": "busybox:1",
        "env": env,
        "envFrom": [{"prefix": "C_", "configMapRef": {"name": "conf"}}],
        "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}},
    }
    metadata = {"labels": {"rank": "3"}, "annotations": {"example.com/note": "hello"}}
    sim.create("Pod", "p", {"containers": [container]}, metadata=metadata)
    sim.advance(1)
    pod = sim.get("Pod", "p")
    lines = sim.kubelet.logs(pod, "main").splitlines()
    ip = pod["status"]["podIP"]
    assert [line for line in lines if "=" in line] == [
        "C_LR=0.1",
        "C_mode=fast",
        "RANK=3",
        "NOTE=hello",
        f"IP={ip}",
        "NODE=node-1",
        "CPUS=2",
        "MEM=2048",
        "MODE=fast",
        f"URL=tcp://{ip}:29500/3/$(UNKNOWN)/$(RANK)",
    ]
    assert len(lines) >= 10


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(B)", "$(B)"),
        ("$A $ $(", "$A $ $("),
        ("$$$(A)", "$1"),
        ("x$(A)$(A)", "x11"),
    ],
)
def test_expansion(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1"}) == expanded


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({}, "line 1\nline 2\nline 3\n"),
        ({"tail": 2}, "line 2\nline 3\n"),
        ({"tail": 0}, ""),
        ({"limit_bytes": 8}, "line 1\nl"),
        ({"tail": 1, "timestamps": True}, "2026-01-01T00:00:00.052000000Z line 3\n"),
    ],
)
def test_parts_of_a_log(wanted: Any, text: str) -> None:
    sim, pod = run({"lab/log-lines": "3"})
    assert sim.kubelet.logs(pod, "main", **wanted) == text


def test_a_log_that_grows_and_is_followed() -> None:
    sim, pod = run({"lab/log-lines": "4", "lab/log-seconds": "4", "lab/crash-seconds": "5"})
    assert sim.kubelet.logs(pod, "main") == "line 1\nline 2\n"
    followed = sim.kubelet.followed_log(pod, "main", tail=1, since=None, timestamps=False)
    assert (followed.first[0][1], followed.ended()) == ("line 2", False)
    sim.advance(2)
    assert [text for _moment, text in followed.lines()[followed.known :]] == ["line 3", "line 4"]
    sim.advance(3)  # It is restarted, with a log of its own.
    assert followed.ended()
    assert len(followed.lines()) == 4
    assert sim.kubelet.logs(sim.get("Pod", "p"), "main") == "line 1\nline 2\n"


def test_logs_that_are_not_there() -> None:
    sim, pod = run({"lab/stuck": "true"})
    with pytest.raises(ApiError, match='container "main" in pod "p" is waiting to start: ContainerCreating'):
        sim.kubelet.logs(pod, "main")
    sim, pod = run({"lab/crash-seconds": "1", "lab/log": "boom"}, 0.5)
    with pytest.raises(ApiError, match='previous terminated container "main" in pod "p" not found'):
        sim.kubelet.logs(pod, "main", previous=True)
    sim.advance(2)
    assert sim.kubelet.logs(pod, "main", previous=True) == "boom\n"


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_loaded_pods_have_logs_and_are_not_written(phase: str) -> None:
    sim = Simulation(nodes=1)
    metadata = {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": "2025-12-31T00:00:00Z"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(nodeName="node-1")}
    sim.registry.store.put({**pod, "status": {"phase": phase}})
    sim.advance(5)
    assert sim.get("Pod", "p")["status"] == {"phase": phase}
    assert len(sim.kubelet.logs(sim.get("Pod", "p"), "main").splitlines()) >= 10


def test_pods_that_are_loaded_as_running_stay_as_they_are() -> None:
    sim = Simulation(nodes=1)
    status = {
        "phase": "Running",
        "startTime": "2025-12-31T00:00:00Z",
        "podIP": "10.1.2.3",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z"}],
        "containerStatuses": [
            {
                "name": "main",
                "image": "busybox:1.36",
                "imageID": "",
                "ready": True,
                "restartCount": 2,
                "state": {"running": {"startedAt": "2025-12-31T00:00:00Z"}},
            }
        ],
    }
    sim.registry.create("Pod", {"metadata": {"name": "p", "namespace": "default"}, "spec": pod_spec(nodeName="node-1")})
    sim.registry.modify("Pod", "default", "p", lambda pod: pod.update(status=status), subresource="status")
    sim.advance(5)
    pod = sim.get("Pod", "p")
    assert (pod["status"]["podIP"], pod["status"]["startTime"]) == ("10.1.2.3", "2025-12-31T00:00:00Z")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 2
    assert "hostIP" not in pod["status"]
    sim.kubelet.behave(name="p", ready=False)
    sim.settle()
    assert condition(sim.get("Pod", "p"), "Ready")["status"] == "False"


@pytest.mark.parametrize(("annotations", "reported"), [({"lab/by-hand": "true"}, "False"), ({}, "True")])
def test_what_others_report_stays_only_when_they_are_to(annotations: dict[str, str], reported: str) -> None:
    sim, _ = run()
    sim.registry.modify("Pod", "default", "p", lambda pod: pod["metadata"].update(annotations=annotations))
    unready = [{"type": "Ready", "status": "False"}]
    sim.registry.modify(
        "Pod", "default", "p", lambda pod: pod["status"].update(conditions=unready), subresource="status"
    )
    sim.advance(5)
    assert condition(sim.get("Pod", "p"), "Ready")["status"] == reported


def test_a_pod_of_a_node_that_comes_later_starts_then() -> None:
    from kubesim.nodes import fake_node

    sim = Simulation(nodes=1)
    sim.create("Pod", "p", pod_spec(nodeName="late"))
    sim.advance(5)
    assert sim.get("Pod", "p")["status"]["phase"] == "Pending"
    sim.registry.create("Node", fake_node("late", sim.clock.now()))
    sim.advance(1)
    assert sim.get("Pod", "p")["status"]["phase"] == "Running"


def test_the_readme_lists_every_option() -> None:
    readme = (Path(kubelet_behavior.__file__).parent / "README.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| `lab/([\w-]+)` \|", readme, re.MULTILINE)
    names = [field.name for field in fields(kubelet_behavior.Behavior)]
    assert listed == [(name, name.replace("_", "-")) for name in names]
