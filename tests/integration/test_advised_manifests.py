# SPDX-License-Identifier: BSD-2-Clause
"""The playbook advise puts its advice into manifests, keeps all else of them, and leaves what it does not know."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs import job
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.problems import ManifestErrors
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.advised_manifests import PatchedFile, write_manifests
from kubesim import Cluster

from . import advice_cases
from .advice_cases import GIB, TEAM
from .ansible import ROOT, Ansible, Run
from .api import PATHS, Api
from .prometheus_double import Asked, Reply, prometheus_double, vector
from .tasks import perform
from .test_advice import WINDOW

PLAYBOOK = str(ROOT / "playbooks" / "advise.yml")
TRAINING = """\
# Fine-tuning, by hand.
kind: training
version: v0.1
job: {name: sft}   # in the namespace of the context
environment:
    image: ml:v1
    command: [ train,  "--lr", '1e-4' ]
resources:
    memory:   "64Gi"  # plenty
    cpu: 1

    gpu: 4            # all of the node
---
# Another document stays as it is.
kind: compute
version: v0.1
job: {name: web, namespace: team-a}
environment: {image: nginx}
service: {port: 80}
resources: {gpu: 0, cpu: 1, memory: 1Gi}
"""
WITH_SECRET = """\
kind: training
version: v0.1
job: {name: tuned}
environment:
  image: ml:v1
  command: [train]
  env:
    - {name: HF_TOKEN, value: hf_abcdefghijklmnopqrst}
    - name: DEPLOY_KEY
      value: |
        -----BEGIN PRIVATE KEY-----
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj
        -----END PRIVATE KEY-----
