# SPDX-License-Identifier: BSD-2-Clause
"""Facts that are in more than one file of the collection agree."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.doc_fragments.connection import ModuleDocFragment
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import (
    ENVIRONMENT,
    PROXY_HEADERS,
    connection_argument_spec,
)
from kubesim import RELEASES

from tools.environments import declared
from tools.tree import ROOT, files

COLLECTION = "runwhere.gpuctl"
PLUGINS = "ansible_collections.runwhere.gpuctl.plugins"
MODULES = sorted(path.stem for path in (ROOT / "plugins" / "modules").glob("*.py") if path.stem != "__init__")
# They run on the controller, without a connection, so they have no core and no requirements.
WITHOUT_CORE = ("gpuctl_advice", "gpuctl_notify", "gpuctl_show")
CORES = [module for module in MODULES if module not in WITHOUT_CORE]
CONNECTION = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
FRAGMENTS = ["connection", "attributes", "attributes.actiongroup_gpuctl"]
OPTIONAL_FRAGMENTS = [
    f"{COLLECTION}.{name}"
    for name in (
        "manifests",
        "manifests.conflicts",
        "manifests.directory",
        "manifests.job_namespace",
        "connection.concurrency",
        "connection.namespaces",
        "connection.all_namespaces",
        "drift",
        "source",
        "source.adopt",
        "source.cluster",
        "source.compared",
        "prometheus",
        "attributes.write_module",
        "accounts",
    )
]
INFO_FRAGMENTS = ["connection", "attributes", "attributes.info_module", "attributes.actiongroup_gpuctl"]


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


# ---- Modules


def test_the_action_group_is_all_modules() -> None:
    assert load("meta/runtime.yml")["action_groups"] == {"gpuctl": CORES}


def test_every_module_has_the_action_plugin() -> None:
    assert sorted(path.stem for path in (ROOT / "plugins" / "action").glob("*.py")) == MODULES


@pytest.mark.parametrize("module", CORES)
def test_a_module_takes_the_fragments(module: str) -> None:
    taken = yaml.safe_load(importlib.import_module(f"{PLUGINS}.modules.{module}").DOCUMENTATION)[
        "extends_documentation_fragment"
    ]
    wanted = INFO_FRAGMENTS if module.endswith(("_info", "_status", "_doctor")) else FRAGMENTS
    assert [name for name in taken if name not in OPTIONAL_FRAGMENTS] == [f"{COLLECTION}.{name}" for name in wanted]


@pytest.mark.parametrize("module", CORES)
def test_the_argument_spec_is_the_documented_one(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = _documentation(module)["options"]
    assert _comparable(_argument_spec(module, monkeypatch), "options") == _comparable(documented, "suboptions")


@pytest.mark.parametrize("module", CORES)
def test_a_module_states_its_requirements_as_requirements_txt_does(module: str) -> None:
    stated = {line.replace(" ", "") for line in _documentation(module)["requirements"]}
    assert stated == {f"{name}>={lowest}" for name, lowest in _lower_bounds().items()}


@pytest.mark.parametrize("module", CORES)
def test_a_module_starts_without_the_heavy_libraries(module: str) -> None:
    """A module's process starts again for each task: wrong arguments shall not pay for libraries that take a second."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / '.cache' / 'collections')!r}); import {PLUGINS}.modules.{module}; "
        "print(sorted({'kubernetes', 'pydantic', 'requests', 'urllib3', 'websocket', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_typed_api_of_the_client_library_is_not_imported() -> None:
    """It costs a second to load in kubernetes 37, because all its models are built."""
    typed = re.compile(r"\b\w+V\d\w*Api\b")
    assert [name for name in files(ROOT) if name.startswith("plugins/") and typed.search(_text(name))] == []


