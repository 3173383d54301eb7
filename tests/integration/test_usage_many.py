# SPDX-License-Identifier: BSD-2-Clause
"""The accounts of 1,000 jobs over a day, a sample a minute: a fixed number of requests, and seconds."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.usage.usage_info import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.runs.run_store import write_history
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from kubesim import Cluster

from .monitoring import needs_prometheus, prometheus
from .usage_samples import DAY, JOBS, RANGE, START, history_keys, hold, write_blocks

pytestmark = [pytest.mark.nightly, needs_prometheus]  # Making the samples takes a minute.

SECONDS = 5.0


def cpu_seconds(url: str) -> float:
    """Of this process, with the simulated cluster in it, and of Prometheus: other work does not count."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (own,) = (line for line in lines if line.startswith("process_cpu_seconds_total "))
    return time.process_time() + float(own.split()[1])


def test_a_thousand_jobs_over_a_day(tmp_path: Path) -> None:
    blocks = write_blocks(tmp_path)
    with Cluster(nodes=10, controllers=False).running() as cluster:
        params = {name: each.get("default") for name, each in MODULE.arguments()["argument_spec"].items()}
        params |= {"host": cluster.url, "api_key": cluster.token, "validate_certs": False}
        write_history(Client(resolve_connection(params, {})), "default", history_keys())
        with prometheus(tmp_path / "run", blocks=blocks) as server:
            params |= {
                **RANGE,
                "group_by": ["team"],
                "all_namespaces": True,
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
