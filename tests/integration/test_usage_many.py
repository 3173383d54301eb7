# SPDX-License-Identifier: BSD-2-Clause
"""The accounts of 1,000 jobs over a day, a sample a minute: a fixed number of requests, and seconds.

The samples are those that the rules of the role monitoring record, which is what a cluster of that size has.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pod_times import Hold
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.history import Keys, pod_keys
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.history_store import write_history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from ansible_collections.runwhere.gpuctl.plugins.module_utils.usage.usage_info import MODULE
from kubesim import Cluster

from .monitoring import needs_programs, prometheus, promtool

pytestmark = [pytest.mark.nightly, needs_programs]  # Making the samples takes a minute.

JOBS = 1_000
DAY = 86_400
START = 1_785_715_200  # 2026-08-03, and a whole number of blocks of Prometheus
BLOCK = 7_200
SECONDS = 5.0


def hold(number: int) -> Hold:
    """Each job holds a GPU, for 6 to 18 hours of the day."""
    start = START + (number * 37) % 21_600
    return Hold(
        f"pod-{number}", f"job-{number}-0", start, start, start + 21_600 + (number * 53) % 43_200, {"nvidia.com/gpu": 1}
    )


def samples(directory: Path) -> Iterator[Path]:
    """What was recorded, a file for each block, so that promtool reads each line once."""
    for block in range(START, START + DAY, BLOCK):
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
                    for moment in range(block, block + BLOCK, 60):
                        if own.start is not None and own.start <= moment < (own.end or 0):
                            value = 1 if "allocated" in name else 0.9 if number % 4 else 0.01
                            file.write(f"{name}{{{text}}} {value} {moment}\n")
            file.write("# EOF\n")
        yield path


def cpu_seconds(url: str) -> float:
    """Of this process, with the simulated cluster in it, and of Prometheus: other work does not count."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (own,) = (line for line in lines if line.startswith("process_cpu_seconds_total "))
    return time.process_time() + float(own.split()[1])


def test_a_thousand_jobs_over_a_day(tmp_path: Path) -> None:
    blocks = tmp_path / "blocks"
    for path in samples(tmp_path):
        promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(path), str(blocks))
        path.unlink()
    with Cluster(nodes=10, controllers=False).running() as cluster:
        params = {name: each.get("default") for name, each in MODULE.arguments()["argument_spec"].items()}
        params |= {"host": cluster.url, "api_key": cluster.token, "validate_certs": False}
        keys: Keys = {}
        for number in range(JOBS):
            keys[f"run-{number}.job"] = (
                f'{{"name":"job-{number}","kind":"training","submitted_at":"2026-08-03T00:00:00Z"}}'
            )
            keys |= pod_keys(f"run-{number}", hold(number))
        write_history(Client(resolve_connection(params, {})), "default", keys)
        with prometheus(tmp_path / "run", blocks=blocks) as server:
            params |= {
                "start": "2026-08-03T00:00:00Z",
                "end": "2026-08-04T00:00:00Z",
                "group_by": ["team"],
                "prometheus_url": server.url,
            }
            taken = []
            for _round in range(2):  # The first one reads the blocks from the disk.
                cluster.requests.reset()
                began = cpu_seconds(server.url)
                task = Task(MODULE.options.from_params(params), params, False, lambda text: None, lambda values: None)
                result = run_task(task, MODULE)
                taken.append(cpu_seconds(server.url) - began)
                requests = list(cluster.requests)
    assert "failed" not in result, result
    held = sum(min(hold(number).end or 0, START + DAY) - (hold(number).start or 0) for number in range(JOBS)) / 3600
    # The history is of another namespace than the samples, so both are counted.
    assert result["totals"]["gpu_hours"] == pytest.approx(2 * held, rel=0.01)
    assert result["totals"]["coverage"] == pytest.approx(0.5, rel=0.01)
    print(
        f"1,000 jobs, a day: {min(taken):.2f} s of CPU ({taken[0]:.2f} s the first time), {len(requests)} requests to "
        "the API server"
    )
    assert len(requests) <= 10
    assert min(taken) < SECONDS