def _documentation(module: str) -> dict[str, Any]:
    """The documentation with its fragments, as ansible-doc puts it together."""
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")}
    command = [str(Path(sys.executable).parent / "ansible-doc"), "--json", "-t", "module", f"{COLLECTION}.{module}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    documentation: dict[str, Any] = json.loads(done.stdout)[f"{COLLECTION}.{module}"]["doc"]
    return documentation


class _Stop(Exception):
    pass


def _argument_spec(module: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the module's main() hands to AnsibleModule."""
    spec: dict[str, Any] = {}

    def capture(argument_spec: dict[str, Any], **_rest: Any) -> None:
        spec.update(argument_spec)
        raise _Stop

    imported = importlib.import_module(f"{PLUGINS}.modules.{module}")
    monkeypatch.setattr(imported, "GpuctlModule", capture)
    with pytest.raises(_Stop):
        imported.main()
    return spec


def _comparable(options: dict[str, Any], inner: str) -> dict[str, Any]:
    """Options of an argument spec or of a documentation, without what only one of the two has."""
    facts = ("type", "elements", "choices", "default", "aliases", "required")
    return {
        name: {
            **{fact: option[fact] for fact in facts if option.get(fact) not in (None, [], False)},
            **({"options": _comparable(option[inner], inner)} if option.get(inner) else {}),
        }
        for name, option in options.items()
    }


# ---- Connection options


def test_the_connection_fragment_documents_the_argument_spec() -> None:
    assert _comparable(CONNECTION, "suboptions") == _comparable(connection_argument_spec(), "options")


@pytest.mark.parametrize("option", ENVIRONMENT)
def test_an_option_names_its_environment_variables(option: str) -> None:
    assert _variables(CONNECTION[option]) == {f"K8S_AUTH_{name}" for name in ENVIRONMENT[option]}


@pytest.mark.parametrize("option", PROXY_HEADERS)
def test_a_proxy_header_names_its_environment_variable(option: str) -> None:
    documented = CONNECTION["proxy_headers"]["suboptions"][option]
    assert _variables(documented) == {f"K8S_AUTH_PROXY_HEADERS_{option.upper()}"}


def _variables(option: dict[str, Any]) -> set[str]:
    return set(re.findall(r"E\((K8S_AUTH_\w+)\)", str(option["description"])))


# ---- Versions


def test_the_oldest_environment_is_what_is_promised() -> None:
    oldest = declared()["oldest"]
    packages = dict(package.split("==") for package in (*oldest["packages"], *oldest["alone"]))
    ansible = packages.pop("ansible-core").replace(".*", ".0")
    assert load("meta/runtime.yml")["requires_ansible"] == f">={ansible}"
    assert {name: _version(version) for name, version in packages.items()} == {
        name: _version(lowest) for name, lowest in _lower_bounds().items()
    }


def test_ci_runs_make_targets_and_every_environment() -> None:
    workflows = [load(name) for name in files(ROOT) if name.startswith(".github/workflows/")]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    matrices = [job["strategy"]["matrix"] for job in jobs if "strategy" in job]
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    targets = {target for matrix in matrices for target in matrix.get("target", ())}
    targets |= {target for command in commands for target in re.findall(r"^make ([a-z-]+)", command)}
    assert targets <= set(re.findall(r"^([a-z-]+):", _text("Makefile"), re.MULTILINE))
    assert [name for matrix in matrices for name in matrix.get("environment", ())] == list(declared())


def test_the_integration_tests_run_on_every_simulated_version_of_kubernetes() -> None:
    """On the newest as a target of the matrix, on the others by GPUCTL_TEST_KUBERNETES."""
    jobs = load(".github/workflows/nightly.yml")["jobs"]
    assert "integration" in jobs["target"]["strategy"]["matrix"]["target"]
    assert [*jobs["kubernetes"]["strategy"]["matrix"]["kubernetes"], [*RELEASES][-1]] == list(RELEASES)
    assert jobs["kubernetes"]["steps"][-1] == {
        "run": "make integration",
        "env": {"GPUCTL_TEST_KUBERNETES": "${{ matrix.kubernetes }}"},
    }


def test_actions_are_pinned() -> None:
    """A tag can be moved to other code by an attacker who takes over an action; a commit cannot."""
    names = [name for name in files(ROOT) if name.startswith(".github/")]
    used = [line for name in names for line in re.findall(r"uses: *(.*)", _text(name))]
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_what_awx_installs_is_this_version() -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    project = yaml.safe_load((ROOT / "awx" / "project" / "collections" / "requirements.yml").read_text())
    image = yaml.safe_load((ROOT / "awx" / "execution-environment.yml").read_text())
    for listed in (project, image["dependencies"]["galaxy"]):
        assert {each["name"]: each["version"] for each in listed["collections"]} == {COLLECTION: version}
    assert re.search(r":\d+\.\d+\.\d+$|@sha256:", image["images"]["base_image"]["name"])


def test_a_checkout_keeps_no_token() -> None:
    for file in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(file.read_text())["jobs"].values()
        checkouts = [step for job in jobs for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
        assert checkouts
        assert all(step["with"]["persist-credentials"] is False for step in checkouts), file.name


def test_no_line_of_a_plugin_is_longer_than_sanity_allows() -> None:
    """pep8 of ansible-test takes 160 columns. Of the documentation of plugins, ruff says nothing."""
    python = [name for name in files(ROOT) if name.startswith(("plugins/", "extensions/")) and name.endswith(".py")]
    assert python
    lines = ((name, number, line) for name in python for number, line in enumerate(_text(name).splitlines(), 1))
    assert [f"{name}:{number}" for name, number, line in lines if len(line) > 160] == []


def test_the_changelog_has_the_version_or_will_have_it() -> None:
    """Between two releases, galaxy.yml has the version of the next one. The changelog does not have its fragments."""
    version, releases = load("galaxy.yml")["version"], load("changelogs/changelog.yaml")["releases"]
    newest = max(releases, key=_version)
    assert f"v{newest}" in _text("CHANGELOG.md").replace("\\", "")
    assert _version(version) >= _version(newest)
    released = {name for release in releases.values() for name in release["fragments"]}
    fragments = {path.name for path in (ROOT / "changelogs" / "fragments").glob("*.yml")}
    assert (version == newest) is (fragments <= released)


def test_nothing_is_newer_than_the_version() -> None:
    """The documentation of an option says since when it is there."""
    version = _version(load("galaxy.yml")["version"])
    said = {
        (name, since)
        for name in files(ROOT)
        if name.startswith(("plugins/", "roles/")) and name.endswith((".py", ".yml"))
        for since in re.findall(r"^ *version_added: ['\"]?([\d.]+)", _text(name), re.MULTILINE)
    }
    assert said
    assert [each for each in said if _version(each[1]) > version] == []


def _lower_bounds() -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)>=([\d.]+)", _text("requirements.txt"), re.MULTILINE))


def _version(text: str) -> tuple[int, ...]:
    """2.7.0 and 2.7 are the same version."""
    numbers = [int(part) for part in text.split(".")]
    while numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


# ---- Every file


@pytest.mark.parametrize("name", [name for name in files(ROOT) if name.endswith(".py")])
def test_a_python_file_says_its_licence(name: str) -> None:
    """Plugins use Ansible's code and share its licence; others may reuse the rest (Ansible's rule for module_utils)."""
    is_plugin = name.startswith(("plugins/", "extensions/eda/")) and not name.startswith("plugins/module_utils/")
    identifier = "GPL-3.0-or-later" if is_plugin else "BSD-2-Clause"
    text = _text(name)
    if text:  # ansible-test wants package files empty
        assert f"# SPDX-License-Identifier: {identifier}\n" in "".join(text.splitlines(keepends=True)[:5])


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_the_header_of_ansible(module: str) -> None:
    assert _text(f"plugins/modules/{module}.py").splitlines()[:4] == [
        "#!/usr/bin/python",
        "# Copyright (c) 2026, runwhere.gpuctl contributors",
        "# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)",
        "# SPDX-License-Identifier: GPL-3.0-or-later",
    ]


def test_links_between_documents_lead_somewhere() -> None:
    documents = [name for name in files(ROOT) if name.endswith(".md") and name != "CHANGELOG.md"]
    broken = [
        f"{name}: {target}"
        for name in documents
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", _text(name))
        if not ((ROOT / name).parent / target).exists()
    ]
    assert broken == []


def test_no_file_depends_on_the_machine_it_was_written_on() -> None:
    own_paths = re.compile("|".join(("/" + "work/main", "/" + "work/shared", "/tmp/" + "brief")))
    assert [name for name in files(ROOT) if own_paths.search(_text(name))] == []


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")
