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

from kubesim import Cluster

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SUBMIT, STATUS = "runwhere.gpuctl.submit", "runwhere.gpuctl.status"
NAMESPACE = "ml-team"

GPU_NODES = [f"gpu-node-{number}" for number in range(1, 10)]
CPU_NODES = ["cpu-node-1", "cpu-node-2"]
# The examples together need one node more than their training pool has.
ONE_MORE = "  gpu-node-9:\n    gpu-type: A100-100G\n"
PAUSED = "qwen2-72b-fullft"
OLD_IMAGE, NEW_IMAGE = "vllm/vllm-serving:v0.5.0", "vllm/vllm-serving:v0.6.0"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpuctl-demo-") as directory, Cluster(nodes=0).running() as cluster:
        cluster.add_nodes(GPU_NODES)
        cluster.add_nodes(CPU_NODES, resources={"nvidia.com/gpu": "0"})
        demo = Demo(cluster, Path(directory))
        return demo.run()


class Demo:
    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.manifests = directory / "manifests"
        shutil.copytree(ROOT / "examples" / "manifests", self.manifests)
        for name in ("provision.yml", "quotas.yaml", "evaluation.yaml"):
            shutil.copy(HERE / name, directory)
        with (self.manifests / "pool-training.yaml").open("a") as pool:
            pool.write(ONE_MORE)
        self.environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain",
            "ANSIBLE_FORCE_COLOR": "1" if sys.stdout.isatty() else "0",
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "K8S_AUTH_KUBECONFIG": str(cluster.kubeconfig(directory / "kubeconfig")),
        }
        self.failed = False

    def run(self) -> int:
        self._step(
            f"{len(GPU_NODES + CPU_NODES)} simulated nodes are up. Create pools, quotas and labels with provision.yml:"
            "\n\n" + _body(HERE / "provision.yml")
        )
        self._play("provision.yml", expect_changed=True)
        if self.failed:
            return 1
        self._make_secret()

        self._step("Submit all the example manifests and wait until the jobs run:")
        self._submit("gpuctl_wait=true", "gpuctl_show_objects=true", expect_changed=True)

        self._step("Run it again: nothing differs, so nothing is written.")
        self._submit(expect_changed=False)
        counts = self.cluster.requests.counts()
        self._say("Requests of this run: " + ", ".join(f"{number} {what}" for what, number in counts.items()))
        self._check(not self.cluster.requests.writes(), "the second run must only read")

        self._step("Submit one training more than the GPUs allow, and ask why it is not running:")
        self._submit(src="evaluation.yaml", expect_changed=True)
        shown = self._play(STATUS, expect_changed=False)
        self._check(
            "8 GPUs on one node, but the most free" in " ".join(shown.split()), "status must say why a job does not run"
        )

        self._step(f"Edit one field: the image of the inference service becomes {NEW_IMAGE}.")
        service = self.manifests / "inference-vllm.yaml"
        service.write_text(service.read_text().replace(OLD_IMAGE, NEW_IMAGE))
        self._say("Show what would change (--check --diff):")
        self._submit(options=("--check", "--diff"), expect_changed=True)
        self._say("Apply it, and wait until the new replicas are ready:")
        self._submit("gpuctl_wait=true", expect_changed=True)

        self._step(
            f"Pause the large training: the pending one gets its GPUs. After it is resumed, {PAUSED} waits for them."
        )
        self._check(
            "16 GPUs released" in self._life("pause", "gpuctl_wait=true"), "pausing must report what it releases"
        )
        self._submit("gpuctl_wait=true", src="evaluation.yaml", expect_changed=False)
        self._life("resume")

        self._step("Delete the jobs again.")
        self._submit("gpuctl_state=absent", "gpuctl_wait=true", src="manifests/,evaluation.yaml", expect_changed=True)
        left = self.cluster.call(lambda: self.cluster.registry.list("Pod", NAMESPACE))
        self._check(not left, "no pod must be left")
        if not self.failed:
            self._say(
                "Done. To do the same on your own cluster, set kubeconfig, context or K8S_AUTH_* and run\n"
                f"  ansible-playbook {SUBMIT} -e gpuctl_src=examples/manifests\n"
                f"  ansible-playbook {STATUS}"
            )
        return 1 if self.failed else 0

    def _submit(
        self, *variables: str, src: str = "manifests/", options: tuple[str, ...] = (), expect_changed: bool
    ) -> str:
        given = (f"gpuctl_src={src}", f"gpuctl_namespace={NAMESPACE}", *variables)
        extra = [part for variable in given for part in ("-e", variable)]
        return self._play(SUBMIT, *options, *extra, expect_changed=expect_changed)

    def _life(self, playbook: str, *variables: str) -> str:
        given = (f"gpuctl_name={PAUSED}", f"gpuctl_namespace={NAMESPACE}", *variables)
        extra = [part for variable in given for part in ("-e", variable)]
        return self._play(f"runwhere.gpuctl.{playbook}", *extra, expect_changed=True)

    def _play(self, playbook: str, *arguments: str, expect_changed: bool) -> str:
        command = ["ansible-playbook", playbook, *arguments]
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
        self._check(("changed=0" not in done.stdout) is expect_changed, f"changed must be {expect_changed}")
        return done.stdout

    def _make_secret(self) -> None:
        """The notebook's manifest refers to it, because manifests contain no secrets."""
        secret = {"metadata": {"name": "jupyter", "namespace": NAMESPACE}, "stringData": {"token": "of-the-demo"}}
        self.cluster.call(lambda: self.cluster.registry.create("Secret", secret))

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


def _body(path: Path) -> str:
    """A file without the lines about its license and the start of the document."""
    return "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith(("#", "---")))


if __name__ == "__main__":
    sys.exit(main())
