# SPDX-License-Identifier: BSD-2-Clause
"""Put the tarball that `make collection` builds through the importer of Ansible Galaxy.

What it warns of, people read beside the collection on Galaxy, so a warning fails here. The importer has an environment
of its own, .venvs/galaxy-importer, because it holds libraries back that the tests want newer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import yaml

from tools.environments import ROOT, make

# The last two as in tools/requirements.txt.
PACKAGES = ["galaxy-importer==0.4.44", "ansible-core~=2.19.0", "ansible-lint==26.10.1"]
COMPLAINTS = ("WARNING", "ERROR", "CRITICAL")


def main() -> int:
    about = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    tarball = ROOT / "build" / f"{about['namespace']}-{about['name']}-{about['version']}.tar.gz"
    folder = ROOT / ".cache" / "importer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    python = make("galaxy-importer", PACKAGES, requirements=())
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(python), "-m", "galaxy_importer.main", str(tarball)]
    # It writes importer_result.json where it runs.
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    complaints = [line for line in done.stdout.splitlines() if line.startswith(COMPLAINTS)]
    if done.returncode or complaints or "completed successfully" not in done.stdout:
        print("\n".join(complaints) or done.stdout + done.stderr)
        return 1
    print(f"{tarball.name}: Galaxy's importer has no complaint")
    return 0


if __name__ == "__main__":
    sys.exit(main())