resources: {gpu: 4, cpu: 1, memory: 1Gi}
"""
SERVICE = "\ufeff" + "\r\n".join(
    (
        "kind: inference",
        "version: v0.1",
        "job: {namespace: team-a, name: chat}",
        "environment: {image: 'ml:v1', command: [serve]}",
        "service: {port: 80}",
        "resources: {gpu: 4, cpu: 1, memory: 1Gi}",
    )
)
ADVISED_TRAINING = TRAINING.replace('"64Gi"', '"20Gi"').replace("gpu: 4 ", "gpu: 1 ")


@dataclass
class World:
    cluster: Cluster
    api: Api
    ansible: Ansible
    url: str
    folder: Path

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.folder / f"{name}.yaml").write_bytes(text.encode())

    def submit(self) -> None:
        """Submit the directory, and run a pod of each job, half of a day long."""
        done = perform(job.MODULE, self.cluster, src=[str(self.folder)], namespace=TEAM)
        assert not done.get("failed"), done["msg"]
        for kind in ("job", "deployment", "statefulset"):
            for workload in self.api.list(kind, TEAM):
                name, template = workload["metadata"]["name"], workload["spec"]["template"]
                pod = {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {**template["metadata"], "name": f"{name}-0-aaaaa"},
                }
                self.api.create("pod", {**pod, "spec": {**template["spec"], "nodeName": "node-1"}}, TEAM)
                path = f"{PATHS['pod'].format(TEAM)}/{name}-0-aaaaa/status"
                status = {"status": advice_cases.pod_status(advice_cases.PlantedPod(name))}
                assert self.api.call("PATCH", path, status, "application/merge-patch+json")[0] == 200

    def advise(self, *arguments: str, **variables: Any) -> Run:
        given = {"gpuctl_start": WINDOW["start"], "gpuctl_end": WINDOW["end"], "gpuctl_namespace": TEAM}
        given |= {"gpuctl_prometheus_url": self.url, "gpuctl_src": str(self.folder), **variables}
        self.cluster.requests.reset()
        run = self.ansible.run("ansible-playbook", PLAYBOOK, "-e", json.dumps(given), *arguments)
        asked = [each for each in self.cluster.requests if each.verb not in ("get", "list", "watch")]
        assert {each.resource for each in asked if not each.dry_run} <= {
            "selfsubjectaccessreviews",
            "selfsubjectreviews",
        }, asked
        return run

    def texts(self) -> dict[str, str]:
        return {path.stem: path.read_bytes().decode() for path in self.folder.glob("*.yaml")}


def of_four(asked: Asked) -> Reply:
    """Of four devices of each pod, one was used; containers used 10 GiB of memory, and next to no CPU."""
    query = asked.parameters["query"]
    if "by(cluster)" in query or "OOMKilled" in query:
        return vector()
    pods = [{"namespace": TEAM, "pod": f"{name}-0-aaaaa"} for name in ("sft", "chat", "tuned", "s-1", "s-2", "lab")]
    memory = str(10 * GIB) if "working_set" in query else "0.01"
    value = "720" if "count_over_time" in query else memory
    if "UUID" not in query:
        return vector(*((pod, value) for pod in pods))
    devices = [{**pod, "UUID": str(number), "GPU_I_ID": ""} for pod in pods for number in range(4)]
    return vector(*((each, "1" if value == "0.01" and each["UUID"] == "0" else value) for each in devices))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made_world(tmp_path) as world:
        yield world


@contextmanager
def made_world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "manifests"
    folder.mkdir()
    with Cluster(nodes=2, controllers=False).running() as cluster, prometheus_double(of_four) as double:
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        api = Api(kubeconfig)
        api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
        yield World(cluster, api, Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": kubeconfig}), double.url, folder)


def changed_of(run: Run) -> int:
    return sum(task.changed for task in run.tasks)


def screen_of(run: Run) -> str:
    return " ".join(run.output.split())


def test_only_the_scalars_change_and_only_when_asked(world: World) -> None:
    world.write(training=TRAINING, service=SERVICE)
    world.submit()
    os.chmod(world.folder / "training.yaml", 0o640)
    before = world.texts()
    offered = world.advise("--diff")
    assert (offered.status, changed_of(offered), world.texts()) == (0, 0, before), offered.output
    for line in (
        '-    memory:   "64Gi"  # plenty',
        '+    memory:   "20Gi"  # plenty',
        "+    gpu: 1            # all of the node",
    ):
        assert line in offered.output
    assert "# Another document" in offered.output  # It is context.
    assert "3 values in 2 files to change: --diff shows them, and -e gpuctl_write=true writes them." in screen_of(
        offered
    )
    checked = world.advise("--check", gpuctl_write=True)
    assert (checked.status, changed_of(checked), world.texts()) == (0, 1, before), checked.output
    done = world.advise(gpuctl_write=True)
    assert (done.status, changed_of(done)) == (0, 1), done.output
    assert "3 values in 2 files written." in screen_of(done)
    assert world.texts() == {"training": ADVISED_TRAINING, "service": SERVICE.replace("gpu: 4", "gpu: 1")}
    assert stat.S_IMODE((world.folder / "training.yaml").stat().st_mode) == 0o640
    assert [path.name for path in world.folder.iterdir() if path.suffix != ".yaml"] == []
    again = world.advise(gpuctl_write=True)
    assert (again.status, changed_of(again)) == (0, 0), again.output
    assert "the manifest asks for 20Gi, and what runs for 64Gi. Submit it" in screen_of(again)


def test_secrets_beside_a_change_are_masked(world: World) -> None:
    world.write(tuned=WITH_SECRET)
    world.submit()
    run = world.advise("--diff", "-vvv", gpuctl_write=True)
    assert "+resources: {gpu: 1, cpu: 1, memory: 1Gi}" in run.output
    assert "hf_abcdefghijklmnopqrst" not in run.output
    assert "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj" not in run.output
    assert world.texts()["tuned"] == WITH_SECRET.replace("gpu: 4", "gpu: 1")


def test_what_is_written_is_also_in_the_data(world: World, tmp_path: Path) -> None:
    world.write(training=TRAINING)
    world.submit()
    world.advise(gpuctl_output=str(tmp_path / "advice.json"))
    rows = json.loads((tmp_path / "advice.json").read_text())["manifests"]
    assert [(Path(row["file"]).name, row["line"], row["what"], row["refused"]) for row in rows] == [
        ("training.yaml", 12, "resources.gpu", None),
        ("training.yaml", 9, "resources.memory", None),
    ]


SWEEP = """\
kind: training
version: v0.1
job: {name: s}
matrix: {seed: [1, 2]}
environment: {image: "ml:v1", command: [train, "$(matrix.seed)"]}
resources: {gpu: 4, cpu: 1, memory: 1Gi}
"""
ALIAS = """\
kind: List
items:
- kind: notebook
  version: v0.1
  job: {name: lab}
  environment: {image: "ml:v1"}
  resources: &own {gpu: 4, cpu: 1, memory: 64Gi}
- kind: inference
  version: v0.1
  job: {name: chat}
  environment: {image: "ml:v1", command: [serve]}
  service: {port: 80}
  resources: *own
- kind: training
  version: v0.1
  job: {name: sft}
  environment: {image: "ml:v1", command: [train]}
  resources: {<<: *own, cpu: 1}
