# SPDX-License-Identifier: BSD-2-Clause
"""Every module, playbook, plugin and store is attacked; what is added and is not, fails here.

For modules that ask a server and for playbooks, test_answers.py and test_playbooks.py compare with what they run.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils import labels
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
    "labels and annotations": ("redteam/test_stores.py", "KEYS"),
    "profiles of accelerators": ("redteam/test_stores.py", "ACCELERATORS_CONFIG_MAP"),
    "copied files": ("redteam/test_log.py", "local_path"),
}
# Every file that writes an object or a file, and the stores that it writes; a reason where nothing is read again.
WRITES: dict[str, tuple[str, ...] | str] = {
    "module_utils/engine/apply.py": ("labels and annotations", "annotations of jobs"),
    "module_utils/engine/dry_run.py": "dry runs write nothing",
    "module_utils/engine/guarded_write.py": ("labels and annotations", "annotations of jobs", "Secrets"),
    "module_utils/engine/node_writer.py": ("labels of nodes",),
    "module_utils/insight/copy/copy_local.py": ("copied files",),
    "module_utils/insight/events/state_file.py": ("the state of the event source",),
    "module_utils/insight/idle/idle_jobs.py": "Events, which are for people",
    "module_utils/jobs/restart_copies.py": ("the copies of restarts",),
    "module_utils/jobs/runs/ledger_store.py": ("the ledger",),
    "module_utils/jobs/runs/run_store.py": ("the history",),
    "module_utils/kube/tls.py": "certificates of a kubeconfig, in a file that only this process has",
    "module_utils/logs/host_file.py": ("the file of a log",),
    "module_utils/pools/lease.py": ("the Lease of pools",),
    "module_utils/pools/pool_writer.py": ("labels and annotations",),
    "module_utils/quotas/quota_apply.py": ("labels and annotations",),
    "plugin_utils/report_file.py": ("saved plans",),
    "plugin_utils/terminal.py": "the terminal",
}
_SENDS = {"apply", "create", "json_patch", "merge_patch"}  # of kube/client.py


def writes(tree: ast.AST) -> bool:
    """Whether a file calls what writes an object, or opens a file to write it."""
    return any(isinstance(node, ast.Call) and (_sends(node) or _opens(node)) for node in ast.walk(tree))


def _sends(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in _SENDS:
        return False
    return ast.unparse(function.value).rpartition(".")[2].strip("_()").endswith("client")


def _opens(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    given = [*call.args, *(each.value for each in call.keywords)]
    modes = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    is_written = any(re.fullmatch(r"[rwaxbt+]{1,3}", mode) and set(mode) & set("wax+") for mode in modes)
    creates = re.search(r"(?<!~)os\.O_CREAT", ast.unparse(call)) is not None
    return (
        name in ("os.replace", "os.rename", "tempfile.mkstemp", "tempfile.NamedTemporaryFile")
        or name.endswith((".write_text", ".write_bytes"))
        or (name.endswith("open") and (is_written or creates))
    )


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


def test_what_is_written_is_a_store_that_is_damaged() -> None:
    plugins = ROOT / "plugins"
    places = [*plugins.rglob("*.py"), *(ROOT / "extensions").rglob("*.py")]
    found = {path for path in places if writes(ast.parse(path.read_text()))}
    assert {str(path.relative_to(plugins)) for path in found} == set(WRITES)
    assert {store for stores in WRITES.values() if isinstance(stores, tuple) for store in stores} <= set(STORES)


def test_every_object_with_a_name_of_ours_is_attacked() -> None:
    """labels.py has the names; labels and annotations are attacked as it lists them."""
    names = {name: value for name, value in vars(labels).items() if name.isupper() and str(value).startswith("gpuctl-")}
    attacks = "\n".join(
        path.read_text() for path in (ROOT / "tests" / "redteam").glob("*.py") if path != Path(__file__)
    )
    assert {name for name, value in names.items() if name not in attacks and value not in attacks} == set()


@pytest.mark.parametrize(
    ("text", "is_written"),
    [
        ("client.create(obj)", True),
        ("self._client.merge_patch(A, m, p)", True),
        ("self._task.client().apply(obj)", True),
        ("open(path, 'w')", True),
        ("os.open(path, os.O_RDWR | os.O_CREAT)", True),
        ("Path(a).write_text(b)", True),
        ("os.replace(a, b)", True),
        ("client.get(A, n, m)", False),
        ("open(path, 'rb')", False),
        ("text.replace(a, 'x')", False),
        ("os.open(path, flags & ~os.O_CREAT)", False),
    ],
)
def test_what_counts_as_writing(text: str, is_written: bool) -> None:
    assert writes(ast.parse(text)) == is_written


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_damaged(store: str) -> None:
    file, name = STORES[store]
    assert name in source(file)
