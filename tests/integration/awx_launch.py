# SPDX-License-Identifier: BSD-2-Clause
"""Launch a job template of awx/ as AWX does: ansible-runner on a private data directory, answers of a survey as extra
variables, and the credential as variables of the environment."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import yaml

from .ansible import BIN, ROOT

AWX = ROOT / "awx"


@dataclass(frozen=True)
class Launched:
    """A job as AWX shows it: its status, its events, and what it hands on to the next node of a workflow."""

    status: str
    events: list[dict[str, Any]]
    artifacts: dict[str, Any]

    @property
    def output(self) -> str:
        return "\n".join(event["stdout"] for event in self.events)

    def results(self, task: str) -> list[dict[str, Any]]:
        """What the hosts answered to the task of this name, as the events hold it."""
        kinds = ("runner_on_ok", "runner_on_failed")
        data = [event["event_data"] for event in self.events if event["event"] in kinds]
        return [entry["res"] for entry in data if entry["task"] == task]


def templates(
    team: str = "team", namespaces: Sequence[str] = ("default",), clusters: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """The job templates that awx/configure.yml makes of awx/config for administrators and for a team, by name."""
    given = yaml.safe_load((AWX / "config" / "job_templates.yml").read_text())
    question = given["gpuctl_awx_namespace_question"] | {"choices": [*namespaces], "default": namespaces[0]}
    choice = given["gpuctl_awx_cluster_question"] | {"choices": ["gpuctl_clusters", *clusters]}
    found = {
        template["name"]: template
        for template in given["gpuctl_awx_job_templates"]
        if clusters or "of_clusters" not in template
    }
    for template in given["gpuctl_awx_team_job_templates"]:
        if not clusters and "of_clusters" in template:
            continue
        first, *others = template["survey"]
        asked = [question] if template.get("asks_for_namespace", True) else []
        where = given["gpuctl_awx_clusters_question"] if template.get("is_placed") else choice
        found[f"{template['name']} {team}"] = {
            **template,
            "survey": [first, *asked, *others, *([where] if clusters and "of_clusters" not in template else [])],
        }
    return found


def config(name: str) -> Any:
    """A file of awx/config."""
    return yaml.safe_load((AWX / "config" / f"{name}.yml").read_text())


def launch(
    directory: Path,
    name: str,
    answers: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    namespaces: Sequence[str] = ("default",),
    project: Path | None = None,
    handed_on: Mapping[str, Any] | None = None,
    inventory: Mapping[str, Any] | None = None,
    limit: str = "",
) -> Launched:
    """Run a template. ``namespaces``: those of the team. ``project``: a checked-out project other than awx/project.
    ``handed_on``: the artifacts of the former node of a workflow, which win over answers. ``inventory``: that of
    clusters."""
    clusters = [*inventory["gpuctl_clusters"]["hosts"]] if inventory else []
    template = templates(namespaces=namespaces, clusters=clusters)[name]
    variables = {**template.get("extra_vars", {}), **accepted(template, answers), **(handed_on or {})}
    checked_out = directory / "project"
    shutil.rmtree(checked_out, ignore_errors=True)
    shutil.copytree(project or AWX / "project", checked_out)
    run = ansible_runner.run(
        private_data_dir=str(directory),
        playbook=template["playbook"],
        # AWX always gives an inventory; localhost, on which the playbooks run, is implied.
        inventory=inventory or {"all": {"hosts": {"gpu-node-1": None}}},
        limit=limit or None,
        extravars={"awx_job_id": 17, **variables},
        envvars={
            "TERM": "xterm",  # of the terminal that ansible-runner makes, whatever runs the tests
            **environment,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "HOME": str(directory),
            "PATH": f"{BIN}:/usr/bin:/bin",
        },
        cmdline=" ".join(_options(template)),
        quiet=True,
    )
    return Launched(run.status, list(run.events), _artifacts(run.events))


def _options(template: Mapping[str, Any]) -> list[str]:
    check = ["--check"] if template.get("job_type") == "check" else []
    return [*check, *(["--diff"] if template.get("diff_mode") else [])]


def _artifacts(events: Any) -> dict[str, Any]:
    """AWX keeps what set_stats said in the event playbook_on_stats, and gives it to the next node."""
    stats = [event for event in events if event["event"] == "playbook_on_stats"]
    return dict(stats[-1]["event_data"].get("artifact_data", {})) if stats else {}


def accepted(template: Mapping[str, Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that come of answers, defaults included (AWX: SurveyJobTemplateMixin)."""
    variables: dict[str, Any] = {}
    unknown = dict(answers)
    for question in template.get("survey", ()):
        variable = question["variable"]
        # A default is for those who see the form. AWX wants what is required from all others.
        assert variable in unknown or not question["required"], f"{variable} needs an answer"
        value = unknown.pop(variable, question.get("default"))
        if value is None:
            continue
        whole = question["type"] == "integer"
        size = value if whole else len(value)
        assert isinstance(value, int if whole else str), f"{variable}: {value!r}"
        assert question.get("min", size) <= size <= question.get("max", size), f"{variable}: {value!r}"
        assert value in question.get("choices", [value]), f"{variable}: {value!r}"
        variables[variable] = value
    assert not unknown, f"not in the survey: {sorted(unknown)}"
    return variables
