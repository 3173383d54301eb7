# SPDX-License-Identifier: BSD-2-Clause
"""Who submitted a job, as Ansible and AWX say it: in Ansible's own process and in a module's."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from .ansible import Ansible
from .api import Api
from .manifests import compute


def launched_by(user: str) -> tuple[str, ...]:
    """The variables that AWX gives its jobs."""
    return ("-e", json.dumps({"awx_user_name": user, "awx_job_id": 17, "tower_user_name": user, "tower_job_id": 17}))


def recorded(api: Api, namespace: str) -> Any:
    return json.loads(api.get("deployment", "web", namespace)["metadata"]["annotations"]["runwhere.ai/submitted-by"])


@pytest.mark.parametrize("fast_path", ["1", "0"], ids=["in process", "as a module"])
def test_the_user_of_awx_is_the_submitter(ansible: Ansible, api: Api, namespace: str, fast_path: str):
    ansible = replace(ansible, environment={**ansible.environment, "GPUCTL_FAST_PATH": fast_path})
    created = ansible.job(definition=compute(), namespace=namespace, arguments=launched_by("anna"))
    assert not created.failed, created.message
    record = recorded(api, namespace)
    assert (record["awx_user"], record["awx_job"]) == ("anna", "17")
    other = ansible.job(name="web", namespace=namespace, state="paused", arguments=launched_by("ben"))
    assert other.failed
    assert "AWX user anna (AWX job 17)" in other.message
    assert "This task runs as AWX user ben" in other.message
    assert not ansible.job(name="web", namespace=namespace, state="paused", arguments=launched_by("anna")).failed
    shown = ansible.module("gpuctl_job_info", namespaces=[namespace]).jobs["web"]
    assert shown["submitted_by"] == "AWX user anna (AWX job 17)"
