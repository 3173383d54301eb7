# SPDX-License-Identifier: BSD-2-Clause
"""The simulator's own path, for tests in another process. No authentication.

GET    /_sim/requests     counts by verb and resource, and every request
DELETE /_sim/requests     start counting again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from kubesim.request_log import RequestLog

PREFIX = "/_sim/"


def answer(request: web.Request, log: RequestLog) -> web.Response:
    """404 for any other path or method."""
    if request.path != f"{PREFIX}requests" or request.method not in ("GET", "DELETE"):
        return web.json_response({"error": f"no {request.method} {request.path}"}, status=404)
    if request.method == "GET":
        return web.json_response(log.report())
    log.reset()
    return web.json_response({})
