# SPDX-License-Identifier: BSD-2-Clause
"""A real AWX, configured by awx/configure.yml in an organization of its own, with a simulated cluster, or with several.

GPUCTL_TEST_AWX is its URL. Without it, all tests are skipped. What the tests created is deleted after them.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.ansible import BIN, ROOT, Ansible
from integration.api import Api
from integration.documents import blocks_of
from integration.manifests import compute
from integration.prometheus_double import Asked, Reply, matrix, prometheus_double, vector
from kubesim import Cluster

from tools.peers import awx_awx

from .server import ADDRESS, ENDED, IMAGE, Awx, Refused, named_awx, served, wait_for

# In this order, because AWX does not delete what something else uses.
OWN = (
    "workflow_job_templates",
    "job_templates",
    "inventories",
    "projects",
    "execution_environments",
    "credentials",
    "notification_templates",
)
TYPE = "GPU cluster"
GUIDE = "docs/docsite/rst/guide_awx.rst"
TEAM = ["team-a", "team-a-dev"]
PROMETHEUS = ("monitoring", "prometheus-operated", "9090")
# The first one is the home. Jobs of the last two see what they have stored in each other.
CLUSTERS: list[dict[str, Any]] = [
    {"name": "east", "region": "eu", "price": 2.5, "registries": ["registry.example.com"]},
    {"name": "west", "region": "eu", "storage": "nfs.paris"},
    {"name": "north", "storage": "nfs.paris"},
]


@dataclass(frozen=True)
class Organization:
    """AWX after two runs of the playbook, with the variables of both and what they printed."""

    awx: Awx
    folder: Path
    organization: str
    variables: dict[str, Any]
    outputs: list[str]

    def only(self, kind: str, **query: str) -> dict[str, Any]:
        """The one object of the organization that fits."""
        (found,) = self.awx.list(f"{kind}/", organization__name=self.organization, **query)
        return found

    def launch(
        self, name: str, answers: Mapping[str, Any] = {}, *, limit: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """A job of a template after its end, and its output."""
        job = self.awx.launch("job_templates", name, self.organization, answers, limit=limit)
        done = self.awx.ended(job)
        return done, self.awx.output(done)

    def succeeds(self, name: str, answers: Mapping[str, Any] = {}, *, limit: str | None = None) -> list[str]:
        """The lines that a job of a template prints."""
        done, output = self.launch(name, answers, limit=limit)
        assert done["status"] == "successful", output
        return output.splitlines()

    def again(self, **variables: Any) -> str:
        """The output of one more run, with other values of some variables."""
        return _configure(self.folder, self.awx, {**self.variables, **variables})


@dataclass(frozen=True)
class Configured(Organization):
    """With one cluster."""

    cluster: Cluster
    api: Api
    posts: list[tuple[str, Any]]

    @property
    def team(self) -> dict[str, Any]:
        team: dict[str, Any] = self.variables["gpuctl_awx_teams"][0]
        return team

    def ansible(self, kubeconfig: str = "kubeconfig") -> Ansible:
        """Tasks past AWX, by default of a cluster administrator."""
        return Ansible(self.folder, {"K8S_AUTH_KUBECONFIG": str(self.folder / kubeconfig)})


@dataclass(frozen=True)
class Several(Organization):
    """With several clusters, by name."""

    clusters: dict[str, Cluster]
    apis: dict[str, Api]

    def having(self, kind: str, name: str) -> list[str]:
        """The clusters in which the team has such an object."""
        return [site for site, api in self.apis.items() if api.get(kind, name, TEAM[0])]


@pytest.fixture(scope="session")
def awx() -> Awx:
    return named_awx()


@pytest.fixture(scope="session")
def organization(awx: Awx) -> Iterator[dict[str, Any]]:
    with _organization(awx) as made:
        yield made


@contextmanager
def _organization(awx: Awx) -> Iterator[dict[str, Any]]:
    types = awx.list("credential_types/", name=TYPE)
    made = awx.call("POST", "organizations/", {"name": f"gpuctl-test-{uuid.uuid4().hex[:8]}"})
    yield made
    for job in awx.list("unified_jobs/", organization=made["id"], not__status__in=",".join(ENDED)):
        with suppress(Refused):  # it has ended meanwhile
            awx.call("POST", job["related"]["cancel"])
    for kind in OWN:
        for obj in awx.list(f"{kind}/", organization=made["id"]):
            wait_for(lambda url=obj["url"]: _deleted(awx, url), f"{obj['name']} cannot be deleted")  # type: ignore[misc]
    awx.call("DELETE", made["url"])
    if not types:
        for credential_type in awx.list("credential_types/", name=TYPE):
            awx.call("DELETE", credential_type["url"])


def _deleted(awx: Awx, url: str) -> bool:
    """AWX answers 409 while a job uses it, and deletes an inventory later."""
    try:
        awx.call("DELETE", url)
        awx.call("GET", url)
    except Refused as refusal:
        return ": 404 " in str(refusal)
    return False


@pytest.fixture(scope="session")
def configured(
    awx: Awx, organization: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Configured]:
    folder = tmp_path_factory.mktemp("awx")
    _make_project(folder)
    posts: list[tuple[str, Any]] = []
    with (
        Cluster(nodes=4, tls=True, addons={"prometheus-operator"}).running(ADDRESS) as cluster,
        served(folder / "served", posts) as url,
        _prometheus(cluster, folder / "kubeconfig") as api,
    ):
        _make_accounts(folder)
        _make_prometheus(api)
        name = organization["name"]  # of all that AWX or awx.awx looks up by name alone, too
        variables = {
            "gpuctl_awx_organization": name,
            "gpuctl_awx_name": name,
            "gpuctl_awx_project": f"{url}/gpu.git",
            "gpuctl_awx_image": IMAGE,
            "gpuctl_awx_kubeconfig": str(folder / "administer"),
            "gpuctl_awx_cluster_administrator": str(folder / "kubeconfig"),
            "gpuctl_awx_prometheus_service": "{}/{}:{}".format(*PROMETHEUS),
            "gpuctl_awx_teams": [{"name": "team-a", "namespaces": TEAM, "kubeconfig": str(folder / "submit")}],
            "gpuctl_awx_notifications": [
                {"name": f"{name} all", "service": "slack", "url": f"{url}/all", "notify_on": ["error", "success"]},
                {"name": f"{name} errors", "service": "dingtalk", "url": f"{url}/errors"},
            ],
        }
        outputs = [_configure(folder, awx, variables) for _run in range(2)]
        yield Configured(awx, folder, name, variables, outputs, cluster, api, posts)


@pytest.fixture(scope="session")
def several(awx: Awx, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Several]:
    """Each of them has one node with eight GPUs."""
    folder = tmp_path_factory.mktemp("awx-clusters")
    _make_project(folder)
    with ExitStack() as stack:
        made = stack.enter_context(_organization(awx))
        names = [entry["name"] for entry in CLUSTERS]
        clusters = {name: stack.enter_context(Cluster(nodes=1, tls=True).running(ADDRESS)) for name in names}
        url = stack.enter_context(served(folder / "served", []))
        (folder / "administrators").mkdir()
        paths = {name: folder / "administrators" / name for name in names}
        for name, cluster in clusters.items():
            cluster.kubeconfig(paths[name])
        _make_accounts_of_clusters(folder)
        variables = {
            "gpuctl_awx_organization": made["name"],
            "gpuctl_awx_name": made["name"],
            "gpuctl_awx_project": f"{url}/gpu.git",
            "gpuctl_awx_image": IMAGE,
            "gpuctl_awx_kubeconfig": str(folder / "administer"),
            "gpuctl_awx_teams": [{"name": "team-a", "namespaces": TEAM, "kubeconfig": str(folder / "submit")}],
            "gpuctl_awx_clusters": CLUSTERS,
        }
        outputs = [_configure(folder, awx, variables) for _run in range(2)]
        apis = {name: Api(str(path)) for name, path in paths.items()}
        yield Several(awx, folder, made["name"], variables, outputs, clusters, apis)


def _make_project(folder: Path) -> None:
    """A repository with manifests. Its execution environment has the collection, so that AWX needs no Galaxy."""
    source, bare = folder / "gpu", folder / "served" / "gpu.git"
    shutil.copytree(ROOT / "awx" / "project", source)
    shutil.rmtree(source / "collections")
    declared = {**compute("web"), "job": {"name": "web", "namespace": "team-a"}}
    (source / "cluster" / "web.yml").write_text(yaml.safe_dump(declared))
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
    for command in (
        ("-C", source, "init", "--quiet", "--initial-branch=main"),
        ("-C", source, "add", "--all"),
        ("-C", source, *identity, "commit", "--quiet", "--message=Start"),
        ("clone", "--quiet", "--bare", source, bare),
        ("-C", bare, "update-server-info"),
    ):
        subprocess.run(["git", *map(str, command)], check=True)


def _make_accounts(folder: Path) -> None:
    """As the guide tells, by a cluster administrator."""
    accounts = {"administer": {"level": "administer"}, "submit": {"level": "submit", "namespaces": TEAM}}
    tasks: list[dict[str, Any]] = [{"runwhere.gpuctl.gpuctl_workspace": {"namespace": name}} for name in TEAM]
    for name, options in accounts.items():
        tasks.append({"runwhere.gpuctl.gpuctl_rbac": {"name": name, **options}})
        tasks.append({"runwhere.gpuctl.gpuctl_kubeconfig": {"name": name, "dest": str(folder / name)}})
    ran = Ansible(folder, {"K8S_AUTH_KUBECONFIG": str(folder / "kubeconfig")}).play(tasks)
    assert not any(task.failed for task in ran.tasks), ran.output


def _make_accounts_of_clusters(folder: Path) -> None:
    """As the guide tells, by a cluster administrator of all of them."""
    inventory = {"plugin": "runwhere.gpuctl.clusters", "kubeconfig": ["administrators"]}
    (folder / "clusters.yml").write_text(yaml.safe_dump(inventory))
    ansible = Ansible(folder, {"ANSIBLE_INVENTORY": str(folder / "clusters.yml")})
    plays = [block.text for block in blocks_of(GUIDE) if "hosts: gpuctl_clusters" in block.text]
    (folder / "accounts.yml").write_text(plays[0].replace("/path/to/team-a", str(folder / "submit")))
    whole = ("gpuctl_name=administer", "gpuctl_level=administer", "gpuctl_clusters=all")
    given = [part for each in (*whole, f"gpuctl_kubeconfig={folder / 'administer'}") for part in ("-e", each)]
    for command in (["runwhere.gpuctl.onboard", *given], [str(folder / "accounts.yml")]):
        ran = ansible.run("ansible-playbook", *command)
        assert ran.status == 0, ran.output


@contextmanager
def _prometheus(cluster: Cluster, kubeconfig: Path) -> Iterator[Api]:
    """The API of the cluster, with a Prometheus that knows all pods of the team as idle behind a Service of it."""
    cluster.kubeconfig(kubeconfig)
    api = Api(str(kubeconfig))
    with prometheus_double(partial(_answer, api)) as double:
        cluster.programs[("services", *PROMETHEUS)] = double.url
        yield api


def _answer(api: Api, asked: Asked) -> Reply:
    expression = asked.parameters.get("query", "")
    if asked.path.endswith("/query_range"):
        return matrix()
    if expression.startswith("count("):
        return vector()
    value = "1" if "count_over_time" in expression else "0.01"
    pods = [pod["metadata"]["name"] for pod in api.list("pod", "team-a")]
    return vector(*(({"namespace": "team-a", "pod": pod}, value) for pod in pods))


def _make_prometheus(api: Api) -> None:
    """Its Service, and the permission to ask it that the guide names, of the account of administrators."""
    place, name, port = PROMETHEUS
    api.create("namespace", {"metadata": {"name": place}})
    api.create("service", {"metadata": {"name": name}, "spec": {"ports": [{"port": int(port)}]}}, place)
    rule = {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create"]}
    api.create("role", {"metadata": {"name": name}, "rules": [rule]}, place)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": "administer", "namespace": "gpuctl-system"}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    api.create("rolebinding", binding, place)


def _configure(folder: Path, awx: Awx, variables: dict[str, Any]) -> str:
    """The output of the playbook. It takes minutes: AWX answers some thousand requests."""
    ansible = Ansible(folder, {"CONTROLLER_HOST": awx.url, "ANSIBLE_COLLECTIONS_PATH": str(awx_awx())})
    command = [BIN / "ansible-playbook", ROOT / "awx" / "configure.yml", "-e", json.dumps(variables)]
    done = subprocess.run(
        [*map(str, command)], env=ansible.full_environment, cwd=folder, text=True, stdout=-1, stderr=-2, check=False
    )
    return done.stdout
