# SPDX-License-Identifier: BSD-2-Clause
"""The playbook runwhere.gpuctl.status: what a person sees."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from .ansible import BIN, Ansible, Run
from .api import Api, eventually
from .manifests import compute, training
from .pools import Field
from .recorder import Recorder


def status(ansible: Ansible, **variables: str) -> Run:
    arguments = [part for name, value in variables.items() for part in ("-e", f"gpuctl_{name}={value}")]
    wide = Ansible(ansible.directory, {**ansible.environment, "COLUMNS": "200"})
    return wide.run("ansible-playbook", "runwhere.gpuctl.status", *arguments)


def line(screen: str, *words: str) -> list[str]:
    """The words of the line that begins with these."""
    (found,) = [text.split() for text in screen.splitlines() if text.split()[: len(words)] == list(words)]
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
    run = status(ansible, namespace=namespace, pool=pool, all="true")
    assert run.status == 0, run.output
    assert line(run.output, pool, "active")[-2:] == ["试验", "pool"]
    assert line(run.output, field.pool("q"), namespace)[2:] == ["2", "of", "2", "2", "of", "4", "no", "limit"]
    assert line(run.output, node, "active", "A100-test")[-1] == pool
    assert line(run.output, "2", "jobs:") == ["2", "jobs:", "1", "Pending,", "1", "Running"]
    assert line(run.output, "web", namespace)[2:3] == ["compute"]
    assert {"Pending", "0/1"} <= set(line(run.output, "stuck", namespace))
    reason = " ".join(run.output.split()).partition(f"{namespace}/stuck (Pending): ")[2]
    assert f"GPU type H9 not found in pool {pool}" in reason
    assert recorder.writes == []


def test_the_pods_of_jobs_are_read_once(ansible: Ansible, field: Field, api: Api, namespace: str, recorder: Recorder):
    """Those of jobs for their rows, all others for what is used, whether a pod is that of a job or not."""
    node = field.nodes[0]
    ansible.module("gpuctl_pool", name=field.pool("a"), nodes=[node])
    job = training("one", resources={"pool": field.pool("a"), "gpu": 1})
    ansible.job(definition=job, namespace=namespace, wait=True, wait_for="scheduled", wait_timeout=30)
    uses = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i", "resources": uses}]}
    api.create("pod", {"metadata": {"name": "foreign"}, "spec": spec}, namespace)

    def used(**options: object) -> int:
        result = ansible.module("gpuctl_status", show=False, table="nodes", **options)
        return next(row["gpu_used"] for row in result.result["nodes"] if row["node_name"] == node)

    recorder.clear()
    assert used(all_namespaces=True) == 2
    pods = [request.query for request in recorder.requests if request.path.endswith("/pods")]
    assert ["labelSelector=%21runwhere.ai" in each for each in pods] == [False, True], pods
    assert used(namespaces=[namespace]) == 2
    assert used(all_namespaces=True, pool=field.pool("a")) == 2


TABLES = {
    "jobs": ("1 job: 1 Running", "NAME NAMESPACE KIND"),
    "nodes": ("NODE STATUS GPU TYPE GPUS USED FREE POOL",),
    "pools": ("POOL STATUS GPUS USED FREE NODES",),
    "quotas": ("No quotas.",),
}


@pytest.mark.parametrize("table", TABLES)
def test_one_table_alone(ansible: Ansible, namespace: str, table: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    plain = Ansible(ansible.directory, {**ansible.environment, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"})
    run = status(plain, namespace=namespace, table=table)
    assert run.status == 0, run.output
    first_lines = [" ".join(text.split()) for text in run.output.splitlines()[: len(TABLES[table])]]
    for expected, found in zip(TABLES[table], first_lines, strict=True):
        assert found.startswith(expected)


def test_the_nodes_that_are_asked_for(ansible: Ansible, field: Field):
    pool, node = field.pool("a"), field.nodes[0]
    ansible.module("gpuctl_pool", name=pool, nodes={node: {"gpu-type": "A100-test"}})
    for given in ({"pool": pool}, {"node": node}, {"gpu_type": "a100-TEST", "status": "active"}):
        shown = status(ansible, table="nodes", **given).output
        assert line(shown, node)[1:3] == ["active", "A100-test"]
        assert field.nodes[1] not in shown
    assert line(status(ansible, table="nodes", node=node, label_keys="pool").output, node) == [
        node,
        f"runwhere.ai/pool={pool}",
    ]


WRONG = {
    "node": ({"node": "none"}, "node not found: none. Check its name."),
    "type": ({"gpu_type": "a100-tset"}, "GPU type not found: a100-tset."),
    "status": ({"status": "activ"}, "status not found: activ. Did you mean active?"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=WRONG)
def test_nodes_that_do_not_exist(ansible: Ansible, given: dict[str, str], message: str):
    run = status(ansible, table="nodes", **given)
    assert run.status == 2, run.output
    assert message in run.output


def test_running_jobs_need_no_explanation(ansible: Ansible, namespace: str):
    assert f"{namespace}/" not in status(ansible, namespace=namespace).output


def test_the_pods_on_request(ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    output = status(ansible, namespace=namespace, pods="true").output
    assert line(output, "JOB", "ID")[2:] == ["NAME", "NAMESPACE", "KIND", "STATUS", "READY", "NODE", "IP", "AGE"]


def test_the_plain_callback_prints_nothing_else(ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace, wait=True, wait_timeout=60)
    plain = Ansible(ansible.directory, {**ansible.environment, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"})
    lines = status(plain, namespace=namespace).output.splitlines()
    assert lines[0].split()[1] == "nodes:"
    assert lines[-1] == "localhost: changed=0 failed=0 unreachable=0"
    assert [text for text in lines if "TASK" in text or "PLAY" in text or "ok:" in text] == []
    wrong = status(plain, namspace=namespace).output
    assert wrong.count("gpuctl_namspace") == 1
    assert wrong.startswith("Error: Unknown variable: gpuctl_namspace. Did you mean gpuctl_namespace?")


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"namespace": "{}x"}, "namespace not found: {}x. Did you mean {}?"),
        ({"name": "webb"}, "job not found: webb. Did you mean web?"),
        ({"name": "gone"}, "job not found: gone. Check its name. Namespace {} has no such job now."),
        ({"pool": "defalut"}, "pool not found: defalut. Did you mean default?"),
    ],
)
def test_what_does_not_exist_is_an_error(ansible: Ansible, namespace: str, variables: dict[str, str], message: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    given = {"namespace": namespace, **{name: value.format(namespace) for name, value in variables.items()}}
    run = status(ansible, **given)
    assert run.status == 2
    assert message.format(namespace, namespace) in run.output


@pytest.mark.parametrize("fast_path", ["1", "0"], ids=["in process", "as a module"])
def test_a_wrong_value_does_not_act_on_the_terminal(ansible: Ansible, fast_path: str):
    set_up = {"ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain", "GPUCTL_FAST_PATH": fast_path}
    plain = Ansible(ansible.directory, {**ansible.environment, **set_up})
    run = status(plain, kind="\x1b]0;title\x07")
    assert run.status == 2
    assert r"unknown value: \x1b]0;title\x07" in run.output
    assert "\x1b" not in run.output


def test_a_job_of_another_status_exists(ansible: Ansible, namespace: str):
    ansible.job(definition=compute("web"), namespace=namespace)
    run = status(ansible, namespace=namespace, name="web", status="failed")
    assert run.status == 0, run.output
    assert "No jobs." in run.output


def test_it_is_shown_again_until_it_is_interrupted(ansible: Ansible, namespace: str):
    started = subprocess.Popen(
        [str(BIN / "ansible-playbook"), "runwhere.gpuctl.status", "-e", f"gpuctl_namespace={namespace} gpuctl_watch=2"],
        stdin=subprocess.DEVNULL,
        env=ansible.full_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    screens = 0
    for text in started.stdout:
        screens += text.startswith("No jobs.")
        if screens == 2:
            break
    time.sleep(1)  # until it waits for the next screen
    os.killpg(started.pid, signal.SIGINT)
    assert "Traceback" not in started.stdout.read()
    assert started.wait(30) != 0


def test_a_playbook_of_another_project_looks_as_before(ansible: Ansible):
    plain = Ansible(ansible.directory, {**ansible.environment, "ANSIBLE_STDOUT_CALLBACK": "runwhere.gpuctl.plain"})
    run = plain.play([{"name": "Say it", "ansible.builtin.debug": {"msg": "hello"}}])
    assert "TASK [Say it]" in run.output
    assert "PLAY RECAP" in run.output


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
    output = status(looker, namespace=namespace).output
    assert line(output, "web", namespace)
    assert "Pools and nodes are not shown: " in output
    assert "is forbidden" in output
