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
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from kubesim import Cluster

from tests.demo.cluster import EXAMPLES, add_secrets, environment, monitored, simulated
from tests.integration import monitoring
from tests.integration.monitoring import Alertmanager, Prometheus
from tools import debian_programs

HERE = Path(__file__).parent
SUBMIT, STATUS = "runwhere.gpuctl.submit", "runwhere.gpuctl.status"
NAMESPACE = "team-a"

# Without it, the examples leave no room for the evaluation.
ONE_NODE = "  gpu-node-4:\n    gpu-type: A100-100G\n"
PAUSED = "qwen2-72b-fullft"
CURVE = "qwen2-7b-llamafactory-sft"
#: Utilization of that job: (seconds since the start of a pod, percent), again and again.
RAMP = [(0, 10), (20, 85), (45, 97), (50, 40), (60, 10)]
OLD_IMAGE, NEW_IMAGE = "vllm/vllm-serving:v0.5.0", "vllm/vllm-serving:v0.6.0"
LINE = "─" * 80


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpuctl-demo-") as name:
        directory = Path(name)
        with simulated(directory / "kubeconfig") as cluster, _prometheus(cluster) as server:
            return Demo(cluster, directory, server).run()


def _prometheus(cluster: Cluster) -> AbstractContextManager[tuple[Prometheus, Alertmanager] | None]:
    """None where the programs could not be brought."""
    return nullcontext() if debian_programs.why_missing(monitoring.PROGRAMS) else monitored(cluster.url)


class Demo:
    def __init__(
        self, cluster: Cluster, directory: Path, servers: tuple[Prometheus, Alertmanager] | None = None
    ) -> None:
        self.cluster = cluster
        self.directory = directory
        self.manifests = directory / "manifests"
        for part in ("cluster", "manifests"):
            shutil.copytree(EXAMPLES / part, directory / part)
        shutil.copy(HERE / "evaluation.yaml", directory)
        pool = directory / "cluster" / "pool-training.yaml"
        pool.write_text(pool.read_text().replace(ONE_NODE, ""))
        self.environment = {
            **os.environ,
            **environment(directory / "kubeconfig"),
            "ANSIBLE_FORCE_COLOR": "1" if sys.stdout.isatty() else "0",
        }
        self.prometheus = servers[0] if servers else None
        if self.prometheus:
            self.environment["GPUCTL_PROMETHEUS_URL"] = self.prometheus.url
        cluster.drive(job=CURVE, utilization=RAMP, repeat=RAMP[-1][0])
        self.failed = False

    def run(self) -> int:
        self._step("A simulated cluster is up. An administrator describes its pools and teams in manifests, such as:")
        self._say(_body(self.directory / "cluster" / "pool-inference.yaml"))
        self._play("runwhere.gpuctl.provision", "-e", "gpuctl_dir=cluster/", expect_changed=True)
        if self.failed:
            return 1
        add_secrets(self.cluster)  # Manifests refer to Secrets, they do not contain them.

        self._step("Submit all jobs of examples/manifests, and wait until they run:")
        self._submit("gpuctl_wait=true", expect_changed=True)

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

        self._step(f"Edit one field: the image of a service becomes {NEW_IMAGE}. What would change?")
        service = self.manifests / "inference-vllm.yaml"
        service.write_text(service.read_text().replace(OLD_IMAGE, NEW_IMAGE))
        self._submit(src="manifests/inference-vllm.yaml", options=("--check", "--diff"), expect_changed=True)
        self._say("Apply it, and wait until the new replicas are ready:")
        self._submit("gpuctl_wait=true", src="manifests/inference-vllm.yaml", expect_changed=True)

        self._step("Pause the large training: the pending one gets its GPUs.")
        self._check(
            "16 GPUs released" in self._life("pause", "gpuctl_wait=true"), "pausing must report what it releases"
        )
        self._submit("gpuctl_wait=true", src="evaluation.yaml", expect_changed=False)

        self._show_the_curve()
        self._step("Who held how many GPUs for how long?")
        shown = self._play("runwhere.gpuctl.usage", "-e", "gpuctl_range=1h", expect_changed=False)
        self._check(NAMESPACE in shown, "the usage must name the team")

        self._step("Delete the jobs again.")
        self._submit("gpuctl_state=absent", "gpuctl_wait=true", src="manifests/,evaluation.yaml", expect_changed=True)
        left = self.cluster.call(lambda: self.cluster.registry.list("Pod", NAMESPACE))
        self._check(not left, "no pod must be left")
        if not self.failed:
            self._say(
                f"{LINE}\nDone. `make cluster` keeps such a cluster running, so that you can try your own manifests."
            )
        return 1 if self.failed else 0

    def _show_the_curve(self) -> None:
        self._step(f"What did {CURVE} do on its GPUs?")
        if self.prometheus is None:
            missing = debian_programs.why_missing(monitoring.PROGRAMS)
            self._say(
                f"Prometheus would tell, but it is not here ({missing}). The hours below are those of Kubernetes."
            )
            return
        expression = f'namespace_job:runwhere_gpu_utilization:avg{{job_name="{CURVE}"}}'
        self.prometheus.wait_for(f"count_over_time({expression}[1h]) >= 8")
        given = ("-e", f"gpuctl_name={CURVE}", "-e", f"gpuctl_namespace={NAMESPACE}")
        shown = self._play("runwhere.gpuctl.describe", *given, expect_changed=False)
        self._check("█" in shown, "the job must have a curve")

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
        done = self._run(command)
        print(done.stdout, flush=True)
        self._check(done.returncode == 0, "the playbook must succeed")
        self._check(("changed=0" not in done.stdout) is expect_changed, f"changed must be {expect_changed}")
        return done.stdout

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _check(self, held: bool, rule: str) -> None:
        if not held:
            self.failed = True
            print(f"DEMO FAILED: {rule}", flush=True)

    @staticmethod
    def _step(text: str) -> None:
        print(f"\n{LINE}\n{text}", flush=True)

    @staticmethod
    def _say(text: str) -> None:
        print(text, flush=True)


def _body(path: Path) -> str:
    """A file without the lines about its license and the start of the document."""
    return "".join(line for line in path.read_text().splitlines(keepends=True) if not line.startswith(("#", "---")))


if __name__ == "__main__":
    sys.exit(main())
