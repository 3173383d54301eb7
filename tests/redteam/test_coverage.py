# SPDX-License-Identifier: BSD-2-Clause
"""Every module, playbook, plugin and store is attacked, fuzzed and struck by faults; what is not has a reason here.

What is added and is neither fails. Modules that ask a server are compared with what test_answers.py runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils import labels
from chaos.scenarios import POLICIES, SCENARIOS
from fuzz.test_options import MODULES as FUZZED
from fuzz.test_plugins import PLAYBOOKS as FUZZED_PLAYBOOKS
from integration.ansible import ROOT

from .test_playbooks import VARIABLES

# Modules that write nothing to a cluster, or whose every write is that of another module.
NOT_INJECTED = {
    "gpuctl_advice": "writes manifests on the controller; integration/test_advised_manifests.py",
    "gpuctl_budget": "writes as gpuctl_quota does; integration/test_budget.py",
    "gpuctl_copy": "writes into containers, which the simulator does not run; test_log.py, test_server.py",
    "gpuctl_drift": "writes what gpuctl_job and others do; test_half_way.py",
    "gpuctl_expire": "pauses as gpuctl_job does; integration/test_expire.py",
    "gpuctl_extend": "patches as gpuctl_job does; integration/test_expire.py",
    "gpuctl_idle": "pauses as gpuctl_job does",
    "gpuctl_kubeconfig": "writes a file, and requests a token",
    "gpuctl_multikueue": "reads what it has declared itself, and requests tokens: integration/test_multikueue.py",
    "gpuctl_notify": "writes to a webhook; test_notify.py",
    "gpuctl_placement": "writes one object by a create or under its version; integration/test_placement.py",
}
READS_ONLY = re.compile(r"gpuctl_(\w+_info|job_log|doctor|status|show)")
NOT_FUZZED = {
    "gpuctl_advice": "has no core to call; integration/test_advised_manifests.py",
    "gpuctl_notify": "has no core to call; any answer of a service and any text: redteam/test_notify.py",
    "gpuctl_show": "has no core to call; shows what all others return: redteam/test_playbooks.py",
}
# Playbooks that never see the text of a job. Which tests attack them, and what is written there.
OTHER_PLAYBOOKS = {
    "accelerator_stack": ("redteam/test_stores.py", "ACCELERATORS_CONFIG_MAP"),
    "copy": ("redteam/test_log.py", "local_path"),
    "multikueue": ("integration/test_multikueue.py", "declare"),
    "drain_cluster": ("unit/plugins/plugin_utils/test_moving.py", "FORGED"),
    "monitoring": ("redteam/test_volume.py", "monitoring"),
    "move": ("unit/plugins/plugin_utils/test_moving.py", "FORGED"),
    "notebook_copy": ("redteam/test_log.py", "local_path"),
    "onboard": ("redteam/test_offboard.py", '"onboard"'),
    "offboard": ("redteam/test_offboard.py", '"offboard"'),
    "submit_training": ("redteam/test_log.py", "runwhere.gpuctl.submit_training"),
    "workspace": ("redteam/test_stores.py", "access.workspace"),
}


class Attacks(NamedTuple):
    """Where each kind of attack is: a file of the tests and a word in it; or why there is none."""

    redteam: tuple[str, str] | str
    fuzz: tuple[str, str] | str
    chaos: tuple[str, str] | str


_PURE = "writes nothing, and asks no server"
PLUGINS = {
    "plugins/inventory/gpuctl.py": Attacks(
        ("redteam/test_node.py", "runwhere.gpuctl.gpuctl"),
        ("redteam/test_answers.py", "nodes.node_info"),
        "writes nothing",
    ),
    "plugins/inventory/clusters.py": Attacks(
        "reads the administrator's own files", "reads names from kubeconfigs, as the modules do", _PURE
    ),
    "plugins/callback/plain.py": Attacks(
        ("redteam/test_plugins.py", "gpuctl.plain"), "prints what the screens of modules do", _PURE
    ),
    "plugins/filter/_bounded_yaml.py": Attacks(
        ("redteam/test_plugins.py", "bounded_yaml"), ("fuzz/test_plugins.py", "BoundedYaml"), _PURE
    ),
    "plugins/filter/_missing_collection.py": Attacks(*["its input is a constant of the playbooks"] * 3),
    "plugins/filter/table.py": Attacks(("fuzz/test_plugins.py", "Table"), ("fuzz/test_plugins.py", "Table"), _PURE),
    "plugins/lookup/_job_cluster_problem.py": Attacks(
        "the names of clusters are those of the administrator's inventory",
        "reads what gpuctl_job_info has returned, as its screens do",
        _PURE,
    ),
    "plugins/lookup/_moves.py": Attacks(
        ("unit/plugins/plugin_utils/test_moving.py", "FORGED"),
        "reads what modules have returned, as their screens do",
        _PURE,
    ),
    "plugins/lookup/_placement.py": Attacks(
        ("unit/plugins/module_utils/insight/placement/test_placement_record.py", "DAMAGED"),
        "reads what modules have returned, as their screens do",
        _PURE,
    ),
    "plugins/lookup/_saved_plan.py": Attacks(
        ("redteam/test_saved_plan.py", "tamper"), ("fuzz/test_plugins.py", "_saved_plan"), _PURE
    ),
    "plugins/lookup/_source_name.py": Attacks(
        ("fuzz/test_plugins.py", "mkfifo"), ("fuzz/test_plugins.py", "_source_name"), _PURE
    ),
    "plugins/lookup/_variable_problems.py": Attacks(
        ("redteam/test_log.py", "runwhere.gpuctl.submit_training"), ("fuzz/test_plugins.py", "value_problems"), _PURE
    ),
    "extensions/eda/plugins/event_source/jobs.py": Attacks(
        ("redteam/test_events.py", "run_source"),
        ("redteam/test_events.py", "places_in"),
        ("integration/test_event_source.py", "kill=True"),
    ),
    "extensions/eda/plugins/event_filter/alert.py": Attacks(
        ("redteam/test_plugins.py", "alert_filter"), ("redteam/test_plugins.py", "places_in"), _PURE
    ),
}
_BY_PEOPLE = "only people write it"
# What tenants, nodes, other processes or a crash can write, and the collection reads again.
STORES = {
    "the ledger": Attacks(
        ("redteam/test_tenant.py", "gpuctl-ledger"),
        ("fuzz/test_stored.py", "test_a_damaged_ledger"),
        ("chaos/scenarios.py", "LEDGER"),
    ),
    "the history": Attacks(
        ("redteam/test_rollback.py", "gpuctl-history"),
        ("fuzz/test_stored.py", "damaged_history"),
        ("chaos/histories.py", "gpuctl_job_history"),
    ),
    "records of placements": Attacks(
        ("integration/test_placement.py", "is not managed by gpuctl"),
        ("unit/plugins/module_utils/insight/placement/test_placement_record.py", "DAMAGED"),
        ("integration/test_move.py", "test_a_move_that_is_killed_is_continued"),
    ),
    "the copies of restarts": Attacks(
        ("redteam/test_tenant.py", "controllerrevisions"),
        ("fuzz/test_stored.py", "copy_in"),
        ("chaos/scenarios.py", "training-restart"),
    ),
    "the Lease of pools": Attacks(
        ("redteam/test_submitter.py", "lease"),
        ("redteam/test_stores.py", "holderIdentity"),
        ("chaos/oracle.py", "lease_holder"),
    ),
    "annotations of jobs": Attacks(
        ("redteam/test_playbooks.py", "runwhere.ai/submitted-by"),
        ("redteam/test_stores.py", "KEYS"),
        ("chaos/scenarios.py", "inference-update"),
    ),
    "labels of nodes": Attacks(
        ("redteam/test_node.py", "labels"), ("redteam/test_stores.py", "KEYS"), ("chaos/scenarios.py", "node-labels")
    ),
    "Secrets": Attacks(
        ("redteam/test_secrets.py", "test_a_secret_of_a_megabyte_of_lines"),
        ("redteam/test_answers.py", "access.workspace"),
        ("chaos/scenarios.py", "hf_secret-of-chaos"),
    ),
    "the state of the event source": Attacks(
        ("redteam/test_events.py", "state_file"),
        ("redteam/test_events.py", "test_a_damaged_state"),
        ("integration/test_event_source.py", "kill=True"),
    ),
    "saved plans": Attacks(
        ("redteam/test_saved_plan.py", "signature"),
        ("fuzz/test_plugins.py", "PLAN"),
        ("redteam/test_saved_plan.py", "interrupted_at_any_write"),
    ),
    "manifests": Attacks(
        ("redteam/test_input.py", "symlink_to"), ("fuzz/test_manifests.py", "test_mutants"), _BY_PEOPLE
    ),
    "the file of a log": Attacks(
        ("redteam/test_log.py", "link_of_another_user"), "never read again", "replaced as a whole, see host_file.py"
    ),
    "answers of Prometheus": Attacks(
        ("redteam/test_prometheus.py", "SLOW"),
        ("fuzz/test_stored.py", "prometheus_double"),
        ("redteam/test_prometheus.py", "FLOODS"),
    ),
    "labels and annotations": Attacks(
        ("redteam/test_stores.py", "KEYS"), ("redteam/test_stores.py", "TEXTS"), ("chaos/scenarios.py", "training-new")
    ),
    "profiles of accelerators": Attacks(
        ("redteam/test_stores.py", "ACCELERATORS_CONFIG_MAP"), ("redteam/test_stores.py", "data[chosen"), _BY_PEOPLE
    ),
    "copied files": Attacks(
        ("redteam/test_log.py", "local_path"),
        ("redteam/test_server.py", "test_messages_without_output"),
        ("redteam/test_server.py", "test_a_command_that_never_ends"),
    ),
}
# Every file that writes an object or a file, and the stores that it writes; a reason where nothing is read again.
WRITES: dict[str, tuple[str, ...] | str] = {
    "module_utils/engine/apply.py": ("labels and annotations", "annotations of jobs"),
    "module_utils/engine/dry_run.py": "dry runs write nothing",
    "module_utils/engine/guarded_write.py": ("labels and annotations", "annotations of jobs", "Secrets"),
    "module_utils/engine/node_writer.py": ("labels of nodes",),
    "module_utils/insight/copy/copy_local.py": ("copied files",),
    "module_utils/insight/events/state_file.py": ("the state of the event source",),
    "module_utils/insight/job_events.py": "Events, which are for people",
    "module_utils/insight/placement/placement_record.py": ("records of placements",),
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


# Modules of others, in the roles whose whole work they are: each of them is idempotent, and a second run finishes it.
OTHER_MODULES = {
    "roles/accelerator_stack/tasks/chart.yml": {
        "ansible.builtin.stat",
        "kubernetes.core.helm",
        "kubernetes.core.helm_info",
    },
    "roles/monitoring/tasks/files.yml": {"ansible.builtin.copy", "ansible.builtin.file"},
    "roles/monitoring/tasks/grafana.yml": {
        "ansible.builtin.copy",
        "ansible.builtin.file",
        "ansible.builtin.tempfile",
        "ansible.builtin.uri",
        "community.grafana.grafana_dashboard",
        "community.grafana.grafana_folder",
    },
}


def modules() -> set[str]:
    return {path.stem for path in (ROOT / "plugins" / "modules").glob("gpuctl_*.py")}


def test_faults_are_injected_into_every_module_that_writes() -> None:
    injected = {
        do.module for one in (*SCENARIOS, *POLICIES) for do in (one.action, *one.setup) if hasattr(do, "module")
    }
    writers = {name for name in modules() if not READS_ONLY.fullmatch(name)}
    recorders = {"gpuctl_job_history"} if "gpuctl_job_history" in source("chaos/histories.py") else set()
    assert writers - injected - recorders == set(NOT_INJECTED)


def test_every_module_is_fuzzed() -> None:
    assert modules() - set(FUZZED) == set(NOT_FUZZED)


def test_every_playbook_is_attacked_and_fuzzed() -> None:
    playbooks = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert playbooks - set(VARIABLES) == set(OTHER_PLAYBOOKS)
    assert playbooks == set(FUZZED_PLAYBOOKS)
    assert not [name for name, (file, word) in OTHER_PLAYBOOKS.items() if word not in source(file)]


def test_a_playbook_runs_nothing_but_modules_that_are_struck_by_faults() -> None:
    """Between two of them it holds no state: what an interrupted playbook leaves is what a module has left."""
    theirs = {
        "assert",
        "debug",
        "fail",
        "import_playbook",
        "import_role",
        "import_tasks",
        "include_role",
        "include_tasks",
        "meta",
        "set_fact",
        "set_stats",
    }
    for path in (*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").glob("*/tasks/*.yml")):
        used = {name for task in tasks_in(yaml.safe_load(path.read_text())) for name in task if name.count(".") == 2}
        known = {f"runwhere.gpuctl.{name}" for name in modules()} | {f"ansible.builtin.{name}" for name in theirs}
        assert used - known <= OTHER_MODULES.get(path.relative_to(ROOT).as_posix(), set()), path


def tasks_in(data: object) -> Iterator[dict[str, object]]:
    """Plays, tasks and blocks, as deep as they go."""
    for each in data if isinstance(data, list) else ():
        if isinstance(each, dict):
            yield each
            for part in ("pre_tasks", "tasks", "post_tasks", "handlers", "block", "rescue", "always"):
                yield from tasks_in(each.get(part))


def test_every_plugin_is_attacked() -> None:
    kinds = ("plugins/callback", "plugins/filter", "plugins/inventory", "plugins/lookup", "extensions/eda/plugins/*")
    found = {str(path.relative_to(ROOT)) for kind in kinds for path in ROOT.glob(f"{kind}/*.py")}
    assert found == set(PLUGINS)


@pytest.mark.parametrize("name", [*PLUGINS, *STORES])
def test_an_attack_is_where_it_is_said_to_be(name: str) -> None:
    for kind, place in {**PLUGINS, **STORES}[name]._asdict().items():
        if isinstance(place, tuple):
            file, word = place
            assert word in source(file), kind
        else:
            assert place, kind


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
