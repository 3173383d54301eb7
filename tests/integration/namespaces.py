# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces of tests: created under unique names, and deleted without waiting until they are gone.

A namespace controller acts on a deletion after five seconds, and again ten seconds later if something had to terminate
first. So the workloads of a namespace are deleted along with it, to free the nodes for the next test; the namespaces
themselves are awaited once, at the end.
"""

from __future__ import annotations

import secrets
import time

from .api import PATHS, Api, eventually

_PREFIX = "gpuctl-test-"
_WORKLOADS = ("job", "deployment", "statefulset")


def unused_namespace() -> str:
    return f"{_PREFIX}{secrets.token_hex(4)}"


def make_namespace(api: Api) -> str:
    name = unused_namespace()
    api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def remove_namespaces(api: Api, *names: str) -> None:
    """Delete those that exist; on return none of their pods is left."""
    for name in names:
        for kind in _WORKLOADS:
            api.call("DELETE", PATHS[kind].format(name), {"propagationPolicy": "Background"})
        _delete_pods(api, name, grace_seconds=1)  # Programs that ignore SIGTERM would use up that of their job.
        api.delete("namespace", name)
    # A kubelet that has begun to wait for the end of a pod does not heed a shorter grace period.
    polite_until = time.monotonic() + 20
    eventually(lambda: all(_without_pods(api, name, force=time.monotonic() > polite_until) for name in names), 180)


def _without_pods(api: Api, namespace: str, *, force: bool) -> bool:
    pods = api.list("pod", namespace)
    if pods and force:
        _delete_pods(api, namespace, grace_seconds=0)
    return not pods


def _delete_pods(api: Api, namespace: str, grace_seconds: int) -> None:
    api.call("DELETE", PATHS["pod"].format(namespace), {"gracePeriodSeconds": grace_seconds})


def wait_for_removals(api: Api) -> None:
    eventually(
        lambda: (
            not any(
                obj["metadata"]["name"].startswith(_PREFIX) and "deletionTimestamp" in obj["metadata"]
                for obj in api.list("namespace")
            )
        ),
        180,
    )
