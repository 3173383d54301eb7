# SPDX-License-Identifier: BSD-2-Clause
"""A morning on a simulated GPU cluster, in two screens: what `make demo` runs.

Each step is a sentence, the command as one would type it, and what it prints but for the last line, which counts
changes. The demo fails when a step does not show what its sentence says.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from kubesim import Cluster

from tests.demo.cluster import EXAMPLES, add_secrets, environment, simulated
from tests.integration.api import Api

HERE = Path(__file__).parent
TEAM, NEIGHBOUR = "team-a", "team-b"
HOURS = 6  # for which the cluster has had work
NODES = 6
CLUSTER = ("pool-experiment", "pool-inference", "pool-training", "quota-teams")
# Two nodes for each pool: those of the examples have more, and would leave room for the evaluation.
TWO_NODES = "".join(f"  gpu-node-{number}:\n    gpu-type: A100-100G\n" for number in (3, 4))
NEW_NAMES = {TWO_NODES: "", "gpu-node-8": "gpu-node-3", "gpu-node-9": "gpu-node-4"}
RUNNING = ("inference-vllm", "training-llama-factory", "training-full-finetune", "inference-autoscaling")
OF_THE_NEIGHBOUR = "inference-autoscaling"
SERVICE, REPLICAS = "llama3-8b-inference", 3
COLUMNS = (80, 100)  # the least and the most that the screens fill

INTRODUCTION = (
    f"A simulated cluster: {NODES} GPU nodes, two teams, {HOURS} hours of work. The playbooks are real, and they reach "
    "nothing else."
)
USAGE = f'{{"gpuctl_range": "{HOURS}h", "gpuctl_prices": {{"default": 1.2}}}}'
NEXT = """\
make cluster keeps such a cluster running. README.md installs the collection.
docs/docsite/rst/guide_getting_started.rst explains each step.
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="gpuctl-demo-") as name:
        directory = Path(name)
        with simulated(directory / "kubeconfig", NODES, behind=HOURS * 3600, namespace=TEAM) as cluster:
            return Demo(cluster, directory).run()


