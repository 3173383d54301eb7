# SPDX-License-Identifier: BSD-2-Clause
"""The Pod Security level of a namespace comes and goes with the policy that gives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.policy import MODULE as POLICY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.quotas.quota import MODULE as QUOTA
from kubesim import Cluster

from ..jobs.sessions import Session

LEVEL = "pod-security.kubernetes.io/enforce"


@pytest.fixture
def session() -> Iterator[Session]:
    with Cluster(nodes=0, controllers=False).running() as cluster:
        cluster.load([{"kind": "Namespace", "metadata": {"name": "team", "labels": {"owner": "ml"}}}])
        yield Session(cluster)


def enforce(session: Session, level: str | None, policy: str = "company") -> bool:
    teams = {"team": {"pod_security": level} if level else {}}
    definition = {"kind": "policy", "policy": {"name": policy}, "teams": teams}
    return bool(session.run(POLICY, definition=definition)["changed"])


def labels(session: Session) -> dict[str, str]:
    cluster = session.cluster
    return dict(cluster.call(lambda: cluster.registry.get("Namespace", "", "team"))["metadata"]["labels"])


def test_a_level_ends_with_its_policy(session: Session) -> None:
    assert enforce(session, "baseline")
    assert labels(session)[LEVEL] == "baseline"
    assert enforce(session, None)
    assert LEVEL not in labels(session)
    assert not enforce(session, None)
    assert enforce(session, "restricted")
    assert session.run(POLICY, name="company", state="absent")["changed"]
    assert LEVEL not in labels(session)
    assert labels(session)["owner"] == "ml"
    assert not session.run(POLICY, name="company", state="absent")["changed"]


def test_a_level_stays_that_another_policy_gives(session: Session) -> None:
    enforce(session, "baseline")
    enforce(session, "baseline", "security")
    session.run(POLICY, name="company", state="absent")
    assert labels(session)[LEVEL] == "baseline"


def test_a_level_stays_that_a_quota_gives(session: Session) -> None:
    quota = {"kind": "quota", "quota": {"name": "q"}, "pod_security": "baseline", "users": {"team": {"pods": 1}}}
    session.run(QUOTA, definition=quota)
    enforce(session, "baseline")
    session.run(POLICY, name="company", state="absent")
    assert labels(session)[LEVEL] == "baseline"


def test_a_level_of_others_stays(session: Session) -> None:
    metadata = {"name": "team", "labels": {LEVEL: "baseline"}}
    session.cluster.load([{"kind": "Namespace", "metadata": metadata}])
    enforce(session, "baseline")
    session.run(POLICY, name="company", state="absent")
    assert labels(session)[LEVEL] == "baseline"
