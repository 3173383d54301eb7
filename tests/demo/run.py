# SPDX-License-Identifier: BSD-2-Clause
"""The main job on a simulated GPU cluster, step by step: what `make demo` runs.

Each step is a command that a user can type; it is shown before its output. The demo fails when a step does not do what
it says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kubesim.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = "runwhere.gpuctl.submit"
NAMESPACE = "ml-team"

# What an admin has set up: which nodes are in which pool, and what GPUs they have.
POOLS = {
    "node-1": ("training-pool", "A100-100G"),
    "node-2": ("training-pool", "A100-100G"),
    "node-3": ("training-pool", "A100-100G"),
    "node-4": ("inference-pool", "A10-24G"),
    "node-5": ("experiment-pool", "A10-24G"),
    "node-6": ("dev-pool", "RTX4090-24G"),
    "node-7": ("debug-pool", "T4-16G"),
    "node-8": ("compute-pool", ""),
}
OLD_IMAGE, NEW_IMAGE = "vllm/vllm-serving:v0.5.0", "vllm/vllm-serving:v0.6.0"


def main() -> int:
    with (
        tempfile.TemporaryDirectory(prefix="gpuctl-demo-") as directory,
        Cluster(nodes=len(POOLS)).running() as cluster,
    ):
        cluster.call(lambda: _furnish(cluster))
        demo = Demo(cluster, Path(directory))
        return demo.run()


class Demo:
    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.manifests = directory / "manifests"
        shutil.copytree(ROOT / "examples" / "manifests", self.manifests)
        self.environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_FORCE_COLOR": "1" if sys.stdout.isatty() else "0",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(directory / "kubeconfig")),
        }
        self.failed = False

    def run(self) -> int:
        self._step(
            f"{len(POOLS)} fake GPU nodes are up, in the pools of the examples. Submit all the example manifests:"
        )
        self._play("-e", "gpuctl_wait=true", "-e", "gpuctl_show_objects=true", expect_changed=True)

        self._step("The same again: nothing differs, so nothing is written.")
        self._play(expect_changed=False)
        counts = self.cluster.requests.counts()
        self._say("Requests of this run: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
        self._check(not self.cluster.requests.writes(), "the second run must only read")

        self._step(f"Edit one field: the image of the inference service becomes {NEW_IMAGE}.")
        service = self.manifests / "inference-vllm.yaml"
        service.write_text(service.read_text().replace(OLD_IMAGE, NEW_IMAGE))
        self._say("What would change (--check), and what that is (--diff):")
        self._play("--check", "--diff", expect_changed=True)
        self._say("Do it, and wait until the new copies serve:")
        self._play("-e", "gpuctl_wait=true", expect_changed=True)

        self._step("Delete the jobs again.")
        self._play("-e", "gpuctl_state=absent", "-e", "gpuctl_wait=true", expect_changed=True)
        left = self.cluster.call(lambda: self.cluster.registry.list("Pod", NAMESPACE))
        self._check(not left, "no pod must be left")
        if not self.failed:
            self._say(
                "Done. On a cluster of yours it is the same: point kubeconfig, context or K8S_AUTH_* at it and run\n"
                f"  ansible-playbook {PLAYBOOK} -e gpuctl_src=examples/manifests"
            )
        return 1 if self.failed else 0

    def _play(self, *arguments: str, expect_changed: bool) -> None:
        command = ["ansible-playbook", PLAYBOOK, "-e", f"gpuctl_namespace={NAMESPACE}", *arguments]
        command += ["-e", "gpuctl_src=manifests/"]
        print(f"\n$ {' '.join(command)}", flush=True)
        self.cluster.requests.reset()
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(done.stdout, flush=True)
        self._check(done.returncode == 0, "the playbook must succeed")
        self._check(("changed=1" in done.stdout) is expect_changed, f"changed must be {int(expect_changed)}")

    def _check(self, held: bool, rule: str) -> None:
        if not held:
            self.failed = True
            print(f"DEMO FAILED: {rule}", flush=True)

    @staticmethod
    def _step(text: str) -> None:
        print(f"\n{'=' * 100}\n{text}", flush=True)

    @staticmethod
    def _say(text: str) -> None:
        print(text, flush=True)


def _furnish(cluster: Cluster) -> None:
    """Label the nodes and make the namespace, with the secret that the notebook's manifest refers to."""
    for node, (pool, gpu_type) in POOLS.items():

        def label(obj: dict[str, Any], pool: str = pool, gpu_type: str = gpu_type) -> None:
            obj["metadata"]["labels"] |= {"runwhere.ai/pool": pool, "runwhere.ai/gpu-type": gpu_type}

        cluster.registry.modify("Node", "", node, label)
    cluster.registry.create("Namespace", {"metadata": {"name": NAMESPACE}})
    secret = {"metadata": {"name": "jupyter", "namespace": NAMESPACE}, "stringData": {"token": "of-the-demo"}}
    cluster.registry.create("Secret", secret)


if __name__ == "__main__":
    sys.exit(main())
