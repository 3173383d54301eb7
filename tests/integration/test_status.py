# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.status: what a person sees."""

from __future__ import annotations

from typing import Any

from .ansible import Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .pools import Field
from .recorder import Recorder


def status(ansible: Ansible, **variables: str) -> Run:
    arguments = [part for name, value in variables.items() for part in ("-e", f"gpuctl_{name}={value}")]
    return ansible.run("ansible-playbook", "runwhere.gpuctl.status", *arguments)


def shown(run: Run) -> dict[str, Any]:
    """What each task printed."""
    assert run.status == 0, run.output
    return {task.task: task.result["msg"] for task in run.tasks if "msg" in task.result}


def line(table: list[str], *words: str) -> str:
    """The line of a table that begins with the words."""
    (found,) = [text for text in table if text.split()[: len(words)] == list(words)]
    return found


def test_the_tables_and_below_them_why(ansible: Ansible, field: Field, namespace: str, recorder: Recorder):
    pool, node = field.pool("a"), field.nodes[0]
    ansible.module("gpuctl_pool", name=pool, description="试验 pool", nodes={node: {"gpu-type": "A100-test"}})
    quota = {"kind": "quota", "quota": {"name": field.pool("q")}, "users": {namespace: {"cpu": 4, "gpu": 2}}}
    ansible.module("gpuctl_quota", definition=quota)
    definition = [
        compute("web", resources={"pool": pool}),
        training("stuck", resources={"pool": pool, "gpu-type": "H9"}),
    ]
    ansible.job(definition=definition, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=10)

    recorder.clear()
    tables = shown(status(ansible, namespace=namespace, pool=pool))
    assert line(tables["Show the pools"], pool, "active").endswith("1  试验 pool")
    for table in ("Show the pools", "Show the nodes", "Show the quotas"):
        assert len(tables[table]) == 2, "a header and the requested row"
    assert line(tables["Show the quotas"], field.pool("q"), namespace).split()[2:6] == ["2", "2", "2", "4"]
    assert line(tables["Show the nodes"], node, "active", "A100-test").endswith(pool)
    assert line(tables["Show the jobs"], "web", namespace, "compute", pool).split()[5:8] == ["1", "Running", "1/1"]
    assert line(tables["Show the jobs"], "stuck", namespace, "training", pool).split()[5:8] == ["1", "Pending", "0/1"]
    why = line(tables["Show why jobs are not running"], namespace, "stuck")
    assert f"GPU type H9 not found in pool {pool}" in why
    assert recorder.writes == []


def test_running_jobs_need_no_explanation(ansible: Ansible, namespace: str):
    assert "Show why jobs are not running" not in shown(status(ansible, namespace=namespace))


def test_permission_for_one_namespace_shows_its_jobs(ansible: Ansible, api: Api, namespace: str):
    user, group = "gpuctl-test-status", "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["list"]}
    api.create("role", {"metadata": {"name": "looker"}, "rules": [rule]}, namespace)
    binding = {
        "metadata": {"name": "looker"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "looker"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    api.create("rolebinding", binding, namespace)
    ansible.job(definition=compute(), namespace=namespace, wait=True, wait_timeout=60)
    looker = Ansible(ansible.directory, {**ansible.environment, "K8S_AUTH_IMPERSONATE_USER": user})
    eventually(lambda: status(looker, namespace=namespace).status == 0)
    tables = shown(status(looker, namespace=namespace))
    assert line(tables["Show the jobs"], "web", namespace)
    assert line(tables["Show the quotas"], "NAME", "NAMESPACE")
    for table in ("Show the pools", "Show the nodes"):
        assert "is forbidden" in tables[table]
