# SPDX-License-Identifier: BSD-2-Clause
"""The role accelerator_stack by charts: with the real helm, from a repository of charts that only show their values,
and what the vendor's chart makes of these values.

The vendor's chart is pulled, or taken from GPUCTL_TEST_CHARTS, a directory with gpu-operator in it, unpacked.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tools.peers import kubernetes_core

from .ansible import BIN, ROOT, Ansible
from .api import Api
from .recorder import Recorder
from .test_stack import changed, install

pytestmark = [
    pytest.mark.nightly,  # It fetches kubernetes.core.
    pytest.mark.skipif(not shutil.which("helm"), reason="helm is not in PATH"),
]
VENDORS = yaml.safe_load((ROOT / "roles" / "accelerator_stack" / "vars" / "main.yml").read_text())[
    "_accelerator_stack_vendors"
]
CHART = VENDORS["nvidia"]["chart"]
INSTALL = "Install or remove the chart"
SHOWS_VALUES = (
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: values}, data: {values: {{ toJson .Values | quote }}}}"
)


def helm(*words: str) -> str:
    """What helm prints."""
    return subprocess.run(["helm", *words], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def place(api: Api, recorder: Recorder) -> Iterator[str]:
    """A namespace for the chart, which a cluster administrator installs."""
    recorder.identity = api
    name = f"gpuctl-test-chart-{secrets.token_hex(3)}"
    yield name
    api.delete("namespace", name)


@pytest.fixture
def within(ansible: Ansible) -> Ansible:
    """Ansible with kubernetes.core."""
    collections = f"{ROOT / '.cache' / 'collections'}:{kubernetes_core()}"
    here = {"ANSIBLE_COLLECTIONS_PATH": collections, "PATH": f"{BIN}:{os.environ['PATH']}"}
    return Ansible(ansible.directory, {**ansible.environment, **here})


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """The address of a repository with two versions of a chart of the name of NVIDIA's."""
    chart, charts = tmp_path / "source" / CHART["name"], tmp_path / "charts"
    (chart / "templates").mkdir(parents=True)
    (chart / "templates" / "values.yaml").write_text(SHOWS_VALUES)
    for version in (CHART["version"], "v99.0.0"):
        (chart / "Chart.yaml").write_text(json.dumps({"apiVersion": "v2", "name": chart.name, "version": version}))
        helm("package", str(chart), "--destination", str(charts))
    helm("repo", "index", str(charts))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(charts)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def values_in(api: Api, place: str) -> dict[str, Any] | None:
    """The values with which the chart is installed; None if it is not."""
    status, answer = api.call("GET", f"/api/v1/namespaces/{place}/configmaps/values")
    return json.loads(answer["data"]["values"]) if status == 200 else None


def test_install_again_upgrade_and_remove(within: Ansible, api: Api, place: str, repository: str) -> None:
    given = {"method": "helm", "chart_repository": repository, "chart_values": {"driver": {"enabled": False}}}
    assert changed(install(within, place, check=True, **given)) == [INSTALL]
    assert values_in(api, place) is None
    assert changed(install(within, place, **given)) == [INSTALL]
    values = values_in(api, place)
    assert values is not None
    assert values["driver"] == {"enabled": False}
    assert values["mig"] == {"strategy": "mixed"}
    assert changed(install(within, place, **given)) == []

    newer = {**given, "chart_version": "v99.0.0", "chart_values": {"driver": {"enabled": True}}}
    assert changed(install(within, place, **newer)) == [INSTALL]
    values = values_in(api, place)
    assert values is not None
    assert values["driver"] == {"enabled": True}

    assert changed(install(within, place, state="absent", **newer)) == [INSTALL]
    assert values_in(api, place) is None
    assert changed(install(within, place, state="absent", **newer)) == []


def test_a_repository_that_lacks_the_chart(within: Ansible, api: Api, place: str, repository: str) -> None:
    ran = install(within, place, method="helm", chart_repository=repository, chart_version="v1.2.3")
    assert ran.status == 2, ran.output
    assert 'chart "gpu-operator" version "v1.2.3" not found' in ran.tasks[-1].message
    assert values_in(api, place) is None


def test_helm_would_take_what_is_in_the_working_directory(
    within: Ansible, api: Api, place: str, repository: str
) -> None:
    (within.directory / CHART["name"]).mkdir()
    ran = install(within, place, method="helm", chart_repository=repository)
    assert ran.status == 2
    assert ran.tasks[-1].message.startswith("gpu-operator: in the working directory")
    assert values_in(api, place) is None


