# SPDX-License-Identifier: BSD-2-Clause
"""A simulated GPU cluster with the pools and teams of examples/cluster: what `make cluster` and `make demo` run.

    python -m tests.demo.cluster [--nodes 10] [--port 0] [--kubeconfig build/cluster.kubeconfig] [--monitoring]
    python -m tests.demo.cluster --clusters 3

Several clusters are the contexts of one kubeconfig, with the inventory file of the collection's plugin beside it.

Its pools, quotas and namespaces are created by the collection. Only the Secrets that the examples refer to are not.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from urllib.parse import urlsplit

from kubesim import Cluster

from tests.integration import monitoring
from tests.integration.monitoring import Alertmanager, Prometheus
from tools import debian_programs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
COLLECTIONS = ROOT / ".cache" / "collections"
KUBECONFIG = Path("build/cluster.kubeconfig")
SEVERAL = Path("build/clusters.kubeconfig")
# What is known of the first clusters beside their connection. Further ones have a number.
PLACES = (
    ("frankfurt", {"region": "eu", "vendor": "nvidia", "price": 2.4}),
    ("lyon", {"region": "eu", "vendor": "nvidia", "price": 1.9}),
    ("oregon", {"region": "us", "vendor": "nvidia", "price": 3.1}),
)
NAMESPACES = ("default", "team-a", "team-b")
TEAM = "team-a"  # whose member types the commands
# Name of a Secret -> its keys. Manifests contain no secrets, they refer to them.
SECRETS = {"jupyter": {"token": "a-token-of-the-demo"}, "my-secret": {".dockerconfigjson": '{"auths": {}}'}}
# The pools of examples/cluster have the first ten of them, the others are in no pool.
GPU_NODES = 12
INTERVAL = "5s"  # of scrapes and rules
CPU_NODES = ("cpu-node-1", "cpu-node-2")
# As NVIDIA's feature discovery labels nodes. The manifests of pools set other types.
PRODUCT = {"nvidia.com/gpu.product": "A10-24G"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make cluster", description="A simulated GPU cluster in the foreground.")
    parser.add_argument("--nodes", type=int, default=GPU_NODES, help="GPU nodes, gpu-node-1 and on")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--kubeconfig", type=Path, default=KUBECONFIG, help=f"file to write (default: {KUBECONFIG})")
    parser.add_argument("--mixed", action="store_true", help="nodes and pools with accelerators of many vendors, too")
    parser.add_argument("--monitoring", action="store_true", help="Prometheus and Alertmanager beside it")
    parser.add_argument("--clusters", type=int, default=0, help="this many clusters, the contexts of one kubeconfig")
    options = parser.parse_args()
    if options.clusters:
        _run_several(options)
        return
    if options.nodes < GPU_NODES:
        sys.exit(f"NODES={options.nodes} is too small: the pools of examples/cluster need {GPU_NODES} nodes.")
    if (url := _running(options.kubeconfig)) is not None:
        sys.exit(
            f"The cluster of {options.kubeconfig} is running already, at {url}. Use it, stop it with Ctrl-C where it "
            "runs, or start another one with KUBECONFIG_FILE=/another/path."
        )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="gpuctl-containers-") as containers,
            provisioned(
                options.kubeconfig, options.nodes, options.port, Path(containers), mixed=options.mixed
            ) as cluster,
        ):
            print(_welcome(cluster.url, options.kubeconfig, options.nodes), flush=True)
            with _monitoring(cluster.url) if options.monitoring else nullcontext():
                _wait_for_a_signal()
    except OSError as error:
        if error.errno is None or not options.port:
            raise
        sys.exit(
            f"Cannot listen on port {options.port}: {os.strerror(error.errno)}. Choose another one, or leave PORT out "
            "to use any that is free."
        )


def _run_several(options: argparse.Namespace) -> None:
    if options.clusters < 1 or options.mixed or options.monitoring or options.port:
        sys.exit("Several clusters are as one of `make cluster`. Of the other variables, they only take NODES.")
    kubeconfig = SEVERAL if options.kubeconfig == KUBECONFIG else options.kubeconfig
    with (
        tempfile.TemporaryDirectory(prefix="gpuctl-containers-") as name,
        several(kubeconfig, options.clusters, options.nodes, Path(name)) as clusters,
    ):
        print(_welcome_to_several(clusters, kubeconfig, options.nodes), flush=True)
        _wait_for_a_signal()


@contextmanager
def several(
    kubeconfig: Path, number: int, nodes: int = GPU_NODES, root: Path | None = None
) -> Iterator[dict[str, Cluster]]:
    """Clusters by name, each as `provisioned` makes it, with one kubeconfig, an inventory and variables beside it."""
    names = [PLACES[at][0] if at < len(PLACES) else f"cluster-{at + 1}" for at in range(number)]
    inventory = kubeconfig.with_suffix(".yml")
    variables = kubeconfig.with_suffix(".env")
    with ExitStack() as stack:
        own = [Path(stack.enter_context(tempfile.TemporaryDirectory()), name) for name in names]
        clusters = {
            file.name: stack.enter_context(provisioned(file, nodes, exec_root=root / file.name if root else None))
            for file in own
        }
        kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        kubeconfig.touch(0o600)
        kubeconfig.write_text(json.dumps(_contexts(own), indent=2) + "\n", encoding="utf-8")
        inventory.write_text(_inventory(kubeconfig, names), encoding="utf-8")
        both = {**environment(kubeconfig), "ANSIBLE_INVENTORY": str(inventory.resolve())}
        del both["K8S_AUTH_KUBECONFIG"]
        variables.write_text(_shell(both), encoding="utf-8")
        try:
            yield clusters
        finally:
            for file in (kubeconfig, inventory, variables):
                file.unlink(missing_ok=True)


def _contexts(kubeconfigs: list[Path]) -> dict[str, object]:
    """One kubeconfig of several, whose contexts have the names of the files."""
    content: dict[str, list[dict[str, object]]] = {"clusters": [], "users": [], "contexts": []}
    for file in kubeconfigs:
        one = json.loads(file.read_text(encoding="utf-8"))
        for section in content:
            entry = one[section][0] | {"name": file.name}
            if section == "contexts":
                entry["context"] |= {"cluster": file.name, "user": file.name}
            content[section].append(entry)
    return {"apiVersion": "v1", "kind": "Config", "current-context": kubeconfigs[0].name, **content}


def _inventory(kubeconfig: Path, names: list[str]) -> str:
    known = dict(PLACES)
    tags = "".join(f"  {name}: {json.dumps(known[name])}\n" for name in names if name in known)
    return f"plugin: runwhere.gpuctl.clusters\nkubeconfig: [{kubeconfig.name}]\nhome: {names[0]}\ntags:\n{tags}"


@contextmanager
def simulated(
    kubeconfig: Path,
    nodes: int = GPU_NODES,
    port: int = 0,
    exec_root: Path | None = None,
    *,
    mixed: bool = False,
    behind: float = 0,
    namespace: str = "",
) -> Iterator[Cluster]:
    """The cluster as examples/cluster expects it, or examples/mixed as well: nodes and nothing else.

    Its clock is `behind` seconds behind, and `namespace` is that of the kubeconfig's context.
    """
    simulation = Cluster(
        nodes=0,
        tls=True,
        metrics=True,
        exec_root=exec_root,
        exec_guarded=exec_root is not None,
        mixed_nodes=mixed,
        behind=behind,
    )
    with simulation.running(port=port) as cluster:
        cluster.add_nodes([f"gpu-node-{number}" for number in range(1, nodes + 1)], labels=PRODUCT)
        cluster.add_nodes(CPU_NODES, resources={"nvidia.com/gpu": "0", "aliyun.com/gpu-mem": "0"})
        cluster.kubeconfig(kubeconfig, namespace=namespace)
        try:
            yield cluster
        finally:
            kubeconfig.unlink(missing_ok=True)


@contextmanager
def provisioned(
    kubeconfig: Path,
    nodes: int = GPU_NODES,
    port: int = 0,
    exec_root: Path | None = None,
    *,
    mixed: bool = False,
) -> Iterator[Cluster]:
    """The cluster with pools, teams and Secrets, and a file of variables beside its kubeconfig.

    Containers run commands below `exec_root`: as processes of this machine and of this user (kubesim's README says what
    makes that safe).
    """
    variables = kubeconfig.with_suffix(".env")
    with simulated(kubeconfig, nodes, port, exec_root, mixed=mixed, namespace=TEAM) as cluster:
        manifests = [EXAMPLES / "cluster", *(sorted((EXAMPLES / "mixed").glob("pool-*.yaml")) if mixed else [])]
        _provision(kubeconfig, manifests)
        add_secrets(cluster)
        cluster.add_storage_class("standard")
        variables.write_text(_shell(environment(kubeconfig)), encoding="utf-8")
        try:
            yield cluster
        finally:
            variables.unlink(missing_ok=True)


@contextmanager
def _monitoring(cluster: str) -> Iterator[None]:
    """The servers that start, and what there is to know of them and of the others."""
    if missing := debian_programs.why_missing(["prometheus"]):
        print(f"The cluster runs without monitoring: {missing}.", flush=True)
        yield
        return
    with monitored(cluster) as servers:
        print(_about(*servers), flush=True)
        yield


@contextmanager
def monitored(cluster: str) -> Iterator[tuple[Prometheus, Alertmanager | None]]:
    """Prometheus, with the rules of the collection, and Alertmanager if it starts, beside the cluster with this URL."""
    sys.path.append(str(COLLECTIONS))
    with tempfile.TemporaryDirectory(prefix="gpuctl-monitoring-") as name:
        directory = Path(name)
        rules = monitoring.shipped_rules(directory / "rules.yml", interval=INTERVAL)
        with (
            _alertmanager(directory / "alertmanager") as manager,
            monitoring.prometheus(
                directory / "prometheus",
                cluster,
                rules=[rules],
                alertmanager=manager.url if manager else "",
                interval=INTERVAL,
            ) as server,
        ):
            yield server, manager


def _alertmanager(directory: Path) -> AbstractContextManager[Alertmanager | None]:
    missing = debian_programs.why_missing(["prometheus-alertmanager"])
    return nullcontext() if missing else monitoring.alertmanager(directory)


def environment(kubeconfig: Path) -> dict[str, str]:
    """The variables with which Ansible and kubectl reach the cluster."""
    path = str(kubeconfig.resolve())
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(EXAMPLES / "ansible.cfg"),
        "K8S_AUTH_KUBECONFIG": path,
        "KUBECONFIG": path,
    }


def _shell(variables: dict[str, str]) -> str:
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    # Those of another cluster, which would take precedence over the kubeconfig.
    return f". {shlex.quote(str(Path(sys.prefix, 'bin', 'activate')))}\nunset K8S_AUTH_CONTEXT K8S_AUTH_HOST\n{exports}"


def _provision(kubeconfig: Path, manifests: list[Path]) -> None:
    """Apply the examples without a source: the first directory that declares a pool or a quota is its source then."""
    for module in ("gpuctl_pool", "gpuctl_quota"):
        _apply(kubeconfig, module, json.dumps({"src": [str(path) for path in manifests]}))


def _apply(kubeconfig: Path, module: str, arguments: str) -> None:
    program = Path(sys.executable).with_name("ansible")
    done = subprocess.run(
        [str(program), "localhost", "-m", f"runwhere.gpuctl.{module}", "-a", arguments],
        env={**os.environ, **environment(kubeconfig)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"The examples cannot be applied:\n{done.stdout}")


def add_secrets(cluster: Cluster) -> None:
    """Those that the examples refer to, in the namespaces in which they can be submitted."""
    for namespace in NAMESPACES:
        for name, data in SECRETS.items():
            kind = "kubernetes.io/dockerconfigjson" if ".dockerconfigjson" in data else "Opaque"
            secret = {"metadata": {"name": name, "namespace": namespace}, "type": kind, "stringData": data}
            cluster.call(lambda secret=secret: cluster.registry.create("Secret", secret))


def _welcome(url: str, kubeconfig: Path, nodes: int) -> str:
    submit = "ansible-playbook runwhere.gpuctl.submit -e gpuctl_src=examples/manifests"
    return f"""\
