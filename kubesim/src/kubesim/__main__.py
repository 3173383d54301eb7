# SPDX-License-Identifier: BSD-2-Clause
"""python -m kubesim: a cluster in the foreground, for kubectl and playbooks."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import tempfile
from pathlib import Path

from kubesim.cluster import Cluster
from kubesim.versions import NEWEST, RELEASES

KUBECONFIG = Path("build/kubesim.kubeconfig")


def main() -> None:
    parser = argparse.ArgumentParser(prog="kubesim", description="A simulated Kubernetes cluster with GPU nodes.")
    parser.add_argument("--nodes", type=int, default=8, help="fake GPU nodes, node-1 and on (default: 8)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: any free one)")
    parser.add_argument("--kubeconfig", type=Path, default=KUBECONFIG, help=f"file to write (default: {KUBECONFIG})")
    parser.add_argument("--mixed", action="store_true", help="nodes with accelerators of many vendors, too")
    parser.add_argument(
        "--kubernetes-version",
        choices=list(RELEASES),
        default=NEWEST,
        help=f"serve and drop what this version does (default: {NEWEST})",
    )
    parser.add_argument(
        "--without-group", action="append", default=[], metavar="GROUP", help="do not serve this API group; repeatable"
    )
    parser.add_argument(
        "--exec",
        action="store_true",
        help="let exec and copies run commands: they are processes of this machine, as you (see the README)",
    )
    options = parser.parse_args()
    if options.exec and not is_loopback(options.host):
        parser.error(f"--exec: {options.host} can be reached from other machines. Use --host 127.0.0.1.")
    logging.basicConfig(level=logging.WARNING)
    with contextlib.suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="kubesim-") as directory:
        root = Path(directory) if options.exec else None
        cluster = Cluster(
            options.nodes,
            tls=True,
            mixed_nodes=options.mixed,
            exec_root=root,
            exec_guarded=options.exec,
            version=options.kubernetes_version,
            without=options.without_group,
        )
        asyncio.run(serve(cluster, options))


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


async def serve(cluster: Cluster, options: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    nodes, host, port, kubeconfig = options.nodes, options.host, options.port, options.kubeconfig
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await cluster.start(host, port)
    except OSError as error:
        raise SystemExit(
            f"kubesim: cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Choose another --port."
        ) from error
    path = cluster.kubeconfig(kubeconfig).resolve()
    print(f"kubesim: {nodes} nodes at {cluster.url}, stop with Ctrl-C", flush=True)
    print(f"kubectl --kubeconfig {path} get nodes", flush=True)
    print(f"export K8S_AUTH_KUBECONFIG={path}   # for playbooks", flush=True)
    await stopped.wait()
    await cluster.stop()


if __name__ == "__main__":
    main()
