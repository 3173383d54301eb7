# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces of tests: created under unique names, and deleted without waiting until they are gone.

A namespace controller acts on a deletion after five seconds, and again ten seconds later if something had to terminate
first. So the workloads of a namespace are deleted along with it, to free the nodes for the next test; the namespaces
themselves are awaited once, at the end.
"""

from __future__ import annotations

import secrets

from .api import PATHS, Api, eventually

_PREFIX = "gpuctl-test-"
_RUN_PODS = ("job", "deployment", "statefulset", "pod")


def unused_namespace() -> str:
    return f"{_PREFIX}{secrets.token_hex(4)}"


def make_namespace(api: Api) -> str:
    name = unused_namespace()
    api.create("namespace", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def remove_namespaces(api: Api, *names: str) -> None:
    """Delete those that exist; on return none of their pods is left."""
    for name in names:
        for kind in _RUN_PODS:
            api.call("DELETE", PATHS[kind].format(name), {"propagationPolicy": "Background"})
        api.delete("namespace", name)
    eventually(lambda: all(_without_pods(api, name) for name in names), 180)


def _without_pods(api: Api, namespace: str) -> bool:
    """Whether no pod is left. Containers that ignore SIGTERM would last for the grace period of their job."""
    if not api.list("pod", namespace):
        return True
    api.call("DELETE", PATHS["pod"].format(namespace), {"gracePeriodSeconds": 1})
    return False


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
