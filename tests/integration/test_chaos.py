# SPDX-License-Identifier: BSD-2-Clause
"""The cases of `make chaos` run tasks without Ansible: what they find is what ansible-playbook does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos import histories, placements
from chaos.faults import Case
from chaos.runner import PlaybookRunner, Runner
from chaos.stage import WRITERS, Stage, Verdict

pytestmark = [
    pytest.mark.nightly,  # with the rest of chaos
    pytest.mark.skipif("GPUCTL_TEST_KUBECONFIG" in os.environ, reason="on simulated clusters of its own"),
]
CASES = (
    "deepspeed-new/reset-after/14",  # an answer is lost, the request is sent again
    "training-recreate/500-always/14",  # what was deleted is put back, or is said to be missing
    "quota-update/down/7",  # the server goes when half is done
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Stage]]:
    forked = Stage(runners=[Runner() for _ in range(WRITERS)])
    played = Stage(runners=[PlaybookRunner(tmp_path_factory.mktemp("playbook")) for _ in range(WRITERS)])
    yield forked, played
    forked.close()
    played.close()


@pytest.mark.parametrize("name", histories.names(20, seed=1))
def test_the_gpu_hours_of_a_random_history_are_those_of_its_pods(stages: tuple[Stage, Stage], name: str):
    verdict = histories.play(stages[0], name)
    assert verdict.wrong == [], "\n".join(verdict.turns)


def test_random_placements_never_double_or_lose_a_job(tmp_path: Path) -> None:
    verdict = placements.play("1", 20, tmp_path)
    assert verdict.wrong == []
    assert verdict.struck
    assert verdict.killed


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_the_same_by_ansible_playbook(stages: tuple[Stage, Stage], name: str):
    case = Case.parse(name)
    reference = stages[0].reference(case.scenario)
    one, other = (stage.play(case, reference) for stage in stages)
    assert one.reached
    assert shown(one) == shown(other)


def shown(verdict: Verdict) -> dict[str, object]:
    """What a person and the server see: without ports and warnings, and each poll once."""
    requests = [re.sub(r"^ *\d+ ", "", line) for line in verdict.requests]
    return {
        "violations": [violation.oracle for violation in verdict.violations],
        "messages": [re.sub(r":\d{4,5}\b", ":port", message.splitlines()[0]) for message in verdict.messages],
        "requests": list(dict.fromkeys(requests)),
    }
