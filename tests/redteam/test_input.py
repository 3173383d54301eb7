# SPDX-License-Identifier: BSD-2-Clause
"""Input that is made to hang a controller or to fill its memory, through the command line tools of Ansible.

What counts is CPU time, so that a busy machine makes no difference, and the memory of the largest process.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.ansible import BIN, ROOT, Ansible
from integration.recorder import Recorder

LAUNCHER = ROOT / "tests" / "launcher.py"
MOST_SECONDS = 20.0  # of CPU, several times what it takes: what grows with the square of its input takes minutes
MOST_MIB = 300
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Measured:
    """What a run has printed and used."""

    status: int
    output: str
    seconds: float
    mebibytes: float

    def is_bounded(self) -> None:
        assert self.seconds < MOST_SECONDS, f"{self.seconds:.1f} s of CPU"
        assert self.mebibytes < MOST_MIB, f"{self.mebibytes:.0f} MiB"
        assert len(self.output) < 100_000, f"{len(self.output)} characters of output"
        assert "Traceback" not in self.output
        assert "bug in runwhere.gpuctl" not in self.output


@pytest.fixture
def measure(ansible: Ansible) -> Callable[..., Measured]:
    """Run one task, or a tool with its arguments, and measure it."""

    def run(*command: str, module: str = "gpuctl_job", check: bool = True, **options: Any) -> Measured:
        if not command:
            task = {f"runwhere.gpuctl.{module}": options}
            play = {"hosts": "localhost", "gather_facts": False, "tasks": [task]}
            path = ansible.directory / "playbook.json"
            path.write_text(json.dumps([play]))
            command = ("ansible-playbook", str(path), *(["--check"] if check else []))
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false",
            "ANSIBLE_NOCOLOR": "true",
            "HOME": str(ansible.directory),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **ansible.environment,
        }
        with tempfile.TemporaryFile("w+") as took:
            done = subprocess.run(
                [sys.executable, LAUNCHER, str(took.fileno()), str(BIN / command[0]), *command[1:]],
                cwd=ansible.directory,
                env=environment,
                pass_fds=[took.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=280,
                preexec_fn=_limited,
            )
            took.seek(0)
            used = json.load(took)
        return Measured(done.returncode, done.stdout, used["busy"], used["mib"])

    return run


def _limited() -> None:
    """Nothing that goes wrong here should take the machine with it."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


HEAD = "kind: training\njob: {name: a}\nresources: {cpu: 1, memory: 1Gi}\n"
JOB = HEAD + "environment: {image: x}\n"
SWEEP = "matrix: {a: [" + ",".join(map(str, range(256))) + "]}\n"


def _filled(head: str, line: Callable[[int], str]) -> str:
    """The head, and numbered lines up to a megabyte."""
    parts, size, number = [head], len(head), 0
    while size < MEBIBYTE - 200:
        parts.append(line(number))
        size += len(parts[-1])
        number += 1
    return "".join(parts)


