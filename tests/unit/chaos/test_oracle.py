# SPDX-License-Identifier: BSD-2-Clause
"""The oracle: of each promise a run that keeps it, and one that breaks it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chaos.faults import Case
from chaos.oracle import _RULES, PROMISES, Observation, judge
from chaos.proxy import Request
from chaos.runner import Outcome, _starved
from chaos.scenarios import BY_NAME
from chaos.snapshot import Snapshot

NAMES = {"ns-1": "@ns"}


def obj(kind: str, name: str, uid: str = "u", namespace: str = "ns-1", **fields: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": uid},
        **fields,
    }


def state(*objects: dict[str, Any]) -> Snapshot:
    return Snapshot.of(objects, NAMES)


OLD, NEW = obj("Job", "train", "u1", spec={"v": 1}), obj("Job", "train", "u2", spec={"v": 2})
THEIRS = obj("ConfigMap", "theirs", "t")
SERVICE = obj("Service", "svc-train", "s")
BEFORE, AFTER = state(OLD, THEIRS), state(NEW, THEIRS)
DONE = Outcome({"msg": "1 job: 1 recreate", "changed": True})
UNCHANGED = Outcome({"msg": "1 job: 1 unchanged", "changed": False})


def failed(message: str, changed: bool = False, **result: Any) -> Outcome:
    return Outcome({"msg": message, "changed": changed, **result}, failed=True)


GOOD = Observation(
    Case("training-recreate", "409-always", 3),
    BY_NAME["training-recreate"],
    BEFORE,
    AFTER,
    AFTER,
    AFTER,
    DONE,
    UNCHANGED,
    UNCHANGED,
    expected=[AFTER.contents],
    healed_to=[AFTER.contents],
    unmanaged=frozenset({"ConfigMap @ns/theirs"}),
)
# It failed before it did anything, and the second run has done the work.
REFUSED = replace(GOOD, after=BEFORE, first=failed("training train: no. Nothing was changed."), second=DONE)
RACE = replace(GOOD, case=Case("pool-move", "race", 3), scenario=BY_NAME["pool-move"], rivals=[DONE])


def broken(seen: Observation) -> set[str]:
    return {violation.oracle for violation in judge(seen)}


@pytest.mark.parametrize("seen", [GOOD, REFUSED, RACE], ids=["all is well", "refused", "a race"])
def test_a_run_that_holds(seen: Observation):
    assert judge(seen) == []


def test_ending_well_without_the_work_done():
    assert broken(replace(GOOD, after=BEFORE)) >= {"exit"}


def test_hanging():
    assert broken(replace(GOOD, first=Outcome(None, hung=True))) == {"exit"}


def test_a_ledger_that_could_not_be_written_is_excused_by_a_warning():
    ledger = obj("ConfigMap", "gpuctl-ledger", "l", data={})
    wanted = [state(NEW, THEIRS, ledger).contents]
    silent = replace(GOOD, expected=wanted, healed_to=wanted, healed=state(NEW, THEIRS, ledger))
    warned = replace(silent, first=replace(DONE, warnings=["gpuctl-ledger is not up to date"]))
    assert (broken(silent), broken(warned)) == ({"exit"}, set())


def test_changed_is_false_though_something_was_written():
    seen = replace(GOOD, first=failed("training train: reset"))
    assert broken(seen) == {"changed"}
    assert broken(replace(seen, first=failed("training train: reset", changed=True))) == set()
    assert broken(replace(seen, first=failed("it is not known whether the Job was deleted"))) == set()


def test_the_same_content_under_another_uid_was_written():
    again = state({**OLD, "metadata": {**OLD["metadata"], "uid": "u9"}}, THEIRS)
    assert "changed" in broken(replace(GOOD, after=again, expected=[again.contents], first=UNCHANGED))


def test_changed_is_true_though_nothing_was_written():
    same = replace(GOOD, before=AFTER)
    assert broken(same) == {"changed"}
    write = Request("PATCH", "/x", False, status=200, reached=True)
    assert broken(replace(same, requests=[write])) == set()


@pytest.mark.parametrize(
    "message", ["", "<!DOCTYPE html> oops", "This is a bug in runwhere.gpuctl: KeyError: 'kind'", "x" * 5000]
)
def test_a_message_that_is_not_for_people(message: str):
    assert broken(replace(REFUSED, first=failed(message))) == {"message"}


def test_claiming_that_nothing_was_changed():
    seen = replace(GOOD, first=failed("no. Nothing was changed.", changed=True))
    assert broken(seen) == {"message"}


def test_claiming_that_a_job_was_restored():
    seen = replace(GOOD, after=state(THEIRS), first=failed("no. The former Job was restored.", changed=True))
    assert "message" in broken(seen)


def test_a_deleted_job_that_no_report_mentions():
    seen = replace(GOOD, after=state(THEIRS), first=failed("training train: HTTP 500", changed=True))
    assert broken(seen) == {"deletion"}
    assert broken(replace(seen, first=failed("the former Job was deleted", changed=True))) == set()


def test_failing_because_of_one_transient_fault():
    for fault, expected in (("503", {"survives"}), ("503-always", set()), ("409", set()), ("watch-cut", {"survives"})):
        assert broken(replace(REFUSED, case=Case("training-recreate", fault, 3))) == expected


def test_taking_too_long_over_a_silent_server():
    seen = replace(REFUSED, case=Case("training-recreate", "silent-always", 3))
    assert broken(replace(seen, first=replace(seen.first, seconds=5))) == set()
    slow = replace(seen, first=replace(seen.first, seconds=30))
    assert broken(slow) == {"prompt"}
    # That others had the processors, or the server worked, is no fault of the run.
    assert broken(replace(slow, first=replace(slow.first, starved=10))) == set()
    assert broken(replace(slow, requests=[Request("PATCH", "/x", False, served=10)])) == set()


def test_a_run_says_how_long_others_had_the_processors():
    began, spinning = _starved(), [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _each in range(8)]
    try:
        sum(range(10**7))
        assert _starved() > began or not Path("/proc/self/schedstat").exists()
    finally:
        for each in spinning:
            each.kill()
            each.wait()


def test_waiting_too_long_for_a_silent_server():
    """However busy the machine is."""
    seen = replace(REFUSED, case=Case("training-recreate", "silent-always", 3), usual_seconds=100)
    waits = [Request("PATCH", "/x", False, silence=seconds) for seconds in (1.5, 1.0)]
    assert broken(replace(seen, requests=waits)) == set()
    assert broken(replace(seen, requests=[*waits, Request("GET", "/y", False, silence=6)])) == {"prompt"}


def test_a_second_run_that_does_not_heal():
    assert broken(replace(GOOD, second=failed("there is no such job"))) == {"heals"}
    assert "heals" in broken(replace(GOOD, healed=BEFORE, final=BEFORE))


def test_a_third_run_that_changes_fails_or_writes():
    assert broken(replace(GOOD, third=DONE)) == {"stable"}
    assert broken(replace(GOOD, third=failed("no"))) == {"stable"}
    assert broken(replace(GOOD, third_requests=[Request("PATCH", "/x", False)])) == {"stable"}
    assert broken(replace(GOOD, third_requests=[Request("PATCH", "/x", True), Request("GET", "/x", False)])) == set()


def test_replacing_what_can_be_changed_in_place():
    scenario = replace(GOOD.scenario, keeps=frozenset({"Job @ns/train"}))
    assert broken(replace(GOOD, scenario=scenario)) == {"keeps"}


def test_touching_what_belongs_to_others():
    touched = state(NEW, obj("ConfigMap", "theirs", "t2"))
    assert "unmanaged" in broken(replace(GOOD, healed=touched, healed_to=[touched.contents]))
    node = {"kind": "Node", "metadata": {"name": "n", "labels": {"rack": "1", "runwhere.ai/pool": "a"}}}
    relabelled = {"kind": "Node", "metadata": {"name": "n", "labels": {"rack": "2"}}}
    assert "unmanaged" in broken(replace(GOOD, before=state(OLD, THEIRS, node), final=state(NEW, THEIRS, relabelled)))


def test_what_is_left_behind():
    pod = obj("Pod", "train-0", "p")
    pod["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "train", "uid": "u2"}]
    assert broken(replace(GOOD, final=state(NEW, THEIRS, pod))) == set()
    assert broken(replace(GOOD, final=state(THEIRS, pod))) == {"orphans"}
    assert broken(replace(GOOD, final=state(NEW, THEIRS, obj("Pod", "alone")))) == {"orphans"}
    lease = obj("Lease", "pools", namespace="gpuctl-system", spec={"holderIdentity": "host/1"})
    assert broken(replace(GOOD, final=state(NEW, THEIRS, lease))) == {"orphans"}
    killed = replace(GOOD, first=Outcome(None), final=state(NEW, THEIRS, lease))
    assert "orphans" not in broken(killed), "nothing else has changed pools since"
    assert "orphans" in broken(replace(killed, second=DONE))
    path = "/apis/coordination.k8s.io/v1/namespaces/gpuctl-system/leases/pools"
    release, refused = Request("PATCH", path, False), Request("PATCH", path, False, fault="500")
    once = replace(
        GOOD, case=Case("training-recreate", "500", 3), requests=[release, refused], final=state(NEW, THEIRS, lease)
    )
    assert broken(once) == {"orphans"}, "a second attempt would have been answered"
    for fault in ("500-always", "down"):
        lasting = replace(once, case=Case("training-recreate", fault, 3))
        assert broken(lasting) == set()
        assert broken(replace(lasting, requests=[refused, release])) == {"orphans"}


def test_half_of_two_writers():
    half = state(NEW, THEIRS, SERVICE)
    assert broken(replace(RACE, after=half)) == {"mixture"}
    assert (
        broken(replace(RACE, after=half, first=failed("another run changes this pool"), scenario=GOOD.scenario))
        == set()
    )


def test_two_writers_may_take_turns_with_jobs_that_are_independent_of_each_other():
    def job(name: str, version: int) -> dict[str, Any]:
        made = obj("Job", name, spec={"v": version})
        made["metadata"]["labels"] = {"app": name}
        return made

    right = [state(job("one", version), job("two", version)).contents for version in (1, 2)]
    seen = replace(RACE, scenario=GOOD.scenario, expected=right)
    for one, two, found in ((1, 1, set()), (1, 2, set()), (1, 3, {"mixture"})):
        assert broken(replace(seen, after=state(job("one", one), job("two", two)))) & {"mixture"} == found
    assert "mixture" in broken(replace(seen, after=state(job("one", 1))))


def test_undoing_what_another_one_has_done():
    seen = replace(RACE, first=failed("lost"), rival_alone=[state(THEIRS, SERVICE).contents])
    assert broken(replace(seen, after=state(THEIRS, SERVICE))) == set()
    assert broken(replace(seen, after=BEFORE)) == {"stands"}


def test_blaming_a_field_where_another_run_is_the_reason():
    assert broken(replace(RACE, first=failed("Job is invalid: field is immutable"))) == {"rival"}


def test_taking_a_lease_over_without_a_word():
    lease = obj("Lease", "pools", namespace="gpuctl-system", spec={"holderIdentity": "host/1"})
    seen = replace(GOOD, after=state(NEW, THEIRS, lease), first=Outcome(None), second=DONE)
    assert broken(seen) == {"lease"}
    named = replace(DONE, warnings=["process 1 on host has not finished; it was given up"])
    assert broken(replace(seen, second=named)) == set()


def test_every_rule_is_a_promise():
    assert PROMISES.keys() == _RULES.keys()
