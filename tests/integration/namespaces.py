# SPDX-License-Identifier: BSD-2-Clause
"""Namespaces of tests: made under names that no cluster has, and removed without waiting for the last of it.

A namespace controller lets five seconds pass before it looks at a deletion, and comes back ten seconds later for what
had to end first. So what runs in a namespace is removed with it, and who comes next finds the nodes free; the rest is
waited for once, at the end.
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
    """Those of the names that there are; when this returns, no pod is left."""
    for name in names:
        for kind in _RUN_PODS:
            api.call("DELETE", PATHS[kind].format(name), {"propagationPolicy": "Background"})
        api.delete("namespace", name)
    eventually(lambda: not any(api.list("pod", name) for name in names), 180)


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
