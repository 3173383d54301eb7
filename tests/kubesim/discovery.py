# SPDX-License-Identifier: BSD-2-Clause
"""What the server says of itself: version, health, groups, resources, OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from kubesim.options import Query

if TYPE_CHECKING:
    from kubesim.cluster import Cluster


async def answer(cluster: Cluster, request: web.Request, query: Query) -> web.Response:
    return page_not_found()


def page_not_found() -> web.Response:
    """Go's http.NotFound: what paths outside every served group version answer."""
    return web.Response(text="404 page not found\n", status=404)