@pytest.mark.parametrize(("state", "status"), [("present", "failed"), ("absent", "uninstalling")])
def test_a_release_that_is_neither_deployed_nor_gone(
    within: Ansible, api: Api, place: str, repository: str, state: str, status: str
) -> None:
    """kubernetes.core.helm says of it that there is nothing to do."""
    given = {"method": "helm", "chart_repository": repository}
    assert changed(install(within, place, **given)) == [INSTALL]
    set_status(api, place, status)
    ran = install(within, place, state=state, **given)
    assert ran.status == 2, ran.output
    assert ran.tasks[-1].message.startswith(f"Helm release gpuctl-nvidia in namespace {place} is {status}, since ")
    assert values_in(api, place) is not None


def set_status(api: Api, place: str, status: str) -> None:
    """Let helm find its release in another state. It keeps releases as JSON, compressed and encoded, in Secrets."""
    path = f"/api/v1/namespaces/{place}/secrets/sh.helm.release.v1.gpuctl-nvidia.v1"
    code, secret = api.call("GET", path)
    assert code == 200, secret
    release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    release["info"]["status"] = status
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode()))).decode()
    labels = {**secret["metadata"]["labels"], "status": status}
    changed_secret = {**secret, "metadata": {**secret["metadata"], "labels": labels}, "data": {"release": packed}}
    code, answer = api.call("PUT", path, changed_secret)
    assert code == 200, answer


def test_a_registry_is_asked_for_the_whole_address(within: Ansible, place: str) -> None:
    """Nobody answers there."""
    ran = install(within, place, method="helm", chart_repository="oci://127.0.0.1:9/mirror/")
    assert ran.status == 2
    assert "oci://127.0.0.1:9/mirror/gpu-operator" in str(ran.tasks[-1].result)


@pytest.fixture
def vendors_chart(tmp_path: Path) -> Path:
    """NVIDIA's chart, unpacked."""
    if directory := os.environ.get("GPUCTL_TEST_CHARTS"):
        return Path(directory) / CHART["name"]
    words = ("--repo", CHART["repository"], "--version", CHART["version"], "--untar", "--untardir", str(tmp_path))
    try:
        helm("pull", CHART["name"], *words)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"{CHART['repository']} is out of reach: {error.stderr.strip()}")
    return tmp_path / str(CHART["name"])


def test_the_vendors_chart_knows_the_values(
    within: Ansible,
    api: Api,
    place: str,
    repository: str,
    vendors_chart: Path,
    tmp_path: Path,
) -> None:
    """helm ignores values that a chart does not have."""
    install(within, place, method="helm", chart_repository=repository)
    values = values_in(api, place)
    assert values is not None
    has = yaml.safe_load((vendors_chart / "values.yaml").read_text())
    assert list(unknown(values, has)) == []

    given = tmp_path / "values.json"
    given.write_text(json.dumps(values))
    made = list(yaml.safe_load_all(helm("template", "gpuctl-nvidia", str(vendors_chart), "--values", str(given))))
    (policy,) = (each for each in made if each and each["kind"] == "ClusterPolicy")
    definition = yaml.safe_load((vendors_chart / "crds" / "nvidia.com_clusterpolicies.yaml").read_text())
    jsonschema.validate(policy, definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert policy["spec"]["mig"] == {"strategy": "mixed"}
    plugin = policy["spec"]["devicePlugin"]
    assert plugin["config"] == {"name": "nvidia-device-plugin-configs", "default": "default"}
    # The version that the role's own manifests have is the one of the pinned chart.
    assert VENDORS["nvidia"]["images"]["device_plugin"].endswith(f":{plugin['version']}")
    (configurations,) = (each for each in made if each and each["metadata"]["name"] == plugin["config"]["name"])
    shared = yaml.safe_load(configurations["data"]["time-slicing-4"])["sharing"]["timeSlicing"]["resources"]
    assert shared == [{"name": "nvidia.com/gpu", "replicas": 4}]


def unknown(values: dict[str, Any], has: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths of values that a chart does not have. What is empty in it takes anything."""
    for name, value in values.items():
        if name not in has:
            yield f"{path}{name}"
        elif isinstance(value, dict) and has[name]:
            yield from unknown(value, has[name], f"{path}{name}.")


def test_unknown_values_are_found() -> None:
    has = {"driver": {"enabled": True}, "data": {}}
    assert list(unknown({"driver": {"enabled": False}, "data": {"a": 1}}, has)) == []
    assert list(unknown({"driver": {"enable": False}, "dirver": 1}, has)) == ["driver.enable", "dirver"]