class Demo:
    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.kubeconfig = str(directory / "kubeconfig")
        self.jobs = directory / "jobs"
        self.width = max(COLUMNS[0], min(COLUMNS[1], shutil.get_terminal_size((COLUMNS[0], 24)).columns))
        self.colored = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.environment = {
            **os.environ,
            **environment(directory / "kubeconfig"),
            "ANSIBLE_FORCE_COLOR": "1" if self.colored else "0",
            "COLUMNS": str(self.width),
        }
        self.failed = False

    def run(self) -> int:
        self._say(INTRODUCTION)
        self._prepare()

        self._step("jobs/ declares four jobs that run, a sweep, and an evaluation. Submit them all:")
        shown = self._play("submit", "gpuctl_src=jobs/")
        self._check("unchanged" in shown and "create" in shown, "what runs must be unchanged, the rest be created")

        self._step("The sweep runs, the evaluation waits. Who has the GPUs, and what would help?")
        shown = self._play("status")
        self._check("8 GPUs on one node, but the most free" in shown, "status must say why a job does not run")
        self._check("2/2 running" in shown, "status must show the sweep as one row")

        self._step("Edit a training that runs. What would it cost to apply that?")
        manifest = self.jobs / "training-llama-factory.yaml"
        before = manifest.read_text()
        self._type("sed", "-i", "s/cpu: 32/cpu: 48/", "jobs/training-llama-factory.yaml")
        shown = self._play("plan", "gpuctl_dir=jobs/", "gpuctl_recreate=true")
        self._check("GPU-hours" in shown, "the plan must say what is lost")
        manifest.write_text(before)

        self._step("Undone. Meanwhile somebody used kubectl edit. What differs, and who did it?")
        self._edit_by_hand()
        shown = self._play("drift", "gpuctl_dir=jobs/", status=2)
        self._check("by kubectl-edit" in shown, "drift must name who made the change")

        self._step("How many GPU-hours did each team hold, and what do they cost at 1.20 an hour?")
        shown = self._play("usage", "gpuctl_all_namespaces=true", USAGE)
        self._check(f"{TEAM} 84." in shown and f"{NEIGHBOUR} 6." in shown, "the usage must add up the hours")
        self._say(f"\n{NEXT}")
        return 1 if self.failed else 0

    # ---- What the steps find

    def _prepare(self) -> None:
        """Pools, teams, and jobs that have run for hours: the cluster's clock is behind while they are submitted."""
        self.jobs.mkdir()
        (self.directory / "cluster").mkdir()
        for name in CLUSTER:
            text = (EXAMPLES / "cluster" / f"{name}.yaml").read_text()
            for former, new in NEW_NAMES.items():
                text = text.replace(former, new)
            (self.directory / "cluster" / f"{name}.yaml").write_text(text)
        self._run_playbook("provision", "gpuctl_dir=cluster/")
        add_secrets(self.cluster)  # Manifests refer to Secrets, they do not contain them.
        for name in RUNNING:
            self._add(name)
        self._run_playbook("submit", "gpuctl_src=jobs/", "gpuctl_wait=true")
        self.cluster.set_clock(behind=0)
        self._add("training-experiments")
        shutil.copy(HERE / "evaluation.yaml", self.jobs)

    def _add(self, name: str) -> None:
        """A job of the examples. The large training is on one node, so that the pool is small."""
        text = (EXAMPLES / "manifests" / f"{name}.yaml").read_text().replace("node_count: 2", "node_count: 1")
        if name == OF_THE_NEIGHBOUR:
            text = text.replace("job:\n", f"job:\n  namespace: {NEIGHBOUR}\n")
        (self.jobs / f"{name}.yaml").write_text(text)

    def _edit_by_hand(self) -> None:
        """What `kubectl edit` sends."""
        path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/{SERVICE}?fieldManager=kubectl-edit"
        body = {"spec": {"replicas": REPLICAS}}
        status, answer = Api(self.kubeconfig).call("PATCH", path, body, "application/strategic-merge-patch+json")
        self._check(status == 200, f"the service must be edited: {answer}")

    # ---- What is shown

    def _play(self, playbook: str, *variables: str, status: int = 0) -> str:
        """What the playbook has shown, as one line."""
        return self._type(*_command(playbook, variables), status=status)

    def _type(self, *command: str, status: int = 0) -> str:
        print(self._bold(_typed(command, self.width)), flush=True)
        done = self._run(command)
        if text := _without_recap(done.stdout):
            print(text, flush=True)
        self._check(done.returncode == status, f"the command must end with status {status}, not {done.returncode}")
        return " ".join(done.stdout.split())

    def _run_playbook(self, playbook: str, *variables: str) -> None:
        done = self._run(_command(playbook, variables))
        if done.returncode:
            sys.exit(f"DEMO FAILED: the playbook {playbook} must succeed:\n{done.stdout}")

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _step(self, text: str) -> None:
        print(flush=True)
        self._say(text)

    def _say(self, text: str) -> None:
        for line in text.splitlines():
            for part in textwrap.wrap(line, self.width) or [""]:
                print(self._cyan(part), flush=True)

    def _check(self, held: bool, rule: str) -> None:
        if not held:
            self.failed = True
            print(f"DEMO FAILED: {rule}", flush=True)

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colored else text

    def _cyan(self, text: str) -> str:
        return f"\x1b[36m{text}\x1b[0m" if self.colored and text else text


def _typed(command: Sequence[str], width: int) -> str:
    """The command as one would type it, with a second line if it is long."""
    line = f"$ {shlex.join(command)}"
    if len(line) <= width:
        return line
    first, _, last = line.rpartition(" -e ")
    return f"{first} \\\n    -e {last}"


def _without_recap(output: str) -> str:
    return re.sub(r"\n+.*\blocalhost: changed=.*", "", output.strip("\n"))


def _command(playbook: str, variables: Sequence[str]) -> list[str]:
    return ["ansible-playbook", f"runwhere.gpuctl.{playbook}", *(part for one in variables for part in ("-e", one))]


if __name__ == "__main__":
    sys.exit(main())
