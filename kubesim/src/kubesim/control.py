# SPDX-License-Identifier: BSD-2-Clause
"""The simulator's own paths, /_sim/…: what tests in another process order and ask. No authentication.

GET    /_sim/requests     counts by verb and resource, and every request
DELETE /_sim/requests     forget them
GET    /_sim/faults       the faults in force
POST   /_sim/faults       add one (the fields of faults.Fault): {"number": 1}
DELETE /_sim/faults[/1]   remove all, or one
POST   /_sim/behaviours   what becomes of pods (the arguments of Kubelet.behave): {"number": 1}
DELETE /_sim/behaviours[/1]
POST   /_sim/load         a list of objects to store as they are: {"loaded": 20000}
POST   /_sim/nodes        {"names": [...], "labels": {}, "resources": {}}
POST   /_sim/advance      {"seconds": 60}, on a cluster with a ManualClock
POST   /_sim/compact      older resourceVersions are too old from now on
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kubesim.clock import ManualClock
from kubesim.faults import Fault

if TYPE_CHECKING:
    from kubesim.cluster import Cluster

PREFIX = "/_sim/"


class Control:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._roads: dict[tuple[str, str], Callable[[str, Any], Any]] = {
            ("GET", "requests"): lambda _, __: cluster.requests.report(),
            ("DELETE", "requests"): lambda _, __: cluster.requests.reset(),
            ("GET", "faults"): lambda _, __: [asdict(fault) for fault in cluster.faults.active],
            ("POST", "faults"): lambda _, body: {"number": cluster.faults.add(Fault(**body))},
            ("DELETE", "faults"): self._remove_faults,
            ("POST", "behaviours"): lambda _, body: {"number": cluster.kubelet.behave(**body)},
            ("DELETE", "behaviours"): lambda number, _: cluster.kubelet.forget(int(number) if number else None),
            ("POST", "load"): lambda _, body: {"loaded": cluster.load(body)},
            ("POST", "nodes"): lambda _, body: cluster.add_nodes(**body),
            ("POST", "compact"): lambda _, __: cluster.store.compact(),
        }

    async def answer(self, request: web.Request) -> web.Response:
        """404 for an unknown path, 400 with the reason for arguments that do not fit."""
        what, _, number = request.path[len(PREFIX) :].partition("/")
        try:
            body = await request.json() if request.can_read_body else {}
            if (request.method, what) == ("POST", "advance"):
                clock = self.cluster.clock
                if not isinstance(clock, ManualClock):
                    raise ValueError("this cluster runs on real time")
                await clock.advance_slowly(body["seconds"])
                return web.json_response({})
            road = self._roads.get((request.method, what))
            if road is None:
                return web.json_response({"error": f"no {request.method} {request.path}"}, status=404)
            return web.json_response(road(number, body) or {})
        except (TypeError, ValueError, KeyError) as error:
            return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)

    def _remove_faults(self, number: str, _: Any) -> None:
        if number:
            self.cluster.faults.remove(int(number))
        else:
            self.cluster.faults.clear()
