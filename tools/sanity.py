# SPDX-License-Identifier: BSD-2-Clause
"""Run `ansible-test sanity` on the content of the tarball, without Docker, and with the package index as the only host.

ansible-test builds a virtual environment per test and fetches pip for it from a host of the Ansible
project. Two files in a separate home directory make that unnecessary: the bootstrap script where
ansible-test caches it, and pip's settings, because ansible-test does not pass on PIP_* variables.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from tools.tree import CACHE, ROOT, copy_tree, shipped

HOME = CACHE / "home"
BOOTSTRAP = '''"""Replaces get-pip.py: the pip that comes with this Python."""
import ensurepip

ensurepip.bootstrap()
'''


def main(arguments: list[str]) -> int:
    tree = copy_tree(CACHE / "sanity", shipped(ROOT))
    _write(HOME / ".ansible" / "test" / "cache" / _bootstrap_name(), BOOTSTRAP)
    _write(HOME / ".config" / "pip" / "pip.conf", _pip_settings())
    binaries = Path(sys.prefix) / "bin"
    environment = {
        **os.environ,
        "ANSIBLE_TEST_CONTENT_ROOT": str(tree),  # else it climbs to the clone's .git, where the copy is ignored
        "HOME": str(HOME),
        "XDG_CONFIG_HOME": str(HOME / ".config"),
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
    }
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = [sys.executable, str(binaries / "ansible-test"), "sanity", "--python", version, *arguments]
    return subprocess.run(command, cwd=tree, env=environment, stdin=subprocess.DEVNULL).returncode


def _bootstrap_name() -> str:
    """The name under which this ansible-core caches get-pip.py: it carries the version of pip."""
    from ansible_test._internal.python_requirements import get_venv_packages

    pip_version = get_venv_packages(_Python())["pip"]
    return f"get_pip_{pip_version.replace('.', '_')}.py"


class _Python:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"


def _pip_settings() -> str:
    """pip's settings in effect here, from files and environment, as the text of a pip.conf."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    sections: dict[str, dict[str, str]] = {}
    for line in listing.splitlines():  # global.index-url='https://…' or :env:.index-url='https://…', the latter last
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        sections.setdefault("global" if section == ":env:" else section, {})[option] = ast.literal_eval(value)
    return "".join(
        f"[{section}]\n" + "".join(f"{option} = {value}\n" for option, value in options.items())
        for section, options in sections.items()
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
