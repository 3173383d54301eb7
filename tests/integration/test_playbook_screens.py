# SPDX-License-Identifier: BSD-2-Clause
"""What every playbook prints at 80 columns, for a reviewer to read: screens/<playbook>.<callback>.txt.

The commands of screens/commands.txt run one after the other on a simulated cluster. GPUCTL_UPDATE_SCREENS=1 writes the
files again.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ansible.release import __version__
from kubesim import Cluster

from .ansible import Ansible

SCREENS = Path(__file__).with_name("screens")
COMMANDS = (SCREENS / "commands.txt").read_text(encoding="utf-8").splitlines()
RECORDED = "2.19."
UPDATE = bool(os.environ.get("GPUCTL_UPDATE_SCREENS"))
CALLBACKS = {"default": "ansible.builtin.default", "plain": "runwhere.gpuctl.plain"}
# What differs from run to run. Columns after it are not aligned with others then.
VOLATILE = (
    (r"^\[localhost: .*\n", ""),  # the progress of a wait on a slow machine
    (r"\bAGE +|\b(?:\d+[dhm])*\d+s(?: +|$)", lambda found: "AGE  " if found[0].startswith("AGE") else "9s   "),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-01T00:00:00Z"),
    (r"\b(sft|qwen|lora|stuck)-(?:[0-9a-z]{8,10}-)?[0-9a-z]{5}\b(?!-)", r"\1-xxxxx"),
    (r"\b10(?:\.\d+){3}\b", lambda found: re.sub(r"\d", "0", found[0])),
    (r"(?<=:)3[0-2]\d{3}\b", "30000"),
    (r"\(\S+ on \S+\)$", "(me on here)"),  # who submitted a job
    (r"\d{4}-\d\d-\d\d \d\d:\d\d(?! UTC: no GPU)", "2026-01-01 00:00"),
    (r"(?<=  )\d+\.\d(?=  )", lambda found: re.sub(r"\d", "0", found[0])),  # hours
    (r"^\d+(?= % of the held hours)", "00"),
)


def stable(screen: str, directory: Path) -> str:
    """The screen as it is on every machine and at every time."""
    screen = re.sub(r"^(Origin|included): .*/(playbooks/|roles/)", r"\1: \2", screen, flags=re.MULTILINE)
    screen = screen.replace(str(directory), "/home/me")
    for pattern, replacement in VOLATILE:
        screen = re.sub(pattern, replacement, screen, flags=re.MULTILINE)
    return "".join(f"{line.rstrip()}\n" for line in screen.splitlines())


@pytest.fixture
def ansible() -> Iterator[Ansible]:
    """In a directory whose path always has the same length, because lines are broken around it."""
    with TemporaryDirectory(dir="/tmp") as directory:
        shutil.copytree(SCREENS / "scene", directory, dirs_exist_ok=True)
        yield Ansible(Path(directory), {"COLUMNS": "80"})


# Of the callback of ansible-core itself, the screens of one version are kept.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("callback", ["plain", pytest.param("default", marks=pytest.mark.nightly)])
def test_the_screens_are_as_they_were(callback: str, ansible: Ansible, tmp_path_factory: pytest.TempPathFactory):
    if callback == "default" and not __version__.startswith(RECORDED):
        pytest.skip(f"the screens are those of ansible-core {RECORDED}")
    found: dict[str, list[str]] = defaultdict(list)
    with Cluster(nodes=4, exec_root=tmp_path_factory.mktemp("containers")).running() as cluster:
        ansible.environment["K8S_AUTH_KUBECONFIG"] = str(cluster.kubeconfig(ansible.directory / "kubeconfig"))
        ansible.environment["ANSIBLE_STDOUT_CALLBACK"] = CALLBACKS[callback]
        for command in COMMANDS:
            playbook, *arguments = shlex.split(command)
            run = ansible.run("ansible-playbook", f"runwhere.gpuctl.{playbook}", *arguments)
            screen = stable(run.output, ansible.directory)
            found[playbook].append(f"$ ansible-playbook runwhere.gpuctl.{command}\n{screen}")
    screens = {SCREENS / f"{playbook}.{callback}.txt": "\n".join(shown) for playbook, shown in found.items()}
    if UPDATE:
        for path, screen in screens.items():
            path.write_text(screen, encoding="utf-8")
    assert {path: path.read_text(encoding="utf-8") for path in screens} == screens


def test_every_playbook_has_screens():
    playbooks = {path.stem for path in (Path(__file__).parents[2] / "playbooks").glob("*.yml")}
    assert {command.split()[0] for command in COMMANDS} == playbooks
    for callback in CALLBACKS:
        recorded = {path.name for path in SCREENS.glob(f"*.{callback}.txt")}
        assert recorded == {f"{playbook}.{callback}.txt" for playbook in playbooks}
