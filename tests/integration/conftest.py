# SPDX-License-Identifier: BSD-2-Clause
"""A cluster for the integration tests: the simulated one, or the one that GPUCTL_TEST_KUBECONFIG names.

GPUCTL_TEST_KUBERNETES is the version of the simulated one, such as 1.31; by default the newest.
Every test works in a namespace of its own that goes away after it, and through a proxy that counts requests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import ADMINISTER, SUBMIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import cluster_roles
from kubesim import RELEASES, Cluster

from . import recorder as recording
from .accounts import account, make_priority_classes
from .ansible import Ansible
from .api import Api, eventually
from .namespaces import make_namespace, remove_namespaces, wait_for_removals
from .pools import PREFIX, SYSTEM, Field
from .recorder import Recorder


@pytest.fixture(scope="session")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    given = os.environ.get("GPUCTL_TEST_KUBECONFIG")
    if given:
        yield Path(given).resolve()
        return
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    version = os.environ.get("GPUCTL_TEST_KUBERNETES") or [*RELEASES][-1]
    with Cluster(nodes=4, version=version).running() as cluster:
        cluster.kubeconfig(path)
        yield path


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> Iterator[Api]:
    """The cluster, left as it was: what belongs to no namespace is removed at the end."""
    api = Api(str(kubeconfig))
    before = {obj["metadata"]["name"] for obj in api.list("priorityclass")}
    system = api.get("namespace", SYSTEM)
    yield api
    for obj in api.list("priorityclass"):
        if obj["metadata"]["name"] not in before:
            api.delete("priorityclass", obj["metadata"]["name"])
    if system is None:
        api.delete("namespace", SYSTEM)  # with the Lease in it
        eventually(lambda: api.get("namespace", SYSTEM) is None, 120)
    wait_for_removals(api)


@pytest.fixture(scope="session")
def administrator(api: Api) -> Iterator[Api]:
    """The cluster as an account of the level administer sees it: in whose name the tests run Ansible.

    A cluster administrator has run gpuctl_rbac before, which writes the roles that such an account may only bind.
    """
    before = {obj["metadata"]["name"] for obj in api.list("clusterrole")}
    roles = cluster_roles(ADMINISTER)
    for role in roles:
        if role["metadata"]["name"] in before:
            api.patch("clusterrole", role["metadata"]["name"], {"rules": role["rules"]})
        else:
            api.create("clusterrole", role)
    with account(api, ADMINISTER) as own:
        yield own
    for role in roles:
        if role["metadata"]["name"] not in before:
            api.delete("clusterrole", role["metadata"]["name"])


@pytest.fixture(scope="session")
def _recorder(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    recorder, server = recording.start(api, tmp_path_factory.mktemp("recorder"))
    yield recorder
    server.shutdown()
    server.server_close()


@pytest.fixture
def recorder(_recorder: Recorder, administrator: Api) -> Recorder:
    _recorder.clear()
    _recorder.identity = administrator
    return _recorder


@pytest.fixture
def submitter(api: Api, recorder: Recorder, namespace: str) -> Iterator[Api]:
    """Run Ansible in the name of an account that may submit jobs to the test's namespace, and nothing else."""
    make_priority_classes(api)
    with account(api, SUBMIT, [namespace]) as own:
        recorder.identity = own
        yield own


@pytest.fixture
def namespace(api: Api) -> Iterator[str]:
    name = make_namespace(api)
    yield name
    remove_namespaces(api, name)


@pytest.fixture
def ansible(tmp_path: Path, recorder: Recorder) -> Ansible:
    """Ansible whose tasks reach the cluster through the recorder."""
    return Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(recorder.kubeconfig)})


@pytest.fixture
def field(api: Api) -> Iterator[Field]:
    """Nodes without managed labels, for the test to label; the labels are removed after it."""
    free = [
        node["metadata"]["name"]
        for node in api.list("node")
        if not any(key.startswith(PREFIX) for key in node["metadata"].get("labels") or {})
    ]
    field = Field(api, tuple(free))
    yield field
    field.clean()
