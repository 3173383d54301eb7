# SPDX-License-Identifier: BSD-2-Clause
"""Write docs/dashboard-*.png: the dashboards of the role monitoring over hours of a simulated cluster.

    python -m tests.demo.dashboards

It needs Prometheus and Chromium, and takes a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.draw_dashboards import Source, page, size

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from tests.integration import gpu_story  # noqa: E402

DASHBOARDS = ROOT / "roles" / "monitoring" / "files" / "dashboards"
END = 1_767_240_000.0  # always the same, so that the pictures are
VARIABLES = {"pool": ".*", "namespace": ".*", "job": ".*"}
CHOSEN = {"job": {"namespace": "research", "job": "llama-sft"}, "pool": {"pool": "a100"}}


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with gpu_story.told(folder, END) as server:
            for file in sorted(DASHBOARDS.glob("*.json")):
                variables = {**VARIABLES, **CHOSEN.get(file.stem, {})}
                source = Source(server.query_range, server.query, END - 6 * gpu_story.HOUR, END, 120, variables)
                dashboard = json.loads(file.read_text(encoding="utf-8"))
                drawn = folder / f"{file.stem}.html"
                drawn.write_text(page(dashboard, source), encoding="utf-8")
                screenshot(drawn, ROOT / "docs" / f"dashboard-{file.stem}.png", *size(dashboard))


def screenshot(page_file: Path, picture: Path, width: int, height: int) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},{height}"]
    command = ["chromium", *options, f"--screenshot={picture}", page_file.as_uri()]
    subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
