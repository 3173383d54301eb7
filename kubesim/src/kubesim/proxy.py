# SPDX-License-Identifier: BSD-2-Clause
"""The proxy subresource of pods and services: requests to programs that a test serves.

Source: pkg/registry/core/pod/strategy.go (ResourceLocation), apimachinery pkg/util/proxy and pkg/util/net
(SplitSchemeNamePort).
"""

from __future__ import annotations

import aiohttp
from aiohttp import web

from kubesim import errors
from kubesim.backend import Backend
from kubesim.request_info import RequestInfo
from kubesim.resources import Resource

#: The API server authenticates with them, and the program does not get them.
_NOT_PASSED_ON = frozenset({"authorization", "host", "content-length", "transfer-encoding", "connection"})


async def answer(request: web.Request, backend: Backend, info: RequestInfo, resource: Resource) -> web.StreamResponse:
    """What the program answers, whatever its status."""
    name, port = _split(info.name)
    if backend.registry.get(resource.kind, info.namespace, name) is None:
        raise errors.not_found(resource.group, resource.plural, name)
    url = backend.programs.get((resource.plural, info.namespace, name, port))
    if url is None:
        text = f"error trying to reach service: dial tcp 10.0.0.1:{port or 80}: connect: connection refused"
        if resource.kind == "Service":
            text = f'no endpoints available for service "{name}"'
        raise errors.ApiError(503, "ServiceUnavailable", text)
    path = request.raw_path.partition("/proxy")[2] or "/"
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.request(
            request.method, url + path, headers=headers, data=await request.read(), allow_redirects=False, ssl=False
        ) as answered,
    ):
        kept = {name: value for name, value in answered.headers.items() if name.lower() not in _NOT_PASSED_ON}
        return web.Response(status=answered.status, body=await answered.read(), headers=kept)


def _split(text: str) -> tuple[str, str]:
    """The name and the port of ``name``, ``name:port`` or ``scheme:name:port``."""
    parts = text.split(":")
    return (parts[1], parts[2]) if len(parts) == 3 else (parts[0], "".join(parts[1:]))
