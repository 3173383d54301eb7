# SPDX-License-Identifier: BSD-2-Clause
"""Recreate and restart distributed trainings, and look for what they own once the garbage collector is done.

Foreground deletion of a Job does not wait for Services and ConfigMaps whose owner reference does not block it: the
garbage collector may delete them seconds after the Job is gone, when the next Job of that name already has them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.api import eventually

from . import places
from .places import Place
from .proxy import Lane, Proxy
from .runner import Runner
from .scenarios import Do, deepspeed, job
from .stage import call

AT_A_TIME = 20
_SETTLING = 3.0  # seconds that the garbage collector gets before the objects are counted
_COLLECTOR_LAG = 0.5  # seconds, in the simulator; a real one that has much to do takes as long
_PATIENCE = 120  # seconds; twenty trainings at a time are more than a control plane without etcd's disk likes


@dataclass
class Recreations:
    """``lost``: what was missing, or belonged to a Job that is gone, in which round."""

    done: int = 0
    lost: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        found = f"{self.done} recreations of distributed trainings, {len(self.lost)} objects lost"
        return "\n".join([found, *self.lost])


def play(kubeconfig: Path | None, number: int) -> Recreations:
    """At least ``number`` recreations, ``AT_A_TIME`` in one task: by a changed manifest and by a restart in turn."""
    runner, proxy = Runner(), Proxy()
    lane = proxy.lane()
    found = Recreations()
    where = (
        places.named(kubeconfig, cluster_wide=False)
        if kubeconfig
        else places.simulated(nodes=8, collect_seconds=_COLLECTOR_LAG)
    )
    with where as place:
        proxy.target = place.url
        _run(_declared(0), place, lane, runner)
        for turn in range(1, -(-number // AT_A_TIME) + 1):
            eventually(lambda: len(place.api.list("pod", place.names["@ns"])) >= 2 * AT_A_TIME, 30)
            _run(_declared(turn) if turn % 2 else _restarted(turn), place, lane, runner)
            time.sleep(_SETTLING)
            found.done += AT_A_TIME
            found.lost += [f"turn {turn}: {text}" for text in _losses(place)]
    runner.close()
    proxy.close()
    return found


def _declared(turn: int) -> Do:
    return _all(
        [deepspeed(**_blocks(name), environment={"image": f"registry.example.com/ml:v{turn}"}) for name in _NAMES]
    )


def _restarted(turn: int) -> Do:
    return _all([deepspeed(**_blocks(name)) for name in _NAMES], state="restarted")


def _all(definition: list[dict[str, Any]], **options: Any) -> Do:
    return job(definition, concurrency=AT_A_TIME, wait_timeout=_PATIENCE, **options)


_NAMES = [f"train-{number}" for number in range(AT_A_TIME)]


def _blocks(name: str) -> dict[str, Any]:
    return {"job": {"name": name}, "resources": {"gpu": 0, "cpu": 1, "memory": "1Gi", "node_count": 2}}


def _run(do: Do, place: Place, lane: Lane, runner: Runner) -> None:
    lane.begin()
    outcome = runner.run(call(do, place, lane))
    if not outcome.ok:
        raise SystemExit(f"a recreation fails: {outcome.text}")


def _losses(place: Place) -> Iterator[str]:
    namespace = place.names["@ns"]
    jobs = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in place.api.list("job", namespace)}
    owners = {
        (kind, obj["metadata"]["name"]): [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]
        for kind in ("service", "configmap")
        for obj in place.api.list(kind, namespace)
    }
    for name in _NAMES:
        for kind, dependent in (
            ("service", f"svc-{name}"),
            ("configmap", f"{name}-hostfile"),
            ("configmap", f"{name}-deepspeed"),
        ):
            found = owners.get((kind, dependent))
            if found is None:
                yield f"{kind} {dependent} is missing"
            elif found != [jobs.get(name)]:
                yield f"{kind} {dependent} belongs to {found}, and the Job is {jobs.get(name)}"
