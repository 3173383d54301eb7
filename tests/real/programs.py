# SPDX-License-Identifier: BSD-2-Clause
"""Small manifests whose containers run real programs, of an image with Python.

Kubernetes replaces $(NAME) and $$ in commands, so that no script uses these.
"""

from __future__ import annotations

from typing import Any

from integration import manifests

from .settings import IMAGE

RESOURCES = {"gpu": 0, "cpu": "50m", "memory": "128Mi"}
# As the first process of a container a shell ignores SIGTERM, unless it traps it.
STUBBORN = "sleep 3600 & wait"
OBEDIENT = "trap 'exit 143' TERM; sleep 3600 & wait"


def shell(kind: str, name: str, script: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose container runs a script of the shell."""
    return command(kind, name, ["sh", "-c", script], **blocks)


def python(kind: str, name: str, script: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    """A manifest whose container runs a script of Python, its output unbuffered."""
    return command(kind, name, ["python3", "-u", "-c", script], **blocks)


def jupyter(token: str, directory: str = "/tmp/work", **blocks: dict[str, Any]) -> dict[str, Any]:
    """A notebook in the directory, whose server needs some seconds to listen."""
    script = (
        f"mkdir -p {directory} && cd {directory} && sleep 5 && export HOME=/tmp && exec python3 -m jupyter_server "
        "--ip=0.0.0.0 --port=8888 --no-browser --allow-root --ServerApp.token=$JUPYTER_TOKEN"
    )
    resources = {"memory": "512Mi", "cpu": "500m", **blocks.pop("resources", {})}
    return shell(
        "notebook", "lab", script, environment={"env": {"JUPYTER_TOKEN": token}}, resources=resources, **blocks
    )


def command(kind: str, name: str, words: list[str], **blocks: dict[str, Any]) -> dict[str, Any]:
    environment = {"image": IMAGE, "command": words, **blocks.pop("environment", {})}
    resources = {**RESOURCES, **blocks.pop("resources", {})}
    return manifests.manifest(kind, name, environment=environment, resources=resources, **blocks)
