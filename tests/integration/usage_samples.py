# SPDX-License-Identifier: BSD-2-Clause
"""What Prometheus has of 1,000 jobs over a day, a sample a minute, and what the history has of them.

The samples are those that the rules of the role monitoring record, which is what a cluster of that size has.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_history import Keys, pod_keys

from .monitoring import promtool

JOBS = 1_000
DAY = 86_400
START = 1_785_715_200  # 2026-08-03, and a whole number of blocks of Prometheus
RANGE = {"start": "2026-08-03T00:00:00Z", "end": "2026-08-04T00:00:00Z"}
_BLOCK = 7_200


def hold(number: int) -> Hold:
    """Each job holds a GPU, for 6 to 18 hours of the day."""
    start = START + (number * 37) % 21_600
    return Hold(
        f"pod-{number}", f"job-{number}-0", start, start, start + 21_600 + (number * 53) % 43_200, {"nvidia.com/gpu": 1}
    )


def history_keys() -> Keys:
    keys: Keys = {}
    for number in range(JOBS):
        keys[f"run-{number}.job"] = f'{{"name":"job-{number}","kind":"training","submitted_at":"{RANGE["start"]}"}}'
        keys |= pod_keys(f"run-{number}", hold(number))
    return keys


def write_blocks(directory: Path) -> Path:
    """The blocks of Prometheus' database. Takes a minute."""
    blocks = directory / "blocks"
    for path in _samples(directory):
        promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(path), str(blocks))
        path.unlink()
    return blocks


def _samples(directory: Path) -> Iterator[Path]:
    """What was recorded, a file for each block, so that promtool reads each line once."""
    for block in range(START, START + DAY, _BLOCK):
        path = directory / f"{block}.txt"
        with path.open("w") as file:
            for name in (
                "namespace_pod:runwhere_gpu_allocated:sum",
                "namespace_pod_uuid:runwhere_gpu_utilization:ratio",
            ):
                file.write(f"# TYPE {name} gauge\n")
                for number in range(JOBS):
                    own = hold(number)
                    text = f'namespace="team-{number % 10}",pod="{own.name}",job_name="job-{number}",pool="default"'
                    text += ',node="n",resource="nvidia_com_gpu"' if "allocated" in name else f',UUID="GPU-{number}"'
                    for moment in range(block, block + _BLOCK, 60):
                        if own.start is not None and own.start <= moment < (own.end or 0):
                            value = 1 if "allocated" in name else 0.9 if number % 4 else 0.01
                            file.write(f"{name}{{{text}}} {value} {moment}\n")
            file.write("# EOF\n")
        yield path
