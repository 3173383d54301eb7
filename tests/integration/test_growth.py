# SPDX-License-Identifier: BSD-2-Clause
"""How many requests and bytes it takes to look at more and more jobs. Seconds are for `make bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .ansible import Ansible
from .manifests import compute
from .recorder import Recorder

SIZES = (2, 20, 200)  # jobs, fewer than a page of any list has


def test_requests_do_not_grow_with_jobs_and_bytes_grow_with_their_number(
    ansible: Ansible, recorder: Recorder, namespace: str, tmp_path: Path
) -> None:
    src = tmp_path / "jobs"
    src.mkdir()
    looks: dict[str, dict[str, Any]] = {
        "job": {"src": [str(src)], "namespace": namespace},
        "job_info": {"namespace": namespace},
        "status": {"namespace": namespace},
        "plan_info": {"src": [str(src)], "namespace": namespace},
        "drift_info": {"src": [str(src)], "namespace": namespace},
        "fit_info": {"src": [str(src)], "namespace": namespace},
        "usage_info": {"namespace": namespace},
    }
    requests: dict[str, list[list[str]]] = {name: [] for name in looks}
    received: dict[str, list[int]] = {name: [] for name in looks}
    for size in SIZES:
        for number in range(size):
            manifest = compute(f"web-{number}", service={"replicas": 0, "type": "ClusterIP"})
            (src / f"web-{number}.yaml").write_text(yaml.safe_dump(manifest))
        made = ansible.job(src=[str(src)], namespace=namespace)
        assert not made.failed, made.message
        for name, options in looks.items():
            recorder.clear()
            looked = ansible.module(f"gpuctl_{name}", **options)
            assert not looked.failed, looked.message
            assert not looked.changed
            requests[name].append(sorted(str(request) for request in recorder.requests))
            received[name].append(sum(request.received for request in recorder.requests))

    few, some, many = SIZES
    for name in looks:
        assert requests[name][0], name
        assert requests[name][0] == requests[name][1] == requests[name][2], name
        one, another, last = received[name]
        per_job = (another - one) / (some - few)
        # Names with more digits, and what differs in dates and versions, are a few bytes of each job.
        assert last - another <= 1.05 * per_job * (many - some) + 1000, (name, received[name])
