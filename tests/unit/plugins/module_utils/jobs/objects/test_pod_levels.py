# SPDX-License-Identifier: BSD-2-Clause
"""The Pod Security levels: what they forbid of what a manifest says, held to the checks of the server."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.pod_levels import as_restricted, violations
from kubesim import evaluate_pod_security


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize("environment", [{}, {"allow_sudo": True}, {"run_as": 0}, {"run_as": 5}])
@pytest.mark.parametrize("workdirs", [[], [{"path": "/data"}], [{"path": "/data", "claim": "data"}]])
def test_the_levels_forbid_what_the_server_would(
    build_job: Any, level: str, environment: dict[str, Any], workdirs: list[Any]
) -> None:
    built = build_job({"environment": environment, "storage": {"workdirs": workdirs}}).workload
    sent = as_restricted(built) if level == "restricted" else built
    refused = evaluate_pod_security(level, sent["spec"]["template"]["spec"])
    assert bool(list(violations(built, level))) is bool(refused)


def test_a_place_is_that_of_the_manifest(build_job: Any) -> None:
    built = build_job(
        {
            "environment": {"allow_sudo": True, "run_as": 0},
            "storage": {"workdirs": [{"path": "/in", "claim": "in"}, {"path": "/data"}]},
        }
    ).workload
    places = [place for place, _problem, _hint in violations(built, "restricted")]
    assert places == ["storage.workdirs[1]", "environment.run_as", "environment.allow_sudo"]
    assert list(violations(built, "privileged")) == []
