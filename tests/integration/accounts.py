# SPDX-License-Identifier: BSD-2-Clause
"""Service accounts with the rights that gpuctl_rbac gives, made with bare requests and under names of their own.

Nothing of the cluster's own gpuctl_rbac accounts and roles is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac import levels

from .api import PATHS, Api, eventually
from .namespaces import make_namespace, remove_namespaces

_WEEK = 7 * 24 * 3600  # seconds; the server may grant less


@contextmanager
def account(api: Api, level: str, namespaces: Sequence[str] | None = None) -> Iterator[Api]:
    """The cluster as an account of a level sees it; where rights are not enforced, as ``api`` sees it."""
    prefix = make_namespace(api)
    made: list[dict[str, Any]] = []
    try:
        api.create("serviceaccount", levels.account("tester", prefix), prefix)
        own = api.with_token(_token(api, prefix))
        place = PATHS["pod"].format(namespaces[0]) if namespaces else PATHS["node"]
        status, _answer = own.call("GET", place)
        if status != 403:
            yield api
            return
        for obj in (*levels.cluster_roles(level), *levels.bindings("tester", prefix, level, namespaces)):
            made.append(_renamed(obj, prefix))
            api.create(obj["kind"].lower(), made[-1], obj["metadata"].get("namespace", ""))
        eventually(lambda: own.call("GET", place)[0] == 200)  # the authorizer has its own caches
        yield own
    finally:
        for obj in reversed(made):
            api.delete(obj["kind"].lower(), obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        remove_namespaces(api, prefix)


def _token(api: Api, namespace: str) -> str:
    path = f"{PATHS['serviceaccount'].format(namespace)}/tester/token"
    status, answer = api.call("POST", path, {"spec": {"expirationSeconds": _WEEK}})
    assert status == 201, answer
    return str(answer["status"]["token"])


def _renamed(obj: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Under a name that no cluster has yet; a binding leads to the role of that name."""
    renamed = {**obj, "metadata": {**obj["metadata"], "name": f"{prefix}-{obj['metadata']['name']}"}}
    if "roleRef" in obj:
        renamed["roleRef"] = {**obj["roleRef"], "name": f"{prefix}-{obj['roleRef']['name']}"}
    return renamed
