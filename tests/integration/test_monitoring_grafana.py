# SPDX-License-Identifier: BSD-2-Clause
"""The role monitoring brings dashboards to Grafana's API by the modules of community.grafana."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from tools.peers import community_grafana

from .ansible import ROOT, Ansible, Run
from .grafana_double import Grafana, grafana
from .test_monitoring_role import changed, install
from .test_roles import play

DASHBOARDS = {f"gpuctl-{name}" for name in ("cluster", "pool", "team", "job", "gpu-health")}
pytestmark = pytest.mark.nightly  # It fetches community.grafana.
ANOTHER_NAME = "ansible.builtin.local"  # of the connection: for the role, that of another host


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, controllers=False).running() as cluster:
        yield cluster


@pytest.fixture
def server() -> Iterator[Grafana]:
    with grafana() as server:
        yield server


@pytest.fixture
def ansible(cluster: Cluster, tmp_path: Path) -> Ansible:
    path = cluster.kubeconfig(tmp_path / "kubeconfig")
    collections = f"{ROOT / '.cache' / 'collections'}:{community_grafana()}"
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path), "ANSIBLE_COLLECTIONS_PATH": collections})


def bring(ansible: Ansible, server: Grafana, check: bool = False, **more: Any) -> Run:
    given = {"dashboards": "grafana", "grafana_url": f"{server.url}/", "grafana_token": server.token}
    files = {"method": "files", "directory": str(ansible.directory / "files")}
    return install(ansible, check=check, **files, **given, **more)


def test_dashboards_come_change_and_go(ansible: Ansible, server: Grafana) -> None:
    done = bring(ansible, server, check=True)
    assert changed(done)[-1] == "Say that the folder and the dashboards would be created"
    assert "Would create folder GPU clusters and 5 dashboards in it." in done.output
    assert (server.folders, server.dashboards) == ([], {})

    assert changed(bring(ansible, server))[-2:] == ["Create the folder", "Apply or remove the dashboards"]
    assert {one["title"] for one in server.folders} == {"GPU clusters"}
    assert set(server.dashboards) == DASHBOARDS
    assert all(one["dashboard"]["panels"] for one in server.dashboards.values())
    assert changed(bring(ansible, server)) == []
    assert changed(bring(ansible, server, check=True)) == []

    server.dashboards["gpuctl-job"]["dashboard"]["title"] = "Changed by hand"
    assert changed(bring(ansible, server, check=True)) == ["Apply or remove the dashboards"]
    assert changed(bring(ansible, server)) == ["Apply or remove the dashboards"]
    assert server.dashboards["gpuctl-job"]["dashboard"]["title"] != "Changed by hand"

    assert "Apply or remove the dashboards" in changed(bring(ansible, server, state="absent"))
    assert server.dashboards == {}
    assert len(server.folders) == 1, "others may have put dashboards there"


def test_another_host_gets_the_files_that_the_module_reads(ansible: Ansible, server: Grafana) -> None:
    given = {"method": "files", "directory": str(ansible.directory / "files"), "dashboards": "grafana"}
    given |= {"grafana_url": server.url, "grafana_token": server.token}
    variables = {"ansible_connection": ANOTHER_NAME, **{f"monitoring_{key}": text for key, text in given.items()}}
    done = play(ansible, "monitoring", **variables)
    assert "Apply or remove the dashboards" in changed(done)
    assert set(server.dashboards) == DASHBOARDS
    (copied,) = [task.result["path"] for task in done.tasks if "Create a directory for the dashboards" in task.task]
    assert not Path(copied).exists()


def test_a_wrong_token_is_said_without_it(ansible: Ansible, server: Grafana) -> None:
    server.token = "glsa_right"
    done = install(
        ansible,
        method="files",
        directory=str(ansible.directory / "files"),
        dashboards="grafana",
        grafana_url=server.url,
        grafana_token="glsa_wrong_token",
    )
    assert done.status != 0
    assert "Unauthorized to perform action" in done.output
    assert "glsa_wrong_token" not in done.output
