# SPDX-License-Identifier: BSD-2-Clause
"""Every module, playbook, plugin and store is attacked; what is added and is not, fails here.

For modules that ask a server and for playbooks, test_answers.py and test_playbooks.py compare with what they run.
"""

from __future__ import annotations

import re

import pytest
from chaos.scenarios import POLICIES, SCENARIOS
from integration.ansible import ROOT

# Modules that write nothing to a cluster, or whose every write is that of another module.
NOT_INJECTED = {
    "gpuctl_copy": "writes into containers, which the simulator does not run; test_log.py, test_server.py",
    "gpuctl_drift": "writes what gpuctl_job and others do; test_half_way.py",
    "gpuctl_idle": "pauses as gpuctl_job does",
    "gpuctl_kubeconfig": "writes a file, and requests a token",
    "gpuctl_notify": "writes to a webhook; test_notify.py",
}
READS_ONLY = re.compile(r"gpuctl_(\w+_info|job_log|doctor|status|show)")
# Which tests attack the plugins, and what they are called there.
PLUGINS = {
    "plugins/inventory/gpuctl.py": ("test_node.py", "runwhere.gpuctl.gpuctl"),
    "plugins/callback/plain.py": ("test_plugins.py", "gpuctl.plain"),
    "plugins/filter/_bounded_yaml.py": ("test_plugins.py", "bounded_yaml"),
    "extensions/eda/plugins/event_source/jobs.py": ("test_events.py", "run_source"),
    "extensions/eda/plugins/event_filter/alert.py": ("test_plugins.py", "alert_filter"),
}
# What tenants, nodes, other processes or a crash can write, and the collection reads again.
STORES = {
    "the ledger": ("redteam/test_tenant.py", "gpuctl-ledger"),
    "the history": ("redteam/test_tenant.py", "gpuctl-history"),
    "the copies of restarts": ("redteam/test_tenant.py", "controllerrevisions"),
    "the Lease of pools": ("chaos/scenarios.py", "pool-"),
    "annotations of jobs": ("redteam/test_playbooks.py", "runwhere.ai/submitted-by"),
    "labels of nodes": ("redteam/test_node.py", "labels"),
    "Secrets": ("redteam/test_secrets.py", "test_a_secret_of_a_megabyte_of_lines"),
    "the state of the event source": ("redteam/test_events.py", "state_file"),
    "saved plans": ("redteam/test_saved_plan.py", "plan"),
    "manifests": ("redteam/test_input.py", "symlink_to"),
    "the file of a log": ("redteam/test_log.py", "link_of_another_user"),
    "answers of Prometheus": ("fuzz/test_stored.py", "prometheus_double"),
    "histories and ledgers, damaged": ("fuzz/test_stored.py", "damaged_history"),
}


def source(name: str) -> str:
    return (ROOT / "tests" / name).read_text()


def test_faults_are_injected_into_every_module_that_writes() -> None:
    injected = {
        do.module for one in (*SCENARIOS, *POLICIES) for do in (one.action, *one.setup) if hasattr(do, "module")
    }
    modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py")}
    writers = {name for name in modules if not READS_ONLY.fullmatch(name)}
    recorders = {"gpuctl_job_history"} if "gpuctl_job_history" in source("chaos/histories.py") else set()
    assert writers - injected - recorders == set(NOT_INJECTED)


def test_every_plugin_is_attacked() -> None:
    kinds = (
        "plugins/inventory",
        "plugins/callback",
        "extensions/eda/plugins/*",
    )  # the others read no text of strangers
    found = {str(path.relative_to(ROOT)) for kind in kinds for path in ROOT.glob(f"{kind}/*.py")}
    assert found <= set(PLUGINS)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_is_named_where_it_is_attacked(plugin: str) -> None:
    file, name = PLUGINS[plugin]
    assert (ROOT / plugin).is_file()
    assert name in source(f"redteam/{file}")


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_damaged(store: str) -> None:
    file, name = STORES[store]
    assert name in source(file)
