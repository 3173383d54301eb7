# SPDX-License-Identifier: BSD-2-Clause
"""The description of the playbooks agrees with the playbooks, the modules, the roles and the surveys of AWX."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.advised_manifests import ADVICE_OPTIONS
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.module_action import module_spec
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import (
    Playbook,
    Variable,
    described_playbooks,
    role_variables,
    shared_variables,
)
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.send_notification import NOTIFY_OPTIONS

ROOT = Path(__file__).resolve().parents[4]
PLAYBOOKS = described_playbooks()
# Words of the playbooks, defaults that are safer for people than for code, and one by which a nightly job fails.
OWN_WORDS = {"gpuctl_copy.state"}
OWN_DEFAULT = {
    "gpuctl_job.missing_ok": False,
    "gpuctl_job.recreate": False,
    "gpuctl_job.preempt": False,
    "gpuctl_drift_info.fail_on": "warning",
}
# Not given is neither true nor false.
THREE_VALUES = {("submit", "gpuctl_strict"), ("submit_training", "gpuctl_strict")}
VARIABLES = [(playbook, variable) for playbook in PLAYBOOKS.values() for variable in playbook.variables.values()]
IDS = [f"{playbook.name}-{variable.name}" for playbook, variable in VARIABLES]


def source(name: str) -> Any:
    return yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text(encoding="utf-8"))


def imported_by(name: str) -> str:
    """The playbook that a playbook imports, if it does."""
    return str(source(name)[0].get("ansible.builtin.import_playbook", "")).removesuffix(".yml")


def test_every_playbook_is_described() -> None:
    assert PLAYBOOKS.keys() == {path.stem for path in (ROOT / "playbooks").glob("*.yml")}


def test_every_variable_belongs_to_a_playbook() -> None:
    """But for what a workflow hands on."""
    taken = {variable for playbook in PLAYBOOKS.values() for variable in playbook.variables}
    assert set(shared_variables()) - taken == {"gpuctl_submitted"}


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_is_checked_under_its_own_name(name: str) -> None:
    (play,) = source(name)
    assert play["vars"]["gpuctl_playbook"] == name
    assert play["name"] == PLAYBOOKS[name].short_description or "import_playbook" in str(play)
    if "ansible.builtin.import_playbook" not in play:
        first = (play.get("pre_tasks") or play["tasks"])[0]
        assert first["ansible.builtin.import_tasks"] == "tasks/check_variables.yml"


@pytest.mark.parametrize(("playbook", "variable"), VARIABLES, ids=IDS)
def test_a_variable_is_what_its_options_are(playbook: Playbook, variable: Variable) -> None:
    for fed in variable.feeds:
        module, option, *within = fed.split(".")
        if module == "gpuctl_show":
            continue
        own = {"gpuctl_advice": ADVICE_OPTIONS, "gpuctl_notify": NOTIFY_OPTIONS}.get(module)
        options = own or module_spec(module).options.argument_spec()
        spec = options[option]["options"][within[0]] if within else options[option]
        assert variable.type in (spec["type"], "str", "raw")  # YAML text, too
        if fed in OWN_WORDS:
            assert len(variable.choices) == len(spec["choices"])
        else:
            assert variable.choices == tuple(spec.get("choices") or ())
            if (playbook.name, variable.name) in THREE_VALUES:
                assert variable.default is None
                continue
            assert variable.required or variable.default == OWN_DEFAULT.get(fed, spec.get("default"))


def test_variables_of_the_roles_are_read_from_their_specs() -> None:
    defaults = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob("roles/*/defaults/main.yml")]
    assert set(role_variables()) == {name for role in defaults for name in role}


def texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for value in data.values():
            yield from texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from texts(value)
    elif isinstance(data, str) and data.startswith("tasks/"):
        yield from texts(yaml.safe_load((ROOT / "playbooks" / data).read_text(encoding="utf-8")))
    elif isinstance(data, str):
        yield data


@pytest.mark.parametrize("name", PLAYBOOKS)
def test_a_playbook_uses_the_variables_that_are_described(name: str) -> None:
    """The known names in its templates are those of its description, with those of the playbook that it imports."""
    plays = source(name)
    imported = imported_by(name)
    if imported:
        plays += source(imported)
    files = {file for play in plays for file in play.get("vars_files", ())}
    plays += [yaml.safe_load((ROOT / "playbooks" / file).read_text(encoding="utf-8")) for file in sorted(files)]
    # In quotes and after a dot it is the name of a group.
    used = set(re.findall(r"(?<!['.])\bgpuctl_\w+", "\n".join(texts(plays)))) & set(shared_variables())
    playbook = PLAYBOOKS[name]
    taken = set(playbook.names)
    if imported:
        assert taken <= used
    else:
        importing = {other.name for other in PLAYBOOKS.values() if imported_by(other.name) == name}
        theirs = {variable for other in importing for variable in PLAYBOOKS[other].variables}
        assert taken <= used
        assert used - taken <= theirs | {"gpuctl_submitted", "gpuctl_home"}  # The inventory sets the home.


# -- AWX ---------------------------------------------------------------------------------------------------------------

CONFIG = yaml.safe_load((ROOT / "awx/config/job_templates.yml").read_text(encoding="utf-8"))
TEMPLATES = [*CONFIG["gpuctl_awx_job_templates"], *CONFIG["gpuctl_awx_team_job_templates"]]
SURVEYS = [(template, template.get("survey", ())) for template in TEMPLATES]
NAMESPACE = CONFIG["gpuctl_awx_namespace_question"]
CLUSTER, CLUSTERS = CONFIG["gpuctl_awx_cluster_question"], CONFIG["gpuctl_awx_clusters_question"]
SURVEYS += [
    (
        template,
        [NAMESPACE, *([] if "of_clusters" in template else [CLUSTERS if template.get("is_placed") else CLUSTER])],
    )
    for template in CONFIG["gpuctl_awx_team_job_templates"]
]
ASKED = [
    (PLAYBOOKS[template["playbook"].removesuffix(".yml")], question)
    for template, questions in SURVEYS
    for question in questions
]


@pytest.mark.parametrize(("playbook", "question"), ASKED, ids=[f"{each.name}-{q['variable']}" for each, q in ASKED])
def test_a_survey_asks_for_variables_of_its_playbook(playbook: Playbook, question: dict[str, Any]) -> None:
    variable = playbook.variables[question["variable"]]
    if question not in (NAMESPACE, CLUSTER):  # awx/configure.yml adds the choices
        assert question["question_name"] == variable.question
        assert question["type"] in {
            "bool": ["multiplechoice"],
            "int": ["integer"],
            "str": ["multiplechoice"]
            if variable.choices
            else ["password"]
            if variable.secret
            else ["text", "textarea"],
        }.get(variable.type, ["textarea"])
        if question["type"] == "multiplechoice":
            assert question["choices"] == list(variable.choices or ("yes", "no"))
    # Where no answer is given, AWX gives the default of a question that does not require one.
    assert question["required"] or question.get("default") or not variable.required


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: str(template["name"]))
def test_a_template_gives_its_playbook_what_it_requires(template: dict[str, Any]) -> None:
    playbook = PLAYBOOKS[template["playbook"].removesuffix(".yml")]
    given = {*template.get("extra_vars", ()), *(question["variable"] for question in template.get("survey", ()))}
    assert given <= playbook.variables.keys()
    assert {each.name for each in playbook.variables.values() if each.required} <= given
    assert all(given & set(group) for group in playbook.required_one_of)
