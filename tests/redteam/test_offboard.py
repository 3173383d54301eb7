# SPDX-License-Identifier: BSD-2-Clause
"""Attacks by a colleague who is about to leave, and wants jobs to run on."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from integration.ansible import Ansible
from integration.api import Api
from integration.manifests import training
from integration.namespaces import make_namespace, remove_namespaces
from integration.test_onboard import Colleague, colleague, direct, run

__all__ = ["colleague", "direct"]

VICTIM = json.dumps({"user": "carol", "host": "desk", "kubernetes_user": "carol@example.com"})


@pytest.fixture
def team(api: Api) -> Iterator[str]:
    """A namespace that the colleague shares with others."""
    name = make_namespace(api)
    yield name
    remove_namespaces(api, name)


@pytest.mark.parametrize("text", [VICTIM, None, "{", '{"user": 1}'], ids=["a colleague", "none", "no JSON", "a number"])
def test_jobs_whose_submitter_was_rewritten(
    direct: Ansible, api: Api, colleague: Colleague, team: str, text: str | None
):
    """Before access is revoked, jobs are given to a colleague, or to nobody: each is named, in each namespace."""
    assert run(direct, "onboard", **colleague.variables()).status == 0
    access = {"name": colleague.name, "level": "submit", "namespaces": [team], "append": True}
    assert not direct.module("gpuctl_rbac", **access).failed
    own = Ansible(direct.directory, {"K8S_AUTH_KUBECONFIG": str(colleague.file)})
    for place in (colleague.name, team):
        assert own.job(definition=[training("mine"), training("kept")], namespace=place).changed
        api.patch("job", "kept", {"metadata": {"annotations": {"runwhere.ai/submitted-by": text}}}, place)
    done = run(direct, "offboard", **colleague.variables(stop_jobs=True))
    assert done.status == 0, done.output
    said = " ".join(done.output.split())
    for place in (colleague.name, team):
        assert api.get("job", "mine", place)["spec"]["suspend"] is True
        assert not api.get("job", "kept", place)["spec"].get("suspend"), "which may be a colleague's"
    listed = {f"{place}/kept" for place in (colleague.name, team)}
    start = "Not known whose, where this account had access:" if text is None else "which this account could change:"
    assert start in said
    rest = said.partition(start)[2]
    assert all(name in rest for name in listed), said


def test_jobs_elsewhere_are_not_listed(direct: Ansible, api: Api, colleague: Colleague, team: str):
    """A job in a namespace that the colleague could only read, or had no access to, is no work of theirs."""
    assert run(direct, "onboard", **colleague.variables()).status == 0
    assert direct.job(definition=training("elsewhere"), namespace=team).changed
    done = run(direct, "offboard", **colleague.variables())
    assert done.status == 0, done.output
    assert "elsewhere" not in done.output
