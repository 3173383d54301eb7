# SPDX-License-Identifier: BSD-2-Clause
"""Any value of any option of any module ends in a message, not in a traceback; no cluster is needed for that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import resolve_connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import KubeError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import validate_options
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.module_action import module_spec

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = str(ROOT / "examples" / "manifests")
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py"))
MODULES = [
    name for name in MODULES if name not in ("gpuctl_advice", "gpuctl_notify", "gpuctl_show")
]  # They have no core.
VALUES: tuple[Any, ...] = (
    None, "", " ", 0, -1, 1, 3, 0.5, 1e300, 2**31, 2**70, True, [], [{}], [[1]], [None], {}, {"a": 1}, {"": {"": []}},
    "x" * 10_000, "\x00", "\ud800", "\x1b[2J", "~", "/", "..", "http://", "http://[", "ftp://a", "a:b", "1" * 5000,
    "é", "-1", "inf", "1e99", "{{ 1 }}", "a,b=c", "=", "!", "(", ["\x00"], ["a", "a"], "9999999999",
)  # fmt: skip
# What each module needs beside the option in question.
REQUIRED: dict[str, dict[str, Any]] = {
    "gpuctl_job": {"name": "a", "state": "absent"},
    "gpuctl_drift": {"src": [MANIFESTS], "restore": ["Node/a:b"]},
    "gpuctl_drift_info": {"src": [MANIFESTS]},
    "gpuctl_fit_info": {"definition": {"kind": "pool", "pool": {"name": "a"}}},
    "gpuctl_extend": {"name": "a", "by": "1h"},
    "gpuctl_placement": {"name": "a", "cluster": "b"},
    "gpuctl_job_log": {"name": "a"},
    "gpuctl_job_metrics_info": {"name": "a"},
    "gpuctl_copy": {"name": "a", "local_path": "/tmp/nowhere", "remote_path": "/tmp/a"},
    "gpuctl_pool": {"definition": {"kind": "pool", "pool": {"name": "a"}}},
    "gpuctl_quota": {"definition": {"kind": "quota", "quota": {"name": "a"}}},
    "gpuctl_node_label": {"nodes": ["a"], "labels": {"a": "b"}},
    "gpuctl_rbac": {"name": "a", "level": "read"},
    "gpuctl_kubeconfig": {"name": "a", "dest": "/tmp/nowhere/a.kubeconfig"},
    "gpuctl_multikueue": {"workers": []},
    "gpuctl_workspace": {"namespace": "a"},
    "gpuctl_plan_info": {"src": ["/nowhere"]},
    "gpuctl_policy": {"name": "a", "state": "absent"},
    "gpuctl_stack": {"name": "a", "state": "absent"},
}


class NoCluster(KubeError):
    """What the tasks fail with in the end."""


class OfflineTask(Task[Any]):
    def client(self) -> Client:
        Client(resolve_connection(self.params, self.environ))
        raise NoCluster("no cluster")


@pytest.mark.parametrize("module", MODULES)
def test_any_option_ends_in_a_message(module: str) -> None:
    spec = module_spec(module)
    reached = 0
    for option in spec.arguments()["argument_spec"]:
        for value in VALUES:
            given = {**REQUIRED.get(module, {}), "host": "http://127.0.0.1:9", option: value}
            options = validate_options(spec.arguments(), json.loads(json.dumps(given)), module)
            if options.error:
                continue
            params = options.params
            task = OfflineTask(spec.options.from_params(params), params, True, str, lambda values: None, environ={})
            result = run_task(task, spec)
            json.dumps(result)
            assert "exception" not in result, f"{option}: {value!r}: {result['exception']}"
            assert len(result["msg"]) < 21_000, f"{option}: {value!r}: a message of {len(result['msg'])} characters"
            reached += result["msg"] == "no cluster"
    assert reached > 30, "the options that every test needs are not accepted"


OPTIONS = {
    "a mode of maps": (
        "gpuctl_job_log",
        {"name": "a", "dest": "/tmp/gpuctl-log", "mode": [{}]},
        "mode: [{}] is not a file mode.",
    ),
    "a proxy that is a number": ("gpuctl_job_info", {"proxy": 3}, "not the URL of a proxy: 3. Use one such as http"),
    "a number beyond int32": (
        "gpuctl_job_info",
        {"retries": 2**31},
        "retries: number too large. Use at most 2147483647.",
    ),
    "a NUL character": ("gpuctl_job_info", {"context": "a\0"}, "context: NUL character in the text. Remove it."),
    "half a character": ("gpuctl_job_info", {"pool": "\udc00"}, "pool: half of a character: \\udc00. Remove it."),
    "suboptions that are a number": (
        "gpuctl_job_info",
        {"proxy_headers": 3},
        "an option is not of the documented type: ",
    ),
}


@pytest.mark.parametrize(("module", "given", "message"), OPTIONS.values(), ids=OPTIONS)
def test_an_option_is_refused(module: str, given: dict[str, Any], message: str) -> None:
    spec = module_spec(module)
    options = validate_options(spec.arguments(), {"host": "http://127.0.0.1:9", **given}, module)
    found = options.error
    if not found:
        params = options.params
        task = OfflineTask(spec.options.from_params(params), params, True, str, lambda values: None, environ={})
        found = run_task(task, spec)["msg"]
    assert found.startswith(message)
