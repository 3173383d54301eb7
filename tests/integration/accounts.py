# SPDX-License-Identifier: BSD-2-Clause
"""Service accounts with the permissions that gpuctl_rbac grants, created by direct requests under unique names.

The cluster's own gpuctl_rbac accounts and roles stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils import permissions
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.priority import PRIORITIES, priority_class
from ansible_collections.runwhere.gpuctl.plugins.module_utils.pools.lease import system_namespace
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac import levels

from .api import PATHS, Api, eventually
from .namespaces import make_namespace, remove_namespaces

_ALL = "all"
_WEEK = 7 * 24 * 3600  # seconds; the server may grant less


@contextmanager
def account(
    api: Api, level: str, namespaces: Sequence[str] | None = None, jobs: Sequence[str] | None = None
) -> Iterator[Api]:
    """Access to the cluster as an account of a level; as ``api`` if the cluster does not enforce RBAC.

    ``jobs`` are the namespaces in which gpuctl_rbac binds a level for the whole cluster; without them, it is those that
    tests have yet to create, too.
    """
    prefix = make_namespace(api)
    created: list[dict[str, Any]] = []
    try:
        api.create("serviceaccount", levels.account("tester", prefix), prefix)
        own = api.with_token(_token(api, prefix))
        place = PATHS["pod"].format(namespaces[0]) if namespaces else PATHS["node"]
        status, _answer = own.call("GET", place)
        if status != 403:
            yield api
            return
        if level != permissions.READ:
            api.call("POST", PATHS["namespace"], system_namespace())
        for obj in (*levels.cluster_roles(level), *_bindings(prefix, level, namespaces, jobs)):
            created.append(_renamed(obj, prefix))
            api.create(obj["kind"].lower(), created[-1], obj["metadata"].get("namespace", ""))
        eventually(lambda: own.call("GET", place)[0] == 200)  # the authorizer caches
        yield own
    finally:
        for obj in reversed(created):
            api.delete(obj["kind"].lower(), obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        remove_namespaces(api, prefix)


def make_priority_classes(api: Api) -> None:
    """As gpuctl_rbac does for accounts that submit, if they are missing."""
    found = {obj["metadata"]["name"] for obj in api.list("priorityclass")}
    for desired in map(priority_class, PRIORITIES):
        if desired["metadata"]["name"] not in found:
            api.call("POST", PATHS["priorityclass"], desired)


def _bindings(
    prefix: str, level: str, namespaces: Sequence[str] | None, jobs: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    jobs = namespaces if jobs is None else jobs
    tester = levels.Subject("ServiceAccount", "tester", prefix)
    for obj in levels.bindings(tester, level, namespaces, [_ALL] if jobs is None else jobs):
        if obj["metadata"].get("namespace") == _ALL:
            obj = {**obj, "kind": "ClusterRoleBinding", "metadata": {**obj["metadata"], "namespace": ""}}
        yield obj


def _token(api: Api, namespace: str) -> str:
    path = f"{PATHS['serviceaccount'].format(namespace)}/tester/token"
    status, answer = api.call("POST", path, {"spec": {"expirationSeconds": _WEEK}})
    assert status == 201, answer
    return str(answer["status"]["token"])


def _renamed(obj: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Under a unique name; a binding refers to the renamed role."""
    renamed = {**obj, "metadata": {**obj["metadata"], "name": f"{prefix}-{obj['metadata']['name']}"}}
    if "roleRef" in obj:
        renamed["roleRef"] = {**obj["roleRef"], "name": f"{prefix}-{obj['roleRef']['name']}"}
    return renamed