FILES: dict[str, tuple[str, str]] = {
    "as many nodes as an int32 has": (
        JOB.replace("cpu: 1", "cpu: 1, node_count: 2147483647"),
        "number too large: 2147483647",
    ),
    "256 trainings with 15,000 variables each": (
        HEAD
        + SWEEP
        + "environment:\n  image: x$(matrix.a)\n  env:\n"
        + "".join(f"    A{number}: b\n" for number in range(15_000)),
        "too many entries: 15000",
    ),
    "256 trainings with 4,000 variables each": (
        HEAD
        + SWEEP
        + "environment:\n  image: x$(matrix.a)\n  env:\n"
        + "".join(f"    A{number}: b\n" for number in range(4_000)),
        "more than 100000 values",
    ),
    "256 trainings with a script of a megabyte": (
        HEAD + SWEEP + "environment:\n  image: x$(matrix.a)\n  command: [" + "a" * (MEBIBYTE - 5_000) + "]\n",
        "more than 100000 values",
    ),
    "256 trainings with a hostfile of a megabyte": (
        JOB.replace("cpu: 1", "cpu: 1, node_count: 7500").replace("image: x", "image: x$(matrix.a)") + SWEEP,
        "more than 100000 nodes in trainings",
    ),
    "80,000 documents": (_filled("", lambda number: "---\na: b\n"), "more than 100000 values"),
    "11,000 jobs": (
        _filled("", lambda number: "---\n" + JOB.replace("name: a", f"name: a{number}")),
        "more than 100000 values",
    ),
    "3,000 jobs": (
        "".join("---\n" + JOB.replace("name: a", f"name: a{number}") for number in range(3_000)),
        "more than 2000 manifests",
    ),
    "55,000 unknown keys": (_filled(JOB, lambda number: f"key{number}: {number}\n"), "more than 100000 values"),
    "30,000 unknown keys": (JOB + "".join(f"key{number}: x\n" for number in range(30_000)), "More than 100 errors"),
    "a key of a megabyte": (JOB + "? " + "a" * (MEBIBYTE - 500) + "\n: 1\n", "unknown key"),
    "a name of a megabyte": (JOB.replace("name: a", "name: " + "A" * (MEBIBYTE - 500)), "too long"),
    "a number of a megabyte": (JOB.replace("cpu: 1", "cpu: " + "9" * (MEBIBYTE - 500)), "too long"),
    "an alias bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "aliases repeat more than 10000 values",
    ),
    "brackets": ("[" * (MEBIBYTE - 500), "nested more than 32 levels deep"),
    "backslashes in quotes": ('a: "' + "\\" * (MEBIBYTE - 500), "unclosed quote"),
    "flags beside an error": ("a: ` " + "-a" * (MEBIBYTE // 2 - 500), "cannot"),
    "a scheme of a megabyte": (
        HEAD + f"environment: {{image: X, env: {{A: '{'a' * (MEBIBYTE - 500)}://'}}}}\n",
        "invalid image reference",
    ),
    "a pool of 100,000 nodes": (
        _filled("kind: pool\npool: {name: a}\nnodes: [", lambda number: f"n{number},") + "]",
        "more than 100000 values",
    ),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES)
def test_a_file_ends_in_a_short_message(
    text: str, message: str, measure: Callable[..., Measured], tmp_path: Path, recorder: Recorder
) -> None:
    """An author writes a small file that becomes a large one: it must not take 5 seconds or 300 MiB."""
    (tmp_path / "manifest.yaml").write_text(text)
    run = measure(src=str(tmp_path / "manifest.yaml"))
    run.is_bounded()
    assert run.status != 0
    assert message in " ".join(run.output.split())  # Ansible breaks lines, where depends on the path.
    assert recorder.requests == []


@pytest.mark.parametrize("state", ["absent", "present"])
def test_two_thousand_jobs_are_planned_in_bounded_time(
    state: str, measure: Callable[..., Measured], tmp_path: Path, namespace: str
) -> None:
    """An author uses all that is allowed: also what is accepted must be bounded."""
    (tmp_path / "jobs.yaml").write_text(
        "".join("---\n" + JOB.replace("name: a", f"name: a{number}") for number in range(1_999))
    )
    run = measure(src=str(tmp_path / "jobs.yaml"), state=state, namespace=namespace)
    run.is_bounded()
    assert run.status == 0


def test_secrets_by_the_thousand_are_masked_in_bounded_time(
    measure: Callable[..., Measured], recorder: Recorder
) -> None:
    """An author gives thousands of secrets in an invalid manifest: masking each in each must not hang the task."""
    env = {f"A{number}_TOKEN": f"secret-{number}" for number in range(4_900)}
    definition = yaml.safe_load(JOB) | {"environment": {"image": "X", "env": env}}
    run = measure(definition=[definition])
    run.is_bounded()
    assert "invalid image reference" in run.output
    assert "secret-17" not in run.output


# -- files that are none -----------------------------------------------------------------------------------------------


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


NO_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a FIFO without a writer": (_fifo, "not a regular file"),
    "/dev/zero": (_device, "not a regular file|symbolic link out of the directory"),
    "a link to itself": (_loop, "not readable"),
    "a sparse file of a terabyte": (_sparse, "larger than 1024 KiB"),
}


@pytest.mark.parametrize(("create", "message"), NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize("as_directory", [False, True], ids=["named", "in a directory"])
def test_a_file_that_is_none(
    create: Callable[[Path], None], message: str, as_directory: bool, measure: Callable[..., Measured], tmp_path: Path
) -> None:
    """Somebody who can write to the directory of manifests puts something else there: the task must not hang."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    create(folder / "job.yaml")
    run = measure(src=str(folder if as_directory else folder / "job.yaml"))
    run.is_bounded()
    assert any(text in run.output for text in message.split("|"))


def test_a_directory_that_contains_itself(measure: Callable[..., Measured], tmp_path: Path) -> None:
    """Somebody links a directory into itself: reading it must end."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "again").symlink_to(folder)
    (folder / "job.yaml").write_text("kind: training\n")
    run = measure(src=str(folder))
    run.is_bounded()
    assert "3 errors in 1 file" in run.output


# -- answers of a survey -----------------------------------------------------------------------------------------------

BOMB = FILES["an alias bomb"][0]
ANSWERS = {
    "environment variables": {"gpuctl_env": BOMB},
    "a deep command": {"gpuctl_command": "[" * 100_000},
    "an object": {"gpuctl_env": "!!python/object/apply:os.system ['touch /tmp/gpuctl-owned']"},
}


@pytest.mark.parametrize("answers", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_a_survey(
    answers: dict[str, str], measure: Callable[..., Measured], tmp_path: Path, recorder: Recorder
) -> None:
    """Somebody who may launch the template answers with a bomb: the playbook must refuse it."""
    (tmp_path / "answers.json").write_text(
        json.dumps({"gpuctl_name": "a", "gpuctl_image": "x", "gpuctl_cpu": "1", "gpuctl_memory": "1Gi", **answers})
    )
    run = measure("ansible-playbook", "runwhere.gpuctl.submit_training", "-e", f"@{tmp_path / 'answers.json'}")
    run.is_bounded()
    assert run.status != 0
    assert "YAML text" in run.output
    assert not Path("/tmp/gpuctl-owned").exists()
    assert recorder.requests == []
