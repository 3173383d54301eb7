# SPDX-License-Identifier: BSD-2-Clause
"""The simulator's own paths, for tests in another process and for Prometheus. No authentication.

GET    /_sim/requests                        counts by verb and resource, and every request
DELETE /_sim/requests                        start counting again
GET    /_sim/targets/<exporter>?<options>    Prometheus' HTTP service discovery
GET    /_sim/metrics/<exporter>/<target>     what it scrapes
POST   /_sim/load                            let pods do what curves say: {"number": …}
DELETE /_sim/load[/<number>]                 take one such rule back, or all
"""

from __future__ import annotations

from aiohttp import web

from kubesim.backend import Backend
from kubesim.metrics import targets
from kubesim.metrics.exposition import CONTENT_TYPE

PREFIX = "/_sim/"


async def answer(request: web.Request, backend: Backend) -> web.Response:
    """404 for any other path or method."""
    area, _, rest = request.path.removeprefix(PREFIX).partition("/")
    if area == "requests" and not rest and request.method in ("GET", "DELETE"):
        return _requests(request, backend)
    if area == "targets" and rest in targets.ALL and request.method == "GET":
        found = backend.exporters.targets(rest, request.host, request.scheme, dict(request.query))
        return web.json_response(found)
    if area == "metrics" and request.method == "GET":
        exporter, _, place = rest.partition("/")
        text = backend.exporters.text(exporter, place, dict(request.query))
        if text is not None:
            return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})
    if area == "load" and request.method in ("POST", "DELETE"):
        return await _load(request, backend, rest)
    return web.json_response({"error": f"no {request.method} {request.path}"}, status=404)


def _requests(request: web.Request, backend: Backend) -> web.Response:
    if request.method == "GET":
        return web.json_response(backend.requests.report())
    backend.requests.reset()
    return web.json_response({})


async def _load(request: web.Request, backend: Backend, number: str) -> web.Response:
    profiles = backend.exporters.profiles
    try:
        if request.method == "POST":
            return web.json_response({"number": profiles.add(**await request.json())})
        profiles.remove(int(number) if number else None)
    except (TypeError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)
    return web.json_response({})
