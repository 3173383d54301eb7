# SPDX-License-Identifier: BSD-2-Clause
"""A cluster whose clock is behind, and then right."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

from kubesim import Cluster
from kubesim.clock import parse_time


def created(cluster: Cluster, name: str) -> timedelta:
    """How long ago by this machine's clock."""
    obj = cluster.call(
        lambda: cluster.registry.create("ConfigMap", {"metadata": {"name": name, "namespace": "default"}})
    )
    return datetime.now(timezone.utc) - parse_time(obj["metadata"]["creationTimestamp"])


def test_what_is_created_behind_is_older() -> None:
    with Cluster(nodes=1, behind=3600, controllers=False).running() as cluster:
        assert timedelta(minutes=60) <= created(cluster, "early") < timedelta(minutes=61)
        cluster.set_clock(behind=60)
        assert timedelta(minutes=1) <= created(cluster, "later") < timedelta(minutes=2)
        cluster.set_clock()
        assert created(cluster, "now") < timedelta(minutes=1)


def test_the_namespace_of_a_kubeconfig(tmp_path: Path) -> None:
    with Cluster(nodes=0, controllers=False).running() as cluster:
        for namespace, expected in (("", {}), ("team-a", {"namespace": "team-a"})):
            config = json.loads(cluster.kubeconfig(tmp_path / "kubeconfig", namespace=namespace).read_text())
            assert config["contexts"][0]["context"] == {"cluster": "kubesim", "user": "kubesim", **expected}
