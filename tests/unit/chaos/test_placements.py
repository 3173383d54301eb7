# SPDX-License-Identifier: BSD-2-Clause
"""The judge of random placements: each kind of wrong is seen, and what is right is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from chaos.faults import FAULTS
from chaos.placements import JOBS, Truth, Turn, judge, turns_of

SUBMIT = Turn((("submit", "-e", "gpuctl_src=one.yaml"),), "one")
BOTH = Turn((("submit", "-e", "gpuctl_src=one.yaml,two.yaml", "-e", "gpuctl_clusters=all"),), "one", also="two")
SAYS = Turn((("submit", "-e", "gpuctl_src=two.yaml"),), "two")
CHECK = Turn((("submit", "-e", "gpuctl_src=one.yaml", "--check"),), "one")
DELETE = Turn((("delete", "-e", "gpuctl_name=one"),), "one")
KILLED = Turn(SUBMIT.commands, "one", FAULTS["kill"], 3)
NONE: Mapping[str, str] = {}
WEST = {"west": "u1"}
GOES, STAYS = "Job one goes to west, where it runs now.", "Job one stays in west, where it is placed."


MOVE = Turn((("move", "-e", "gpuctl_name=one"),), "one")
MOVES = "It moves from west to east, where it runs now."
EAST = {"east": "u2"}
PAIR = "default/one: It goes to west, where it runs now. default/two: It goes to east, where it runs now."


def truth(
    copies: Mapping[str, str], record: str | None = None, leaving: str | None = None, **others: Mapping[str, str]
) -> Truth:
    records = {"one": record} if record else {}
    records |= {job: site for job, found in others.items() for site in found}
    return Truth({**dict.fromkeys(JOBS, NONE), "one": copies, **others}, records, {"one": leaving} if leaving else {})


@pytest.mark.parametrize(
    ("turn", "before", "after", "status", "said", "wrong"),
    [
        (SUBMIT, truth(NONE), truth(WEST, "west"), 0, GOES, ""),
        (SUBMIT, truth(WEST, "west"), truth(WEST, "west"), 0, STAYS, ""),
        (KILLED, truth(NONE), truth(NONE, "west"), -9, "", ""),
        (DELETE, truth(WEST, "west"), truth(NONE), 0, "deleted", ""),
        (CHECK, truth(NONE), truth(NONE), 0, GOES, ""),
        (SUBMIT, truth(WEST, "west"), truth({**WEST, "east": "u2"}, "west"), 0, STAYS, "is in west and east"),
        (SUBMIT, truth(NONE), truth(WEST, "east"), 0, GOES, "its record says east"),
        (SUBMIT, truth(NONE), truth(WEST), 0, GOES, "its record says None"),
        (SUBMIT, truth(WEST, "west"), truth({"west": "u2"}, "west"), 0, STAYS, "job one was"),
        (KILLED, truth(WEST, "west"), truth(NONE, "west"), -9, "", "job one was"),
        (SUBMIT, truth(NONE, two=WEST), truth(WEST, "west"), 0, GOES, "job two was"),
        (DELETE, truth(WEST, "west", two=NONE), truth(NONE, two=WEST), 0, "", "record of job two has changed"),
        (SUBMIT, truth(NONE), truth(NONE), 0, GOES, "and the job is in []"),
        (SUBMIT, truth(NONE), truth({"east": "u1"}, "east"), 0, GOES, "and the job is in ['east']"),
        (SUBMIT, truth(WEST, "west"), truth(WEST, "west"), 0, GOES, "the job was there before"),
        (SUBMIT, truth(NONE), truth(WEST, "west"), 0, "done", "does not say where"),
        (SUBMIT, truth(NONE), truth(NONE), 2, "refused", "though nothing failed"),
        (SUBMIT, truth(NONE), truth(WEST, "west"), 0, f"{GOES} Traceback", "traceback"),
        (KILLED, truth(NONE), truth(WEST, "west"), 2, "Nothing was submitted.", "and the job has changed"),
        (CHECK, truth(NONE), truth(WEST, "west"), 0, GOES, "check mode has changed something"),
        (DELETE, truth(WEST, "west"), truth(WEST, "west"), 0, "", "and the job is in ['west']"),
        (DELETE, truth(WEST, "west"), truth(NONE, "west"), 0, "", "recorded in west"),
        (DELETE, truth(WEST, "west"), truth(NONE), 0, "not found", "and it was there"),
        (BOTH, truth(NONE), truth(WEST, "west", two=EAST), 0, PAIR, ""),
        (
            BOTH,
            truth(NONE),
            truth(WEST, "west", two={"west": "u2"}),
            0,
            "x/one, x/two: It goes to west, where it runs now.",
            "",
        ),
        (BOTH, truth(NONE), truth(WEST, "west", two={"west": "u2"}), 0, PAIR, "and the job is in ['west']"),
        (BOTH, truth(NONE), truth(WEST, "west", two=EAST), 0, "/one: It goes to west, so", "does not say where"),
        (SAYS, truth(NONE), truth(NONE, two=EAST), 0, "Job two goes to east, so", "manifest is for other clusters"),
        (MOVE, truth(WEST, "west"), truth(EAST, "east"), 0, MOVES, ""),
        (MOVE, truth(WEST, "west"), truth(WEST, "west"), 2, "It would run now in no other cluster.", ""),
        (MOVE, truth(WEST, "west"), truth(NONE, "east", "west"), -9, "", ""),
        (SUBMIT, truth(NONE, "east", "west"), truth(NONE, "east", "west"), 2, "job one has been moving from west", ""),
        (MOVE, truth(WEST, "west"), truth(NONE), -9, "", "lost on its way"),
        (MOVE, truth(WEST, "west"), truth({**WEST, **EAST}, "east", "west"), -9, "", "is in west and east"),
        (MOVE, truth(WEST, "west"), truth(WEST, "west"), 0, MOVES, "and the job is in ['west']"),
        (MOVE, truth(WEST, "west"), truth(WEST, "east", "west"), 0, "", "still leaving west"),
        (SUBMIT, truth(WEST, "west"), truth(WEST, "west"), 2, "job one has been moving from west", "it was not"),
    ],
)
def test_what_is_judged(turn: Turn, before: Truth, after: Truth, status: int, said: str, wrong: str) -> None:
    found = list(judge(turn, before, after, [(status, said)]))
    assert any(wrong in each for each in found) if wrong else found == [], found


def test_a_history_is_the_same_each_time() -> None:
    once, again = list(turns_of("1", 40)), list(turns_of("1", 40))
    assert once == again
    assert {turn.commands[0][0] for turn in once} == {"submit", "move", "delete"}
    assert any(turn.silent for turn in once)
    assert any(turn.fault for turn in once)