"""
REFUSALS = {
    "alias": (ALIAS, [("lab", "an anchor"), ("chat", "an alias"), ("sft", "a merge key")]),
    "sweep": (SWEEP, [("s-1", "it is one of a sweep"), ("s-2", "it is one of a sweep")]),
    "tag": (
        TRAINING.replace('"64Gi"', '!!str "64Gi"').replace("gpu: 4 ", "gpu: !!int 4 "),
        [("sft", "its value comes from a tag")],
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_is_not_only_there_stays(name: str, world: World) -> None:
    text, reasons = REFUSALS[name]
    world.write(refused=text)
    world.submit()
    run = world.advise(gpuctl_write=True)
    assert (run.status, changed_of(run), world.texts()["refused"]) == (0, 0, text), run.output
    for job_name, reason in reasons:
        assert f"of job {job_name} in namespace {TEAM} stays as it is: " in screen_of(run)
        assert reason in screen_of(run)
    assert "refused.yaml, line " in screen_of(run)


def test_a_manifest_that_is_not_what_runs_stays(world: World) -> None:
    """Its image is another one now, of which nothing is measured."""
    world.write(training=TRAINING)
    world.submit()
    changed = TRAINING.replace("ml:v1", "ml:v2")
    world.write(training=changed)
    run = world.advise(gpuctl_write=True)
    assert (run.status, changed_of(run), world.texts()["training"]) == (0, 0, changed), run.output
    assert "the manifest is not what runs. Submit it, and look again once it has run." in screen_of(run)


def test_advice_with_which_the_namespace_admits_no_pod_stays(world: World) -> None:
    world.write(training=TRAINING)
    world.submit()
    least = {"limits": [{"type": "Container", "min": {"memory": "32Gi"}}]}
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "least"}, "spec": least}
    assert world.api.call("POST", f"/api/v1/namespaces/{TEAM}/limitranges", limits)[0] == 201
    run = world.advise(gpuctl_write=True)
    assert (run.status, world.texts()["training"]) == (0, TRAINING), run.output
    assert "with less, it would not run: " in screen_of(run)
    assert "LimitRange" in screen_of(run)


def test_a_file_behind_a_link_stays(world: World, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    world.write(training=TRAINING)
    world.submit()
    (world.folder / "training.yaml").rename(elsewhere)
    (world.folder / "training.yaml").symlink_to(elsewhere)
    run = world.advise(gpuctl_write=True, gpuctl_src=str(world.folder / "training.yaml"))
    assert (changed_of(run), elsewhere.read_text()) == (0, TRAINING)
    assert "a symbolic link out of its directory" in screen_of(run)
    searched = world.advise(gpuctl_write=True)
    assert searched.status == 2
    assert "symbolic link out of the directory" in screen_of(searched)


def test_manifests_that_are_wrong_are_not_touched(world: World) -> None:
    world.write(training=TRAINING)
    world.submit()
    world.write(template='kind: training\nversion: v0.1\njob: {name: x}\nresources: {gpu: "{{ gpus }}"}\n')
    before = world.texts()
    run = world.advise(gpuctl_write=True)
    assert (run.status, world.texts()) == (2, before)
    assert "template.yaml, document 1" in screen_of(run)


def test_a_job_that_is_not_declared_there_is_counted(world: World) -> None:
    world.write(training=TRAINING, service=SERVICE)
    world.submit()
    (world.folder / "service.yaml").unlink()
    assert "These manifests do not declare 1 advised job." in screen_of(world.advise())


def test_a_file_that_cannot_be_replaced_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "training.yaml"
    file.write_text(TRAINING)
    patched = PatchedFile(str(file), TRAINING, ADVISED_TRAINING, frozenset())
    monkeypatch.setattr(os, "replace", _refuse)
    with pytest.raises(PermissionError):
        write_manifests([patched])
    assert (file.read_text(), [path.name for path in tmp_path.iterdir()]) == (TRAINING, [file.name])


def test_no_file_is_written_if_one_has_changed_since_it_was_read(tmp_path: Path) -> None:
    texts = {tmp_path / "a.yaml": TRAINING, tmp_path / "b.yaml": f"{TRAINING}# by someone else"}
    for path, text in texts.items():
        path.write_text(text)
    with pytest.raises(ManifestErrors, match="changed meanwhile"):
        write_manifests([PatchedFile(str(path), TRAINING, ADVISED_TRAINING, frozenset()) for path in texts])
    assert {path: path.read_text() for path in texts} == texts


def _refuse(*_paths: object) -> None:
    raise PermissionError(13, "Permission denied", "training.yaml")