A simulated cluster with {nodes} GPU nodes runs at {url}. Ctrl-C stops it.
It has the pools and teams of examples/cluster. In another terminal, type:

  cd {shlex.quote(str(ROOT))}
  . {shlex.quote(str(kubeconfig.with_suffix(".env")))}
  ansible-playbook runwhere.gpuctl.status
  {submit}
"""


def _welcome_to_several(clusters: dict[str, Cluster], kubeconfig: Path, nodes: int) -> str:
    urls = "\n".join(f"  {name:<10} {cluster.url}" for name, cluster in clusters.items())
    return f"""\
Simulated clusters with {nodes} GPU nodes each. Ctrl-C stops them.

{urls}

Each has the pools and teams of examples/cluster. In another terminal, type:

  cd {shlex.quote(str(ROOT))}
  . {shlex.quote(str(kubeconfig.with_suffix(".env")))}
  ansible-playbook runwhere.gpuctl.status
"""


def _about(server: Prometheus, manager: Alertmanager | None) -> str:
    if manager:
        alerts = f"Alertmanager gets their alerts: {manager.url}"
    else:
        alerts = f"Nothing gets their alerts: {debian_programs.why_missing(['prometheus-alertmanager'])}."
    return f"""\
Prometheus scrapes its exporters every {INTERVAL} and has the collection's rules: {server.url}
{alerts}

  export GPUCTL_PROMETHEUS_URL={server.url}
"""


def _running(kubeconfig: Path) -> str | None:
    """The URL of the cluster of a kubeconfig if it answers. Its certificate tells it from others on the same port."""
    try:
        cluster = json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        with (
            socket.create_connection((url.hostname, url.port), 2) as raw,
            context.wrap_socket(raw, server_hostname=url.hostname),
        ):
            return str(cluster["server"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _wait_for_a_signal() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


if __name__ == "__main__":
    main()
