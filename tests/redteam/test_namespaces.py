# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces that are deleted, and what others make of that meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from integration.tasks import perform
from kubesim import Cluster

DEFINITION = {"kind": "quota", "quota": {"name": "q"}, "users": {"team": {"gpu": 2}}}
DELETED = {"name": "q", "state": "absent", "delete_namespaces": True, "wait": True, "wait_timeout": 20}


def namespace(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", **metadata}}


def test_a_namespace_that_is_created_again_at_once_is_gone() -> None:
    """Another tool creates it whenever it is missing: it is not called terminating until the wait ends."""
    with Cluster(nodes=1).running() as cluster:
        assert perform(QUOTA, cluster, definition=DEFINITION)["changed"]
        stop = threading.Event()

        def recreate() -> None:
            while not stop.wait(0.02):
                if cluster.call(lambda: cluster.registry.get("Namespace", "", "team")) is None:
                    cluster.load([namespace()])

        thread = threading.Thread(target=recreate, daemon=True)
        thread.start()
        began = time.monotonic()
        result = perform(QUOTA, cluster, **DELETED)
        stop.set()
        thread.join()
    assert not result.get("failed"), result["msg"]
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("finalizer", ["example.com/\x1b[2J", "x" * 5_000])
def test_what_keeps_a_namespace_is_a_short_text(finalizer: str) -> None:
    with Cluster(nodes=1).running() as cluster:
        assert perform(QUOTA, cluster, definition=DEFINITION)["changed"]
        live = cluster.call(lambda: cluster.registry.get("Namespace", "", "team"))
        cluster.load([{**live, "metadata": {**live["metadata"], "finalizers": [finalizer] * 50}}])
        result = perform(QUOTA, cluster, **{**DELETED, "wait_timeout": 2})
    assert result["failed"]
    assert result["msg"].startswith("namespace team still terminating after 2 s.")
    assert len(result["msg"]) < 1_000
    assert "\x1b" not in result["msg"]
