# SPDX-License-Identifier: BSD-2-Clause
"""The role schedules: CronJobs whose commands do what they are for, as the account that they have."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from .ansible import BIN, ROOT, Ansible, Run
from .api import Api
from .manifests import notebook
from .test_roles import changed, play

PATH = "/apis/batch/v1/namespaces/gpuctl-system/cronjobs"
IMAGE = "registry.example.com/gpuctl-ee:1.0"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One of its own: the role has one namespace, and one account."""
    with Cluster(nodes=1).running() as cluster:
        yield cluster


@pytest.fixture
def api(cluster: Cluster, tmp_path: Path) -> Api:
    cluster.kubeconfig(tmp_path / "kubeconfig")
    return Api(str(tmp_path / "kubeconfig"))


@pytest.fixture
def ansible(api: Api, tmp_path: Path) -> Ansible:
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig")})


def schedule(ansible: Ansible, *, check: bool = False, **variables: Any) -> Run:
    given = {f"schedules_{name}": value for name, value in {"image": IMAGE, **variables}.items()}
    return play(ansible, "schedules", check=check, **given)


def cronjobs(api: Api) -> dict[str, Any]:
    status, answer = api.call("GET", PATH)
    assert status == 200, answer
    return {obj["metadata"]["name"]: obj["spec"] for obj in answer["items"]}


def pod_of(spec: Any) -> Any:
    return spec["jobTemplate"]["spec"]["template"]["spec"]


def test_the_cluster_runs_what_is_listed(ansible: Ansible, api: Api) -> None:
    schedule(ansible, check=True)
    assert cronjobs(api) == {}

    assert len(changed(schedule(ansible))) == 2
    assert {name: spec["schedule"] for name, spec in cronjobs(api).items()} == {
        "gpuctl-expire": "*/10 * * * *",
        "gpuctl-budget": "7,22,37,52 * * * *",
        "gpuctl-record-history": "*/10 * * * *",
    }
    assert api.get("serviceaccount", "gpuctl-schedules", "gpuctl-system")
    assert changed(schedule(ansible)) == []

    runs = [
        {
            "playbook": "idle",
            "name": "of-a",
            "schedule": "5 * * * *",
            "variables": {"gpuctl_namespace": "a, $(b)"},
        },
        {"playbook": "idle", "schedule": "@daily"},
    ]
    changed(schedule(ansible, runs=runs, secret="tokens", pull_secret="registry"))
    found = {name: pod_of(spec) for name, spec in cronjobs(api).items()}
    assert found.keys() == {"gpuctl-of-a", "gpuctl-idle"}
    (container,) = found["gpuctl-of-a"]["containers"]
    # As Kubernetes expands it: $$ is $, and $(NAME) would be a variable of the container.
    given = '{"gpuctl_all_namespaces": true, "gpuctl_namespace": "a, $$(b)"}'
    assert container["command"] == ["ansible-playbook", "runwhere.gpuctl.idle", "-e", given]
    assert container["envFrom"] == [{"secretRef": {"name": "tokens"}}]
    assert found["gpuctl-idle"]["imagePullSecrets"] == [{"name": "registry"}]

    changed(schedule(ansible, state="absent", image=""))
    assert cronjobs(api) == {}
    assert api.get("serviceaccount", "gpuctl-schedules", "gpuctl-system") is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"image": ""}, "schedules_image: missing. Give an image with ansible-core and runwhere.gpuctl."),
        ({"runs": []}, "schedules_runs: empty. Give a run, or set schedules_state=absent to delete the CronJobs."),
        ({"runs": [{"playbook": "delete", "schedule": "@daily"}]}, "value of playbook must be one of: budget, doctor"),
        (
            {"runs": [{"playbook": "idle", "schedule": "5 * * * *"}, {"playbook": "idle", "schedule": "@daily"}]},
            "schedules_runs: runs with the same name, which by default is that of the playbook: idle, idle. "
            "Give each a name of its own.",
        ),
        ({"runs": [{"playbook": "idle", "schedule": "daily"}]}, 'spec.schedule: Invalid value: "daily"'),
    ],
    ids=["no image", "no run", "no such playbook", "one name twice", "no schedule"],
)
def test_what_cannot_be_scheduled_is_refused(
    ansible: Ansible, api: Api, variables: dict[str, Any], message: str
) -> None:
    run = schedule(ansible, **variables)
    assert run.status == 2
    assert message in " ".join(run.output.replace('\\"', '"').split())
    assert cronjobs(api) == {}


def test_a_run_does_its_work_as_its_account(ansible: Ansible, api: Api, cluster: Cluster, tmp_path: Path) -> None:
    """The command of the CronJob, with its environment: the owner of a notebook near its end is warned."""
    soon = notebook("soon", job={"name": "soon", "time_limit": "20m"})
    submitted = ansible.job(definition=soon, namespace="default", wait=True, wait_timeout=60)
    assert not submitted.failed, submitted.message
    changed(schedule(ansible))
    for name in ("gpuctl-expire", "gpuctl-budget", "gpuctl-record-history"):
        (container,) = pod_of(cronjobs(api)[name])["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        token = cluster.service_account_token("gpuctl-system", "gpuctl-schedules")
        environment |= {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "K8S_AUTH_HOST": cluster.url,
            "K8S_AUTH_API_KEY": token,
        }
        program, *arguments = container["command"]
        done = subprocess.run(
            [BIN / program, *arguments], env=environment, capture_output=True, text=True, timeout=120, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "runwhere.ai/end-warned-at" in api.get("statefulset", "soon", "default")["metadata"]["annotations"]
